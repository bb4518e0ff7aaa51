/*
 * The parts of the Blink planner. blink_view.c: the links that one set of trees may use. blink_pack.c: trees
 * packed over them by multiplicative weights. blink_thin.c: as few of them as keep the rate. blink_hang.c:
 * trees into a plan's parts. blink_direct.c: one-hop trees and fully connected groups. blink_servers.c: three
 * phases. blink.c chooses.
 */
#ifndef BLINK_PLAN_BLINK_PARTS_H
#define BLINK_PLAN_BLINK_PARTS_H

#include "plan/columns/lp.h"
#include "plan/columns/paths.h"
#include "plan/trees/arborescence.h"

/* Trees never mix kinds of links, unless only all links together join the ranks. */
typedef enum blink_links { BLINK_LINKS_NVLINK, BLINK_LINKS_OTHER, BLINK_LINKS_ANY } blink_links_t;

/* Which way data crosses a tree. Trees that carry a reduce one way and a broadcast the other are undirected:
 * they load both directions of a link alike, and any rank may be their root. */
typedef enum blink_flow { BLINK_FLOW_FROM_ROOT, BLINK_FLOW_TO_ROOT, BLINK_FLOW_BOTH } blink_flow_t;

/* What one set of trees spans and may use. */
typedef struct blink_scope {
    const uint32_t *ranks; /* of the plan */
    uint32_t rank_count;
    uint32_t root; /* index into ranks */
    blink_flow_t flow;
    blink_links_t links;
    const char *host; /* only links within this host; NULL: all */
} blink_scope_t;

/* ---- blink_view.c ---- */

/* A topology of the scope's links alone, in the sense that data flows away from the root (those of
 * BLINK_FLOW_TO_ROOT are turned round); for BLINK_FLOW_BOTH a link is as wide as the narrower direction.
 * Borrows all but the links from `topo`. Errors: NO_MEMORY. */
blink_result_t blink_view_create(const topo_t *topo, const blink_scope_t *scope, topo_t **view);
void blink_view_destroy(topo_t *view);

/* Whether the link belongs to the class. */
bool blink_in_class(const topo_link_t *link, blink_links_t links);

/* ---- blink_pack.c and blink_thin.c ---- */

/* Trees under construction. A tree is n path indices: per rank of the scope the path from its parent,
 * PLAN_NONE at the root. Rows and paths are those of the working graph of the view. */
typedef struct blink_pool {
    const blink_scope_t *scope;
    uint32_t n;
    pack_net_t *net;
    pack_paths_t paths;
    pack_arborist_t arborist;
    double unit_GBps;  /* the narrowest single link */
    double bound_GBps; /* proven by the weights: no packing is faster */
    uint32_t tree_count, tree_room;
    uint32_t *trees;  /* n path indices each */
    double *GBps;     /* per tree, once picked: what it carries */
    double *lengths;  /* per row: the weights */
    double *used;     /* per row: part of its capacity taken so far */
    uint32_t *parent; /* n scratch */
    uint32_t *rows;   /* scratch: one tree's entries */
    double *values;   /* scratch: one tree's entries; per row, zero between uses: loads */
    double *loads;
} blink_pool_t;

/* The part of each row's capacity that 1 GB/s of the tree takes, into rows[] and values[]; returns how
 * many. */
uint32_t blink_pool_measure(blink_pool_t *pool, uint32_t tree);

/* How many units, each a part of a link, keep 95 % of the bound; 0 if so many are more than the bound
 * allows, or too many to be worth it. */
double blink_pool_units(const blink_pool_t *pool, uint32_t part);

/* Leave weights only on as many trees as carry that many units, if these trees can. Errors: NO_MEMORY,
 * INTERNAL (the solver gave up). */
blink_result_t blink_pool_pick(blink_pool_t *pool, uint32_t part, bool *found);

/* The same with ever smaller units, at last with any weights: the best that these trees can do. */
blink_result_t blink_pool_relax(blink_pool_t *pool);

typedef struct blink_edge {
    uint32_t from, to; /* ranks of the plan; the links lead from one to the other */
    uint32_t first_link, link_count;
} blink_edge_t;

/* Trees ready to be hung into a plan: edge_count edges each. No trees: the links do not join the ranks. */
typedef struct blink_forest {
    uint32_t tree_count, edge_count;
    double *GBps; /* per tree */
    blink_edge_t *edges;
    uint32_t *links; /* topology links of all edges */
    uint32_t link_count;
    uint32_t apart; /* without trees: a rank of the plan that the root's data does not reach, or none of whose
                       reaches the root */
} blink_forest_t;

/* Pack and thin. One rank makes one tree without edges. *forest is the caller's: blink_forest_fini(), also
 * after an error. Errors: NO_MEMORY, INTERNAL (the solver gave up). */
blink_result_t blink_forest_pack(const topo_t *topo, const plan_t *plan, const blink_scope_t *scope,
                                 blink_forest_t *forest);
void blink_forest_fini(blink_forest_t *forest);

double blink_forest_GBps(const blink_forest_t *forest);

/* ---- blink_hang.c ---- */

/* Hang a tree of the forest below `root`, one of its ranks, in whichever trees the part has. Errors:
 * NO_MEMORY. */
blink_result_t blink_hang_tree(const topo_t *topo, plan_t *plan, plan_part_t *part,
                               const blink_forest_t *forest, uint32_t tree, uint32_t root);

/* Hang one rank below another by the shortest way (`choice` as in plan_shortest_path()), or through a switch
 * that both are attached to. Errors: UNREACHABLE, NO_MEMORY. */
blink_result_t blink_hang_rank(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t child,
                               uint32_t parent, uint32_t choice);
blink_result_t blink_hang_through(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t child,
                                  uint32_t parent, uint32_t node);

/* ---- blink_direct.c ---- */

/* How much an NVSwitch carries for each of these ranks both ways; 0 if it does not attach them all. */
double blink_switch_GBps(const topo_t *topo, const plan_t *plan, const uint32_t *ranks, uint32_t rank_count,
                         uint32_t node);

/* One channel per NVSwitch that attaches all ranks: a part per root, each of one hop. A single root sends by
 * way of every other rank, as the poster does in a fully connected group. No channels where there is no such
 * switch. */
blink_result_t blink_fill_one_hop(const topo_t *topo, plan_t *plan);

/* The poster's AllReduce: internal reduce-scatter in one or two groups that direct NVLinks connect fully,
 * then cross-group forwarding. No channels where the ranks do not fall into such groups. */
blink_result_t blink_fill_groups(const topo_t *topo, plan_t *plan);

/* ---- blink_servers.c ---- */

/* Three phases over ranks of several hosts. Errors: UNREACHABLE, NO_MEMORY, INTERNAL. */
blink_result_t blink_fill_servers(const topo_t *topo, plan_t *plan);

/* Whether the ranks are on more than one host. */
bool blink_on_several_hosts(const topo_t *topo, const plan_t *plan);

#endif
