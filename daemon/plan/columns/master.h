/*
 * The master of column generation, for trees and routes alike: a packing program that knows a few columns,
 * whose prices tell whether a better one exists (Gilmore and Gomory's scheme). A column is a set of paths
 * between ranks, and carries something for one goal. Where goals are balanced, all get the same rate for each
 * unit of their size.
 */
#ifndef BLINK_PLAN_MASTER_H
#define BLINK_PLAN_MASTER_H

#include "base/vec.h"
#include "plan/columns/lp.h"
#include "plan/columns/paths.h"

typedef struct pack_column {
    uint32_t goal;
    uint32_t first_path, path_count; /* run in pack_master_t.column_paths */
    uint32_t next;                   /* an older column of the same goal, or PLAN_NONE */
    double value;                    /* x in the solution, in units */
} pack_column_t;

typedef struct pack_goal {
    uint32_t size;   /* how many it stands for */
    double worth;    /* what one GB/s of a column may cost at the program's own prices and still be of use */
    uint32_t newest; /* column, or PLAN_NONE */
} pack_goal_t;

/* How the master finds columns. Each adds columns and counts those that are new. */
typedef struct pack_pricing {
    /* Add the columns that cost less than they are worth by `least_gain`. *cost is what the payload costs at
     * the least, at the prices that the paths have. */
    blink_result_t (*price)(void *context, double least_gain, double *cost, uint32_t *added);
    /* Add columns of the same round that differ from one another; NULL: none. */
    blink_result_t (*vary)(void *context, uint32_t *added);
} pack_pricing_t;

/* The program has a row for each of the net's; then, if goals are balanced, one for each goal, and the rate
 * as its column 0 in front of the others. */
typedef struct pack_master {
    const plan_t *plan;
    plan_symmetry_t *symmetries;
    uint32_t symmetry_count;
    pack_net_t *net;
    pack_paths_t paths;
    const pack_pricing_t *pricing;
    void *context;      /* for `pricing` */
    double enough;      /* a rate as near to its bound is optimal; PACK_GAIN_LARGE is enough for large ones */
    uint64_t work_most; /* a program of more work than that is large */
    bool unsolved;      /* no program is made: columns are only counted and priced */
    bool large;         /* its prices are smoothed, and it makes do with less */
    double rate_weight; /* the payload's rate for that of each goal; 0: goals are not balanced */
    plan_lp_t *lp;
    uint32_t goal_count;
    pack_goal_t *goals;
    VEC(pack_column_t) columns;
    VEC(uint32_t) column_paths; /* of all columns; PLAN_NONE stands for none */
    double unit_GBps;           /* what one unit of x is; 0: what the first column can carry */
    double rate;                /* payload rate of the solution, in units of x */
    double *prices;             /* per row, for a GB/s */
    double *duals;              /* per row: the program's own prices of its last solution */
    double *best_prices;        /* per row: those that prove the lowest bound; the payload costs 1 at them */
    double best_bound;          /* in units of x */
    uint32_t *rows;             /* scratch: one column's entries */
    double *values;             /* scratch: one column's entries */
    double *loads;              /* per row, zero between uses */
} pack_master_t;

/* Find symmetries if there are more than `few_ranks`, and set up the net of the links `allowed` (borrowed;
 * NULL: all) and its paths; on failure too: pack_master_fini(). Errors: INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t pack_master_init(pack_master_t *m, const topo_t *topo, const plan_t *plan, const bool *allowed,
                                uint32_t few_ranks);
void pack_master_fini(pack_master_t *m);

/* Make the program, for goals of these sizes. Errors: NO_MEMORY. */
blink_result_t pack_master_open(pack_master_t *m, const uint32_t *sizes, uint32_t goal_count,
                                double rate_weight);

/* Whether the deadline is over. */
bool pack_master_late(const pack_master_t *m);

/* ---- columns ---- */

/* Where `count` paths of a new column may be written; valid until the next call. Errors: NO_MEMORY. */
blink_result_t pack_master_write(pack_master_t *m, uint32_t count, uint32_t **paths);

/* The goal's column that has the paths written last, or PLAN_NONE. */
uint32_t pack_master_find(const pack_master_t *m, uint32_t goal, uint32_t count);

/* Add the column written last to the program. */
blink_result_t pack_master_add(pack_master_t *m, uint32_t goal, uint32_t count);

/* Paths of a column. */
const uint32_t *pack_master_paths(const pack_master_t *m, uint32_t column);

/* What one GB/s of the column written last, or of one that was added, puts on each row, into rows[] and
 * values[]; returns the number of entries. */
uint32_t pack_master_measure_written(pack_master_t *m, uint32_t count);
uint32_t pack_master_measure(pack_master_t *m, uint32_t column);

/* Make a column's x worth `bonus` by itself; let it be at most so much; fix it at a value; free it. */
void pack_master_favour(pack_master_t *m, uint32_t column, double bonus);
void pack_master_cap(pack_master_t *m, uint32_t column, double most);
void pack_master_fix(pack_master_t *m, uint32_t column, double value);
void pack_master_free(pack_master_t *m, uint32_t column);

/* ---- solutions and prices ---- */

/* Solve with the columns, weights and fixed columns of now; *solved says whether work and time sufficed. If
 * not, the solution is the last one. Errors: NO_MEMORY. */
blink_result_t pack_master_solve(pack_master_t *m, bool *solved);

/* Take the prices of the last solution. */
void pack_master_take_prices(pack_master_t *m);

/* Let goals take every new column, or none but for its price. */
void pack_master_set_worth(pack_master_t *m, double worth);

/* Price the paths and columns at the prices of now, and keep the prices if they prove a lower bound than the
 * best so far. */
blink_result_t pack_master_prove(pack_master_t *m, double least_gain, uint32_t *added);

/* Whether the solution is as good as the best bound allows, or as near to it as a large program asks for. */
bool pack_master_near_bound(const pack_master_t *m);

/* Columns by the program's prices until it has an optimum, or no more work, time or rounds are left. *solved
 * says whether the program had any solution. */
blink_result_t pack_master_generate(pack_master_t *m, uint32_t rounds_max, bool *solved);

/* Divide the plan's shares by their sum, and give it the symmetries. */
void pack_master_finish(pack_master_t *m, plan_t *plan);

/* ---- a first packing ---- */

/*
 * A packing by multiplicative weights (Garg and Koenemann, FOCS 1998; Plotkin, Shmoys and Tardos, 1995):
 * column after column, each the cheapest when a row costs exponentially more the more of the columns before
 * cross it. Their mean comes near to the optimum soon, though not to it; and the program finds in these
 * columns, unlike in any that it asks for itself, nearly all that it needs.
 */
typedef struct pack_spread {
    double *load; /* per row: parts of its capacity, by all columns so far */
    double most;  /* of the loads */
} pack_spread_t;

/* {0} is an idle spread. Undone by pack_spread_fini(). Errors: NO_MEMORY. */
blink_result_t pack_spread_init(pack_spread_t *spread, const pack_master_t *m);
void pack_spread_fini(pack_spread_t *spread);

/* Price rows and paths by the loads: the busiest row is dearer than an idle one by e to the exponent. */
void pack_spread_price(const pack_spread_t *spread, pack_master_t *m, double exponent);

/* Load the rows with `weight` GB/s more of a column. */
void pack_spread_load(pack_spread_t *spread, pack_master_t *m, uint32_t column, double weight);

#endif
