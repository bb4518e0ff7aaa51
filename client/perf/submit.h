/*
 * Submitting any collective of the library from one description: the only place that names its calls.
 */
#ifndef PERF_SUBMIT_H
#define PERF_SUBMIT_H

#include "facts.h"

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

/** What alltoallv is called with: counts sent, their offsets, counts received, their offsets; rank_count of each. Nothing for
 * other collectives. */
void perf_call_lengths(const perf_shape_t *shape, size_t *lengths);

/** Submit `count` calls on one communicator, in one group if they are several. Errors: the library's. */
blink_result_t perf_submit(const perf_call_t *calls, uint32_t count, blink_op_t **op);

#endif
