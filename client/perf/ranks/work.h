/*
 * What one iteration does: a group of calls on each communicator, and waiting for them. Submitted for ops
 * that are waited for, on a stream for each communicator, or as a graph that was recorded once and is
 * replayed.
 */
#ifndef PERF_WORK_H
#define PERF_WORK_H

#include "memory/gpu.h"
#include "ranks/submit.h"

typedef struct perf_work {
    perf_order_t order;
    uint32_t comm_count, group_count;
    perf_gpu_t *gpu;      /* of streams and graphs; borrowed */
    blink_comm_t **comms; /* joined; of comm_count, as what follows */
    perf_call_t *calls;   /* by communicator, then place in its group */
    blink_op_t **ops;
    blink_stream_t *streams;
    perf_graph_t **graphs;
} perf_work_t;

/** Lists to be filled in. Errors: NO_MEMORY, and those of perf_stream_create(); perf_work_destroy() it in any
 * case. */
blink_result_t perf_work_create(const perf_options_t *options, perf_gpu_t *gpu, perf_work_t *work);

/** Streams and graphs go, communicators are their owner's. */
void perf_work_destroy(perf_work_t *work);

/** Once the calls stand, and before the first run of them: record what is to be replayed. Errors: the
 * library's, CUDA's. */
blink_result_t perf_work_begin(perf_work_t *work);

/**
 * One iteration, to its end. Errors: the library's, CUDA's; on streams, what communicators have met by now.
 */
blink_result_t perf_work_run(perf_work_t *work);

/** The calls are about to change. */
void perf_work_end(perf_work_t *work);

#endif
