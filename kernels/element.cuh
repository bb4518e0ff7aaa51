/*
 * Element types and operators. Arithmetic and rounding are those that blink.h documents, to the bit those of
 * the host executor (daemon/exec/host/reduce/reduce.h): floats of 8 and 16 bits are taken in float32 and
 * rounded once, every NaN is stored as the same one, and no multiplication is fused with an addition, which
 * compilers must be told. Payload comes in words of 8 bytes, which hold whole elements of every type.
 */
#ifndef BLINK_KERNELS_ELEMENT_CUH
#define BLINK_KERNELS_ELEMENT_CUH

#include "platform.cuh"

#include <string.h>

#define WORD_BYTES 8u

/* The same bits as another type. */
template <class to_t, class from_t> LANE_FUNCTION to_t bits_as(from_t from)
{
    static_assert(sizeof(to_t) == sizeof(from_t), "as many bits");
    to_t to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

/* ---- floats of 8 and 16 bits ---- */

#define FLOAT32_NAN 0x7fc00000u
#define FLOAT64_NAN 0x7ff8000000000000u
#define FLOAT16_NAN 0x7e00u

/* Exponents of float32 and float16 count from 127 and 15; their mantissas have 23 and 10 places. */
#define FLOAT32_PLACES 23
#define FLOAT16_SHIFT  13
#define FLOAT16_REBIAS ((127u - 15u) << FLOAT32_PLACES)

#if defined(__CUDACC__)

LANE_FUNCTION float float16_decode(uint32_t half)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)half));
    return x;
}

/* To the nearest, ties to even; NaN stays some NaN. */
LANE_FUNCTION uint32_t float16_round(float x)
{
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

#else

LANE_FUNCTION float float16_decode(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16;
    uint32_t magnitude = (half & 0x7fffu) << FLOAT16_SHIFT;
    uint32_t smallest = FLOAT16_REBIAS + (1u << FLOAT32_PLACES);
    if (magnitude < 1u << FLOAT32_PLACES) {
        /* Read with the next exponent, a subnormal has a leading one too many: the smallest normal. */
        float subnormal = bits_as<float>(magnitude + smallest) - bits_as<float>(smallest);
        return bits_as<float>(bits_as<uint32_t>(subnormal) | sign);
    }
    uint32_t special = magnitude >= 31u << FLOAT32_PLACES ? 0x7f800000u : 0;
    return bits_as<float>((magnitude + FLOAT16_REBIAS) | special | sign);
}

LANE_FUNCTION uint32_t float16_round(float x)
{
    uint32_t bits = bits_as<uint32_t>(x);
    uint32_t magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    if (magnitude > 0x7f800000u)
        return FLOAT16_NAN;
    uint32_t code;
    if (magnitude < FLOAT16_REBIAS + (1u << FLOAT32_PLACES)) {
        /* The sum with a power of two whose last place is the smallest half rounds to multiples of that. */
        uint32_t power = FLOAT16_REBIAS + ((1u + FLOAT16_SHIFT) << FLOAT32_PLACES);
        code = bits_as<uint32_t>(bits_as<float>(magnitude) + bits_as<float>(power)) - power;
    } else {
        uint32_t odd = magnitude >> FLOAT16_SHIFT & 1;
        code = (magnitude + odd + (1u << (FLOAT16_SHIFT - 1)) - 1 - FLOAT16_REBIAS) >> FLOAT16_SHIFT;
    }
    return sign | (code < 0x7c00u ? code : 0x7c00u);
}

#endif

LANE_FUNCTION uint32_t float16_encode(float x)
{
    return x == x ? float16_round(x) : FLOAT16_NAN;
}

/* bfloat16 is the upper half of a float32. */
LANE_FUNCTION float bfloat16_decode(uint32_t code)
{
    return bits_as<float>(code << 16);
}

LANE_FUNCTION uint32_t bfloat16_encode(float x)
{
    uint32_t bits = x == x ? bits_as<uint32_t>(x) : FLOAT32_NAN;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* E5M2 is the upper half of a float16. */
LANE_FUNCTION float e5m2_decode(uint32_t code)
{
    return float16_decode(code << 8);
}

/* E4M3 has one bit of exponent less and counts it from 8 less: as a float16 it is the 256th part, exactly. */
#define E4M3_SCALE 256.0f

LANE_FUNCTION float e4m3_decode(uint32_t code)
{
    uint32_t magnitude = code & 0x7fu;
    uint32_t nan = magnitude == 0x7fu ? 0x7c00u : 0;
    return float16_decode(magnitude << 7 | nan | (code & 0x80u) << 8) * E4M3_SCALE;
}

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 890

/* The processor rounds once and saturates too, infinities included; only its NaN is another. */
LANE_FUNCTION uint32_t e5m2_encode(float x)
{
    uint16_t code;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(x));
    return x == x ? code : 0x7eu;
}

LANE_FUNCTION uint32_t e4m3_encode(float x)
{
    uint16_t code;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(code) : "f"(0.0f), "f"(x));
    return x == x ? code : 0x7fu;
}

