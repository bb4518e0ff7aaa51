/*
 * The steps of a part by multicast, as lane.h has them. Of its edges m come first, then o, each by rank; of
 * its semaphores those that say that m is full, that m is free, that o is full, that o is free, each by rank.
 */
#ifndef BLINK_LANE_MULTICAST_H
#define BLINK_LANE_MULTICAST_H

#include "plan/lane/lane_build.h"
#include "plan/lane/lane_edges.h"

/* Where a rank's steps stand in their phase: copies on its own device first. */
enum { LANE_MULTICAST_GIVE = 0, LANE_MULTICAST_SWITCH = 1 };

/* Number edges and semaphores: next in the program. */
void lane_multicast_number(lane_program_t *program, lane_edges_t *edges);

/* Fill the step that a rank takes at this place. Errors: NO_MEMORY. */
blink_result_t lane_multicast_fill(lane_builder_t *builder, lane_step_t *step, const plan_part_t *part,
                                   const lane_edges_t *edges, uint32_t rank, uint32_t phase, uint32_t level);

#endif
