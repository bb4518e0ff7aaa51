/*
 * Submitting any collective of the library from one description: the only place that names its calls.
 */
#ifndef PERF_SUBMIT_H
#define PERF_SUBMIT_H

#include "check/facts.h"

#include "blink/blink.h"

typedef struct perf_call {
    perf_shape_t shape;
    const void *send;
    void *recv;
    blink_datatype_t datatype;
    blink_redop_t redop;
    blink_comm_t *comm;
    const size_t *lengths; /* perf_call_lengths() of the shape; borrowed */
} perf_call_t;

/** What calls with blocks of different lengths are called with: their counts, then their offsets, rank_count
 * of each; of an alltoallv those that are sent, then those that are received. */
void perf_call_lengths(const perf_shape_t *shape, size_t *lengths);

/* How to submit: for an op that is waited for, or on a stream. */
typedef struct perf_way {
    blink_op_t **op; /* receives it; NULL in a group and on a stream */
    bool on_stream;
    blink_stream_t stream;
} perf_way_t;

/** Submit `count` calls on one communicator, in one group if they are several. Errors: the library's. */
blink_result_t perf_submit(const perf_call_t *calls, uint32_t count, const perf_way_t *way);

#endif
