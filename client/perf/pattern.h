/*
 * Inputs and expected outputs. Values are small integers, so that every operator is exact in every type and
 * order; they repeat with a prime period, so that data displaced by any power of two does not match.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include "error.h"

typedef struct perf_pattern {
    unsigned char *input;    /* of this rank, one period */
    unsigned char *expected; /* one period */
    uint32_t element_bytes;
} perf_pattern_t;

typedef struct perf_pattern_kind {
    blink_collective_t collective;
    blink_datatype_t datatype;
    blink_redop_t redop;
    uint32_t root, rank_count;
} perf_pattern_kind_t;

/** Errors: NO_MEMORY. */
blink_result_t perf_pattern_create(const perf_pattern_kind_t *kind, uint32_t rank, perf_pattern_t *pattern);
void perf_pattern_destroy(perf_pattern_t *pattern);

/** Write the input into `count` elements. */
void perf_pattern_fill(const perf_pattern_t *pattern, void *buffer, uint64_t count);

/** How many of `count` elements are not as expected, bit by bit. */
uint64_t perf_pattern_wrong(const perf_pattern_t *pattern, const void *buffer, uint64_t count);

#endif
