/* The reference, computed a piece at a time. */
#include "check/reference.h"

#include "element.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE          256u /* elements */
#define SMALL_BYTES    2u   /* floats of which all values are tabulated */
#define ELEMENT_BYTES  8u   /* of the largest */
#define DIVIDE_ROUNDED 2u   /* roundings of a division: the quotient, and its store in a smaller type */

blink_result_t perf_reference_values(blink_datatype_t datatype, double **values)
{
    perf_format_t format = perf_format_of(datatype);
    uint32_t bits = 1 + format.exponent_bits + format.mantissa_bits;
    *values = NULL;
    if (format.exponent_bits == 0 || bits > 8 * SMALL_BYTES)
        return BLINK_OK;
    *values = malloc(sizeof(**values) << bits);
    if (!*values)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the values of %u bits", bits);
    for (uint32_t code = 0; code < UINT32_C(1) << bits; code++) {
        uint16_t element = (uint16_t)code; /* little-endian: the first byte is that of 8-bit types */
        (*values)[code] = element_load(datatype, &element);
    }
    return BLINK_OK;
}

/*
 * The bound. However a plan arranges a reduction, a result is Σ x_i · Π (1 + δ) with one factor, |δ| ≤ u, for
 * every rounding on the way of x_i (u: half of a unit in the last place; and for each at most half of the
 * smallest number in absolute terms). Only what changes a value rounds it: adding zero or multiplying by ±1
 * does not, nor does storing a value that was stored before. So s speakers make at most s - 1 roundings, one
 * more if each is multiplied first; and one is allowed for all roundings in float32 before a store of fewer
 * bits (at most 1024 · 2^-24). With k = s + 1: |result - Σ x_i| ≤ ((1 + u)^k - 1) · Σ |x_i| + k · least and
 * likewise for products with |Π x_i| in place of Σ |x_i|. The reference is made in float64: of float64 it
 * errs as much itself. At exact places neither rounds. AVG then divides.
 */
perf_reference_t perf_reference_make(const perf_pattern_t *pattern, blink_redop_t redop, const double *values)
{
    perf_reference_t reference = {.pattern = *pattern, .redop = redop, .values = values};
    perf_format_t format = perf_format_of(pattern->datatype);
    if (format.exponent_bits == 0)
        return reference;
    uint32_t speakers = pattern->rank_count < PERF_SPEAKERS ? pattern->rank_count : PERF_SPEAKERS;
    uint32_t both = pattern->datatype == BLINK_FLOAT64 ? 2 : 1;
    int bias = (1 << (format.exponent_bits - 1)) - 1;
    double roundoff = ldexp(1, -(int)format.mantissa_bits - 1);
    double roundings = both * (speakers + 1);
    reference.rough_error = expm1(roundings * log1p(roundoff));
    reference.average_error = expm1(both * DIVIDE_ROUNDED * log1p(roundoff));
    reference.least_error = roundings * ldexp(1, -bias - (int)format.mantissa_bits);
    return reference;
}

static bool is_same(const void *a, const void *b, uint32_t element_bytes)
{
    return memcmp(a, b, element_bytes) == 0;
}

/* ---- copies ---- */

static uint64_t wrong_copies(const perf_pattern_t *pattern, uint32_t source, uint64_t index, uint64_t count,
                             const unsigned char *output)
{
    unsigned char expected[PIECE * ELEMENT_BYTES];
    size_t bytes = pattern->element_bytes;
    uint64_t wrong = 0;
    perf_pattern_fill(pattern, source, index, count, expected);
    if (memcmp(expected, output, count * bytes) == 0)
        return 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += !is_same(expected + i * bytes, output + i * bytes, pattern->element_bytes);
    return wrong;
}

/* ---- integers ---- */

static bool is_signed(blink_datatype_t datatype)
{
    return datatype == BLINK_INT8 || datatype == BLINK_INT32 || datatype == BLINK_INT64;
}

/* The type's value of the low bits, as 64 bits in two's complement. */
static uint64_t extend(blink_datatype_t datatype, uint32_t bytes, uint64_t bits)
{
    uint32_t unused = 64 - 8 * bytes;
    return is_signed(datatype) ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
}

static uint64_t combine_integers(blink_datatype_t datatype, blink_redop_t redop, uint64_t a, uint64_t b)
{
    bool less = is_signed(datatype) ? (int64_t)a < (int64_t)b : a < b;
    switch (redop) {
    case BLINK_PROD:
        return a * b;
    case BLINK_MAX:
        return less ? b : a;
    case BLINK_MIN:
        return less ? a : b;
    case BLINK_SUM:
    case BLINK_AVG:
    case BLINK_PRE_MUL_SUM:
        break;
    }
    return a + b;
}

static uint64_t finish_integer(const perf_pattern_t *pattern, blink_redop_t redop, uint64_t value)
{
    if (redop != BLINK_AVG)
        return value;
    uint64_t sum = extend(pattern->datatype, pattern->element_bytes, value);
    return is_signed(pattern->datatype) ? (uint64_t)((int64_t)sum / (int64_t)pattern->rank_count)
                                        : sum / pattern->rank_count;
}

static void load_integers(const perf_reference_t *reference, uint32_t rank, uint64_t index, uint64_t count,
                          uint64_t *values)
{
    const perf_pattern_t *pattern = &reference->pattern;
    uint32_t bytes = pattern->element_bytes;
    unsigned char input[PIECE * ELEMENT_BYTES];
    uint64_t scalar = 1;
    if (reference->redop == BLINK_PRE_MUL_SUM)
        scalar = (uint64_t)(int64_t)perf_pattern_scalar(pattern->datatype, rank);
    perf_pattern_fill(pattern, rank, index, count, input);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, input + i * bytes, bytes);
        values[i] = extend(pattern->datatype, bytes, bits) * scalar;
    }
}

