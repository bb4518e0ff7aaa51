/* Words of random bits, cut to what the type and the operator can bear. */
#include "check/pattern.h"

#include "names.h"

#include <string.h>

#define WORD_BYTES 8u

perf_format_t perf_format_of(blink_datatype_t datatype)
{
    switch (datatype) {
    case BLINK_FLOAT16:
        return (perf_format_t){5, 10};
    case BLINK_BFLOAT16:
        return (perf_format_t){8, 7};
    case BLINK_FLOAT32:
        return (perf_format_t){8, 23};
    case BLINK_FLOAT64:
        return (perf_format_t){11, 52};
    case BLINK_FLOAT8_E4M3:
        return (perf_format_t){4, 3};
    case BLINK_FLOAT8_E5M2:
        return (perf_format_t){5, 2};
    case BLINK_INT8:
    case BLINK_UINT8:
    case BLINK_INT32:
    case BLINK_UINT32:
    case BLINK_INT64:
    case BLINK_UINT64:
        break;
    }
    return (perf_format_t){0, 0};
}

/* ---- masks ---- */

static uint64_t ones(uint32_t count)
{
    return (UINT64_C(1) << count) - 1;
}

/* The same bits in every element of a word. */
static uint64_t repeat(uint64_t bits, uint32_t element_bytes)
{
    uint64_t word = 0;
    for (uint32_t at = 0; at < WORD_BYTES; at += element_bytes)
        word |= bits << (8 * at);
    return word;
}

/* Random signs; random mantissas but for their last `fixed_bits`; exponents from 2^(1 - 2^spread_bits) to
 * 2^0. */
static perf_mask_t float_mask(perf_format_t format, uint32_t spread_bits, uint32_t fixed_bits,
                              uint32_t element_bytes)
{
    uint32_t m = format.mantissa_bits, e = format.exponent_bits;
    uint64_t sign = UINT64_C(1) << (m + e);
    uint64_t mantissa = ones(m) & ~ones(fixed_bits < m ? fixed_bits : m);
    uint64_t exponent = ones(e - 1) & ~ones(spread_bits); /* 1.0 has all but the first bit set */
    return (perf_mask_t){repeat(sign | mantissa | ones(spread_bits) << m, element_bytes),
                         repeat(exponent << m, element_bytes)};
}

/*
 * Exact places. Σ: values ±1.f whose mantissas lack their last 3 bits are multiples of 2^(3-m) (m mantissa
 * bits; of 1 if there are fewer than 3), eight of them sum up to less than 16 = 2^(m+1) multiples of that,
 * which m+1 significant bits can hold (in 2 mantissa bits: 8 times 1). With the scalars 1, -2 and 1.5 two
 * ranks take as many bits. Π: one rank has all bits, the others ±1.
 */
#define EXACT_FIXED_BITS      3u
#define EXACT_SCALED_SPEAKERS 2u

static void use_float_masks(perf_pattern_t *pattern, perf_format_t format, blink_redop_t redop)
{
    uint32_t bytes = pattern->element_bytes, e = format.exponent_bits, m = format.mantissa_bits;
    uint64_t sign = repeat(UINT64_C(1) << (m + e), bytes);
    pattern->rough_speakers = pattern->exact_speakers = PERF_SPEAKERS;
    switch (redop) {
    case BLINK_MAX:
    case BLINK_MIN:
        /* Without the last bit of the exponent there is neither infinity nor NaN. Everybody speaks. */
        pattern->exact = pattern->rough = pattern->silent =
            (perf_mask_t){~repeat(UINT64_C(1) << m, bytes), 0};
        break;
    case BLINK_PROD:
        pattern->exact = pattern->rough = float_mask(format, 0, 0, bytes);
        pattern->silent = (perf_mask_t){sign, pattern->rough.set};
        pattern->exact_speakers = 1;
        break;
    case BLINK_SUM:
    case BLINK_AVG:
    case BLINK_PRE_MUL_SUM:
        if (redop == BLINK_PRE_MUL_SUM)
            pattern->exact_speakers = EXACT_SCALED_SPEAKERS;
        pattern->exact = float_mask(format, 0, EXACT_FIXED_BITS, bytes);
        pattern->rough = float_mask(format, e / 2, 0, bytes);
        pattern->silent = (perf_mask_t){sign, 0};
        break;
    }
}

