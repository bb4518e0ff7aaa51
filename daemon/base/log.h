/*
 * Logging: one line per event, to the journal's native priority prefix or to stderr with a time stamp.
 */
#ifndef BLINK_LOG_H
#define BLINK_LOG_H

#include <stdbool.h>

typedef enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } log_level_t;

/* Process-wide, set once before threads start: the least important level still printed, and whether lines go
 * to the journal (stderr with sd-daemon's "<N>" prefixes) instead of a terminal. */
void log_init(log_level_t level, bool journal);

/* "error", "warning", "info", "debug". log_parse_level() returns false if the name is none of these. */
const char *log_level_name(log_level_t level);
bool log_parse_level(const char *name, log_level_t *level);

/* Thread-safe; one write per line. */
void log_message(log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define LOG_ERROR(...)   log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARNING(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define LOG_INFO(...)    log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...)   log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
