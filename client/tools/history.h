/*
 * What happened in a trace, in its order, and what each submission waited for.
 *
 * A process and one of its devices are taken for one thread that submits ops. Where an op of that thread has
 * ended between two of its submissions, the thread is taken to have waited for it: the second submission
 * comes as long after that end as it was recorded. Otherwise it comes as long after the first one.
 */
#ifndef TOOLS_HISTORY_H
#define TOOLS_HISTORY_H

#include "error.h"
#include "tools/trace.h"

/* At one microsecond: ends of ops whose ranks had come before, then ranks that come, then ends of their ops.
 */
typedef enum history_order { HISTORY_END, HISTORY_COME, HISTORY_END_AT_ONCE } history_order_t;

typedef struct history_event {
    uint64_t at_us;
    history_order_t order;
    uint32_t op; /* index in the trace's */

    /* Of HISTORY_COME. */
    size_t arrival; /* index in the trace's */
    uint32_t after; /* the op whose end this follows; TRACE_NONE: it follows its thread's submission before */
    uint64_t gap_us; /* since that end or submission, of a thread's first since the first event */
} history_event_t;

typedef struct history {
    history_event_t *events;
    size_t event_count;
    uint32_t thread_count;
    size_t *first;     /* by communicator: its rank 0 in by_rank[] */
    uint32_t *by_rank; /* threads */
} history_t;

/** The thread that is a rank of a communicator, of this index in the trace. */
uint32_t history_thread(const history_t *history, uint32_t comm, uint32_t rank);

/** history_free() also after a failure. Errors: INVALID_ARGUMENT (no op), NO_MEMORY. */
blink_result_t history_make(const trace_t *trace, history_t *history);
void history_free(history_t *history);

#endif
