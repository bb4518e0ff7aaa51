/*
 * New numbers for old ones; numbers of the edges and landings of a program whose lanes are all there.
 */
#ifndef BLINK_LANE_NUMBER_H
#define BLINK_LANE_NUMBER_H

#include "plan/lane/lane.h"

/* A map from `count` old numbers to new ones, all PLAN_NONE until they are given; the caller frees it. NULL
 * without memory. */
uint32_t *lane_map_new(uint32_t count);

/* The new number of an old one; the first time, the next that there is. */
uint32_t lane_map(uint32_t *map, uint32_t old, uint32_t *next);

/* Number the edges anew: those with scratch channel by channel, those of landings in the order of the wire
 * lanes, which are sorted by their hosts; and list the landings. Until now each edge has any number below
 * `limit` of its own. Errors: NO_MEMORY; the program is then as it was. */
blink_result_t lane_number(lane_program_t *program, uint32_t limit);

#endif
