/*
 * Reduction loops: one loop per (element type, operator), made by one macro, and the blocking around them
 * that keeps a step with many sources or destinations inside the first-level cache.
 */
#include "exec/host/reduce.h"

#include "names.h"

#include <stdint.h>
#include <string.h>

/* Half of the smallest first-level data cache in use (32 KiB), for an accumulator and a source or
 * destination. */
#define REDUCE_BLOCK_BYTES 8192u

/* One binary runs on any x86-64 and still uses wide vectors. Sanitizers run before the resolver that picks a
 * clone can, so they get the plain loop. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define REDUCE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define REDUCE_CLONES
#endif

/* dst may be one of the sources, at the same address: no iteration reads what another one writes. */
#if defined(__clang__)
#define REDUCE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define REDUCE_INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef void reduce_loop_t(void *dst, const void *a, const void *b, size_t count);

/* Clients hand over untyped memory. */
#define REDUCE_ALIAS __attribute__((may_alias))

#define REDUCE_LOOP(name, type, expression)                                                                  \
    REDUCE_CLONES static void reduce_##name(void *dst, const void *a, const void *b, size_t count)           \
    {                                                                                                        \
        typedef type REDUCE_ALIAS element_t;                                                                 \
        element_t *out = dst;                                                                                \
        const element_t *left = a;                                                                           \
        const element_t *right = b;                                                                          \
        REDUCE_INDEPENDENT                                                                                   \
        for (size_t i = 0; i < count; i++) {                                                                 \
            type x = left[i];                                                                                \
            type y = right[i];                                                                               \
            out[i] = (type)(expression);                                                                     \
        }                                                                                                    \
    }

/* Sums and products of integers are taken in the unsigned type, which wraps. A NaN in x compares unequal to
 * itself and is kept; one in y makes the first comparison false and is kept too. */
#define REDUCE_LOOPS(name, type, modular)                                                                    \
    REDUCE_LOOP(name##_sum, modular, x + y)                                                                  \
    REDUCE_LOOP(name##_prod, modular, x *y)                                                                  \
    REDUCE_LOOP(name##_max, type, ((x > y) | (x != x)) ? x : y)                                              \
    REDUCE_LOOP(name##_min, type, ((x < y) | (x != x)) ? x : y)

REDUCE_LOOPS(int8, int8_t, uint8_t)
REDUCE_LOOPS(uint8, uint8_t, uint8_t)
REDUCE_LOOPS(int32, int32_t, uint32_t)
REDUCE_LOOPS(uint32, uint32_t, uint32_t)
REDUCE_LOOPS(int64, int64_t, uint64_t)
REDUCE_LOOPS(uint64, uint64_t, uint64_t)
REDUCE_LOOPS(float32, float, float)
REDUCE_LOOPS(float64, double, double)

#define REDUCE_ROW(name)                                                                                     \
    {                                                                                                        \
        [BLINK_SUM] = reduce_##name##_sum, [BLINK_PROD] = reduce_##name##_prod,                              \
        [BLINK_MAX] = reduce_##name##_max, [BLINK_MIN] = reduce_##name##_min,                                \
    }

static reduce_loop_t *const reduce_loops[][4] = {
    [BLINK_INT8] = REDUCE_ROW(int8),       [BLINK_UINT8] = REDUCE_ROW(uint8),
    [BLINK_INT32] = REDUCE_ROW(int32),     [BLINK_UINT32] = REDUCE_ROW(uint32),
    [BLINK_INT64] = REDUCE_ROW(int64),     [BLINK_UINT64] = REDUCE_ROW(uint64),
    [BLINK_FLOAT32] = REDUCE_ROW(float32), [BLINK_FLOAT64] = REDUCE_ROW(float64),
};

static void reduce_copy(void *const *dsts, uint32_t dst_count, const void *src, size_t bytes)
{
    size_t block = dst_count == 1 ? bytes : REDUCE_BLOCK_BYTES;
    for (size_t at = 0; at < bytes; at += block) {
        size_t part = bytes - at < block ? bytes - at : block;
        for (uint32_t i = 0; i < dst_count; i++) {
            if (dsts[i] != src)
                memcpy((char *)dsts[i] + at, (const char *)src + at, part);
        }
    }
}

/* One block: everything but the last source is combined in `sum`, so that a dst which is also a later source
 * is not written before that source was read. */
static void reduce_block(reduce_loop_t *loop, size_t element_bytes, void *const *dsts, uint32_t dst_count,
                         const void *const *srcs, uint32_t src_count, size_t at, size_t bytes)
{
    _Alignas(64) char sum[REDUCE_BLOCK_BYTES];
    char *first = (char *)dsts[0] + at;
    size_t count = bytes / element_bytes;
    const char *left = (const char *)srcs[0] + at;
    for (uint32_t i = 1; i + 1 < src_count; i++) {
        loop(sum, left, (const char *)srcs[i] + at, count);
        left = sum;
    }
    loop(first, left, (const char *)srcs[src_count - 1] + at, count);
    for (uint32_t i = 1; i < dst_count; i++)
        memcpy((char *)dsts[i] + at, first, bytes);
}

void reduce_apply(blink_datatype_t datatype, blink_redop_t redop, void *const *dsts, uint32_t dst_count,
                  const void *const *srcs, uint32_t src_count, uint64_t bytes)
{
    if (src_count == 1) {
        reduce_copy(dsts, dst_count, srcs[0], bytes);
        return;
    }
    size_t element_bytes = blink_datatype_bytes(datatype);
    reduce_loop_t *loop = reduce_loops[datatype][redop];
    if (src_count == 2 && dst_count == 1) {
        loop(dsts[0], srcs[0], srcs[1], bytes / element_bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += REDUCE_BLOCK_BYTES) {
        size_t part = bytes - at < REDUCE_BLOCK_BYTES ? bytes - at : REDUCE_BLOCK_BYTES;
        reduce_block(loop, element_bytes, dsts, dst_count, srcs, src_count, at, part);
    }
}
