/*
 * The parts of the route packer: gather, scatter, alltoall and sendrecv as a maximum concurrent flow.
 * route.c: the program over routes, by column generation. route_walk.c: cheapest ways. route_balance.c: many
 * demands, without a program. route_place.c: the solution as channels.
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

/* ---- route_walk.c ---- */

/* The paths have new prices. */
void route_price_hop(router_t *r);

/* Walk the cheapest ways from the demand's source, unless it is *walked, the last one walked from. Errors:
 * INVALID_ARGUMENT (no way leads to the demand's end). */
blink_result_t route_walk(router_t *r, const route_demand_t *demand, uint32_t *walked);

/* Write the walked way to the demand's end behind the last column, as pack_master_write() says. Errors:
 * NO_MEMORY. */
blink_result_t route_trace(router_t *r, const route_demand_t *demand, uint32_t *count);

/* The column that is the walked way of a demand. Errors: NO_MEMORY, INTERNAL. */
blink_result_t route_take(router_t *r, uint32_t demand, uint32_t *route);

/* Add one GB/s for each pair to the cheapest route of its demand, while prices grow with the loads. Errors:
 * those of route_walk() and route_take(). */
blink_result_t route_sweep(router_t *r, pack_spread_t *loads);

/* ---- route_balance.c ---- */

/* A solution near to its bound, or all that its sweeps or the time until the deadline could do. Errors: those
 * of route_sweep(). */
blink_result_t route_balance(router_t *r);

/* Fewer routes at nearly the solution's rate. Errors: NO_MEMORY. */
blink_result_t route_thin(router_t *r);

/* ---- the solution ---- */

/* x of a route in the solution, in units; 0 if it is noise. */
double route_value(const router_t *r, uint32_t route);

/* Append the solution and each rank's own block as channels. Errors: NO_MEMORY. */
blink_result_t route_place(const router_t *r, plan_t *plan);

#endif
