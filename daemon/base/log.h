/*
 * Logging: one line per event, to the journal's native priority prefix or to stderr with a time stamp.
 */
#ifndef BLINK_LOG_H
#define BLINK_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* Of what a caller writes, so much is sure to fit into a line. */
#define LOG_TEXT_BYTES 512

typedef enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG } log_level_t;

/* Process-wide, set once before threads start: the least important level still printed, and whether lines go
 * to the journal (stderr with sd-daemon's "<N>" prefixes) instead of a terminal. */
void log_init(log_level_t level, bool journal);

/* "error", "warning", "info", "debug". log_parse_level() returns false if the name is none of these. */
const char *log_level_name(log_level_t level);
bool log_parse_level(const char *name, log_level_t *level);

/* Thread-safe; one write per line. */
void log_message(log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether lines of this level are written. */
bool log_writes(log_level_t level);

/*
 * How many lines somebody may cause to be written: a burst of them, and then so many per second. Lines beyond
 * that are counted. A budget of zeros is a fresh one; a budget belongs to one thread.
 */
typedef struct log_budget {
    uint64_t refilled_ns;
    uint32_t spent, withheld_count;
} log_budget_t;

/* Whether one more line may be written; if so, *withheld_count is the number of lines withheld before it. */
bool log_budget_spend(log_budget_t *budget, uint64_t now_ns, uint32_t *withheld_count);

#define LOG_ERROR(...)   log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARNING(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define LOG_INFO(...)    log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...)   log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
