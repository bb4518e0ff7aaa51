/*
 * The random inputs: a hash of seed, rank and place, so that any rank can compute any other's. Bits are
 * random in full where the result is exact whatever they are: copies, and integers (but PROD's are odd). MAX
 * and MIN have all finite floats; floats that are added or multiplied have a range in which nothing
 * overflows. Needs neither daemon nor library.
 *
 * Of floats that are added or multiplied only some ranks speak at a time, the others give the neutral
 * element; which ones moves on with the place. So the error of the result is bounded tightly however many
 * ranks there are. Half of the places hold such values that every partial result is representable, whatever
 * the order: those results are exact in the smallest types too.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include "blink/types.h"

#include <stdbool.h>

/* Ranks that speak at a place, at most. */
#define PERF_SPEAKERS 8u

/** A hash: every bit of the result depends on every bit of the value. */
uint64_t perf_mix(uint64_t value);

/* A float type. */
typedef struct perf_format {
    uint32_t exponent_bits, mantissa_bits; /* 0: an integer */
} perf_format_t;

perf_format_t perf_format_of(blink_datatype_t datatype);

/* A word of data is what the mask keeps of a hash, and the bits that are always set. */
typedef struct perf_mask {
    uint64_t keep, set;
} perf_mask_t;

typedef struct perf_pattern {
    blink_datatype_t datatype;
    uint32_t element_bytes, rank_count;
    uint64_t seed;
    perf_mask_t exact, rough, silent; /* words of ranks that speak, of those that do not */
    uint32_t exact_speakers, rough_speakers;
} perf_pattern_t;

/** `reduces`: the op combines inputs by `redop`; else it copies them. */
perf_pattern_t perf_pattern_make(blink_datatype_t datatype, bool reduces, blink_redop_t redop,
                                 uint32_t rank_count, uint64_t seed);

/** Write elements [first, first + count) of the input of a rank. */
void perf_pattern_fill(const perf_pattern_t *pattern, uint32_t rank, uint64_t first, uint64_t count,
                       void *buffer);

/** Whether an element of the inputs is at a place of exact results. */
bool perf_pattern_exact(const perf_pattern_t *pattern, uint64_t index);

/** PRE_MUL_SUM: what the input of this rank is multiplied by; one of the datatype's values. */
double perf_pattern_scalar(blink_datatype_t datatype, uint32_t rank);

#endif
