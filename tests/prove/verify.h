/*
 * Symbolic proof that a lane program is right, without bytes: see lane_verify().
 */
#ifndef BLINK_VERIFY_H
#define BLINK_VERIFY_H

#include "plan/lane/lane.h"

typedef struct lane_verify_options {
    uint32_t chunks; /* chunks run per channel; >= 2 × slots shows slot reuse */
    uint32_t slots;  /* 1 is the hardest case for deadlock */
    bool in_place;   /* inputs and outputs share memory, as below */
} lane_verify_options_t;

/*
 * Run the program on sets of contributions instead of bytes, with vector clocks for happens-before, and
 * prove:
 *  - every output that the collective gives a block (collective.h) holds just its contributions, each
 *    exactly once, and no other output is written;
 *  - no input is read that the collective does not have;
 *  - the parts cover every block exactly once, and a step's bytes cross a path that leads from the rank that
 *    executes it to the rank whose memory it writes;
 *  - a processor's step touches memory of its own host only, with no wire lane's slots among what it reads or
 *    writes but those that lead to or from it; a step of a wire lane has one source on its rank's host, in
 *    plain bytes, and one destination at its other rank; wire lanes stand in the order of landings;
 *  - a step that has a switch read or write slots of all ranks does so in one place, and otherwise nothing;
 *  - no step reads what no earlier step (by program order and semaphores, not by luck of timing) has written;
 *  - no step overwrites what another may still be reading or writing: slot reuse, direct writes, in place;
 *  - every lane ends: no deadlock. Semaphores have one writer and only grow, so what holds for one order of
 *    execution holds for all (a Kahn network).
 *
 * In place: allreduce, broadcast and reduce have input and output in the same memory. A rank's input is its
 * block of its output in allgather, and at the root in gather; its output is its block of its input in
 * reducescatter, and at the root in scatter. Alltoall and sendrecv have no such form.
 *
 * Errors: INTERNAL with the lane, chunk, step and rank at fault; INVALID_ARGUMENT (no such form); NO_MEMORY.
 */
blink_result_t lane_verify(const lane_program_t *program, const lane_verify_options_t *options);

#endif