#else

/* By way of a float16 that is cut to 5 places, the last of which is set if anything was cut off. Wherever it
 * matters to a float8, from a quarter of the smallest one up, that float16 is exact enough: rounding it by
 * `shift` is rounding x. Everything too large becomes `largest`. */
LANE_FUNCTION uint32_t float8_encode(float x, uint32_t shift, uint32_t largest, uint32_t nan)
{
    const uint32_t cut = (1u << (FLOAT32_PLACES - 5)) - 1;
    uint32_t bits = bits_as<uint32_t>(x);
    uint32_t carry = (bits & cut) + cut;
    uint32_t half = float16_round(bits_as<float>((bits | carry) & ~cut));
    uint32_t magnitude = half & 0x7fffu, sign = half >> 8 & 0x80u;
    uint32_t odd = magnitude >> shift & 1;
    uint32_t code = (magnitude + odd + (1u << (shift - 1)) - 1) >> shift;
    code = code < largest ? code : largest;
    return x == x ? code | sign : nan;
}

LANE_FUNCTION uint32_t e5m2_encode(float x)
{
    return float8_encode(x, 8, 0x7b, 0x7e);
}

LANE_FUNCTION uint32_t e4m3_encode(float x)
{
    return float8_encode(x * (1.0f / E4M3_SCALE), 7, 0x7e, 0x7f);
}

#endif

/* ---- quotients ---- */

/* Towards zero. unsigned_t is at least as wide as the divisor. */
template <class signed_t, class unsigned_t>
LANE_FUNCTION unsigned_t signed_divide(signed_t x, uint32_t divisor)
{
    unsigned_t bits = (unsigned_t)x;
    return x < 0 ? 0 - (0 - bits) / divisor : bits / divisor;
}

/* ---- types ----
 *
 * Of a type: value_t, in which it is calculated; how an element (in the lower bits) becomes one and back; the
 * quotient; compare_t, a value as max and min see it; and the ends of its order. Integers are calculated
 * unsigned, where they wrap, those of 8 bits in 32, where only the lower 8 count until the end.
 */