static uint64_t wrong_integers(const perf_reference_t *reference, uint64_t index, uint64_t count,
                               const unsigned char *output)
{
    const perf_pattern_t *pattern = &reference->pattern;
    uint64_t values[PIECE], inputs[PIECE], wrong = 0;
    uint32_t bytes = pattern->element_bytes;
    load_integers(reference, 0, index, count, values);
    for (uint32_t rank = 1; rank < pattern->rank_count; rank++) {
        load_integers(reference, rank, index, count, inputs);
        for (uint64_t i = 0; i < count; i++)
            values[i] = combine_integers(pattern->datatype, reference->redop, values[i], inputs[i]);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = finish_integer(pattern, reference->redop, values[i]);
        wrong += !is_same(&value, output + i * bytes, bytes);
    }
    return wrong;
}

/* ---- floats ---- */

/* A piece of the result. */
typedef struct sums {
    double values[PIECE];
    double magnitudes[PIECE]; /* Σ |x_i|, where sums are made */
} sums_t;

static void load(const perf_reference_t *reference, const unsigned char *elements, uint64_t count,
                 double scalar, double *values)
{
    blink_datatype_t datatype = reference->pattern.datatype;
    uint32_t bytes = reference->pattern.element_bytes;
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *element = elements + i * bytes; /* little-endian */
        if (reference->values)
            values[i] = reference->values[bytes == 1 ? element[0] : element[0] | element[1] << 8] * scalar;
        else
            values[i] = element_load(datatype, element) * scalar;
    }
}

static void load_floats(const perf_reference_t *reference, uint32_t rank, uint64_t index, uint64_t count,
                        double *values)
{
    const perf_pattern_t *pattern = &reference->pattern;
    unsigned char input[PIECE * ELEMENT_BYTES];
    double scalar = reference->redop == BLINK_PRE_MUL_SUM ? perf_pattern_scalar(pattern->datatype, rank) : 1;
    perf_pattern_fill(pattern, rank, index, count, input);
    load(reference, input, count, scalar, values);
}

static void combine_floats(blink_redop_t redop, sums_t *sums, const double *inputs, uint64_t count)
{
    double *values = sums->values;
    switch (redop) {
    case BLINK_PROD:
        for (uint64_t i = 0; i < count; i++)
            values[i] *= inputs[i];
        return;
    case BLINK_MAX:
        for (uint64_t i = 0; i < count; i++)
            values[i] = values[i] < inputs[i] ? inputs[i] : values[i];
        return;
    case BLINK_MIN:
        for (uint64_t i = 0; i < count; i++)
            values[i] = inputs[i] < values[i] ? inputs[i] : values[i];
        return;
    case BLINK_SUM:
    case BLINK_AVG:
    case BLINK_PRE_MUL_SUM:
        break;
    }
    for (uint64_t i = 0; i < count; i++) {
        values[i] += inputs[i];
        sums->magnitudes[i] += fabs(inputs[i]);
    }
}

static bool is_wrong_float(const perf_reference_t *reference, double expected, double magnitude, bool exact,
                           double output)
{
    double ranks = reference->pattern.rank_count, bound = 0;
    switch (reference->redop) {
    case BLINK_MAX:
    case BLINK_MIN:
        break;
    case BLINK_PROD:
        bound = exact ? 0 : reference->rough_error * fabs(expected);
        break;
    case BLINK_SUM:
    case BLINK_AVG:
    case BLINK_PRE_MUL_SUM:
        bound = exact ? 0 : reference->rough_error * magnitude + reference->least_error;
        break;
    }
    if (reference->redop == BLINK_AVG) {
        expected /= ranks;
        bound = bound / ranks + reference->average_error * fabs(expected) + reference->least_error;
    }
    return !(fabs(output - expected) <= bound); /* so that NaN is wrong */
}

static uint64_t wrong_floats(const perf_reference_t *reference, uint64_t index, uint64_t count,
                             const unsigned char *output)
{
    const perf_pattern_t *pattern = &reference->pattern;
    sums_t sums;
    double inputs[PIECE], outputs[PIECE];
    uint64_t wrong = 0;
    load_floats(reference, 0, index, count, sums.values);
    for (uint64_t i = 0; i < count; i++)
        sums.magnitudes[i] = fabs(sums.values[i]);
    for (uint32_t rank = 1; rank < pattern->rank_count; rank++) {
        load_floats(reference, rank, index, count, inputs);
        combine_floats(reference->redop, &sums, inputs, count);
    }
    load(reference, output, count, 1, outputs);
    for (uint64_t i = 0; i < count; i++)
        wrong += is_wrong_float(reference, sums.values[i], sums.magnitudes[i],
                                perf_pattern_exact(pattern, index + i), outputs[i]);
    return wrong;
}

uint64_t perf_reference_wrong(const perf_reference_t *reference, const perf_block_t *block, uint64_t first,
                              uint64_t count, const void *output)
{
    const perf_pattern_t *pattern = &reference->pattern;
    bool is_float = perf_format_of(pattern->datatype).exponent_bits > 0;
    const unsigned char *at = output;
    uint64_t wrong = 0;
    for (uint64_t done = 0; done < count; done += PIECE) {
        uint64_t piece = count - done < PIECE ? count - done : PIECE;
        uint64_t index = block->source_at + first + done;
        if (block->source != PERF_ALL_RANKS)
            wrong += wrong_copies(pattern, block->source, index, piece, at);
        else if (is_float)
            wrong += wrong_floats(reference, index, piece, at);
        else
            wrong += wrong_integers(reference, index, piece, at);
        at += piece * pattern->element_bytes;
    }
    return wrong;
}
