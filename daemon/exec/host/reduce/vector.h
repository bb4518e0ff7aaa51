/*
 * Vectors of the width this file's includer is compiled for, as untyped registers, and what compiler vectors
 * do not offer: selection by mask and stores around the caches. Included by loops.c alone.
 */
#ifndef BLINK_REDUCE_VECTOR_H
#define BLINK_REDUCE_VECTOR_H

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512BW__)
#define VEC_BYTES 64
#elif defined(__AVX2__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif

/* What a loop does per element is known where it is instantiated; nothing of it may stay a call. */
#define VEC_INLINE static inline __attribute__((always_inline))

#define VEC_TYPE(type) __attribute__((vector_size(VEC_BYTES))) type

typedef VEC_TYPE(uint8_t) vec_t; /* any register */
typedef VEC_TYPE(int8_t) vec_int8_t;
typedef VEC_TYPE(uint8_t) vec_uint8_t;
typedef VEC_TYPE(int16_t) vec_int16_t;
typedef VEC_TYPE(uint16_t) vec_uint16_t;
typedef VEC_TYPE(int32_t) vec_int32_t;
typedef VEC_TYPE(uint32_t) vec_uint32_t;
typedef VEC_TYPE(int64_t) vec_int64_t;
typedef VEC_TYPE(uint64_t) vec_uint64_t;
typedef VEC_TYPE(float) vec_float32_t;
typedef VEC_TYPE(double) vec_float64_t;

/* A vector anywhere in a client's memory. */
typedef uint8_t vec_memory_t __attribute__((vector_size(VEC_BYTES), aligned(1), may_alias));

VEC_INLINE vec_t vec_load(const void *address)
{
    return *(const vec_memory_t *)address;
}

VEC_INLINE void vec_store(void *address, vec_t value)
{
    *(vec_memory_t *)address = value;
}

/* Bypass the caches; the address is aligned to VEC_BYTES. Ordered by vec_stream_fence() only. */
VEC_INLINE void vec_stream(void *address, vec_t value)
{
#if defined(__clang__)
    __builtin_nontemporal_store(value, (vec_t *)address);
#elif defined(__AVX512BW__)
    _mm512_stream_si512(address, (__m512i)value);
#elif defined(__AVX2__)
    _mm256_stream_si256(address, (__m256i)value);
#elif defined(__SSE2__)
    _mm_stream_si128(address, (__m128i)value);
#else
    vec_store(address, value);
#endif
}

VEC_INLINE void vec_stream_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Bits of `yes` where the mask is set, of `no` elsewhere. */
VEC_INLINE vec_t vec_select(vec_t mask, vec_t yes, vec_t no)
{
    return (yes & mask) | (no & ~mask);
}

/* Every lane the element at this address. */
VEC_INLINE vec_t vec_splat(const void *element, uint32_t element_bytes)
{
    uint8_t one = 0;
    uint16_t two = 0;
    uint32_t four = 0;
    uint64_t eight = 0;
    switch (element_bytes) {
    case 1:
        __builtin_memcpy(&one, element, 1);
        return (vec_t)((vec_uint8_t){0} + one);
    case 2:
        __builtin_memcpy(&two, element, 2);
        return (vec_t)((vec_uint16_t){0} + two);
    case 4:
        __builtin_memcpy(&four, element, 4);
        return (vec_t)((vec_uint32_t){0} + four);
    default:
        __builtin_memcpy(&eight, element, 8);
        return (vec_t)((vec_uint64_t){0} + eight);
    }
}

#endif
