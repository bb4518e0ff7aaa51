/* Reference data, computed for one period with 64-bit integers. */
#include "pattern.h"

#include "names.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD 7919u /* elements; prime */

#define SUM_VALUES     8u   /* 0…7: sums of 1,024 ranks are exact in float32 */
#define EXTREME_VALUES 100u /* 0…99: fits int8 */

static uint32_t mix(uint32_t rank, uint32_t index)
{
    uint32_t value = (index + 1) * 2654435761u ^ (rank + 1) * 2246822519u;
    value ^= value >> 15;
    value *= 2654435761u;
    return value ^ value >> 13;
}

/* A product over all ranks is 6: one rank has 2, one has 3 (or one both), the others 1. */
static int64_t factor(uint32_t rank, uint32_t index, uint32_t rank_count)
{
    return (index % rank_count == rank ? 2 : 1) * (mix(0, index) % rank_count == rank ? 3 : 1);
}

static int64_t input_value(const perf_pattern_kind_t *kind, uint32_t rank, uint32_t index)
{
    if (kind->collective == BLINK_ALLREDUCE && kind->redop == BLINK_PROD)
        return factor(rank, index, kind->rank_count);
    if (kind->collective == BLINK_ALLREDUCE && kind->redop == BLINK_SUM)
        return mix(rank, index) % SUM_VALUES;
    return mix(rank, index) % EXTREME_VALUES;
}

static int64_t combine(blink_redop_t redop, int64_t a, int64_t b)
{
    switch (redop) {
    case BLINK_SUM:
        return a + b;
    case BLINK_PROD:
        return a * b;
    case BLINK_MAX:
        return a > b ? a : b;
    case BLINK_MIN:
        return a < b ? a : b;
    }
    return 0;
}

static int64_t expected_value(const perf_pattern_kind_t *kind, uint32_t index)
{
    if (kind->collective == BLINK_BROADCAST)
        return input_value(kind, kind->root, index);
    int64_t value = input_value(kind, 0, index);
    for (uint32_t rank = 1; rank < kind->rank_count; rank++)
        value = combine(kind->redop, value, input_value(kind, rank, index));
    return value;
}

/* Integers are cut to the type's width, as sums that wrap are; little-endian. */
static void store(blink_datatype_t datatype, int64_t value, unsigned char *element)
{
    float single = (float)value;
    double twice = (double)value;
    if (datatype == BLINK_FLOAT32)
        memcpy(element, &single, sizeof(single));
    else if (datatype == BLINK_FLOAT64)
        memcpy(element, &twice, sizeof(twice));
    else
        memcpy(element, &value, blink_datatype_bytes(datatype));
}

blink_result_t perf_pattern_create(const perf_pattern_kind_t *kind, uint32_t rank, perf_pattern_t *pattern)
{
    uint32_t element_bytes = blink_datatype_bytes(kind->datatype);
    *pattern = (perf_pattern_t){.input = malloc((size_t)PERIOD * element_bytes),
                                .expected = malloc((size_t)PERIOD * element_bytes),
                                .element_bytes = element_bytes};
    if (!pattern->input || !pattern->expected) {
        perf_pattern_destroy(pattern);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u reference elements", PERIOD);
    }
    for (uint32_t i = 0; i < PERIOD; i++) {
        store(kind->datatype, input_value(kind, rank, i), pattern->input + (size_t)i * element_bytes);
        store(kind->datatype, expected_value(kind, i), pattern->expected + (size_t)i * element_bytes);
    }
    return BLINK_OK;
}

void perf_pattern_destroy(perf_pattern_t *pattern)
{
    free(pattern->input);
    free(pattern->expected);
    *pattern = (perf_pattern_t){0};
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void perf_pattern_fill(const perf_pattern_t *pattern, void *buffer, uint64_t count)
{
    unsigned char *at = buffer;
    for (uint64_t done = 0; done < count; done += PERIOD)
        memcpy(at + done * pattern->element_bytes, pattern->input,
               least(count - done, PERIOD) * pattern->element_bytes);
}

uint64_t perf_pattern_wrong(const perf_pattern_t *pattern, const void *buffer, uint64_t count)
{
    size_t element_bytes = pattern->element_bytes;
    uint64_t wrong = 0;
    for (uint64_t done = 0; done < count; done += PERIOD) {
        const unsigned char *at = (const unsigned char *)buffer + done * element_bytes;
        uint64_t block = least(count - done, PERIOD);
        if (memcmp(at, pattern->expected, block * element_bytes) == 0)
            continue;
        for (uint64_t i = 0; i < block; i++)
            wrong +=
                memcmp(at + i * element_bytes, pattern->expected + i * element_bytes, element_bytes) != 0;
    }
    return wrong;
}
