/*
 * The chunk size, found online: Blink's controller (MLSys'20, §4), multiplicative increase while throughput
 * grows, additive decrease once it does not. A pure state machine: the executor runs an op with the chunk it
 * is given, says how fast that was, and is given the next.
 *
 *   climb    double the chunk as long as that raises throughput by more than 2 %, and not beyond the most
 *   descend  take off 1/16 of the chunk the climb ended with, as long as throughput stays within 2 % of the
 * best of the descent hold     at the last chunk that did: the smallest one about as good as the best; climb
 * again when its throughput changes by more than 10 %, for then the best chunk may be another
 *
 * Not thread-safe: one controller belongs to one thread.
 */
#ifndef BLINK_CHUNK_CONTROL_H
#define BLINK_CHUNK_CONTROL_H

#include "blink/types.h"

/* Chunks are multiples of this many bytes. */
#define CHUNK_CONTROL_UNIT_BYTES 16u

typedef enum chunk_phase { CHUNK_START, CHUNK_CLIMB, CHUNK_DESCEND, CHUNK_SETTLE, CHUNK_HOLD } chunk_phase_t;

typedef struct chunk_control {
    chunk_phase_t phase;
    uint64_t chunk_bytes; /* to be measured next */
    uint64_t min_bytes, max_bytes;
    uint64_t step_bytes, previous_bytes; /* of the descent */
    double best_GBps; /* of the climb or descent; when holding, what the chunk gave at first */
} chunk_control_t;

/* Start with a chunk; it and the limits are rounded inwards to whole units. Errors: INVALID_ARGUMENT (no unit
 * between min_bytes and max_bytes). */
blink_result_t chunk_control_init(chunk_control_t *control, uint64_t start_bytes, uint64_t min_bytes,
                                  uint64_t max_bytes);

/* What the last chunk gave (the first: the start), in GB/s; a measurement that is not a positive number is
 * left out. Returns the next chunk: bytes, within the limits. */
uint64_t chunk_control_next(chunk_control_t *control, double measured_GBps);

#endif
