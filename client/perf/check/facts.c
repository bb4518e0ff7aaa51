#include "check/facts.h"

#include "names.h"

#define OWN(collective) [PERF_##collective - PERF_BARRIER]

/* What blink-perf makes of the library's collectives or beside them. */
static const struct {
    const char *name;
    blink_collective_t kind;
} own[] = {
    OWN(BARRIER) = {"barrier", COLLECTIVE_BARRIER},
    OWN(ALLGATHERV) = {"allgatherv", BLINK_ALLGATHER},
    OWN(REDUCESCATTERV) = {"reducescatterv", BLINK_REDUCESCATTER},
    OWN(GATHERV) = {"gatherv", BLINK_GATHER},
    OWN(SCATTERV) = {"scatterv", BLINK_SCATTER},
    OWN(ALLTOALLV) = {"alltoallv", BLINK_ALLTOALL},
    OWN(NOP) = {"nop", COLLECTIVE_BARRIER},
};

blink_collective_t perf_collective_kind(perf_collective_t collective)
{
    return collective < PERF_BARRIER ? (blink_collective_t)collective : own[collective - PERF_BARRIER].kind;
}

const char *perf_collective_name(perf_collective_t collective)
{
    return collective < PERF_BARRIER ? blink_name_collective(collective)
                                     : own[collective - PERF_BARRIER].name;
}

bool perf_collective_parse(const char *name, perf_collective_t *collective)
{
    for (uint32_t i = 0; i < PERF_COLLECTIVE_COUNT; i++)
        if (blink_names_match(perf_collective_name((perf_collective_t)i), name)) {
            *collective = (perf_collective_t)i;
            return true;
        }
    return false;
}

bool perf_collective_moves(perf_collective_t collective)
{
    return collective_moves(perf_collective_kind(collective));
}

bool perf_collective_has_root(perf_collective_t collective)
{
    return collective != PERF_SENDRECV && collective_has_root(perf_collective_kind(collective));
}

bool perf_collective_reduces(perf_collective_t collective)
{
    return collective_reduces(perf_collective_kind(collective));
}

bool perf_collective_has_in_place(perf_collective_t collective)
{
    return collective_has_in_place(perf_collective_kind(collective));
}

bool perf_collective_is_uneven(perf_collective_t collective)
{
    return collective >= PERF_ALLGATHERV && collective <= PERF_ALLTOALLV;
}

bool perf_collective_same_everywhere(perf_collective_t collective)
{
    return collective_broadcasts(perf_collective_kind(collective));
}

uint32_t perf_collective_blocks(perf_collective_t collective, uint32_t rank_count)
{
    return collective_buffer_blocks(perf_collective_kind(collective), rank_count);
}

double perf_collective_busbw_factor(perf_collective_t collective, uint32_t rank_count)
{
    const blink_collective_t kind = perf_collective_kind(collective);
    double factor = collective_busbw_factor(kind, rank_count);
    return collective_moves(kind) ? factor * (double)collective_block_count(kind, rank_count) /
                                        collective_buffer_blocks(kind, rank_count)
                                  : factor;
}

/* ---- one op ---- */

/* In a sendrecv every rank is the root of one pair and the peer of another. */
static bool is_root(const perf_shape_t *shape)
{
    return shape->collective == PERF_SENDRECV || shape->rank == shape->root;
}

/* Of blocks of all ranks the average counts. */
static uint64_t count_of(const perf_shape_t *shape, uint32_t blocks)
{
    return blocks == 1 ? perf_block_count(shape, shape->rank) : blocks * shape->count;
}

uint64_t perf_input_count(const perf_shape_t *shape)
{
    return count_of(shape, collective_input_blocks(perf_collective_kind(shape->collective), shape->rank_count,
                                                   is_root(shape)));
}

uint64_t perf_output_count(const perf_shape_t *shape)
{
    return count_of(shape, perf_output_blocks(shape));
}

/* The smaller of the two stands in the larger where this rank's block is. */
uint64_t perf_in_place_input(const perf_shape_t *shape)
{
    return perf_input_count(shape) < perf_output_count(shape) ? perf_block_start(shape, shape->rank) : 0;
}

uint64_t perf_in_place_output(const perf_shape_t *shape)
{
    return perf_output_count(shape) < perf_input_count(shape) ? perf_block_start(shape, shape->rank) : 0;
}

uint32_t perf_output_blocks(const perf_shape_t *shape)
{
    return collective_output_blocks(perf_collective_kind(shape->collective), shape->rank_count,
                                    is_root(shape));
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

uint64_t perf_block_count(const perf_shape_t *shape, uint32_t rank)
{
    return perf_collective_is_uneven(shape->collective) ? perf_pair_count(shape, 0, rank) : shape->count;
}

/* Blocks follow one another. */
uint64_t perf_block_start(const perf_shape_t *shape, uint32_t rank)
{
    uint64_t start = 0;
    for (uint32_t before = 0; before < rank; before++)
        start += perf_block_count(shape, before);
    return start;
}

static perf_block_t all_to_all_v_block(const perf_shape_t *shape, uint32_t from)
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
    blink_collective_t kind = perf_collective_kind(shape->collective);
    if (shape->collective == PERF_ALLTOALLV)
        return all_to_all_v_block(shape, index);
    perf_block_t block = {.at = perf_block_start(shape, index), .source = index};
    block.count = perf_block_count(shape, perf_output_blocks(shape) == 1 ? shape->rank : index);
    if (collective_reduces(kind))
        block.source = PERF_ALL_RANKS;
    else if (shape->collective == PERF_SENDRECV)
        block.source = (shape->rank + shape->rank_count - 1) % shape->rank_count;
    else if (perf_collective_has_root(shape->collective) && perf_output_blocks(shape) == 1)
        block.source = shape->root;
    if (collective_input_blocks(kind, shape->rank_count, true) > 1)
        block.source_at = perf_block_start(shape, shape->rank);
    return block;
}
