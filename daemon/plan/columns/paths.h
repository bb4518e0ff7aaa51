/*
 * Cheapest paths between ranks under prices, and every path seen so far.
 */
#ifndef BLINK_PLAN_PATHS_H
#define BLINK_PLAN_PATHS_H

#include "base/vec.h"
#include "plan/columns/net.h"
#include "plan/columns/tuning.h"
#include "plan/internal.h"

/* A way between two ranks through relays: working links in travelling order. */
typedef struct pack_path {
    uint32_t from, to;
    uint32_t first_link, link_count;
    uint32_t next; /* another path between the same two ranks, or PLAN_NONE */
} pack_path_t;

/* A relay that joins so many nodes that the paths across it are too many to be listed: a path from one rank
 * to another across it costs what the first pays to come to it and the second to come from it. */
typedef struct pack_hub {
    uint32_t node;
    uint32_t link;     /* one that leads to it */
    double *to, *from; /* per rank, under the last prices; INFINITY where no path exists */
} pack_hub_t;

/*
 * Every path seen so far, and the cheapest ones under the last prices. n is the number of ranks. Two ranks
 * are near if a path between them crosses no hub. A path between others crosses one.
 *
 * A way comes to a node in a state: where some ranks are no peers, to a relay before or after it has come by
 * a CPU, behind which memory of the host is. Only then it may go on to a rank that is no peer of its first
 * one.
 */
typedef struct pack_paths {
    const pack_net_t *net;
    double *cost;         /* n·n, [from·n + to]; INFINITY where no path exists */
    uint32_t state_count; /* nodes in their states; there are no hubs where some have two */
    bool *apart;          /* n·n: ranks that are no peers; NULL: all are */
    uint32_t *via; /* (n + hubs)·states, of ranks that are the least of their orbit: the link by which the
                        cheapest way from the rank enters a state, and the link's state before, as enter()
                        says; behind the ranks the same of the hubs */
    uint32_t *out_first;          /* per rank, and one more: offsets into out_to */
    VEC(uint32_t) out_to;         /* the near ranks that each rank reaches */
    uint32_t *in_first, *in_from; /* the same of the near ranks that reach it */
    uint32_t hub_count;
    pack_hub_t hubs[PATHS_HUBS_MAX];
    uint32_t *first; /* n·n: newest path between two ranks, or PLAN_NONE */
    VEC(pack_path_t) paths;
    VEC(uint32_t) links; /* of all paths */
    double *distance;    /* scratch, per state */
    uint32_t *hops;      /* scratch, per state */
    uint32_t *heap;      /* scratch: states, the nearest first */
    uint32_t *place;     /* scratch, per state: where it is in the heap, or PLAN_NONE */
    uint32_t *image;     /* scratch, per rank */
} pack_paths_t;

blink_result_t pack_paths_init(pack_paths_t *paths, const pack_net_t *net);
void pack_paths_fini(pack_paths_t *paths);

/* Cheapest paths between all ranks under one price per row; among equals the one of fewest links. */
void pack_paths_price(pack_paths_t *paths, const double *row_prices);

/* Write the working links of the cheapest way under the last prices from a rank that is the least of its
 * orbit, in travelling order, of which there are at most state_count; returns how many. There is one. */
uint32_t pack_paths_trace(const pack_paths_t *paths, uint32_t from, uint32_t to, uint32_t *links);

/* The cheapest path under the last prices, remembered. Errors: NO_MEMORY. */
blink_result_t pack_paths_find(pack_paths_t *paths, uint32_t from, uint32_t to, uint32_t *path);

/* The same links the other way; the working graph must be reversible. Errors: NO_MEMORY. */
blink_result_t pack_paths_reverse(pack_paths_t *paths, uint32_t path, uint32_t *reverse);

/* What one GB/s over these paths (indices; PLAN_NONE stands for none) puts on each row, as parts of what the
 * row carries, gathered into rows[] and values[]; returns the number of entries. loads[] is scratch, zero
 * before and after. */
uint32_t pack_measure(const pack_paths_t *paths, const uint32_t *indices, uint32_t index_count,
                      uint32_t *rows, double *values, double *loads);

/* The end of the slice of [0, 1) that starts at `at`: up to there these paths cross the same members of every
 * group of parallel switches. */
double pack_slice_end(const pack_paths_t *paths, const uint32_t *indices, uint32_t count, double at);

/* The topology links of a path at position `at` of its groups, as an index into the plan's paths. Errors:
 * NO_MEMORY. */
blink_result_t pack_place_path(const pack_paths_t *paths, plan_t *plan, uint32_t path_index, double at,
                               uint32_t *placed);

#endif
