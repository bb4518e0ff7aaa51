/*
 * The phases of a hierarchical plan, that is one of several hosts whose trees enter each host once: within
 * hosts, between them, and within them again (Blink, MLSys 2020, section 3.5). They are read off the plan;
 * nothing keeps them.
 */
#ifndef BLINK_PLAN_PHASES_H
#define BLINK_PLAN_PHASES_H

#include "plan/plan.h"

/*
 * Describe in one line that ends with a newline, which says of how much of the payload it speaks if that is
 * not all; empty where it would be less than three quarters, where all ranks are on one host, and where
 * routes take the place of trees. *text is malloc'd and the caller's. Pure and thread-safe. Errors:
 * NO_MEMORY.
 */
blink_result_t plan_phases_describe(const topo_t *topo, const plan_t *plan, char **text);

#endif
