/*
 * One loop per element type and operator, for any number of sources and destinations: a chunk of every source
 * is combined in registers and stored to every destination before the next. Compiled once per instruction
 * set, REDUCE_LOOPS naming the table that results.
 */
#include "exec/host/reduce/loops.h"

#include "exec/host/reduce/float.h"

#include <string.h>

/* What is taken of one source before the next: where runs are longer the processor's prefetching falls
 * behind, to half of the memory's rate at 512 bytes. And registers that it is combined in: half of 16, the
 * rest to work with. */
#define LOOP_CHUNK_BYTES    128u
#define LOOP_REGISTERS      8u
#define LOOP_MIN(a, b)      ((a) < (b) ? (a) : (b))
#define LOOP_VECTORS(parts) LOOP_MIN(LOOP_CHUNK_BYTES / VEC_BYTES, LOOP_REGISTERS / (parts))

typedef void loop_load_t(vec_t raw, vec_t *parts);
typedef vec_t loop_store_t(const vec_t *parts);
typedef vec_t loop_combine_t(vec_t left, vec_t right);
typedef void loop_divide_t(vec_t *values, uint32_t count, uint32_t divisor);

/* An element type: how a vector of its elements becomes `parts` registers to calculate with, and back. */
typedef struct loop_type {
    uint32_t parts, element_bytes;
    uint32_t vectors; /* of each source at a time */
    loop_load_t *load;
    loop_store_t *store;
    loop_combine_t *multiply; /* where the operator adds; else NULL */
    loop_divide_t *divide;    /* so too; all registers */
} loop_type_t;

/* Bytes of every source and destination that are done at a time. */
typedef struct loop_chunk {
    uint64_t at, bytes;
    /* At either end of a buffer a chunk is shorter and goes through this copy, so that all elements see the
     * same instructions. */
    char *edge;
} loop_chunk_t;

/* combine NULL: the first source. */
VEC_INLINE void loop_gather(const loop_type_t *type, loop_combine_t *combine, const char *from,
                            const void *scalar, vec_t *sums)
{
    vec_t factor[LOOP_REGISTERS], parts[LOOP_REGISTERS];
    if (scalar)
        type->load(vec_splat(scalar, type->element_bytes), factor);
#pragma GCC unroll 8
    for (uint32_t v = 0; v < type->vectors; v++) {
        type->load(vec_load(from + v * VEC_BYTES), parts);
#pragma GCC unroll 4
        for (uint32_t p = 0; p < type->parts; p++) {
            vec_t *sum = &sums[v * type->parts + p];
            vec_t value = scalar ? type->multiply(parts[p], factor[p]) : parts[p];
            *sum = combine ? combine(*sum, value) : value;
        }
    }
}

/* Fewer than LOOP_CHUNK_BYTES, by the binary digits of their number: much of a small step is this. */
static __attribute__((noinline)) void loop_copy(char *to, const char *from, uint64_t bytes)
{
#pragma GCC unroll 8
    for (uint64_t piece = LOOP_CHUNK_BYTES / 2; piece > 0; piece /= 2) {
        if (bytes & piece) {
            memcpy(to, from, piece);
            to += piece;
            from += piece;
        }
    }
}

VEC_INLINE void loop_add(const reduce_step_t *step, const loop_type_t *type, loop_combine_t *combine,
                         uint32_t source, const loop_chunk_t *chunk, vec_t *sums)
{
    const char *from = (const char *)step->srcs[source] + chunk->at;
    const void *scalar = type->multiply && step->scalars ? step->scalars[source] : NULL;
    if (chunk->bytes < type->vectors * VEC_BYTES) {
        loop_copy(chunk->edge, from, chunk->bytes);
        from = chunk->edge;
    }
    if (scalar)
        loop_gather(type, combine, from, scalar, sums);
    else
        loop_gather(type, combine, from, NULL, sums);
}

static bool loop_aligned(const void *address)
{
    return ((uintptr_t)address & (VEC_BYTES - 1)) == 0;
}

