/*
 * What blink-perf knows of an op as one rank sees it: how many blocks the rank gives and gets, and where each
 * block of its output comes from. All of it follows from what the collective is (collective.h), but for
 * alltoallv and its like, whose blocks differ in length, and a sendrecv, in which rank r sends to rank r+1
 * and receives from rank r-1, in one group.
 */
#ifndef PERF_FACTS_H
#define PERF_FACTS_H

#include "collective.h"

#include <stdbool.h>
#include <stdint.h>

/** The library's collectives, and what blink-perf makes of them or beside them. */
typedef enum perf_collective {
    PERF_BARRIER = COLLECTIVE_BARRIER,
    PERF_ALLGATHERV, /* from here to alltoallv: blocks differ in length */
    PERF_REDUCESCATTERV,
    PERF_GATHERV,
    PERF_SCATTERV,
    PERF_ALLTOALLV,
    PERF_NOP, /* the empty operation of one client */
    PERF_COLLECTIVE_COUNT,
#define PERF_COLLECTIVE(collective, ...) PERF_##collective = BLINK_##collective,
    COLLECTIVES(PERF_COLLECTIVE)
#undef PERF_COLLECTIVE
} perf_collective_t;

/* All names, for messages. */
#define PERF_NAME(collective, opcode, name, ...) name ", "
#define PERF_COLLECTIVE_NAMES                                                                                \
    COLLECTIVES(PERF_NAME)                                                                                   \
    "allgatherv, reducescatterv, gatherv, scatterv, alltoallv, barrier or nop"

const char *perf_collective_name(perf_collective_t collective);

/** False (and *collective untouched) if the name is none. */
bool perf_collective_parse(const char *name, perf_collective_t *collective);

bool perf_collective_moves(perf_collective_t collective); /* has buffers: neither barrier nor nop */
bool perf_collective_has_root(perf_collective_t collective);
bool perf_collective_reduces(perf_collective_t collective);
bool perf_collective_has_in_place(perf_collective_t collective);
bool perf_collective_is_uneven(perf_collective_t collective);       /* blocks differ in length */
bool perf_collective_same_everywhere(perf_collective_t collective); /* every rank gets the same output */

/** The collective of the library whose facts hold: an empty operation moves as little as a barrier. */
blink_collective_t perf_collective_kind(perf_collective_t collective);

/**
 * Blocks of the payload, which is what nccl-tests calls the size: all that one rank's larger buffer holds.
 */
uint32_t perf_collective_blocks(perf_collective_t collective, uint32_t rank_count);

/** Bus bandwidth over algorithm bandwidth (payload over time), as nccl-tests defines both; 1 for one rank. */
double perf_collective_busbw_factor(perf_collective_t collective, uint32_t rank_count);

/* One op as one rank sees it. */
typedef struct perf_shape {
    perf_collective_t collective;
    uint32_t rank_count, rank, root;
    uint64_t count; /* elements of a block (if they differ: on average) */
} perf_shape_t;

/** Elements this rank gives and gets; 0 where it does not. */
uint64_t perf_input_count(const perf_shape_t *shape);
uint64_t perf_output_count(const perf_shape_t *shape);

/** In place: where in the one buffer, in elements, its input and its output begin. */
uint64_t perf_in_place_input(const perf_shape_t *shape);
uint64_t perf_in_place_output(const perf_shape_t *shape);

/* A block of an output: elements [at, at + count) are elements [source_at, …) of the input of rank `source`,
 * or of the inputs of all ranks reduced. */
#define PERF_ALL_RANKS UINT32_MAX
typedef struct perf_block {
    uint64_t at, count, source_at;
    uint32_t source;
} perf_block_t;

/** Blocks of this rank's output; 0 where it has none. */
uint32_t perf_output_blocks(const perf_shape_t *shape);
perf_block_t perf_output_block(const perf_shape_t *shape, uint32_t index);

/** alltoallv: elements that rank `from` sends to rank `to`. They differ by the distance of the two only, so
 * that each rank gives and gets rank_count × count in all. */
uint64_t perf_pair_count(const perf_shape_t *shape, uint32_t from, uint32_t to);

/** Elements of a rank's block, which is what rank 0 of an alltoallv sends to the rank if blocks differ, and
 * of all blocks before it. */
uint64_t perf_block_count(const perf_shape_t *shape, uint32_t rank);
uint64_t perf_block_start(const perf_shape_t *shape, uint32_t rank);

#endif
