/*
 * The parts of the tree packer. symmetry.c: symmetries. net.c: the working graph (ranks, relays, identical
 * parallel switches merged). paths.c: cheapest paths between ranks under link prices. arborescence.c:
 * cheapest spanning trees over those paths. grow.c: columns of the packing program. pack.c: the program.
 * thin.c: fewer trees for nearly the same rate. limit.c: trees of little latency. place.c: the solution as
 * channels. trees.c: all of it in order.
 */
#ifndef BLINK_PLAN_PACK_H
#define BLINK_PLAN_PACK_H

#include "plan/columns/lp.h"
#include "plan/internal.h"

/* Up to here plans are made to use few trees; above it templates under symmetries stand for many. */
#define PACK_SMALL_RANKS 16u

/* Symmetries of the topology that map ranks to ranks and keep the plan's root and peer; they commute.
 * Possibly none. *symmetries is the caller's: pack_free_symmetries(). Errors: NO_MEMORY. */
blink_result_t pack_find_symmetries(const topo_t *topo, const plan_t *plan, plan_symmetry_t **symmetries,
                                    uint32_t *count);
void pack_free_symmetries(plan_symmetry_t *symmetries, uint32_t count);

/* A symmetry in the working graph: images of all its powers, [power·count + index]. */
typedef struct pack_symmetry {
    uint32_t order;
    uint32_t *ranks, *links;
} pack_symmetry_t;

/* Working nodes 0 … rank_count-1 are the ranks; the rest are relays: single nodes, or groups of parallel
 * switches whose capacities are proportional, so that any use of the group splits over its members in the
 * same proportion. Links that are each other's image under a symmetry share one capacity row, since a plan's
 * images load them alike, and a relay's backplane limit has one. Where `reversible`, a link and its reverse
 * share a row too: whoever loads both directions alike needs no more. */
typedef struct pack_net {
    const topo_t *topo;
    const bool *allowed; /* per topology link, or NULL: all may be used */
    uint32_t rank_count, node_count, link_count, row_count;
    bool reversible;        /* every link has a reverse of the same capacity, and the plan may use that */
    uint32_t *from, *to;    /* per link */
    uint32_t *reverse;      /* per link, where reversible */
    uint32_t *link_row;     /* per link */
    double *link_GBps;      /* per link */
    double *row_GBps;       /* per row: of all its links together */
    uint32_t *node_row;     /* per node: its backplane's row, or PLAN_NONE */
    uint32_t *node_of;      /* per topology node: its working node, or PLAN_NONE */
    uint32_t *link_of;      /* per topology link: its working link, or PLAN_NONE */
    uint32_t *first_member; /* per node, and one more: offsets into members */
    uint32_t *members;      /* topology nodes */
    double *member_end;     /* fraction of the group's capacity up to and with this member; 1 for the last */
    uint32_t *out_first;    /* per node, and one more: offsets into out_links */
    uint32_t *out_links;
    uint32_t symmetry_count;
    pack_symmetry_t *symmetries;
    uint32_t *orbit; /* per rank: the least rank of its orbit under the symmetries */
    uint32_t *power; /* per rank and symmetry, [rank·symmetry_count + symmetry]: which powers lead to it from
                        there */
} pack_net_t;

/* `allowed` is borrowed. `symmetries` are dropped (symmetry_count 0) if they do not map groups of switches to
 * groups. Errors: INVALID_ARGUMENT (capacities too far apart for the arithmetic; the links are named),
 * NO_MEMORY. */
blink_result_t pack_net_create(const topo_t *topo, const plan_t *plan, const bool *allowed,
                               const plan_symmetry_t *symmetries, uint32_t symmetry_count, pack_net_t **net);
void pack_net_destroy(pack_net_t *net);

/* The member of a node that stands for position `at` of [0, 1) of the group's capacity. */
uint32_t pack_net_member(const pack_net_t *net, uint32_t node, double at);

/* Where the rank goes under the product of symmetries that leads from the orbit's least rank to `by`. */
uint32_t pack_net_image(const pack_net_t *net, uint32_t by, uint32_t rank);

/* The rank that goes to `rank` under that product. */
uint32_t pack_net_origin(const pack_net_t *net, uint32_t by, uint32_t rank);

/* Where a link goes under it. */
uint32_t pack_net_link_image(const pack_net_t *net, uint32_t by, uint32_t link);

/* Prices per row as plan_bound_GBps() takes them: per topology link, then per node. */
void pack_write_prices(const pack_net_t *net, const double *row_prices, double *prices);

/* A way between two ranks through relays: working links in travelling order. */
typedef struct pack_path {
    uint32_t from, to;
    uint32_t first_link, link_count;
    uint32_t next; /* another path between the same two ranks, or PLAN_NONE */
} pack_path_t;

/* Every path seen so far, and the cheapest ones under the last prices. n is the number of ranks. */
typedef struct pack_paths {
    const pack_net_t *net;
    double *cost;  /* n·n, [from·n + to]; INFINITY where no path exists */
    uint32_t *via; /* n·nodes, of ranks that are the least of their orbit: the link by which the cheapest way
                        from the rank enters a node */
    uint32_t *first; /* n·n: newest path between two ranks, or PLAN_NONE */
    pack_path_t *paths;
    uint32_t *links; /* pool of all paths */
    uint32_t path_count, path_room, link_count, link_room;
    double *distance; /* scratch, per node */
    uint32_t *hops;   /* scratch, per node */
    uint32_t *heap;   /* scratch: nodes, the nearest first */
    uint32_t *place;  /* scratch, per node: where it is in the heap, or PLAN_NONE */
} pack_paths_t;