VEC_INLINE void loop_put(const reduce_step_t *step, uint32_t vectors, const loop_chunk_t *chunk,
                         const vec_t *results)
{
    if (chunk->bytes < vectors * VEC_BYTES) {
        for (uint32_t v = 0; v < vectors; v++)
            vec_store(chunk->edge + v * VEC_BYTES, results[v]);
        for (uint32_t d = 0; d < step->dst_count; d++)
            loop_copy((char *)step->dsts[d] + chunk->at, chunk->edge, chunk->bytes);
        return;
    }
    for (uint32_t d = 0; d < step->dst_count; d++) {
        char *to = (char *)step->dsts[d] + chunk->at;
        if (step->stream && loop_aligned(to)) {
#pragma GCC unroll 8
            for (uint32_t v = 0; v < vectors; v++)
                vec_stream(to + v * VEC_BYTES, results[v]);
        } else {
#pragma GCC unroll 8
            for (uint32_t v = 0; v < vectors; v++)
                vec_store(to + v * VEC_BYTES, results[v]);
        }
    }
}

/* All sources are combined before a destination is written, which may be one of them. */
VEC_INLINE void reduce_loop(const reduce_step_t *step, const loop_type_t *type, loop_combine_t *combine)
{
    _Alignas(VEC_BYTES) char edge[LOOP_CHUNK_BYTES] = {0};
    loop_chunk_t chunk = {0, type->vectors * VEC_BYTES, edge};
    /* Streaming takes whole vectors of the destination. */
    if (step->stream && !loop_aligned(step->dsts[0]))
        chunk.bytes = -(uintptr_t)step->dsts[0] & (VEC_BYTES - 1);
    for (; chunk.at < step->bytes; chunk.at += chunk.bytes, chunk.bytes = type->vectors * VEC_BYTES) {
        if (chunk.bytes > step->bytes - chunk.at)
            chunk.bytes = step->bytes - chunk.at;
        vec_t sums[LOOP_REGISTERS];
        loop_add(step, type, NULL, 0, &chunk, sums);
        for (uint32_t s = 1; s < step->src_count; s++)
            loop_add(step, type, combine, s, &chunk, sums);
        if (type->divide && step->divisor > 1)
            type->divide(sums, type->vectors * type->parts, step->divisor);
#pragma GCC unroll 8
        for (uint32_t v = 0; v < type->vectors; v++)
            sums[v] = type->store(&sums[v * type->parts]);
        loop_put(step, type->vectors, &chunk, sums);
    }
    if (step->stream)
        vec_stream_fence();
}

/* Sums and products of integers are taken in the unsigned type, which wraps. A NaN in x compares unequal to
 * itself and is kept; one in y makes the first comparison false and is kept too. */
#define LOOP_COMBINE(name, vector, modular)                                                                  \
    VEC_INLINE vec_t sum_##name(vec_t x, vec_t y)                                                            \
    {                                                                                                        \
        return (vec_t)((modular)x + (modular)y);                                                             \
    }                                                                                                        \
    VEC_INLINE vec_t prod_##name(vec_t x, vec_t y)                                                           \
    {                                                                                                        \
        return (vec_t)((modular)x * (modular)y);                                                             \
    }                                                                                                        \
    VEC_INLINE vec_t max_##name(vec_t x, vec_t y)                                                            \
    {                                                                                                        \
        return vec_select((vec_t)(((vector)x > (vector)y) | ((vector)x != (vector)x)), x, y);                \
    }                                                                                                        \
    VEC_INLINE vec_t min_##name(vec_t x, vec_t y)                                                            \
    {                                                                                                        \
        return vec_select((vec_t)(((vector)x < (vector)y) | ((vector)x != (vector)x)), x, y);                \
    }

