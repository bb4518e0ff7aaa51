/*
 * The arithmetic of a step on the host: k destinations from m sources, in one pass over cache-sized blocks.
 */
#ifndef BLINK_REDUCE_H
#define BLINK_REDUCE_H

#include "blink/types.h"

/*
 * dsts[i][e] = srcs[0][e] ⊕ srcs[1][e] ⊕ …, left to right, for `bytes / element` elements. With one source it
 * is a copy (any dst equal to the source is skipped) and the type does not matter. A dst may be one of the
 * sources at the same address; other overlap is not allowed. Integers wrap; float max/min propagate NaN.
 * Alignment: the element's.
 */
void reduce_apply(blink_datatype_t datatype, blink_redop_t redop, void *const *dsts, uint32_t dst_count,
                  const void *const *srcs, uint32_t src_count, uint64_t bytes);

#endif