perf_pattern_t perf_pattern_make(blink_datatype_t datatype, bool reduces, blink_redop_t redop,
                                 uint32_t rank_count, uint64_t seed)
{
    static const perf_mask_t all = {UINT64_MAX, 0};
    perf_format_t format = perf_format_of(datatype);
    perf_pattern_t pattern = {.datatype = datatype,
                              .element_bytes = blink_datatype_bytes(datatype),
                              .rank_count = rank_count,
                              .seed = seed,
                              .exact = all,
                              .rough = all,
                              .silent = all};
    if (reduces && format.exponent_bits > 0)
        use_float_masks(&pattern, format, redop);
    else if (reduces && redop == BLINK_PROD)
        /* Odd, or every product of a few ranks would be divisible by 2^n, that is 0. */
        pattern.exact = pattern.rough = pattern.silent =
            (perf_mask_t){UINT64_MAX, repeat(1, pattern.element_bytes)};
    return pattern;
}

/* ---- words ---- */

/* The finaliser of splitmix64. */
uint64_t perf_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static bool is_exact(uint64_t word)
{
    return word % 2 == 0;
}

/* Who speaks moves on by one rank from one pair of words, an exact and a rough one, to the next. */
static uint64_t word_of(const perf_pattern_t *pattern, uint64_t stream, uint64_t speaker, uint64_t word)
{
    const perf_mask_t *mask = is_exact(word) ? &pattern->exact : &pattern->rough;
    if (speaker >= (is_exact(word) ? pattern->exact_speakers : pattern->rough_speakers))
        mask = &pattern->silent;
    return (perf_mix(stream + word * UINT64_C(0x9e3779b97f4a7c15)) & mask->keep) | mask->set;
}

void perf_pattern_fill(const perf_pattern_t *pattern, uint32_t rank, uint64_t first, uint64_t count,
                       void *buffer)
{
    uint64_t stream = perf_mix(perf_mix(pattern->seed) + rank);
    uint64_t at = first * pattern->element_bytes, end = at + count * pattern->element_bytes;
    unsigned char *out = buffer;
    uint64_t speaker = (rank + at / WORD_BYTES / 2) % pattern->rank_count;
    while (at < end) {
        uint64_t word = at / WORD_BYTES, skipped = at % WORD_BYTES;
        uint64_t value = word_of(pattern, stream, speaker, word) >> (8 * skipped); /* little-endian */
        uint64_t bytes = WORD_BYTES - skipped < end - at ? WORD_BYTES - skipped : end - at;
        if (bytes == WORD_BYTES)
            memcpy(out, &value, WORD_BYTES);
        else
            memcpy(out, &value, bytes);
        out += bytes;
        at += bytes;
        if (word % 2 == 1)
            speaker = speaker + 1 == pattern->rank_count ? 0 : speaker + 1;
    }
}

bool perf_pattern_exact(const perf_pattern_t *pattern, uint64_t index)
{
    return is_exact(index * pattern->element_bytes / WORD_BYTES);
}

double perf_pattern_scalar(blink_datatype_t datatype, uint32_t rank)
{
    static const double of_floats[] = {1, -2, 1.5}, of_signed[] = {1, -2, 3}, of_unsigned[] = {1, 2, 3};
    switch (datatype) {
    case BLINK_UINT8:
    case BLINK_UINT32:
    case BLINK_UINT64:
        return of_unsigned[rank % 3];
    case BLINK_INT8:
    case BLINK_INT32:
    case BLINK_INT64:
        return of_signed[rank % 3];
    case BLINK_FLOAT16:
    case BLINK_FLOAT32:
    case BLINK_FLOAT64:
    case BLINK_BFLOAT16:
    case BLINK_FLOAT8_E4M3:
    case BLINK_FLOAT8_E5M2:
        break;
    }
    return of_floats[rank % 3];
}
