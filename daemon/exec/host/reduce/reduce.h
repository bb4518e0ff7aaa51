/*
 * The arithmetic of a step on the host: k destinations from m sources, for every element type and operator.
 */
#ifndef BLINK_REDUCE_H
#define BLINK_REDUCE_H

#include "blink/types.h"

#include <stdbool.h>

typedef struct reduce_step {
    void *const *dsts;
    const void *const *srcs;
    /* Per source: an element to multiply it by (PRE_MUL_SUM), or NULL to take it as it is. NULL: none is. */
    const void *const *scalars;
    uint32_t dst_count, src_count;
    blink_datatype_t datatype;
    blink_redop_t redop;
    uint32_t divisor; /* AVG, where the result is complete: the number of ranks; else 1 */
    bool stream;      /* the destinations will not be read soon: stores that bypass the caches may pay */
    uint64_t bytes;
} reduce_step_t;

/*
 * dsts[i][e] = (scalar₀·srcs[0][e] ⊕ scalar₁·srcs[1][e] ⊕ …) / divisor, left to right, for `bytes` / element
 * bytes elements, in one pass. AVG and PRE_MUL_SUM add. Arithmetic and rounding are those that blink.h
 * documents: floats of 8 and 16 bits are accumulated in float32 and rounded once. With one source, no scalar
 * and divisor 1 it is a copy (any dst equal to the source is skipped), and datatype and operator do not
 * matter. A dst may be one of the sources at the same address; other overlap is not allowed. Addresses are
 * aligned to the element, no more. Results do not depend on how a buffer is cut into calls. Thread-safe.
 */
void reduce_apply(const reduce_step_t *step);

#endif
