/*
 * The parts of the route packer: gather, scatter, alltoall and sendrecv as a maximum concurrent flow.
 * route.c: the program over routes, by column generation. route_place.c: its solution as channels.
 */
#ifndef BLINK_PLAN_ROUTE_H
#define BLINK_PLAN_ROUTE_H

#include "plan/columns/lp.h"
#include "plan/columns/paths.h"

/* Most ranks of an alltoall: it has a demand for every pair. */
#define ROUTE_ALLTOALL_RANKS_MAX 128u

/* What must get from one rank to another; stands for its images under the symmetries. */
typedef struct route_demand {
    uint32_t from, to;
    uint32_t size;  /* pairs that it stands for */
    double worth;   /* what a route may cost and still be of use */
    uint32_t first; /* newest route, or PLAN_NONE */
} route_demand_t;

/* A chain of packer's paths from rank to rank. */
typedef struct route {
    uint32_t demand;
    uint32_t first_path, path_count; /* run in router_t.route_paths */
    uint32_t next;                   /* another route of the demand, or PLAN_NONE */
    double value;                    /* the solution: x, in units */
} route_t;

typedef struct router {
    const topo_t *topo;
    const plan_t *plan;
    plan_symmetry_t *symmetries;
    uint32_t symmetry_count, n;
    pack_net_t *net;
    pack_paths_t paths;
    plan_lp_t *lp; /* column 0: what each pair gets, in units; then the routes */
    double unit_GBps;
    uint32_t demand_count, pair_count; /* pairs: all that the demands stand for */
    route_demand_t *demands;           /* by `from` */
    uint32_t route_count, route_room, path_count, path_room;
    route_t *routes;
    uint32_t *route_paths;
    double *prices, *best_prices; /* per row */
    double best_bound;            /* of what a pair gets, in units */
    double rate;                  /* what each pair gets by the solution, in units */
    double *distance;             /* per rank: scratch */
    uint32_t *via;                /* per rank: the rank before it on the cheapest way, scratch */
    bool *settled;                /* per rank: scratch */
    uint32_t *rows;               /* scratch: one column's entries */
    double *values, *loads;
} router_t;

/* x of a route in the solution, in units; 0 if it is noise. */
double route_value(const router_t *r, uint32_t route);

/* Append the solution and each rank's own block as channels. Errors: NO_MEMORY. */
blink_result_t route_place(const router_t *r, plan_t *plan);

#endif
