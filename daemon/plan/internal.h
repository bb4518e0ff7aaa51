/* What the planner's files share: each algorithm fills channels; plan.c checks the request and measures the
 * rate. */
#ifndef BLINK_PLAN_INTERNAL_H
#define BLINK_PLAN_INTERNAL_H

#include "collective.h"
#include "plan/plan.h"

/* ---- plan.c ---- */

/* Whether plan_create() would take the request: its INVALID_ARGUMENT errors. */
blink_result_t plan_check_request(const topo_t *topo, const plan_request_t *request);

/* plan_create() without the bound: only packed trees have prices. AUTO is packed trees for any size, but
 * one hop in plain memory. */
blink_result_t plan_create_unproven(const topo_t *topo, const plan_request_t *request, plan_t **plan);

/* Fill in prices and bound. The prices of the packed trees of the same request hold for any plan of it:
 * `packed` has them (it may be the plan itself); NULL: they are found anew. */
blink_result_t plan_prove_bound(const topo_t *topo, plan_t *plan, const plan_t *packed);

/* Plans of a request whose algorithm is SHALLOW_TREES, as plan_shallow_trees() makes them. The request was
 * checked. */
#define PLAN_SHALLOW_MOST 6u
blink_result_t plan_create_shallow(const topo_t *topo, const plan_request_t *request,
                                   plan_t *plans[PLAN_SHALLOW_MOST], uint32_t *count);

/* ---- channels.c ---- */

/* Append a channel of `part_count` parts to the plan. Each part has the trees that the collective asks for,
 * every parent and path PLAN_NONE, or an empty route to be sized by plan_set_route(). *channel is valid until
 * the next call. Errors: NO_MEMORY. */
blink_result_t plan_add_channel(plan_t *plan, double share, uint32_t part_count, plan_channel_t **channel);

/* Divide a channel into so many of equal shares and the same parts: the others stand behind all channels.
 * Errors: NO_MEMORY. */
blink_result_t plan_divide_channel(plan_t *plan, uint32_t channel, uint32_t pieces);

/* Remove all channels but the first ones; shares stay as they are. */
void plan_keep_channels(plan_t *plan, uint32_t count);

/* A plan of the same request and numbers, without channels, paths and symmetries. *copy is the caller's,
 * after an error too: plan_destroy(). Errors: NO_MEMORY. */
blink_result_t plan_copy_head(const topo_t *topo, const plan_t *plan, plan_t **copy);

/* Size a part's route: ranks[] and paths[] are the caller's to fill. Errors: NO_MEMORY. */
blink_result_t plan_set_route(plan_part_t *part, uint32_t hop_count);

/* Index of the path over exactly these links, added if new. Errors: NO_MEMORY. */
blink_result_t plan_intern_path(plan_t *plan, const uint32_t *links, uint32_t link_count, uint32_t *index);

/* Divide all shares by their sum, so that they add up to 1. */
void plan_normalise_shares(plan_t *plan);

/* ---- measure.c ---- */

/* Most edges between the root and any rank; 0 where there is no tree. */
uint32_t plan_tree_depth(const plan_t *plan, const plan_tree_t *tree);

/* The links that carry the part on behalf of a rank's edge, the root's too: those of its path, or by
 * multicast what of them no other edge of the tree stands for. No links where a rank has no edge. Borrows. */
plan_path_t plan_loaded_links(const plan_t *plan, const plan_part_t *part, const plan_tree_t *tree,
                              uint32_t rank);

/* ---- reach.c ---- */

/* The path of fewest links from one rank to another through relays only, between devices that are no peers by
 * way of a CPU; among equally short ones those of the widest narrowest link; among those the choice'th
 * (counted modulo their number), so that callers can spread over parallel switches. Interned. Errors:
 * UNREACHABLE (names both ranks), NO_MEMORY. */
blink_result_t plan_shortest_path(const topo_t *topo, plan_t *plan, uint32_t from, uint32_t to,
                                  uint32_t choice, uint32_t *path);

/* UNREACHABLE: no path leads from one rank to the other. The text names both, and what the topology lacks if
 * they are no peers. */
blink_result_t plan_fail_unreachable(const topo_t *topo, const plan_t *plan, uint32_t from, uint32_t to);