#define INTEGER_TYPE(name, bits_t, value, compare, quotient)                                                 \
    struct name##_type {                                                                                     \
        typedef value value_t;                                                                               \
        typedef compare compare_t;                                                                           \
        enum : uint32_t { BYTES = sizeof(bits_t) };                                                          \
        static LANE_MEMBER value_t decode(uint64_t bits)                                                     \
        {                                                                                                    \
            return (value_t)(compare_t)(bits_t)bits;                                                         \
        }                                                                                                    \
        static LANE_MEMBER uint64_t encode(value_t x)                                                        \
        {                                                                                                    \
            return (uint64_t)x & (UINT64_MAX >> (64 - 8 * BYTES));                                           \
        }                                                                                                    \
        static LANE_MEMBER value_t divide(value_t x, uint32_t divisor)                                       \
        {                                                                                                    \
            x = decode(x);                                                                                   \
            return quotient;                                                                                 \
        }                                                                                                    \
        static LANE_MEMBER value_t lowest(void)                                                              \
        {                                                                                                    \
            return (compare_t) ~(compare_t)0 < 1 ? (value_t)0 - ((value_t)1 << (8 * BYTES - 1)) : 0;         \
        }                                                                                                    \
        static LANE_MEMBER value_t highest(void)                                                             \
        {                                                                                                    \
            return ~lowest();                                                                                \
        }                                                                                                    \
    };

INTEGER_TYPE(int8, int8_t, uint32_t, int32_t, (signed_divide<int32_t, uint32_t>((int32_t)x, divisor)))
INTEGER_TYPE(uint8, uint8_t, uint32_t, uint32_t, x / divisor)
INTEGER_TYPE(int32, int32_t, uint32_t, int32_t, (signed_divide<int32_t, uint32_t>((int32_t)x, divisor)))
INTEGER_TYPE(uint32, uint32_t, uint32_t, uint32_t, x / divisor)
INTEGER_TYPE(int64, int64_t, uint64_t, int64_t, (signed_divide<int64_t, uint64_t>((int64_t)x, divisor)))
INTEGER_TYPE(uint64, uint64_t, uint64_t, uint64_t, x / divisor)

#define FLOAT_TYPE(name, bytes, value, decoded, encoded)                                                     \
    struct name##_type {                                                                                     \
        typedef value value_t;                                                                               \
        typedef value compare_t;                                                                             \
        enum : uint32_t { BYTES = bytes };                                                                   \
        static LANE_MEMBER value_t decode(uint64_t bits)                                                     \
        {                                                                                                    \
            return decoded;                                                                                  \
        }                                                                                                    \
        static LANE_MEMBER uint64_t encode(value_t x)                                                        \
        {                                                                                                    \
            return encoded;                                                                                  \
        }                                                                                                    \
        static LANE_MEMBER value_t divide(value_t x, uint32_t divisor)                                       \
        {                                                                                                    \
            return x / (value_t)divisor;                                                                     \
        }                                                                                                    \
        static LANE_MEMBER value_t lowest(void)                                                              \
        {                                                                                                    \
            return -highest();                                                                               \
        }                                                                                                    \
        static LANE_MEMBER value_t highest(void)                                                             \
        {                                                                                                    \
            return (value_t)bits_as<float>(0x7f800000u);                                                     \
        }                                                                                                    \
    };

FLOAT_TYPE(float16, 2, float, float16_decode((uint32_t)bits & 0xffffu), float16_encode(x))
FLOAT_TYPE(float32, 4, float, bits_as<float>((uint32_t)bits), x == x ? bits_as<uint32_t>(x) : FLOAT32_NAN)
FLOAT_TYPE(float64, 8, double, bits_as<double>(bits), x == x ? bits_as<uint64_t>(x) : FLOAT64_NAN)
FLOAT_TYPE(bfloat16, 2, float, bfloat16_decode((uint32_t)bits & 0xffffu), bfloat16_encode(x))
FLOAT_TYPE(float8_e4m3, 1, float, e4m3_decode((uint32_t)bits & 0xffu), e4m3_encode(x))
FLOAT_TYPE(float8_e5m2, 1, float, e5m2_decode((uint32_t)bits & 0xffu), e5m2_encode(x))

/* ---- operators ---- */

/* first() combines with any y to y. ADDS: inputs may be multiplied first, and the sum divided in the end. */
struct sum_operator {
    enum : bool { ADDS = true };
    template <class type> static LANE_MEMBER typename type::value_t first(void)
    {
        return (typename type::value_t) - 0.0f;
    }
    template <class type, class value_t = typename type::value_t>
    static LANE_MEMBER value_t combine(value_t x, value_t y)
    {
        return x + y;
    }
};

