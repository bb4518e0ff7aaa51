/*
 * What the edges of a plan go over, where some devices are no peers.
 */
#ifndef BLINK_PLAN_WAYS_H
#define BLINK_PLAN_WAYS_H

#include "plan/plan.h"

/*
 * Describe in a line for each kind of way that the plan has, over NVLink, over other links and through memory
 * of the host, which edges go that way; empty where all devices of the topology are peers. *described is
 * malloc'd and the caller's. Pure and thread-safe. Errors: NO_MEMORY.
 */
blink_result_t plan_ways_describe(const topo_t *topo, const plan_t *plan, char **described);

#endif
