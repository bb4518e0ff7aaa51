/*
 * Floats of 8 and 16 bits to and from lanes of float32. Where the processor has no conversion of float16, a
 * register of 32-bit words is taken apart by shifts: no element moves between lanes. float8 is float16 with
 * fewer places. Included by loops.c alone.
 */
#ifndef BLINK_REDUCE_FLOAT_H
#define BLINK_REDUCE_FLOAT_H

#include "exec/host/reduce/vector.h"

#define FLOAT32_SIGN     0x80000000u
#define FLOAT32_INFINITY 0x7f800000u
#define FLOAT32_NAN      0x7fc00000u
#define FLOAT32_PLACES   23 /* of the mantissa */
#define FLOAT64_NAN      0x7ff8000000000000u
#define FLOAT16_SIGN     0x8000u
#define FLOAT16_INFINITY 0x7c00u
#define FLOAT16_NAN      0x7e00u
#define FLOAT16_PLACES   10
/* Exponents of float32 and float16 count from 127 and 15. */
#define FLOAT16_REBIAS ((127u - 15u) << FLOAT32_PLACES)

VEC_INLINE vec_uint32_t vec_words(uint32_t value)
{
    return (vec_uint32_t){0} + value;
}

VEC_INLINE vec_uint16_t vec_halves(uint16_t value)
{
    return (vec_uint16_t){0} + value;
}

VEC_INLINE vec_uint32_t vec_select32(vec_int32_t mask, vec_uint32_t yes, vec_uint32_t no)
{
    return (vec_uint32_t)vec_select((vec_t)mask, (vec_t)yes, (vec_t)no);
}

VEC_INLINE vec_uint16_t vec_select16(vec_int16_t mask, vec_uint16_t yes, vec_uint16_t no)
{
    return (vec_uint16_t)vec_select((vec_t)mask, (vec_t)yes, (vec_t)no);
}

/* Payloads and signs of NaN depend on the order of an instruction's operands: one NaN makes results the same
 * everywhere. */
VEC_INLINE vec_float32_t vec_one_nan32(vec_float32_t x)
{
    return (vec_float32_t)vec_select32(x == x, (vec_uint32_t)x, vec_words(FLOAT32_NAN));
}

VEC_INLINE vec_float64_t vec_one_nan64(vec_float64_t x)
{
    return (vec_float64_t)vec_select((vec_t)(x == x), (vec_t)x, (vec_t)((vec_uint64_t){0} + FLOAT64_NAN));
}

/* ---- float16 to and from two registers of float32; to the nearest, ties to even; NaN stays some NaN ---- */

#if defined(__AVX512BW__)
VEC_INLINE void half_load(vec_t halves, vec_t *parts)
{
    parts[0] = (vec_t)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)halves));
    parts[1] = (vec_t)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)halves, 1));
}

VEC_INLINE vec_t half_store(const vec_t *parts)
{
    __m256i low = _mm512_cvtps_ph((__m512)parts[0], _MM_FROUND_TO_NEAREST_INT);
    __m256i high = _mm512_cvtps_ph((__m512)parts[1], _MM_FROUND_TO_NEAREST_INT);
    return (vec_t)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
#elif defined(__F16C__) && defined(__AVX2__)
VEC_INLINE void half_load(vec_t halves, vec_t *parts)
{
    parts[0] = (vec_t)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)halves));
    parts[1] = (vec_t)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)halves, 1));
}

