/*
 * What a right run of each collective must do, block by block. It shares no code with
 * proto/collective.c, which the compiler of programs asks.
 */
#ifndef BLINK_VERIFY_BLOCKS_H
#define BLINK_VERIFY_BLOCKS_H

#include "plan/lane/lane.h"

typedef struct verify_block {
    uint32_t contributor;         /* the rank whose input goes into the block; PLAN_NONE: of every rank */
    uint32_t receiver;            /* the rank whose output it is for; PLAN_NONE: for every rank */
    uint32_t in_block, out_block; /* where it stands in these inputs and outputs */
} verify_block_t;

/* The collective, its root and its peer must exist. */
verify_block_t verify_block(const lane_program_t *program, uint32_t block);

/* The collective and its ends exist, every part says rightly where its block stands, and the parts cover
 * every block exactly once. Channels must lie in the pool of parts. Errors: INTERNAL, NO_MEMORY. */
blink_result_t verify_blocks_check(const lane_program_t *program);

/* Whether every rank contributes to every block. */
bool verify_reduces(blink_collective_t collective);

/* Whether the collective has a form in which inputs and outputs are the same memory. */
bool verify_has_in_place(blink_collective_t collective);

#endif
