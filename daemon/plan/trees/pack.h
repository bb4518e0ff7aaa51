/*
 * The packing of spanning trees. pack.c: the program, by column generation. spread.c: a first packing.
 * grow.c: columns of the program. limit.c: trees that a limit keeps shallow. thin.c: fewer trees for nearly
 * the same rate. place.c: the solution as channels. trees.c: all of it in order.
 */
#ifndef BLINK_PLAN_PACK_H
#define BLINK_PLAN_PACK_H

#include "plan/columns/master.h"
#include "plan/trees/arborescence.h"

/* What a column is besides its paths. */
typedef struct pack_tree {
    uint32_t root, depth;
} pack_tree_t;

/* The packing program. A column is a root and its trees, as path indices: per rank the path between it and
 * its parent, n for the broadcast tree if the collective broadcasts, then n for the reduce tree if it
 * reduces; PLAN_NONE at the root. Where every rank is a root of its own (allgather, reducescatter), each
 * orbit of roots is a goal; else there is one. */
typedef struct packer {
    const topo_t *topo;
    const plan_t *plan;
    uint32_t n;          /* ranks */
    uint32_t tree_paths; /* path indices per column */
    bool per_rank;       /* collective_per_rank() */
    pack_master_t master;
    pack_arborist_t arborist;
    pack_limit_t *limit;    /* borrowed; NULL: trees may be as deep as they like */
    VEC(pack_tree_t) trees; /* per column of the master */
    double optimum;         /* the rate that pack_optimise() ended with, in units of x */
    double *own_prices;     /* per row: scratch */
    uint32_t *orbit_size;   /* per rank: size of its orbit, if it is the least of it; else 0 */
    uint32_t *goal;         /* per rank, if it is the least of its orbit: the goal of its columns */
    double *distance;       /* n scratch */
    uint32_t *parent;       /* n scratch */
    uint32_t *level;        /* n scratch */
    uint32_t *queue;        /* n scratch */
} packer_t;

/* What a column under construction comes to. */
typedef struct pack_candidate {
    uint32_t root;
    uint32_t depth; /* tree edges down and up */
    double cost;    /* under the current prices */
} pack_candidate_t;

/* grow.c: UNREACHABLE, naming two ranks, unless the ranks reach one another as the collective needs. Needs
 * priced paths. */
blink_result_t pack_check_reachable(packer_t *p);

/* grow.c: the cheapest column for a root under the current prices; on a reversible graph its root may be
 * another, better one. Under a limit a cheap one, if any: else its cost is INFINITY. */
blink_result_t pack_grow_column(packer_t *p, uint32_t root, uint32_t *column, pack_candidate_t *made);

/* limit.c: make `root` the root of the tree in parent[]. */
void pack_turn_tree(packer_t *p, uint32_t root);

/* limit.c: set up for the packer's ranks, on failure too: pack_limit_fini(). Errors: NO_MEMORY. */
blink_result_t pack_limit_init(pack_limit_t *limit, packer_t *p);
void pack_limit_fini(pack_limit_t *limit);

/* limit.c: how far the farthest rank is from the root, or the root from it, at the least; INFINITY if out of
 * reach. */
double pack_limit_least_us(packer_t *p, pack_limit_t *limit, uint32_t root, bool toward_root);

/* limit.c: fill parent[] with a cheap tree that keeps the limit; false if there is none with this root. */
bool pack_limit_grow(packer_t *p, pack_limit_t *limit, uint32_t root, bool toward_root);

/* limit.c: turn the tree in parent[], on a reversible graph, to the root from which a small piece is
 * everywhere soonest. */
uint32_t pack_limit_centre(packer_t *p, pack_limit_t *limit, uint32_t root);

/* Set up for the links `allowed` (borrowed; NULL: all), on failure too: pack_fini(). The packer may not move
 * afterwards. Errors: INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t pack_init(packer_t *p, const topo_t *topo, const plan_t *plan, const bool *allowed);
void pack_fini(packer_t *p);

/* Column generation to the optimum, or as near to it as work and time allow. Errors: UNREACHABLE, NO_MEMORY.
 */
blink_result_t pack_optimise(packer_t *p);

/* The same under p->limit, to where no tree is found any more that gains much. The limit may be raised and
 * the packer asked again. */
blink_result_t pack_optimise_limited(packer_t *p);

/* spread.c: many columns whose loads even one another out, and a solution of these alone, which stands if it
 * is better than the last. To be called for the linear program to go on from, and again, to `finish`, if the
 * program proves too large. */
blink_result_t pack_spread(packer_t *p, bool finish);

/* Grow the cheapest column of a root under the prices of now, and add it to the program if it is new; *index
 * is where it stands. Needs priced paths. */
blink_result_t pack_add_cheapest(packer_t *p, uint32_t root, uint32_t *index);

/* Whether the collective may have this root, and it stands for its orbit. */
bool pack_may_be_root(const packer_t *p, uint32_t root);

/* Solve, adding columns until none gains more than `least_gain`; large plans make do with those they have. */
blink_result_t pack_reoptimise(packer_t *p, double least_gain, bool *solved);

/* Payload rate of the solution, in units of x. */
double pack_rate(const packer_t *p);

/* A column's x in the solution, and whether that is above the solver's noise. */
double pack_value(const packer_t *p, uint32_t column);
bool pack_uses(const packer_t *p, uint32_t column);

/* How much dearer or wider than it is a thing (an edge, a column) seems to a taste: from [-1, 1), and the
 * same in every run. To taste 0 all is as it is. */
static inline double pack_taste(uint32_t thing, uint32_t taste)
{
    uint32_t hash = (thing + 1) * 2654435761u ^ taste * 2246822519u;
    hash = (hash ^ hash >> 15) * 2654435761u;
    return taste == 0 ? 0.0 : (hash >> 8) / (double)(1u << 23) - 1.0;
}

/* thin.c: from the optimum to a solution of few columns that keeps at least 0.99 of it. */
blink_result_t pack_thin(packer_t *p);

/* place.c: append the solution as channels on the topology's own links; their shares are in GB/s, to be
 * normalised. */
blink_result_t pack_place(const packer_t *p, plan_t *plan);

#endif
