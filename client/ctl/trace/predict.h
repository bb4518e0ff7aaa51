/*
 * What a trace's ops would take on a topology, and when the job would therefore be done.
 *
 * Threads submit when history.h says. An op runs when all ranks that are recorded have come and the
 * collective before it in its communicator has ended, of a transfer the transfer before it from the same
 * rank; for as long as the simulator says, alone on the links. What moves nothing takes what it took.
 */
#ifndef CTL_TRACE_PREDICT_H
#define CTL_TRACE_PREDICT_H

#include "plan/plan.h"
#include "tools/trace.h"

/* So many kinds of ops are simulated. */
#define PREDICT_KINDS_MOST 1000u

/* What is made of a kind's ops beside their time (schedule.h). */
typedef struct schedule schedule_t;

/* Ops of one communicator that differ in nothing that matters to their time. */
typedef struct predict_kind {
    uint32_t comm; /* index in the trace */
    blink_collective_t collective;
    uint32_t root, peer;
    uint64_t bytes, op_count;
    double recorded_us; /* of all together, from when the last rank came */
    double predicted_us;
    double each_us;       /* predicted for one; < 0: what moves nothing, which takes what it took */
    schedule_t *schedule; /* NULL: not asked for, or it moves nothing */
} predict_kind_t;

typedef struct prediction {
    VEC(predict_kind_t) kinds;
    double recorded_us, predicted_us; /* from the first submission to the last end */
} prediction_t;

/** Say in each_us how long one op of the kind takes, with the settings that `context` holds, and make its
 * schedule if there is to be one. */
typedef blink_result_t predict_time_t(void *context, const plan_request_t *request, predict_kind_t *kind);

/** The kind of an op. */
predict_kind_t *predict_kind(const prediction_t *prediction, const trace_op_t *op);

/** `defaults`: what is planned with, whose rank_node has the node of each device of the trace.
 * prediction_free() also after a failure. Errors: NOT_FOUND (a device that the topology lacks), UNSUPPORTED
 * (a communicator of several hosts, too many kinds), INVALID_ARGUMENT (no ops), NO_MEMORY, those of `time`.
 */
blink_result_t predict(const trace_t *trace, const plan_request_t *defaults, predict_time_t *time,
                       void *context, prediction_t *prediction);
void prediction_free(prediction_t *prediction);

#endif