/* Whether the devices at the path's ends are peers; else whether it comes by a CPU, and so by memory of the
 * host. */
bool plan_path_joins_peers(const topo_t *topo, const plan_path_t *path);
bool plan_path_by_host(const topo_t *topo, const plan_path_t *path);

/* The least capacity of the path's links, GB/s, and the sum of their latencies, µs. */
double plan_path_GBps(const topo_t *topo, const plan_path_t *path);
double plan_path_latency_us(const topo_t *topo, const plan_path_t *path);

/* ---- algorithms: each appends channels whose shares add up to 1; UNSUPPORTED for a collective that the
 * algorithm does not do, UNREACHABLE naming two ranks ---- */

/* trees.c: packed spanning trees, for collectives with trees; also prices as plan_bound_GBps() takes them. */
blink_result_t plan_pack_trees(const topo_t *topo, plan_t *plan, double *prices);

/* trees.c: only the prices of the optimal packing, for plans made by another algorithm. */
blink_result_t plan_pack_prices(const topo_t *topo, const plan_t *plan, double *prices);

/* route.c: optimal routes, for gather, scatter, alltoall (beyond 128 ranks one for each pair, scheduled) and
 * sendrecv; also prices. */
blink_result_t plan_pack_routes(const topo_t *topo, plan_t *plan, double *prices);

/* route.c: only the prices. */
blink_result_t plan_route_prices(const topo_t *topo, const plan_t *plan, double *prices);

/* latency.c: one hop, a binomial tree, recursive doubling, by plan->algorithm. A channel for each of the
 * parallel switches between two ranks. */
blink_result_t plan_make_latency(const topo_t *topo, plan_t *plan);

/* multicast.c: stars for allreduce that meet in a switch which reduces, a channel for each such switch that
 * all ranks have links with. Refused unless the request allows it. */
blink_result_t plan_make_multicast(const topo_t *topo, const plan_request_t *request, plan_t *plan);

/* multicast.c: whether a part of an allreduce, whose trees and paths are sound, is such a star. */
bool plan_is_multicast_part(const topo_t *topo, const plan_t *plan, const plan_part_t *part);

/* shallow.c: trees for payloads whose time is latency. The first plan has the least latency there is over
 * links of one class, NVLink where that joins the ranks; each further one lets trees be a little deeper for a
 * higher rate. At most PLAN_SHALLOW_MOST. plans[] are the caller's, after an error too. */
blink_result_t plan_shallow_trees(const topo_t *topo, const plan_t *head, plan_t *plans[PLAN_SHALLOW_MOST],
                                  uint32_t *count);

/* shallow.c: that one of them which is predicted fastest for so many bytes. */
blink_result_t plan_shallowest_trees(const topo_t *topo, uint64_t bytes, plan_t *plan);

/* ring.c: NCCL-like rings, for collectives with trees. */
blink_result_t plan_find_rings(const topo_t *topo, plan_t *plan);

/* double_binary_tree.c: NCCL's trees, for allreduce. Several hosts: two complementary binary trees over the
 * hosts per rail, a chain inside each host. One host: two over its ranks in rank order per switch, or by
 * PCIe; but where direct NVLinks close rings, NCCL's chains along these. */
blink_result_t plan_double_binary_trees(const topo_t *topo, plan_t *plan);

/* blink.c: Blink's planner, see plan/baseline/blink/blink.h. The split between NVLink and PCIe depends on the
 * payload's `bytes`; 0: as many as it takes not to notice the switching. */
blink_result_t plan_blink(const topo_t *topo, uint64_t bytes, plan_t *plan);

/* ---- bound.c ---- */

/* The upper bound that holds for every plan of this collective over these ranks, given prices: one per link,
 * then one per node for its backplane (link_count + node_count doubles; entries of nodes without a backplane
 * limit are ignored, those that are negative or not finite count as 0). Any prices prove a bound, the optimal
 * dual prices prove the best one; the cuts around single ranks, and for broadcast, reduce and sendrecv the
 * maximum flows, are taken too, if lower. 0 if nothing moves. Shares no code with the algorithms. Errors:
 * NO_MEMORY. */
blink_result_t plan_bound_GBps(const topo_t *topo, const plan_t *plan, const double *prices,
                               double *bound_GBps);

#endif
