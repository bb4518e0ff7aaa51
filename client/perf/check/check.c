/* All elements, or one sample from each of many equal strata. */
#include "check/check.h"

#define CHECKED_BYTES ((uint64_t)4 << 20) /* of an output; up to so many all are */
#define SAMPLE        128u                /* elements */

/* Samples at random places, one in each stratum; the first and the last are the head and the tail of the
 * block. */
static uint64_t check_samples(const perf_reference_t *reference, const perf_block_t *block,
                              const unsigned char *at, uint64_t strata)
{
    uint32_t element_bytes = reference->pattern.element_bytes;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < strata; i++) {
        uint64_t first = block->count / strata * i;
        uint64_t spare = (i + 1 < strata ? block->count / strata * (i + 1) : block->count) - first - SAMPLE;
        if (i + 1 == strata)
            first += spare;
        else if (i > 0)
            first += perf_mix(reference->pattern.seed + first) % (spare + 1);
        wrong += perf_reference_wrong(reference, block, first, SAMPLE, at + first * element_bytes);
    }
    return wrong;
}

uint64_t perf_check_output(const perf_reference_t *reference, const perf_shape_t *shape, const void *output)
{
    uint32_t element_bytes = reference->pattern.element_bytes;
    uint64_t count = perf_output_count(shape), wrong = 0;
    uint64_t all = count * element_bytes, samples = CHECKED_BYTES / element_bytes / SAMPLE;
    for (uint32_t i = 0; i < perf_output_blocks(shape); i++) {
        perf_block_t block = perf_output_block(shape, i);
        const unsigned char *at = (const unsigned char *)output + block.at * element_bytes;
        uint64_t strata = samples * block.count / (count > 0 ? count : 1) + 2;
        if (all <= CHECKED_BYTES || block.count / strata < SAMPLE)
            wrong += perf_reference_wrong(reference, &block, 0, block.count, at);
        else
            wrong += check_samples(reference, &block, at, strata);
    }
    return wrong;
}
