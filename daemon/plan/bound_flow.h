/* Bounds by maximum flow and so by cuts: what can reach a rank from the root, whatever carries it. */
#ifndef BLINK_PLAN_BOUND_FLOW_H
#define BLINK_PLAN_BOUND_FLOW_H

#include "plan/plan.h"

/* Lower *bound_GBps to the least maximum flow between the root and another rank, for collectives all of whose
 * payload must pass between them (broadcast, reduce, sendrecv); others leave it as it is. Backplanes are left
 * out, which only loosens the bound; so does looking at some of many ranks only. Errors: NO_MEMORY. */
blink_result_t plan_flow_bound_GBps(const topo_t *topo, const plan_t *plan, double *bound_GBps);

#endif
