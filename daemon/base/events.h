/*
 * What has happened on this host: an event is a line of the log that the daemon also remembers, for
 * `blinkctl events`. There is one memory, as there is one log. All functions are thread-safe and do not block
 * on anything but each other.
 */
#ifndef BLINK_EVENTS_H
#define BLINK_EVENTS_H

#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>

/* So many events are remembered, of each user, and of all hosts that were refused, at most EVENTS_OF_USER.
 * When there are so many, an oldest one goes of whom there are the most (base/latest.h). */
#define EVENTS_MOST    512u
#define EVENTS_OF_USER 128u

#define EVENT_SUBJECT_BYTES 160
#define EVENT_TEXT_BYTES    LOG_TEXT_BYTES

/* Whose an event is that is nobody's: everybody sees it. */
#define EVENT_OF_NOBODY (-1)

typedef enum event_kind {
    EVENT_DAEMON_STARTED,
    EVENT_CLIENT_CAME,
    EVENT_CLIENT_GONE,
    EVENT_CLIENT_REFUSED,
    EVENT_QUOTA_REFUSED,
    EVENT_COMM_MADE,
    EVENT_COMM_LOST,
    EVENT_COMM_ENDED,
    EVENT_HOST_CAME,
    EVENT_HOST_GONE,
    EVENT_HOST_REFUSED,
    EVENT_DATA_OPEN,
    EVENT_DATA_LOST,
    EVENT_GPU_WORKER_STARTED,
    EVENT_GPU_WORKER_LOST,
} event_kind_t;

/* What an event is of. */
typedef struct event_of {
    event_kind_t kind;
    int64_t uid;         /* or EVENT_OF_NOBODY */
    uint32_t comm;       /* the communicator's number; 0: of none */
    const char *subject; /* who or what: "client 3"; a longer one is cut */
} event_of_t;

typedef struct event {
    uint64_t number;  /* from 1 on, in the order in which events happened */
    uint64_t time_us; /* since 1970 */
    event_kind_t kind;
    log_level_t level;
    int64_t uid;
    uint32_t comm;
    char subject[EVENT_SUBJECT_BYTES];
    char text[EVENT_TEXT_BYTES]; /* of the log's line, what follows the subject */
} event_t;

/* "client-came" */
const char *event_kind_name(event_kind_t kind);

/* Log "SUBJECT: TEXT", if lines of that level are written, and remember it in any case. */
void event_log(const event_of_t *of, log_level_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void event_log_host(event_kind_t kind, const char *subject, log_level_t level, const char *format, ...)
    __attribute__((format(printf, 4, 5))); /* of nobody's */
void event_vlog(const event_of_t *of, log_level_t level, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* Copy events with numbers below `before` (0: all), the newest first, so many at most. Returns how many. */
uint32_t events_copy(uint64_t before, event_t *events, uint32_t most);

#endif
