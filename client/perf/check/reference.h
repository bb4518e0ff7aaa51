/*
 * What an output must be, computed anew from the inputs of all ranks: integers modulo 2^n, floats in float64
 * with a bound on the error that any plan may make. Needs neither daemon nor library.
 */
#ifndef PERF_REFERENCE_H
#define PERF_REFERENCE_H

#include "check/facts.h"
#include "check/pattern.h"

#include "error.h"

typedef struct perf_reference {
    perf_pattern_t pattern;
    blink_redop_t redop;
    const double *values; /* of every bit pattern of a float of up to 16 bits; else NULL */
    /* Bounds on the relative error; what one rounding of a number near zero may lose. */
    double rough_error, average_error, least_error;
} perf_reference_t;

/** The values of all elements of a float type of up to 16 bits, to be freed; NULL in *values for other types.
 * Errors: NO_MEMORY. */
blink_result_t perf_reference_values(blink_datatype_t datatype, double **values);

/** `values` of perf_reference_values() is borrowed. */
perf_reference_t perf_reference_make(const perf_pattern_t *pattern, blink_redop_t redop,
                                     const double *values);

/**
 * How many of elements [first, first + count) of a block, which begin at `output`, are not as they must be.
 */
uint64_t perf_reference_wrong(const perf_reference_t *reference, const perf_block_t *block, uint64_t first,
                              uint64_t count, const void *output);

#endif