struct prod_operator {
    enum : bool { ADDS = false };
    template <class type> static LANE_MEMBER typename type::value_t first(void)
    {
        return 1;
    }
    template <class type, class value_t = typename type::value_t>
    static LANE_MEMBER value_t combine(value_t x, value_t y)
    {
        return x * y;
    }
};

/* A NaN in x compares unequal to itself and is kept; one in y makes the first comparison false and is kept
 * too. */
struct max_operator {
    enum : bool { ADDS = false };
    template <class type> static LANE_MEMBER typename type::value_t first(void)
    {
        return type::lowest();
    }
    template <class type, class value_t = typename type::value_t>
    static LANE_MEMBER value_t combine(value_t x, value_t y)
    {
        typename type::compare_t left = (typename type::compare_t)x, right = (typename type::compare_t)y;
        return left > right || left != left ? x : y;
    }
};

struct min_operator {
    enum : bool { ADDS = false };
    template <class type> static LANE_MEMBER typename type::value_t first(void)
    {
        return type::highest();
    }
    template <class type, class value_t = typename type::value_t>
    static LANE_MEMBER value_t combine(value_t x, value_t y)
    {
        typename type::compare_t left = (typename type::compare_t)x, right = (typename type::compare_t)y;
        return left < right || left != left ? x : y;
    }
};

/* ---- words ----
 *
 * A reduction says what becomes of words of operands: each is VALUES values to calculate with, which take
 * PARTS times as many registers.
 */

template <class element, class operation> struct reduction {
    typedef typename element::value_t value_t;
    enum : uint32_t { VALUES = WORD_BYTES / element::BYTES, PARTS = sizeof(value_t) / element::BYTES };
    enum : bool { COPIES = false, ADDS = operation::ADDS };

    static LANE_MEMBER void begin(value_t *sums)
    {
        LANE_UNROLL
        for (uint32_t i = 0; i < VALUES; i++)
            sums[i] = operation::template first<element>();
    }

    static LANE_MEMBER void add(value_t *sums, uint64_t word)
    {
        LANE_UNROLL
        for (uint32_t i = 0; i < VALUES; i++)
            sums[i] = operation::template combine<element>(sums[i],
                                                           element::decode(word >> (8 * element::BYTES * i)));
    }

    /* `scalar`: the bits of an element. */
    static LANE_MEMBER void add_scaled(value_t *sums, uint64_t word, uint64_t scalar)
    {
        value_t factor = element::decode(scalar);
        LANE_UNROLL
        for (uint32_t i = 0; i < VALUES; i++)
            sums[i] = operation::template combine<element>(
                sums[i], element::decode(word >> (8 * element::BYTES * i)) * factor);
    }

    static LANE_MEMBER value_t divide(value_t sum, uint32_t divisor)
    {
        return element::divide(sum, divisor);
    }

    static LANE_MEMBER uint64_t end(const value_t *sums)
    {
        uint64_t word = 0;
        LANE_UNROLL
        for (uint32_t i = 0; i < VALUES; i++)
            word |= element::encode(sums[i]) << (8 * element::BYTES * i);
        return word;
    }
};

/* The only source, as it is. */
struct copying {
    typedef uint64_t value_t;
    enum : uint32_t { VALUES = 1, PARTS = 1 };
    enum : bool { COPIES = true, ADDS = false };

    static LANE_MEMBER void begin(value_t *sums)
    {
        sums[0] = 0;
    }
    static LANE_MEMBER void add(value_t *sums, uint64_t word)
    {
        sums[0] = word;
    }
    static LANE_MEMBER uint64_t end(const value_t *sums)
    {
        return sums[0];
    }
};

#endif
