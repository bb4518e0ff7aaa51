/*
 * The parts of the route packer: gather, scatter, alltoall and sendrecv as a maximum concurrent flow.
 * route.c: the program over routes, by column generation. route_place.c: its solution as channels.
 */
#ifndef BLINK_PLAN_ROUTE_H
#define BLINK_PLAN_ROUTE_H

#include "plan/columns/master.h"

/* What must get from one rank to another: a goal of the master, which stands for as many pairs as the
 * symmetries make of it. */
typedef struct route_demand {
    uint32_t from, to;
} route_demand_t;

/* The routing program. A column is a route of a demand: a chain of paths from rank to rank. */
typedef struct router {
    const topo_t *topo;
    const plan_t *plan;
    uint32_t n;     /* ranks */
    bool scheduled; /* every demand has one route, by one sweep; no program is solved */
    pack_master_t master;
    uint32_t demand_count;
    route_demand_t *demands; /* by `from` */
    double hop;              /* what a hop costs besides, under the prices of now */
    double *distance;        /* per rank: scratch */
    uint32_t *via;           /* per rank: the rank before it on the cheapest way, scratch */
    bool *settled;           /* per rank: scratch */
} router_t;

/* x of a route in the solution, in units; 0 if it is noise. */
double route_value(const router_t *r, uint32_t route);

/* Append the solution and each rank's own block as channels. Errors: NO_MEMORY. */
blink_result_t route_place(const router_t *r, plan_t *plan);

#endif
