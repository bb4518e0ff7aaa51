/* blink_all_to_all_v(): a group of sends and receives, once it is sure that no blocks overlap. */
#include "api/arguments.h"
#include "api/group.h"
#include "context/comm.h"
#include "names.h"

#include <stdlib.h>

typedef struct vectors {
    const void *send;
    const size_t *send_counts, *send_offsets;
    void *recv;
    const size_t *recv_counts, *recv_offsets;
    blink_datatype_t datatype;
    blink_comm_t *comm;
} vectors_t;

/* One block in memory. */
typedef struct range {
    uintptr_t start, end;
    bool written;
} range_t;

static int by_start(const void *left, const void *right)
{
    const range_t *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* Nothing that is written may be read, or written twice. Sorts the ranges. */
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

/* Enter the blocks of one direction that are not empty. */
static blink_result_t add_ranges(const vectors_t *vectors, bool written, range_t *ranges, size_t *range_count)
{
    const char *base = written ? vectors->recv : vectors->send;
    const size_t *counts = written ? vectors->recv_counts : vectors->send_counts;
    const size_t *offsets = written ? vectors->recv_offsets : vectors->send_offsets;
    for (uint32_t rank = 0; rank < vectors->comm->rank_count; rank++) {
        buffer_t block = {.what = written ? "recv" : "send", .pointer = base};
        size_t offset_bytes;
        BLINK_TRY(call_bytes(counts[rank], 1, vectors->datatype, &block.bytes));
        if (block.bytes == 0)
            continue;
        BLINK_TRY(call_bytes(offsets[rank], 1, vectors->datatype, &offset_bytes));
        BLINK_TRY(call_check_buffer(&block, vectors->datatype));
        if (offset_bytes > UINTPTR_MAX - (uintptr_t)base - block.bytes)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                              "%s block %u, %zu elements at offset %zu, passes the end of the address space",
                              block.what, rank, counts[rank], offsets[rank]);
        uintptr_t start = (uintptr_t)base + offset_bytes;
        ranges[(*range_count)++] = (range_t){start, start + block.bytes, written};
    }
    return BLINK_OK;
}

static blink_result_t check_blocks(const vectors_t *vectors)
{
    size_t count = 0;
    range_t *ranges = malloc(2 * vectors->comm->rank_count * sizeof(*ranges));
    if (!ranges)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u blocks", 2 * vectors->comm->rank_count);
    blink_result_t result = add_ranges(vectors, false, ranges, &count);
    if (result == BLINK_OK)
        result = add_ranges(vectors, true, ranges, &count);
    if (result == BLINK_OK)
        result = check_ranges(ranges, count);
    free(ranges);
    return result;
}

static const void *block_of(const void *base, size_t offset, size_t count, uint32_t element_bytes)
{
    return count > 0 ? (const char *)base + offset * element_bytes : NULL;
}

/* In a group. An empty block is sent, too: what the ranks expect is compared. */
static blink_result_t exchange(const vectors_t *vectors)
{
    uint32_t element_bytes = blink_datatype_bytes((uint32_t)vectors->datatype);
    for (uint32_t peer = 0; peer < vectors->comm->rank_count; peer++) {
        size_t send_count = vectors->send_counts[peer], recv_count = vectors->recv_counts[peer];
        const void *send = block_of(vectors->send, vectors->send_offsets[peer], send_count, element_bytes);
        const void *recv = block_of(vectors->recv, vectors->recv_offsets[peer], recv_count, element_bytes);
        BLINK_TRY(blink_send(send, send_count, vectors->datatype, (int)peer, vectors->comm, NULL));
        BLINK_TRY(blink_recv((void *)(uintptr_t)recv, recv_count, vectors->datatype, (int)peer, vectors->comm,
                             NULL));
    }
    return BLINK_OK;
}

static blink_result_t check(const vectors_t *vectors, blink_op_t **op)
{
    const char *missing = !vectors->comm           ? "comm"
                          : !vectors->send_counts  ? "send_counts"
                          : !vectors->send_offsets ? "send_offsets"
                          : !vectors->recv_counts  ? "recv_counts"
                          : !vectors->recv_offsets ? "recv_offsets"
                          : !op && !group_active() ? "op"
                                                   : NULL;
    if (missing)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_all_to_all_v: %s is NULL", missing);
    if (op && group_active())
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_all_to_all_v: op is not NULL in a group");
    return check_blocks(vectors);
}

blink_result_t blink_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                  void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                  blink_datatype_t datatype, blink_comm_t *comm, blink_op_t **op)
{
    const vectors_t vectors = {send,        send_counts,  send_offsets, recv,
                               recv_counts, recv_offsets, datatype,     comm};
    blink_result_t result = check(&vectors, op);
    if (result != BLINK_OK)
        return group_note(result);
    BLINK_TRY(blink_group_start());
    result = exchange(&vectors);
    /* If it is not the outermost end, the failure of a send or receive has failed the group already. */
    blink_result_t ended = blink_group_end(op);
    return result != BLINK_OK ? result : ended;
}
