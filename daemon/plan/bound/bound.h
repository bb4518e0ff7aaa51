/*
 * The parts of the certificate: distances under link prices, what the cheapest spanning trees cost, what can
 * flow between two ranks. Private to the bound*.c files, which share no code with the packer.
 */
#ifndef BLINK_PLAN_BOUND_H
#define BLINK_PLAN_BOUND_H

#include "plan/plan.h"

/* What a plan of these ranks may use. */
typedef struct bound_net {
    const topo_t *topo;
    const plan_t *plan;
    bool *usable;  /* per node: any but a gpu that is no rank */
    double *price; /* per link, then per node, 0 to 1: finite, 0 where nothing may pass or nothing limits */
} bound_net_t;

/* ---- bound_distances.c ---- */

/* Work space of searches; bound_search_fini() undoes. Errors: NO_MEMORY. */
typedef struct bound_search {
    double *distance;        /* per node: the result of the last search */
    struct bound_stop *heap; /* a node may stand in it once for each link that found it nearer */
    uint32_t heap_count;
} bound_search_t;

blink_result_t bound_search_init(bound_search_t *search, const topo_t *topo);
void bound_search_fini(bound_search_t *search);

/* Price of the cheapest way from a node to every other, INFINITY if none; a relay's own price is paid on
 * entering it. Ranks are inner nodes of a way only if `through_ranks`. (Dijkstra, binary heap.) */
void bound_search(const bound_net_t *net, bound_search_t *search, uint32_t from, bool through_ranks);

/* ---- bound_trees.c ---- */

/*
 * What the cheapest arborescence costs from each root, for all roots at once in time O(count²).
 * in_cost[to * count + from] is what the edge from -> to costs (INFINITY: none; ≥ 0); it is overwritten.
 * root_cost[] gets one cost for each root, or INFINITY for all if not every node reaches every other. Costs
 * are rounded down, never up. Errors: NO_MEMORY.
 *
 * The contraction of Edmonds, "Optimum branchings" (1967), in the order of Gabow, Galil, Spencer, Tarjan
 * (Combinatorica 6, 1986, section 3), never minds the root: it leaves nested sets S with dual values z_S ≥ 0,
 * and the cheapest arborescence from r costs the sum of z_S over the sets without r.
 */
blink_result_t bound_tree_costs(double *in_cost, uint32_t count, double *root_cost);

/* ---- bound_flow.c ---- */

typedef struct bound_flow bound_flow_t;

/* Room for flows over all usable links. Backplanes are left out, which only loosens what flows prove.
 * Errors: NO_MEMORY. */
blink_result_t bound_flow_create(const bound_net_t *net, bound_flow_t **flow);
void bound_flow_destroy(bound_flow_t *flow);

/* The largest flow from one node to another, GB/s, or any flow ≥ enough_GBps once one is found. (Dinic 1970.)
 */
double bound_flow_GBps(bound_flow_t *flow, uint32_t source, uint32_t sink, double enough_GBps);

#endif
