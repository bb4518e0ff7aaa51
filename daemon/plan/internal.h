/* What the planner's files share: each algorithm fills channels; plan.c checks the request and measures the
 * rate. */
#ifndef BLINK_PLAN_INTERNAL_H
#define BLINK_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Allocate a channel list of `channel_count` channels of `part_count` parts, trees included, into plan. Every
 * parent and path is PLAN_NONE; `reduce` arrays exist only for collectives that reduce. Errors: NO_MEMORY. */
blink_result_t plan_alloc_channels(plan_t *plan, uint32_t channel_count, uint32_t part_count);

/* Index of the path over exactly these links, added if new. Errors: NO_MEMORY. */
blink_result_t plan_intern_path(plan_t *plan, const uint32_t *links, uint32_t link_count, uint32_t *index);

/* pack.c: packed spanning trees; fills channels, and prices as plan_bound_GBps() takes them. Errors:
 * UNREACHABLE. */
blink_result_t plan_pack_trees(const topo_t *topo, plan_t *plan, double *prices);

/* pack.c: only the prices of the optimal packing, for plans made by another algorithm. Errors: UNREACHABLE.
 */
blink_result_t plan_pack_prices(const topo_t *topo, const plan_t *plan, double *prices);

/* ring.c: NCCL-like rings; fills channels. */
blink_result_t plan_find_rings(const topo_t *topo, plan_t *plan);

/* bound.c: the upper bound that holds for every plan of this collective over these ranks, given non-negative
 * prices: one per link, then one per node for its backplane (link_count + node_count doubles; entries of
 * nodes without a backplane limit are ignored). Any prices prove a bound, the optimal dual prices prove the
 * best one; for broadcast the max-flow bound is taken too, if lower. Shares no code with pack.c. */
blink_result_t plan_bound_GBps(const topo_t *topo, const plan_t *plan, const double *prices,
                               double *bound_GBps);

#endif
