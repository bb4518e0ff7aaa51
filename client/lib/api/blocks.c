#include "api/blocks.h"

#include "api/arguments.h"

#include <stdlib.h>

/* One block in memory. */
typedef struct range {
    uintptr_t start, end;
    bool written;
} range_t;

static uintptr_t start_of(const blocks_t *blocks, uint32_t index, blink_datatype_t datatype)
{
    return (uintptr_t)blocks->base + blocks->offsets[index] * blink_datatype_bytes((uint32_t)datatype);
}

const void *blocks_at(const blocks_t *blocks, uint32_t index, blink_datatype_t datatype)
{
    return blocks->counts[index] > 0 ? (const void *)start_of(blocks, index, datatype) : NULL;
}

bool blocks_coincide(const blocks_t *send, uint32_t sent, const blocks_t *recv, uint32_t received,
                     blink_datatype_t datatype)
{
    const void *block = blocks_at(send, sent, datatype);
    return block && block == blocks_at(recv, received, datatype) &&
           send->counts[sent] == recv->counts[received];
}

static blink_result_t check_block(const blocks_t *blocks, uint32_t index, blink_datatype_t datatype)
{
    buffer_t block = {.what = blocks->what, .pointer = blocks->base};
    size_t offset_bytes;
    BLINK_TRY(call_bytes(blocks->counts[index], 1, datatype, &block.bytes));
    if (block.bytes == 0)
        return BLINK_OK;
    BLINK_TRY(call_bytes(blocks->offsets[index], 1, datatype, &offset_bytes));
    BLINK_TRY(call_check_buffer(&block, datatype));
    if (offset_bytes > UINTPTR_MAX - (uintptr_t)blocks->base - block.bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s block %u, %zu elements at offset %zu, passes the end of the address space",
                          blocks->what, index, blocks->counts[index], blocks->offsets[index]);
    return BLINK_OK;
}

blink_result_t blocks_check(const char *name, const blocks_t *blocks, blink_datatype_t datatype)
{
    if (blocks->block_count > 0 && (!blocks->counts || !blocks->offsets))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: %s_%s is NULL", name, blocks->what,
                          blocks->counts ? "offsets" : "counts");
    for (uint32_t i = 0; i < blocks->block_count; i++)
        BLINK_TRY(check_block(blocks, i, datatype));
    return BLINK_OK;
}

/* Enter the blocks of one buffer that are not empty, but for one. */
static void add_ranges(const blocks_t *blocks, uint32_t without, bool written, blink_datatype_t datatype,
                       range_t *ranges, size_t *range_count)
{
    size_t element_bytes = blink_datatype_bytes((uint32_t)datatype);
    for (uint32_t i = 0; i < blocks->block_count; i++) {
        uintptr_t start = start_of(blocks, i, datatype);
        if (i != without && blocks->counts[i] > 0)
            ranges[(*range_count)++] = (range_t){start, start + blocks->counts[i] * element_bytes, written};
    }
}

static int by_start(const void *left, const void *right)
{
    const range_t *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* Sorts the ranges. */
static blink_result_t check_ranges(range_t *ranges, size_t count)
{
    range_t read = {0}, written = {0}; /* those that reach farthest of what came before */
    qsort(ranges, count, sizeof(*ranges), by_start);
    for (size_t i = 0; i < count; i++) {
        const range_t *range = &ranges[i];
        if (range->start < written.end || (range->written && range->start < read.end))
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a recv block overlaps another block at %#zx",
                              (size_t)range->start);
        range_t *farthest = range->written ? &written : &read;
        if (range->end > farthest->end)
            *farthest = *range;
    }
    return BLINK_OK;
}

blink_result_t blocks_check_overlap(const blocks_t *send, const blocks_t *recv, uint32_t in_place,
                                    blink_datatype_t datatype)
{
    size_t count = 0, most = (size_t)send->block_count + recv->block_count;
    range_t *ranges = malloc(most * sizeof(*ranges));
    if (!ranges)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu blocks", most);
    add_ranges(send, in_place, false, datatype, ranges, &count);
    add_ranges(recv, recv->block_count, true, datatype, ranges, &count);
    blink_result_t result = check_ranges(ranges, count);
    free(ranges);
    return result;
}
