/*
 * Elements as numbers: the small float formats described by three figures each, converted bit by bit from the
 * double, so that a store rounds once.
 */
#include "element.h"

#include "names.h"

#include <math.h>
#include <string.h>

#define DOUBLE_MANTISSA_BITS 52
#define DOUBLE_BIAS          1023

typedef struct element_format {
    uint32_t bits, mantissa_bits;
    int bias;
    uint32_t largest; /* magnitude that everything too large becomes: infinity, or the largest finite value */
    uint32_t nan;     /* magnitude of a quiet NaN */
    uint32_t special; /* first magnitude that is not a finite value */
} element_format_t;

static const element_format_t element_float16 = {16, 10, 15, 0x7c00, 0x7e00, 0x7c00};
static const element_format_t element_bfloat16 = {16, 7, 127, 0x7f80, 0x7fc0, 0x7f80};
static const element_format_t element_e4m3 = {8, 3, 7, 0x7e, 0x7f, 0x7f};
static const element_format_t element_e5m2 = {8, 2, 15, 0x7b, 0x7e, 0x7c};

static double element_decode(const element_format_t *format, uint32_t code)
{
    uint32_t sign_bit = UINT32_C(1) << (format->bits - 1);
    uint32_t magnitude = code & (sign_bit - 1);
    uint32_t exponent = magnitude >> format->mantissa_bits;
    uint32_t mantissa = magnitude & ((UINT32_C(1) << format->mantissa_bits) - 1);
    double value;
    if (magnitude >= format->special) {
        value = mantissa ? (double)NAN : (double)INFINITY;
    } else {
        /* Subnormals have the exponent of the smallest normal and no leading one. */
        uint32_t whole = exponent ? mantissa | UINT32_C(1) << format->mantissa_bits : mantissa;
        int scale = (exponent ? (int)exponent : 1) - format->bias - (int)format->mantissa_bits;
        value = ldexp((double)whole, scale);
    }
    return code & sign_bit ? -value : value;
}

/* value >> shift, to the nearest, ties to even. */
static uint64_t element_shift_rounded(uint64_t value, int shift)
{
    if (shift > DOUBLE_MANTISSA_BITS + 2)
        return 0;
    uint64_t half = UINT64_C(1) << (shift - 1);
    uint64_t odd = value >> shift & 1;
    return (value + half - 1 + odd) >> shift;
}

static uint32_t element_encode(const element_format_t *format, double value)
{
    if (isnan(value))
        return format->nan;
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t sign = (uint32_t)(bits >> 63) << (format->bits - 1);
    int exponent = (int)(bits >> DOUBLE_MANTISSA_BITS & 0x7ff) - DOUBLE_BIAS;
    if (exponent > format->bias + 1)
        return sign | format->largest;
    /* A double that is subnormal itself is far below every format's smallest value: its missing leading one
     * is lost. */
    uint64_t whole = (bits & ((UINT64_C(1) << DOUBLE_MANTISSA_BITS) - 1)) | UINT64_C(1)
                                                                                << DOUBLE_MANTISSA_BITS;
    int smallest = 1 - format->bias;
    int below = exponent < smallest ? smallest - exponent : 0;
    uint64_t rounded =
        element_shift_rounded(whole, DOUBLE_MANTISSA_BITS - (int)format->mantissa_bits + below);
    /* The leading one adds 1 to the exponent, as does a mantissa that rounded up to the next power of two. */
    uint64_t magnitude =
        below ? rounded : ((uint64_t)(exponent - smallest) << format->mantissa_bits) + rounded;
    return sign | (magnitude < format->largest ? (uint32_t)magnitude : format->largest);
}

/* Buffers are untyped memory: an element is copied out and in. */
typedef union element {
    int8_t int8;
    uint8_t uint8;
    int32_t int32;
    uint32_t uint32;
    int64_t int64;
    uint64_t uint64;
    uint16_t float16;
    float float32;
    double float64;
} element_t;

double element_load(blink_datatype_t datatype, const void *element)
{
    element_t copy;
    memcpy(&copy, element, blink_datatype_bytes(datatype));
    switch (datatype) {
    case BLINK_INT8:
        return copy.int8;
    case BLINK_UINT8:
        return copy.uint8;
    case BLINK_INT32:
        return copy.int32;
    case BLINK_UINT32:
        return copy.uint32;
    case BLINK_INT64:
        return (double)copy.int64;
    case BLINK_UINT64:
        return (double)copy.uint64;
    case BLINK_FLOAT16:
        return element_decode(&element_float16, copy.float16);
    case BLINK_FLOAT32:
        return (double)copy.float32;
    case BLINK_FLOAT64:
        return copy.float64;
    case BLINK_BFLOAT16:
        return element_decode(&element_bfloat16, copy.float16);
    case BLINK_FLOAT8_E4M3:
        return element_decode(&element_e4m3, copy.uint8);
    case BLINK_FLOAT8_E5M2:
        return element_decode(&element_e5m2, copy.uint8);
    }
    return (double)NAN;
}

static element_t element_convert(blink_datatype_t datatype, double value)
{
    switch (datatype) {
    case BLINK_INT8:
        return (element_t){.int8 = (int8_t)value};
    case BLINK_UINT8:
        return (element_t){.uint8 = (uint8_t)value};
    case BLINK_INT32:
        return (element_t){.int32 = (int32_t)value};
    case BLINK_UINT32:
        return (element_t){.uint32 = (uint32_t)value};
    case BLINK_INT64:
        return (element_t){.int64 = (int64_t)value};
    case BLINK_UINT64:
        return (element_t){.uint64 = (uint64_t)value};
    case BLINK_FLOAT16:
        return (element_t){.float16 = (uint16_t)element_encode(&element_float16, value)};
    case BLINK_FLOAT32:
        return (element_t){.float32 = (float)value};
    case BLINK_FLOAT64:
        return (element_t){.float64 = value};
    case BLINK_BFLOAT16:
        return (element_t){.float16 = (uint16_t)element_encode(&element_bfloat16, value)};
    case BLINK_FLOAT8_E4M3:
        return (element_t){.uint8 = (uint8_t)element_encode(&element_e4m3, value)};
    case BLINK_FLOAT8_E5M2:
        return (element_t){.uint8 = (uint8_t)element_encode(&element_e5m2, value)};
    }
    return (element_t){0};
}

void element_store(blink_datatype_t datatype, double value, void *element)
{
    element_t converted = element_convert(datatype, value);
    memcpy(element, &converted, blink_datatype_bytes(datatype));
}