LOOP_COMBINE(int8, vec_int8_t, vec_uint8_t)
LOOP_COMBINE(uint8, vec_uint8_t, vec_uint8_t)
LOOP_COMBINE(int32, vec_int32_t, vec_uint32_t)
LOOP_COMBINE(uint32, vec_uint32_t, vec_uint32_t)
LOOP_COMBINE(int64, vec_int64_t, vec_uint64_t)
LOOP_COMBINE(uint64, vec_uint64_t, vec_uint64_t)
LOOP_COMBINE(float32, vec_float32_t, vec_float32_t)
LOOP_COMBINE(float64, vec_float64_t, vec_float64_t)

VEC_INLINE void load_whole(vec_t raw, vec_t *parts)
{
    parts[0] = raw;
}

VEC_INLINE vec_t store_whole(const vec_t *parts)
{
    return parts[0];
}

VEC_INLINE vec_t store_float32(const vec_t *parts)
{
    return (vec_t)vec_one_nan32((vec_float32_t)parts[0]);
}

VEC_INLINE vec_t store_float64(const vec_t *parts)
{
    return (vec_t)vec_one_nan64((vec_float64_t)parts[0]);
}

/* By a power of two, the usual number of ranks, multiplying gives the same and is several times as fast. */
#define LOOP_DIVIDE_FLOAT(name, type)                                                                        \
    VEC_INLINE void divide_##name(vec_t *values, uint32_t count, uint32_t divisor)                           \
    {                                                                                                        \
        vec_##name##_t by = (vec_##name##_t){0} + (type)divisor;                                             \
        vec_##name##_t inverse = (vec_##name##_t){0} + 1 / (type)divisor;                                    \
        bool exact = (divisor & (divisor - 1)) == 0;                                                         \
        for (uint32_t i = 0; i < count; i++) {                                                               \
            vec_##name##_t x = (vec_##name##_t)values[i];                                                    \
            values[i] = exact ? (vec_t)(x * inverse) : (vec_t)(x / by);                                      \
        }                                                                                                    \
    }

LOOP_DIVIDE_FLOAT(float32, float)
LOOP_DIVIDE_FLOAT(float64, double)

/* There are no vectors of integer division. `quotient` of x and divisor, truncated, for every element; the
 * float that it is taken in has twice the integer's bits, so it rounds no quotient up to the next integer. */
