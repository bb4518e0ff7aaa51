/*
 * What BLINK_DEBUG asks for: lines on stderr about what the library does. Each line is one write(), so that
 * those of several ranks do not mix. How much is told is the process's, as the variable is. Thread-safe.
 */
#ifndef CLIENT_DEBUG_H
#define CLIENT_DEBUG_H

#include "error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum debug_level {
    DEBUG_NOTHING,
    DEBUG_INFO, /* contexts, communicators and failures */
    DEBUG_TRACE /* ops, too */
} debug_level_t;

extern _Atomic debug_level_t debug_level;

/** The rank that a line is about. */
typedef struct debug_rank {
    uint32_t rank;
    uint32_t comm;         /* the number that blinkctl shows; 0: of no communicator */
    const char *comm_name; /* "": none */
} debug_rank_t;

/** Tell so much from now on, or nothing if there is no stderr. `rank`: which the launcher says that this
 * process is, for lines about no communicator; NULL: it does not say. */
void debug_begin(debug_level_t level, const char *rank);

/* Acquire: pair with the store in debug_begin(). */
static inline bool debug_informs(void)
{
    return __builtin_expect(atomic_load_explicit(&debug_level, memory_order_acquire) >= DEBUG_INFO, 0);
}

static inline bool debug_traces(void)
{
    return __builtin_expect(atomic_load_explicit(&debug_level, memory_order_acquire) >= DEBUG_TRACE, 0);
}

/** Write a line, for callers that have looked at the level: "blink: PID rank R: communicator N (NAME): …".
 * NULL: it is about no rank. What is too long is cut. */
void debug_line(const debug_rank_t *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Write that a function has failed, with the sentence that this thread has recorded. */
void debug_failed(const char *function, blink_result_t result);

/* ---- for functions of the interface: what they return is told, if it is a failure ---- */

static inline blink_result_t debug_result(const char *function, blink_result_t result)
{
    if (result != BLINK_OK && debug_informs())
        debug_failed(function, result);
    return result;
}

#define CALL_RESULT(result)  debug_result(__func__, (result))
#define CALL_FAIL(code, ...) CALL_RESULT(BLINK_FAIL(code, __VA_ARGS__))
#define CALL_TRY(expression) BLINK_TRY(CALL_RESULT(expression))

#endif
