/*
 * What limits a plan, by name: the links that its prices say are worth more capacity, as a partition of the
 * ranks where they make one, how full the plan leaves the links, and on GPUs whether blocks limit it. For
 * people; several lines of plain text.
 */
#ifndef BLINK_PLAN_LIMIT_H
#define BLINK_PLAN_LIMIT_H

#include "plan/plan.h"

/*
 * Describe. A link is priced if capacity times price is over 1e-6 of the largest such product; the groups are
 * the strongly connected parts of what the other links join. The arithmetic that leads from the groups to the
 * bound is shown only where it gives the bound. *text is malloc'd and the caller's. Pure and thread-safe.
 * Errors: NO_MEMORY.
 */
blink_result_t plan_limit_describe(const topo_t *topo, const plan_t *plan, char **text);

#endif