VEC_INLINE vec_t half_store(const vec_t *parts)
{
    __m128i low = _mm256_cvtps_ph((__m256)parts[0], _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph((__m256)parts[1], _MM_FROUND_TO_NEAREST_INT);
    return (vec_t)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
#else
/* The half is in the upper bits of its word, with nothing below. */
VEC_INLINE vec_t half_decode(vec_uint32_t word)
{
    vec_uint32_t sign = word & vec_words(FLOAT32_SIGN);
    vec_uint32_t magnitude = (word & vec_words(~FLOAT32_SIGN)) >> 3;
    vec_uint32_t normal = magnitude + vec_words(FLOAT16_REBIAS);
    /* A subnormal read as one exponent higher has a leading one too many, which is the smallest normal. */
    vec_uint32_t smallest = vec_words(FLOAT16_REBIAS + (1u << FLOAT32_PLACES));
    vec_float32_t subnormal = (vec_float32_t)(magnitude + smallest) - (vec_float32_t)smallest;
    vec_uint32_t finite = vec_select32((vec_int32_t)magnitude < (vec_int32_t)vec_words(1u << FLOAT32_PLACES),
                                       (vec_uint32_t)subnormal, normal);
    vec_uint32_t special =
        (vec_uint32_t)((vec_int32_t)magnitude >= (vec_int32_t)vec_words(31u << FLOAT32_PLACES));
    return (vec_t)(finite | (special & vec_words(FLOAT32_INFINITY)) | sign);
}

/* The half is in the lower bits of its word. */
VEC_INLINE vec_uint32_t half_encode(vec_t lanes)
{
    const uint32_t shift = FLOAT32_PLACES - FLOAT16_PLACES;
    vec_float32_t x = (vec_float32_t)lanes;
    vec_uint32_t magnitude = (vec_uint32_t)x & vec_words(~FLOAT32_SIGN);
    vec_uint32_t sign = ((vec_uint32_t)x & vec_words(FLOAT32_SIGN)) >> 16;
    vec_uint32_t odd = magnitude >> shift & vec_words(1);
    vec_uint32_t normal = (magnitude + odd + vec_words((1u << (shift - 1)) - 1 - FLOAT16_REBIAS)) >> shift;
    /* The sum with a power of two whose last place is the smallest half rounds to multiples of that. */
    vec_uint32_t power = vec_words(FLOAT16_REBIAS + ((1u + shift) << FLOAT32_PLACES));
    vec_uint32_t subnormal = (vec_uint32_t)((vec_float32_t)magnitude + (vec_float32_t)power) - power;
    vec_int32_t smallest = (vec_int32_t)vec_words(FLOAT16_REBIAS + (1u << FLOAT32_PLACES));
    vec_uint32_t code = vec_select32((vec_int32_t)magnitude < smallest, subnormal, normal);
    vec_uint32_t infinity = vec_words(FLOAT16_INFINITY);
    code = vec_select32((vec_int32_t)code > (vec_int32_t)infinity, infinity, code);
    return vec_select32(x == x, code | sign, vec_words(FLOAT16_NAN));
}

VEC_INLINE void half_load(vec_t halves, vec_t *parts)
{
    parts[0] = half_decode((vec_uint32_t)halves << 16);
    parts[1] = half_decode((vec_uint32_t)halves & vec_words(0xffff0000));
}

VEC_INLINE vec_t half_store(const vec_t *parts)
{
    return (vec_t)(half_encode(parts[0]) | half_encode(parts[1]) << 16);
}
#endif

/* ---- element types ---- */

VEC_INLINE void load_float16(vec_t raw, vec_t *parts)
{
    half_load(raw, parts);
}

VEC_INLINE vec_t store_float16(const vec_t *parts)
{
    vec_uint16_t half = (vec_uint16_t)half_store(parts);
    vec_int16_t magnitude = (vec_int16_t)(half & vec_halves(FLOAT16_SIGN - 1));
    vec_int16_t nan = magnitude > (vec_int16_t)vec_halves(FLOAT16_INFINITY);
    return (vec_t)vec_select16(nan, vec_halves(FLOAT16_NAN), half);
}

/* bfloat16 is the upper half of a float32. */
VEC_INLINE void load_bfloat16(vec_t raw, vec_t *parts)
{
    parts[0] = (vec_t)((vec_uint32_t)raw << 16);
    parts[1] = (vec_t)((vec_uint32_t)raw & vec_words(0xffff0000));
}

VEC_INLINE vec_uint32_t bfloat16_round(vec_t lanes)
{
    vec_uint32_t x = (vec_uint32_t)vec_one_nan32((vec_float32_t)lanes);
    return x + vec_words(0x7fff) + (x >> 16 & vec_words(1));
}

VEC_INLINE vec_t store_bfloat16(const vec_t *parts)
{
    vec_uint32_t odd = bfloat16_round(parts[1]) & vec_words(0xffff0000);
    return (vec_t)(bfloat16_round(parts[0]) >> 16 | odd);
}

/* E5M2 is the upper half of a float16. */
VEC_INLINE void load_float8_e5m2(vec_t raw, vec_t *parts)
{
    half_load((vec_t)((vec_uint16_t)raw << 8), parts);
    half_load((vec_t)((vec_uint16_t)raw & vec_halves(0xff00)), parts + 2);
}

/* E4M3 has one bit of exponent less and counts it from 8 less: as a float16 it is the 256th part, exactly.
 * The code is in the upper byte. */
#define E4M3_SCALE 256.0f

VEC_INLINE void e4m3_load(vec_uint16_t code, vec_t *parts)
{
    vec_uint16_t magnitude = (code & vec_halves(0x7f00)) >> 1;
    vec_uint16_t nan = (vec_uint16_t)(magnitude == vec_halves(0x3f80)) & vec_halves(FLOAT16_INFINITY);
    half_load((vec_t)(magnitude | nan | (code & vec_halves(FLOAT16_SIGN))), parts);
    parts[0] = (vec_t)((vec_float32_t)parts[0] * E4M3_SCALE);
    parts[1] = (vec_t)((vec_float32_t)parts[1] * E4M3_SCALE);
}

VEC_INLINE void load_float8_e4m3(vec_t raw, vec_t *parts)
{
    e4m3_load((vec_uint16_t)raw << 8, parts);
    e4m3_load((vec_uint16_t)raw & vec_halves(0xff00), parts + 2);
}

/* Cut to 5 places, the last of which is set if anything was cut off: a float16 holds that exactly wherever it
 * matters to a float8 (from a quarter of the smallest one up), and rounding it to 3 or 2 places is rounding
 * x. */
VEC_INLINE vec_t float8_cut(vec_float32_t x)
{
    const uint32_t cut = (1u << (FLOAT32_PLACES - 5)) - 1;
    vec_uint32_t bits = (vec_uint32_t)x;
    vec_uint32_t carry = (bits & vec_words(cut)) + vec_words(cut);
    return (vec_t)((bits | carry) & vec_words(~cut));
}

/* Halves to codes of 15 - shift bits and a sign, in the lower bytes; everything too large becomes `largest`.
 */
VEC_INLINE vec_uint16_t float8_round(vec_t halves, uint32_t shift, uint16_t largest, uint16_t nan)
{
    vec_uint16_t half = (vec_uint16_t)halves;
    vec_uint16_t magnitude = half & vec_halves(FLOAT16_SIGN - 1);
    vec_uint16_t sign = (half & vec_halves(FLOAT16_SIGN)) >> 8;
    vec_uint16_t odd = magnitude >> shift & vec_halves(1);
    vec_uint16_t code = (magnitude + odd + vec_halves((uint16_t)((1u << (shift - 1)) - 1))) >> shift;
    code = vec_select16((vec_int16_t)code > (vec_int16_t)vec_halves(largest), vec_halves(largest), code);
    vec_int16_t is_nan = (vec_int16_t)magnitude > (vec_int16_t)vec_halves(FLOAT16_INFINITY);
    return vec_select16(is_nan, vec_halves(nan), code | sign);
}

VEC_INLINE vec_t float8_store(const vec_t *parts, float scale, uint32_t shift, uint16_t largest, uint16_t nan)
{
    vec_t cut[4];
#pragma GCC unroll 4
    for (uint32_t p = 0; p < 4; p++)
        cut[p] = float8_cut((vec_float32_t)parts[p] * scale);
    vec_uint16_t even = float8_round(half_store(cut), shift, largest, nan);
    vec_uint16_t odd = float8_round(half_store(cut + 2), shift, largest, nan);
    return (vec_t)(even | odd << 8);
}

VEC_INLINE vec_t store_float8_e5m2(const vec_t *parts)
{
    return float8_store(parts, 1.0f, 8, 0x7b, 0x7e);
}

VEC_INLINE vec_t store_float8_e4m3(const vec_t *parts)
{
    return float8_store(parts, 1.0f / E4M3_SCALE, 7, 0x7e, 0x7f);
}

#endif
