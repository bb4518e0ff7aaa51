/*
 * A step's arithmetic: which loop does it, and which instruction set's. The loops themselves are
 * reduce_loops.c.
 */
#include "exec/host/reduce/reduce.h"

#include "exec/host/reduce/loops.h"

#include <string.h>

/* Destinations of a copy that are written in one pass. */
#define REDUCE_COPY_DSTS 64u

const reduce_loops_t *reduce_loops_at(uint32_t index)
{
#if defined(__x86_64__)
    /* No processor with AVX2 lacks F16C, which not every compiler has a name for. */
    bool avx2 = __builtin_cpu_supports("avx2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && index-- == 0)
        return &reduce_loops_avx512;
    if (avx2 && index-- == 0)
        return &reduce_loops_avx2;
#endif
    return index == 0 ? &reduce_loops_plain : NULL;
}

static void reduce_copy_to(const reduce_loops_t *loops, const reduce_step_t *step, void *const *dsts,
                           uint32_t dst_count)
{
    if (dst_count == 0)
        return;
    if (dst_count == 1 && !step->stream) {
        memcpy(dsts[0], step->srcs[0], step->bytes);
        return;
    }
    loops->loops[BLINK_UINT8][BLINK_SUM](&(reduce_step_t){.dsts = dsts,
                                                          .srcs = step->srcs,
                                                          .dst_count = dst_count,
                                                          .src_count = 1,
                                                          .divisor = 1,
                                                          .stream = step->stream,
                                                          .bytes = step->bytes});
}

static void reduce_copy(const reduce_loops_t *loops, const reduce_step_t *step)
{
    void *others[REDUCE_COPY_DSTS];
    uint32_t count = 0;
    for (uint32_t d = 0; d < step->dst_count; d++) {
        if (step->dsts[d] == step->srcs[0])
            continue;
        others[count++] = step->dsts[d];
        if (count == REDUCE_COPY_DSTS) {
            reduce_copy_to(loops, step, others, count);
            count = 0;
        }
    }
    reduce_copy_to(loops, step, others, count);
}

void reduce_apply_with(const reduce_loops_t *loops, const reduce_step_t *step)
{
    bool scales = step->scalars && step->scalars[0];
    bool adds = step->redop == BLINK_AVG || step->redop == BLINK_PRE_MUL_SUM;
    if (step->src_count == 1 && !scales && step->divisor <= 1)
        reduce_copy(loops, step);
    else
        loops->loops[step->datatype][adds ? BLINK_SUM : step->redop](step);
}

void reduce_apply(const reduce_step_t *step)
{
    reduce_apply_with(reduce_loops_at(0), step);
}
