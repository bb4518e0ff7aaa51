/*
 * Minimum-cost spanning trees on bare matrices.
 */
#ifndef BLINK_PLAN_ARBORESCENCE_H
#define BLINK_PLAN_ARBORESCENCE_H

#include "plan/plan.h"

/* Cheapest spanning arborescence away from `root` over a complete directed graph with cost[from·n + to]. */
typedef struct pack_arborist {
    uint32_t n;
    double
        *in_cost; /* 2n·n: cheapest way from an original node into a (contracted) node, less what is paid */
    uint32_t *head;   /* 2n·n: the original node that way enters */
    uint32_t *chosen; /* 2n: origin of the chosen way in */
    uint32_t *target; /* 2n: original node it enters */
    uint32_t *outer;  /* 2n: the contraction a node went into */
    uint32_t *top;    /* n: outermost contraction of an original node */
    uint32_t *stack;  /* 2n */
    uint8_t *state;   /* 2n */
} pack_arborist_t;

blink_result_t pack_arborist_init(pack_arborist_t *arborist, uint32_t n);
void pack_arborist_fini(pack_arborist_t *arborist);

/* Fill parent[] (n entries; the root's is PLAN_NONE). Every node must be reachable from the root.
 * Chu-Liu/Edmonds in Tarjan's path-growing form, O(n²). */
void pack_arborist_grow(pack_arborist_t *arborist, const double *cost, uint32_t root, uint32_t *parent);

/* Minimum spanning tree over a symmetric cost[from·n + to], grown from `root` (Prim), O(n²). Of equally cheap
 * edges it takes the one nearest to the root. distance (n entries) is scratch. */
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
