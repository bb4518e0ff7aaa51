/*
 * What ring search, rails between hosts, double binary trees and NCCL's channel counts share: the rings
 * themselves, before they become channels of a plan, and the walks through hosts that they are made of.
 * Private to these algorithms.
 */
#ifndef BLINK_PLAN_RING_H
#define BLINK_PLAN_RING_H

#include "plan/internal.h"

typedef enum ring_class { RING_NVLINK, RING_OTHER, RING_ANY } ring_class_t;

bool ring_in_class(const topo_link_t *link, ring_class_t wanted);

/* ---- search for ways, breadth first ---- */

/* Fewest links from one node to all others, through relays only. */
typedef struct ring_search {
    const topo_t *topo;
    const uint32_t *node_host; /* see ring_reach_t */
    uint32_t *via;             /* per node: link that reached it; TOPO_NONE where not reached */
    uint32_t *queue, *links;   /* per node: scratch */
} ring_search_t;

typedef struct ring_reach {
    ring_class_t class; /* over links of this class only */
    uint32_t host;      /* through and to nodes of this host only; PLAN_NONE: any */
    uint32_t choice; /* among equally short ways, which comes first: spreads rings over parallel switches */
} ring_reach_t;

/* Errors: NO_MEMORY; ring_search_fini() either way. */
blink_result_t ring_search_init(ring_search_t *search, const topo_t *topo, const uint32_t *node_host);
void ring_search_fini(ring_search_t *search);
void ring_search_from(ring_search_t *search, const ring_reach_t *reach, uint32_t source);

/* The links of the way found from the last source to `end`, which must have been reached; borrowed until the
 * next search. */
const uint32_t *ring_search_way(const ring_search_t *search, uint32_t source, uint32_t end, uint32_t *count);

/* ---- rails ---- */

/* The way of one rail through one host: in at the rail's NIC, past every rank of the host, out at a NIC. */
typedef struct rail_walk {
    uint32_t *nodes;
    uint32_t count, room;
} rail_walk_t;

/* How several hosts are joined: rail k goes through each host by a walk that enters at the host's k'th NIC,
 * in order of the topology's nodes, beside the gpu nearest to it. The first rank's host is the first one, and
 * the others stand as rails_order_hosts() says. */
typedef struct rails {
    uint32_t host_count;
    uint32_t rail_count; /* 0: one host, or no rails: a host without a NIC or with one that leads nowhere */
    uint32_t *rank_host; /* per rank */
    rail_walk_t *walks;  /* host · rail_count + rail */
    double *GBps;        /* per rail: what each may carry if all are used as rings, evenly on shared links */
} rails_t;

/* Each distinct host (its nodes, links and ranks, in order) is planned once. Errors: NO_MEMORY; rails_fini()
 * either way. */
blink_result_t rails_find(const topo_t *topo, const plan_t *plan, rails_t *rails);
void rails_fini(rails_t *rails);

/* Order hosts so that on each follows the nearest of those that are left, and of equally near ones the first:
 * what goes through them in this order crosses each part of a network that is a tree of switches as seldom as
 * can be. node_host[]: by node, PLAN_NONE of none of these hosts. place[host] gets the host's place; that of
 * host 0 is 0. Errors: NO_MEMORY. */
blink_result_t rails_order_hosts(const topo_t *topo, const uint32_t *node_host, uint32_t host_count,
                                 uint32_t *place);

/* Append to a walk the way over the network from a NIC to another, without the first node. Rails take turns
 * in equally short ways. Errors: UNREACHABLE (names both), NO_MEMORY. */
blink_result_t rails_join(ring_search_t *search, uint32_t rail, uint32_t from, uint32_t to,
                          rail_walk_t *walk);
blink_result_t rail_walk_append(rail_walk_t *walk, uint32_t node);

/* The path that runs along these nodes, interned. Errors: UNREACHABLE (a link missing: the way back of a
 * one-way link; named), NO_MEMORY. */
blink_result_t ring_intern_nodes(const topo_t *topo, plan_t *plan, const uint32_t *nodes, uint32_t count,
                                 uint32_t *path);

/* ---- rings ---- */

typedef enum ring_kind { RING_SWITCHED, RING_DIRECT, RING_SHARED, RING_RAIL } ring_kind_t;

typedef struct ring {
    ring_kind_t kind;
    uint32_t *order; /* ranks in travelling order */
    uint32_t *hops;  /* plan path from each of them to the next */
    double GBps;
} nccl_ring_t;

typedef struct rings {
    uint32_t rank_count, count, room;
    nccl_ring_t *rings;
} nccl_rings_t;

/* All rings NCCL would build over the ranks of the plan, which takes their paths in. Errors: UNREACHABLE,
 * NO_MEMORY; rings_fini() either way. */
blink_result_t rings_find(const topo_t *topo, plan_t *plan, nccl_rings_t *rings);
void rings_fini(nccl_rings_t *rings);

/* ---- double binary trees ---- */

/* Parent of position i in the first (tree 0) or the second (tree 1) of two binary trees over count positions,
 * PLAN_NONE for the root: every position is a leaf of one of them (an odd count has one that is of neither),
 * so that together they keep all links busy. Sanders, Speck and Träff, "Two-tree algorithms for full
 * bandwidth broadcast, reduction and scan", Parallel Computing 35 (2009), section 3: in-order numbered trees,
 * the second a mirror image of the first for an even count, shifted by one for an odd one. */
uint32_t double_binary_parent(uint32_t tree, uint32_t count, uint32_t i);

/* The width of rings all of whose hops go through one switch; 0 if a rank is not attached to it by NVLink. */
double ring_switch_GBps(const topo_t *topo, const plan_t *plan, uint32_t node);

#endif
