/*
 * How a step went, and the steps that misuse memory, which have a file of their own.
 */
#ifndef STEPS_H
#define STEPS_H

#include "error.h"
#include "rank.h"

typedef struct outcome {
    blink_result_t result;
    char text[BLINK_ERROR_TEXT_BYTES];
    size_t wrong;
    uint64_t digest;
} outcome_t;

/* The result of a blink call on this thread, with its sentence. */
outcome_t outcome_of(blink_result_t result);

/* The step itself found something wrong. */
outcome_t outcome_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

outcome_t session_do(session_t *session, const char *step);

/* Submit a collective in memory of its own. On failure nothing is held. */
outcome_t pending_submit(session_t *session, const job_t *job, pending_t *pending);
outcome_t pending_finish(session_t *session, pending_t *pending, blink_result_t result);

/* "fault:KIND": submit a collective that must be refused. */
outcome_t step_fault(session_t *session, const char *kind);

/* "memfd:KIND": register memory of this process; of the good kind, use it in an allreduce. */
outcome_t step_memfd(session_t *session, const char *kind);

/* "round:HEX:RANKS:RANK:DEVICE:OPS:SEED:LAST": join, do OPS collectives that follow from the seed, destroy,
 * and keep nothing. LAST is what comes after them: "destroy", "abort" before it, or "exit" instead. */
outcome_t step_round(session_t *session, const char *argument);

/* "shrink[:INIT_TIMEOUT_MS]": the communicator of the survivors is the current one. The report tells who this
 * rank is: "RANK of SIZE". */
outcome_t step_shrink(session_t *session, const char *argument);

/* "outlive:SIZE:JOB": the collective again and again; when a rank is lost, shrink and go on, until there are
 * so many. */
outcome_t step_outlive(session_t *session, const char *argument);

/* "launched[:INIT_TIMEOUT_MS]": a communicator of all that the launcher has started. The report tells who
 * this rank is: "RANK of SIZE, local LOCAL_RANK, device DEVICE". */
outcome_t step_launched(session_t *session, const char *argument);

/* "begin:HEX:RANKS:RANK": begin to join, and do not wait; the communicator is the current one. */
outcome_t step_begin(session_t *session, const char *argument);

/* "ready[:MS]": wait for no more than that; the report tells "ready" or "still joining". */
outcome_t step_ready(session_t *session, const char *argument);

/* "abort-awaited": abort the communicator while another thread waits until it is ready: what that hears. */
outcome_t step_abort_awaited(session_t *session, const char *argument);

/* "script": a step for each line of standard input. */
outcome_t step_script(session_t *session, const char *argument);

/* "free:JOB": submit, free its memory while it runs, then wait. */
outcome_t step_free(session_t *session, const char *job);

#endif
