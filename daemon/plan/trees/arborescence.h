/*
 * Minimum-cost spanning trees over priced paths.
 */
#ifndef BLINK_PLAN_ARBORESCENCE_H
#define BLINK_PLAN_ARBORESCENCE_H

#include "plan/columns/paths.h"

/* An edge from a rank to `head`, another one, in the direction away from the root. */
typedef struct pack_edge {
    uint32_t from, head;
    uint32_t next; /* edge into the same (contracted) rank, or PLAN_NONE */
    double cost;   /* less what the ranks and contractions around `head` have paid */
} pack_edge_t;

/* Cheapest spanning arborescences. Near ranks are joined by edges; the edges across a hub are not listed, for
 * the cheapest of them into any set of ranks is the cheapest way to the hub, from outside, and the cheapest
 * from it. A node is a rank, or a contraction of several behind the ranks. */
typedef struct pack_arborist {
    const pack_paths_t *paths; /* borrowed */
    uint32_t n;
    pack_edge_t *edges;
    uint32_t *newest;   /* 2n: an edge into a node, or PLAN_NONE */
    double *from_hub;   /* 2n·hubs: what the cheapest way from a hub into a node costs, less what is paid */
    uint32_t *hub_head; /* 2n·hubs: the rank that way enters */
    double *to_hub;     /* n·hubs, [hub·n + rank] */
    double rounding;    /* ways across hubs that differ by less are equal */
    uint32_t *order;    /* n·hubs: ranks, the nearest to the hub first */
    uint32_t *seen;     /* n: the contraction that has an edge from the rank already */
    uint32_t *known;    /* n: that edge */
    double *paid;       /* 2n: cost of the chosen way in */
    uint32_t *chosen;   /* 2n: origin of the chosen way in */
    uint32_t *target;   /* 2n: rank it enters */
    uint32_t *outer;    /* 2n: the contraction a node went into */
    uint32_t *above;    /* 2n: a node nearer to the outermost contraction, or the node itself */
    uint32_t *stack;    /* 2n */
    uint8_t *state;     /* 2n */
} pack_arborist_t;

/* Set up for the paths' ranks, on failure too: pack_arborist_fini(). Errors: NO_MEMORY. */
blink_result_t pack_arborist_init(pack_arborist_t *arborist, const pack_paths_t *paths);
void pack_arborist_fini(pack_arborist_t *arborist);

/* The cheapest arborescence away from `root`, or toward it, over the paths as they are priced now; an edge
 * costs extra[] of its end at the root's side besides (NULL: nothing). Fills parent[] (n entries; the root's
 * is PLAN_NONE). Every rank must be joined to the root. Chu-Liu/Edmonds in Tarjan's path-growing form, in
 * time O(edges) for each nesting of contractions. */
void pack_arborist_grow(pack_arborist_t *arborist, uint32_t root, bool toward_root, const double *extra,
                        uint32_t *parent);

/* Minimum spanning tree over a symmetric cost[from·n + to], grown from `root` (Prim), O(n²). Of equally cheap
 * edges it takes the one nearest to the root. distance and level (n entries) are scratch. */
void pack_span(uint32_t n, const double *cost, uint32_t root, uint32_t *parent, double *distance,
               uint32_t *level);

/* What keeps trees shallow: how far any rank may be from its root. */
typedef struct pack_limit {
    double most_us;         /* sum of hop_us from the root to any rank; INFINITY: no limit */
    uint32_t tastes;        /* further tries to grow a tree, each with another taste for edges */
    double *hop_us;         /* n·n, [from·n + to]: links and hop of the way of least latency, under LL */
    double *piece_us;       /* n·n: what a small piece takes besides */
    double *height_us;      /* scratch, per rank: in the finished tree, to the farthest rank below it */
    uint32_t *best_parent;  /* scratch, per rank: the cheapest tree so far */
    double *least_us;       /* scratch, per rank: from the root, or to it */
    uint32_t *least_parent; /* scratch, per rank: the one before it on that way */
    double *reach_us;       /* scratch, per rank: in the growing tree; INFINITY outside */
    double *offer;          /* scratch, per rank outside: what its cheapest edge costs */
    uint32_t *offer_parent; /* scratch, per rank outside: where that leads from */
} pack_limit_t;

#endif