#define LOOP_DIVIDE_INTEGER(name, quotient)                                                                  \
    VEC_INLINE void divide_##name(vec_t *values, uint32_t count, uint32_t divisor)                           \
    {                                                                                                        \
        union {                                                                                              \
            vec_t vectors[LOOP_REGISTERS];                                                                   \
            name##_t elements[LOOP_REGISTERS * VEC_BYTES / sizeof(name##_t)];                                \
        } copy;                                                                                              \
        for (uint32_t i = 0; i < count; i++)                                                                 \
            copy.vectors[i] = values[i];                                                                     \
        for (uint32_t i = 0; i < count * (VEC_BYTES / sizeof(name##_t)); i++) {                              \
            name##_t x = copy.elements[i];                                                                   \
            copy.elements[i] = (name##_t)(quotient);                                                         \
        }                                                                                                    \
        for (uint32_t i = 0; i < count; i++)                                                                 \
            values[i] = copy.vectors[i];                                                                     \
    }

/* x / divisor by a multiplication: with the inverse rounded down the product's upper half is at most one too
 * small. */
__extension__ typedef unsigned __int128 loop_wide_t;

VEC_INLINE uint64_t loop_quotient(uint64_t x, uint64_t divisor)
{
    uint64_t inverse = UINT64_MAX / divisor;
    uint64_t quotient = (uint64_t)((loop_wide_t)x * inverse >> 64);
    return quotient + (x - quotient * divisor >= divisor);
}

LOOP_DIVIDE_INTEGER(int8, (float)x / (float)divisor)
LOOP_DIVIDE_INTEGER(uint8, (float)x / (float)divisor)
LOOP_DIVIDE_INTEGER(int32, (double)x / divisor)
LOOP_DIVIDE_INTEGER(uint32, (double)x / divisor)
LOOP_DIVIDE_INTEGER(int64,
                    x < 0 ? 0 - loop_quotient(0 - (uint64_t)x, divisor) : loop_quotient((uint64_t)x, divisor))
LOOP_DIVIDE_INTEGER(uint64, loop_quotient(x, divisor))

/* `as`: the type that a register's parts are calculated in. */
#define LOOP_TYPE(name, as, part_count, loader, storer)                                                      \
    static const loop_type_t adding_##name = {.parts = part_count,                                           \
                                              .element_bytes = sizeof(as##_t) / part_count,                  \
                                              .vectors = LOOP_VECTORS(part_count),                           \
                                              .load = loader,                                                \
                                              .store = storer,                                               \
                                              .multiply = prod_##as,                                         \
                                              .divide = divide_##as};                                        \
    static const loop_type_t other_##name = {                                                                \
        .parts = part_count, .vectors = LOOP_VECTORS(part_count), .load = loader, .store = storer};          \
    static void loop_sum_##name(const reduce_step_t *step)                                                   \
    {                                                                                                        \
        reduce_loop(step, &adding_##name, sum_##as);                                                         \
    }                                                                                                        \
    static void loop_prod_##name(const reduce_step_t *step)                                                  \
    {                                                                                                        \
        reduce_loop(step, &other_##name, prod_##as);                                                         \
    }                                                                                                        \
    static void loop_max_##name(const reduce_step_t *step)                                                   \
    {                                                                                                        \
        reduce_loop(step, &other_##name, max_##as);                                                          \
    }                                                                                                        \
    static void loop_min_##name(const reduce_step_t *step)                                                   \
    {                                                                                                        \
        reduce_loop(step, &other_##name, min_##as);                                                          \
    }

typedef float float32_t;
typedef double float64_t;

LOOP_TYPE(int8, int8, 1, load_whole, store_whole)
LOOP_TYPE(uint8, uint8, 1, load_whole, store_whole)
LOOP_TYPE(int32, int32, 1, load_whole, store_whole)
LOOP_TYPE(uint32, uint32, 1, load_whole, store_whole)
LOOP_TYPE(int64, int64, 1, load_whole, store_whole)
LOOP_TYPE(uint64, uint64, 1, load_whole, store_whole)
LOOP_TYPE(float16, float32, 2, load_float16, store_float16)
LOOP_TYPE(float32, float32, 1, load_whole, store_float32)
LOOP_TYPE(float64, float64, 1, load_whole, store_float64)
LOOP_TYPE(bfloat16, float32, 2, load_bfloat16, store_bfloat16)
LOOP_TYPE(float8_e4m3, float32, 4, load_float8_e4m3, store_float8_e4m3)
LOOP_TYPE(float8_e5m2, float32, 4, load_float8_e5m2, store_float8_e5m2)

#define LOOP_ROW(name)                                                                                       \
    {                                                                                                        \
        [BLINK_SUM] = loop_sum_##name, [BLINK_PROD] = loop_prod_##name, [BLINK_MAX] = loop_max_##name,       \
        [BLINK_MIN] = loop_min_##name                                                                        \
    }

const reduce_loops_t REDUCE_LOOPS = {
    .loops =
        {
            [BLINK_INT8] = LOOP_ROW(int8),
            [BLINK_UINT8] = LOOP_ROW(uint8),
            [BLINK_INT32] = LOOP_ROW(int32),
            [BLINK_UINT32] = LOOP_ROW(uint32),
            [BLINK_INT64] = LOOP_ROW(int64),
            [BLINK_UINT64] = LOOP_ROW(uint64),
            [BLINK_FLOAT16] = LOOP_ROW(float16),
            [BLINK_FLOAT32] = LOOP_ROW(float32),
            [BLINK_FLOAT64] = LOOP_ROW(float64),
            [BLINK_BFLOAT16] = LOOP_ROW(bfloat16),
            [BLINK_FLOAT8_E4M3] = LOOP_ROW(float8_e4m3),
            [BLINK_FLOAT8_E5M2] = LOOP_ROW(float8_e5m2),
        },
};
