/*
 * Symbolic proof that a lane program is right, without bytes: see lane_verify().
 */
#ifndef BLINK_VERIFY_H
#define BLINK_VERIFY_H

#include "plan/lane.h"

typedef struct lane_verify_options {
    uint32_t root;   /* rank, for broadcast */
    uint32_t chunks; /* chunks run per channel; >= 2 × slots shows slot reuse */
    uint32_t slots;  /* 1 is the hardest case for deadlock */
    bool in_place;   /* input and output of every rank are the same memory */
} lane_verify_options_t;

/*
 * Run the program on sets of contributions instead of bytes, with vector clocks for happens-before, and
 * prove:
 *  - every output element holds every rank's contribution exactly once (allreduce) or the root's alone
 * (broadcast);
 *  - no step reads what no earlier step (by program order and semaphores, not by luck of timing) has written;
 *  - no step overwrites what another may still be reading or writing: slot reuse, direct writes, in place;
 *  - every lane ends: no deadlock. Semaphores have one writer and only grow, so what holds for one order of
 *    execution holds for all (a Kahn network).
 * Errors: INTERNAL with the lane, chunk, step and rank at fault; NO_MEMORY.
 */
blink_result_t lane_verify(const lane_program_t *program, const lane_verify_options_t *options);

#endif