blink_result_t pack_paths_init(pack_paths_t *paths, const pack_net_t *net);
void pack_paths_fini(pack_paths_t *paths);

/* Cheapest paths between all ranks under one price per row; among equals the one of fewest links. */
void pack_paths_price(pack_paths_t *paths, const double *row_prices);

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

/* The packing program. A column is a root and its trees, as path indices: per rank the path between it and
 * its parent, n for the broadcast tree if the collective broadcasts, then n for the reduce tree if it
 * reduces. Where every rank is a root of its own (allgather, reducescatter), column 0 of the linear program
 * is the rate of each, balance rows follow the capacity rows, and trees are columns from 1 on. */
typedef struct packer {
    const topo_t *topo;
    const plan_t *plan;
    plan_symmetry_t *symmetries;
    uint32_t symmetry_count;
    uint32_t n;           /* ranks */
    uint32_t tree_paths;  /* path indices per column */
    bool per_rank;        /* collective_per_rank() */
    bool large;           /* by symmetry, or too many ranks for the last bit of rate and the last tree */
    uint64_t deadline_ns; /* of clock_ns(): what is known by then is taken; 0: none */
    pack_net_t *net;
    pack_paths_t paths;
    pack_arborist_t arborist;
    pack_limit_t *limit; /* borrowed; NULL: trees may be as deep as they like */
    plan_lp_t *lp;
    double unit_GBps; /* what one unit of x is */
    uint32_t column_count, column_room;
    uint32_t *column_paths; /* tree_paths per column; PLAN_NONE at the root */
    uint32_t *column_root;
    uint32_t *column_depth;
    double *column_value; /* the solution: x of each column, in units */
    double rate;          /* its payload rate, in units of x */
    double *prices;       /* per row, for a GB/s */
    double *own_prices;   /* per row: scratch */
    double *duals;        /* per row: the program's own prices of its last solution */
    double *best_prices;  /* per row: those that prove the lowest bound so far; the payload costs 1 at them */
    double best_bound;    /* in units of x */
    double optimum;       /* the rate that pack_optimise() ended with, in units of x */
    uint32_t *orbit_size; /* per rank: size of its orbit, if it is the least of it; else 0 */
    uint32_t *balance_row; /* per rank, if it is the least of its orbit: row of the linear program */
    double *worth;         /* per rank, likewise: what a column of this root may cost and still be of use */
    double *matrix;        /* n·n scratch */
    double *distance;      /* n scratch */
    uint32_t *parent;      /* n scratch */
    uint32_t *level;       /* n scratch */
    uint32_t *queue;       /* n scratch */
    uint32_t *rows;        /* scratch: one column's entries */
    double *loads;         /* per row, zero between uses */
    double *values;        /* scratch: one column's entries */
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

/* Set up for the links `allowed` (borrowed; NULL: all), on failure too: pack_fini(). Errors:
 * INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t pack_init(packer_t *p, const topo_t *topo, const plan_t *plan, const bool *allowed);
void pack_fini(packer_t *p);

/* Column generation to the optimum, or as near to it as work and time allow. Errors: UNREACHABLE, NO_MEMORY.
 */
blink_result_t pack_optimise(packer_t *p);

/* The same under p->limit, to where no tree is found any more that gains much. The limit may be raised and
 * the packer asked again. */
blink_result_t pack_optimise_limited(packer_t *p);

/* Keep the prices of now if they prove a lower bound than the best so far. Adds columns that are worth it. */
blink_result_t pack_prove(packer_t *p);

/* Whether the solution is as good as the best bound allows, or as near to it as a large plan asks for. */
bool pack_near_bound(const packer_t *p);

/* Whether the deadline is over. */
bool pack_late(const packer_t *p);

/* spread.c: many columns whose loads even one another out, and a solution of these alone, which stands if it
 * is better than the last. To be called for the linear program to go on from, and again, to `finish`, if the
 * program proves too large. */
blink_result_t pack_spread(packer_t *p, bool finish);

/* Grow the cheapest column of a root under the prices of now, and add it to the program if it is new; *index
 * is where it stands. Needs priced paths. */
blink_result_t pack_add_cheapest(packer_t *p, uint32_t root, pack_candidate_t *made, uint32_t *index);

/* Whether the collective may have this root, and it stands for its orbit. */
bool pack_may_be_root(const packer_t *p, uint32_t root);

/* What one GB/s of a column puts on each row, into p->rows and p->values; returns the number of entries. */
uint32_t pack_measure_column(packer_t *p, uint32_t column);

/* Solve with the columns, weights and fixed columns of now; *solved says whether work and time sufficed. If
 * not, the solution is the last one. Errors: NO_MEMORY. */
blink_result_t pack_solve(packer_t *p, bool *solved);

/* The same, adding columns until none gains more than `least_gain`; large plans make do with those they have.
 */
blink_result_t pack_reoptimise(packer_t *p, double least_gain, bool *solved);

/* Payload rate of the solution, in units of x. */
double pack_rate(const packer_t *p);

/* A tree column's x in the solution, and whether that is above the solver's noise. */
double pack_value(const packer_t *p, uint32_t column);
bool pack_uses(const packer_t *p, uint32_t column);

/* Make a tree column's x worth `bonus` by itself; fix it at a value; free it. */
void pack_favour(packer_t *p, uint32_t column, double bonus);
void pack_fix(packer_t *p, uint32_t column, double value);
void pack_free(packer_t *p, uint32_t column);

/* thin.c: from the optimum to a solution of few columns that keeps at least 0.99 of it. */
blink_result_t pack_thin(packer_t *p);

/* place.c: append the solution as channels on the topology's own links; their shares are in GB/s, to be
 * normalised. */
blink_result_t pack_place(const packer_t *p, plan_t *plan);

#endif
