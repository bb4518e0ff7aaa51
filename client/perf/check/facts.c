/* The table of collectives and what follows from it. */
#include "check/facts.h"

#include <string.h>

typedef enum who { NOBODY, ROOT, EVERYBODY } who_t;
typedef enum origin { FROM_ALL, FROM_ROOT, FROM_BLOCK, FROM_PREVIOUS } origin_t;

typedef struct facts {
    const char *name;
    who_t reads, writes;
    origin_t origin;                      /* FROM_BLOCK: block b comes from rank b */
    bool input_per_rank, output_per_rank; /* a block for (from) every rank; else one */
    bool in_place, uneven;
} facts_t;

static const facts_t table[PERF_COLLECTIVE_COUNT] = {
    [PERF_ALLREDUCE] = {"allreduce", EVERYBODY, EVERYBODY, FROM_ALL, false, false, true, false},
    [PERF_BROADCAST] = {"broadcast", ROOT, EVERYBODY, FROM_ROOT, false, false, true, false},
    [PERF_REDUCE] = {"reduce", EVERYBODY, ROOT, FROM_ALL, false, false, true, false},
    [PERF_ALLGATHER] = {"allgather", EVERYBODY, EVERYBODY, FROM_BLOCK, false, true, true, false},
    [PERF_REDUCESCATTER] = {"reducescatter", EVERYBODY, EVERYBODY, FROM_ALL, true, false, true, false},
    [PERF_GATHER] = {"gather", EVERYBODY, ROOT, FROM_BLOCK, false, true, true, false},
    [PERF_SCATTER] = {"scatter", ROOT, EVERYBODY, FROM_ROOT, true, false, true, false},
    [PERF_ALLTOALL] = {"alltoall", EVERYBODY, EVERYBODY, FROM_BLOCK, true, true, false, false},
    [PERF_ALLTOALLV] = {"alltoallv", EVERYBODY, EVERYBODY, FROM_BLOCK, true, true, false, true},
    [PERF_SENDRECV] = {"sendrecv", EVERYBODY, EVERYBODY, FROM_PREVIOUS, false, false, false, false},
    [PERF_BARRIER] = {"barrier", NOBODY, NOBODY, FROM_BLOCK, false, false, false, false},
    [PERF_NOP] = {"nop", NOBODY, NOBODY, FROM_BLOCK, false, false, false, false},
};

const char *perf_collective_name(perf_collective_t collective)
{
    return table[collective].name;
}

bool perf_collective_parse(const char *name, perf_collective_t *collective)
{
    for (uint32_t i = 0; i < PERF_COLLECTIVE_COUNT; i++)
        if (strcmp(table[i].name, name) == 0) {
            *collective = (perf_collective_t)i;
            return true;
        }
    return false;
}

bool perf_collective_moves(perf_collective_t collective)
{
    return table[collective].writes != NOBODY;
}

bool perf_collective_has_root(perf_collective_t collective)
{
    return table[collective].reads == ROOT || table[collective].writes == ROOT;
}

bool perf_collective_reduces(perf_collective_t collective)
{
    return table[collective].origin == FROM_ALL;
}

bool perf_collective_has_in_place(perf_collective_t collective)
{
    return table[collective].in_place;
}

bool perf_collective_is_uneven(perf_collective_t collective)
{
    return table[collective].uneven;
}

bool perf_collective_same_everywhere(perf_collective_t collective)
{
    const facts_t *facts = &table[collective];
    return facts->writes == EVERYBODY && !facts->input_per_rank && facts->origin != FROM_PREVIOUS;
}

uint32_t perf_collective_blocks(perf_collective_t collective, uint32_t rank_count)
{
    return table[collective].input_per_rank || table[collective].output_per_rank ? rank_count : 1;
}

double perf_collective_busbw_factor(perf_collective_t collective, uint32_t rank_count)
{
    double n = rank_count;
    if (rank_count < 2)
        return 1;
    if (collective == PERF_ALLREDUCE)
        return 2 * (n - 1) / n;
    return perf_collective_blocks(collective, rank_count) > 1 ? (n - 1) / n : 1;
}

/* ---- one op ---- */

static bool takes_part(const perf_shape_t *shape, who_t who)
{
    return who == EVERYBODY || (who == ROOT && shape->rank == shape->root);
}

uint64_t perf_input_count(const perf_shape_t *shape)
{
    const facts_t *facts = &table[shape->collective];
    if (!takes_part(shape, facts->reads))
        return 0;
    return facts->input_per_rank ? shape->rank_count * shape->count : shape->count;
}

uint64_t perf_output_count(const perf_shape_t *shape)
{
    const facts_t *facts = &table[shape->collective];
    if (!takes_part(shape, facts->writes))
        return 0;
    return facts->output_per_rank ? shape->rank_count * shape->count : shape->count;
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
    const facts_t *facts = &table[shape->collective];
    if (!takes_part(shape, facts->writes))
        return 0;
    return facts->output_per_rank ? shape->rank_count : 1;
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

static uint32_t source_of(const perf_shape_t *shape, uint32_t index)
{
    switch (table[shape->collective].origin) {
    case FROM_ALL:
        return PERF_ALL_RANKS;
    case FROM_ROOT:
        return shape->root;
    case FROM_PREVIOUS:
        return (shape->rank + shape->rank_count - 1) % shape->rank_count;
    case FROM_BLOCK:
        break;
    }
    return index;
}

perf_block_t perf_output_block(const perf_shape_t *shape, uint32_t index)
{
    const facts_t *facts = &table[shape->collective];
    if (facts->uneven)
        return uneven_block(shape, index);
    return (perf_block_t){.at = index * shape->count,
                          .count = shape->count,
                          .source_at = facts->input_per_rank ? shape->rank * shape->count : 0,
                          .source = source_of(shape, index)};
}
