#include "check/facts.h"

#include "names.h"

#include <string.h>

/* The collective of the library whose facts hold: an empty operation moves as little as a barrier. */
static blink_collective_t kind_of(perf_collective_t collective)
{
    switch (collective) {
    case PERF_ALLTOALLV:
        return BLINK_ALLTOALL;
    case PERF_NOP:
        return COLLECTIVE_BARRIER;
    default:
        return (blink_collective_t)collective;
    }
}

const char *perf_collective_name(perf_collective_t collective)
{
    switch (collective) {
    case PERF_BARRIER:
        return "barrier";
    case PERF_ALLTOALLV:
        return "alltoallv";
    case PERF_NOP:
        return "nop";
    default:
        return blink_name_collective(collective);
    }
}

bool perf_collective_parse(const char *name, perf_collective_t *collective)
{
    for (uint32_t i = 0; i < PERF_COLLECTIVE_COUNT; i++)
        if (strcmp(perf_collective_name((perf_collective_t)i), name) == 0) {
            *collective = (perf_collective_t)i;
            return true;
        }
    return false;
}

bool perf_collective_moves(perf_collective_t collective)
{
    return collective_moves(kind_of(collective));
}

bool perf_collective_has_root(perf_collective_t collective)
{
    return collective != PERF_SENDRECV && collective_has_root(kind_of(collective));
}

bool perf_collective_reduces(perf_collective_t collective)
{
    return collective_reduces(kind_of(collective));
}

bool perf_collective_has_in_place(perf_collective_t collective)
{
    return collective_has_in_place(kind_of(collective));
}

bool perf_collective_is_uneven(perf_collective_t collective)
{
    return collective == PERF_ALLTOALLV;
}

bool perf_collective_same_everywhere(perf_collective_t collective)
{
    return collective_broadcasts(kind_of(collective));
}

uint32_t perf_collective_blocks(perf_collective_t collective, uint32_t rank_count)
{
    return collective_buffer_blocks(kind_of(collective), rank_count);
}

double perf_collective_busbw_factor(perf_collective_t collective, uint32_t rank_count)
{
    return collective_busbw_factor(kind_of(collective), rank_count);
}

/* ---- one op ---- */

/* In a sendrecv every rank is the root of one pair and the peer of another. */
static bool is_root(const perf_shape_t *shape)
{
    return shape->collective == PERF_SENDRECV || shape->rank == shape->root;
}

uint64_t perf_input_count(const perf_shape_t *shape)
{
    return shape->count *
           collective_input_blocks(kind_of(shape->collective), shape->rank_count, is_root(shape));
}

uint64_t perf_output_count(const perf_shape_t *shape)
{
    return shape->count * perf_output_blocks(shape);
}

/* The smaller of the two stands in the larger where this rank's block is. */
uint64_t perf_in_place_input(const perf_shape_t *shape)
{
    return perf_input_count(shape) < perf_output_count(shape) ? shape->rank * shape->count : 0;
}

uint64_t perf_in_place_output(const perf_shape_t *shape)
{
    return perf_output_count(shape) < perf_input_count(shape) ? shape->rank * shape->count : 0;
}

uint32_t perf_output_blocks(const perf_shape_t *shape)
{
    return collective_output_blocks(kind_of(shape->collective), shape->rank_count, is_root(shape));
}

/* Distances in pairs, of which one has half a block more and the other half a block less. */
uint64_t perf_pair_count(const perf_shape_t *shape, uint32_t from, uint32_t to)
{
    uint32_t distance = (to + shape->rank_count - from) % shape->rank_count;
    uint64_t half = shape->count / 2;
    if ((distance ^ 1) >= shape->rank_count)
        return shape->count;
    return distance % 2 == 0 ? shape->count + half : shape->count - half;
}

/* Blocks of an alltoallv follow one another. */
static perf_block_t uneven_block(const perf_shape_t *shape, uint32_t from)
{
    perf_block_t block = {.count = perf_pair_count(shape, from, shape->rank), .source = from};
    for (uint32_t before = 0; before < from; before++)
        block.at += perf_pair_count(shape, before, shape->rank);
    for (uint32_t before = 0; before < shape->rank; before++)
        block.source_at += perf_pair_count(shape, from, before);
    return block;
}

perf_block_t perf_output_block(const perf_shape_t *shape, uint32_t index)
{
    blink_collective_t kind = kind_of(shape->collective);
    if (perf_collective_is_uneven(shape->collective))
        return uneven_block(shape, index);
    perf_block_t block = {.at = index * shape->count, .count = shape->count, .source = index};
    if (collective_reduces(kind))
        block.source = PERF_ALL_RANKS;
    else if (shape->collective == PERF_SENDRECV)
        block.source = (shape->rank + shape->rank_count - 1) % shape->rank_count;
    else if (perf_collective_has_root(shape->collective) && perf_output_blocks(shape) == 1)
        block.source = shape->root;
    if (collective_input_blocks(kind, shape->rank_count, true) > 1)
        block.source_at = shape->rank * shape->count;
    return block;
}
