/*
 * Symmetries of a topology for plans of many like devices: one stands for all its images.
 */
#ifndef BLINK_PLAN_SYMMETRY_H
#define BLINK_PLAN_SYMMETRY_H

#include "plan/plan.h"

/* Symmetries of the topology that map ranks to ranks and keep the plan's root and peer; they commute.
 * Possibly none. *symmetries is the caller's: pack_free_symmetries(). Errors: NO_MEMORY. */
blink_result_t pack_find_symmetries(const topo_t *topo, const plan_t *plan, plan_symmetry_t **symmetries,
                                    uint32_t *count);
void pack_free_symmetries(plan_symmetry_t *symmetries, uint32_t count);

#endif
