/*
 * The second pass of the compiler: what a processor writes to another host becomes a step of a wire lane.
 */
#ifndef BLINK_LANE_WIRE_H
#define BLINK_LANE_WIRE_H

#include "plan/lane/lane.h"

/* Take the moves between hosts out of the steps of a program whose every lane is a processor's. On failure
 * the program can only be destroyed. Errors: NO_MEMORY. */
blink_result_t lane_wire_split(lane_program_t *program, const lane_hosts_t *hosts);

#endif
