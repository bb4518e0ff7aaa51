/*
 * Optimal routes: as much as possible for every pair of ranks that the collective joins, the same for each.
 * Column generation over routes: the program's prices tell by Dijkstra's algorithm, through relays and from
 * rank to rank, whether a pair has a cheaper way than those known (Ford and Fulkerson's scheme for
 * multicommodity flows).
 *
 * An alltoall of many ranks has too many pairs for a program, and is balanced instead (route_balance.c). One
 * of more ranks still is scheduled: one route for each pair, the cheapest while prices grow with what the
 * routes before load. Where hosts have a few NICs each, these are what limits, every pair of hosts crosses
 * them by its shortest way, and the schedule is an optimum.
 */
#include "plan/routes/route.h"

#include "error.h"
#include "names.h"
#include "plan/columns/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- set-up ---- */

static bool is_paired(const plan_t *plan, uint32_t from, uint32_t to)
{
    switch (plan->collective) {
    case BLINK_GATHER:
        return from != to && to == plan->root;
    case BLINK_SCATTER:
        return from != to && from == plan->root;
    case BLINK_SENDRECV:
        return from != to && from == plan->root && to == plan->peer;
    default:
        return from != to;
    }
}

/* One demand for every orbit of pairs: the orbits of alltoall's sources, of gather's sources, of scatter's
 * destinations. */
static void add_demands(router_t *r, uint32_t *sizes)
{
    const pack_net_t *net = r->master.net;
    bool fans_out = r->plan->collective == BLINK_SCATTER;
    for (uint32_t from = 0; from < r->n; from++)
        for (uint32_t to = 0; to < r->n; to++) {
            uint32_t end = fans_out ? to : from;
            if (!is_paired(r->plan, from, to) || net->orbit[end] != end)
                continue;
            sizes[r->demand_count] = pack_net_orbit_size(net, end);
            r->demands[r->demand_count++] = (route_demand_t){from, to};
        }
}

static blink_result_t open_program(router_t *r)
{
    size_t n = r->n;
    uint32_t *sizes = malloc((n * n + 1) * sizeof(*sizes));
    r->demands = malloc((n * n + 1) * sizeof(*r->demands));
    r->distance = malloc(n * sizeof(*r->distance));
    r->via = malloc(n * sizeof(*r->via));
    r->settled = malloc(n * sizeof(*r->settled));
    blink_result_t result = BLINK_OK;
    if (!sizes || !r->demands || !r->distance || !r->via || !r->settled)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to route between %u ranks", r->n);
    if (result == BLINK_OK) {
        add_demands(r, sizes);
        r->master.unsolved = r->scheduled || r->demand_count > ROUTE_PROGRAM_DEMANDS_MAX;
        result = pack_master_open(&r->master, sizes, r->demand_count, 1.0);
    }
    free(sizes);
    return result;
}

static blink_result_t price_routes(void *context, double least_gain, double *cost, uint32_t *added);

static blink_result_t router_init(router_t *r, const topo_t *topo, const plan_t *plan)
{
    static const pack_pricing_t pricing = {price_routes, NULL};
    *r = (router_t){.topo = topo, .plan = plan, .n = plan->rank_count};
    r->scheduled = plan->collective == BLINK_ALLTOALL && r->n > ROUTE_PROGRAM_RANKS_MAX;
    BLINK_TRY(pack_master_init(&r->master, topo, plan, NULL, PACK_SMALL_RANKS));
    r->master.pricing = &pricing;
    r->master.context = r;
    r->master.enough = r->n > PACK_SMALL_RANKS ? ROUTE_ENOUGH_LARGE : ROUTE_ENOUGH;
    return open_program(r);
}

static void router_fini(router_t *r)
{
    pack_master_fini(&r->master);
    free(r->demands);
    free(r->distance);
    free(r->via);
    free(r->settled);
}

/* ---- routes ---- */

/* The unit is what the narrowest of the first routes carries: all get what the narrowest demand does, and x
 * far from 1 would drown in the solver's tolerances. */
static blink_result_t set_unit(router_t *r)
{
    pack_master_t *m = &r->master;
    uint32_t walked = PLAN_NONE, count = 0;
    double busiest = 0.0;
    pack_paths_price(&m->paths, m->prices);
    route_price_hop(r);
    for (uint32_t i = 0; i < r->demand_count; i++) {
        BLINK_TRY(route_walk(r, &r->demands[i], &walked));
        BLINK_TRY(route_trace(r, &r->demands[i], &count));
        uint32_t entries = pack_master_measure_written(m, count);
        for (uint32_t j = 0; j < entries; j++)
            busiest = fmax(busiest, m->values[j] * m->goals[i].size);
    }
    m->unit_GBps = 1.0 / busiest;
    return BLINK_OK;
}

/* Price one route per demand. It costs the sum of all to give every pair one unit. */
static blink_result_t price_routes(void *context, double least_gain, double *cost, uint32_t *added)
{
    router_t *r = context;
    uint32_t walked = PLAN_NONE;
    *cost = 0.0;
    route_price_hop(r);
    for (uint32_t i = 0; i < r->demand_count; i++) {
        const route_demand_t *demand = &r->demands[i];
        const pack_goal_t *goal = &r->master.goals[i];
        uint32_t count = 0;
        BLINK_TRY(route_walk(r, demand, &walked));
        *cost += goal->size * r->distance[demand->to];
        if (r->distance[demand->to] >= goal->worth * (1.0 - least_gain))
            continue;
        BLINK_TRY(route_trace(r, demand, &count));
        if (pack_master_find(&r->master, i, count) != PLAN_NONE)
            continue;
        BLINK_TRY(pack_master_add(&r->master, i, count));
        ++*added;
    }
    return BLINK_OK;
}

/* ---- a schedule ---- */

/* One sweep is a solution, as much of it as the busiest row allows. */
static blink_result_t sweep_once(router_t *r, pack_spread_t *loads)
{
    pack_master_t *m = &r->master;
    BLINK_TRY(route_sweep(r, loads));
    m->rate = 1.0 / (loads->most * m->unit_GBps);
    for (uint32_t route = 0; route < m->columns.count; route++)
        m->columns.items[route].value *= m->rate;
    return BLINK_OK;
}

/* Only the busiest rows have a price: where all payload crosses some of them, no plan does better. */
static blink_result_t prove_schedule(router_t *r, const pack_spread_t *loads)
{
    pack_master_t *m = &r->master;
    uint32_t added = 0;
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->prices[row] =
            loads->load[row] >= (1.0 - ROUTE_NOISE) * loads->most ? 1.0 / m->net->row_GBps[row] : 0.0;
    pack_master_set_worth(m, 0.0);
    return pack_master_prove(m, 0.0, &added);
}

static blink_result_t schedule(router_t *r)
{
    pack_spread_t loads;
    blink_result_t result = pack_spread_init(&loads, &r->master);
    if (result == BLINK_OK)
        result = sweep_once(r, &loads);
    if (result == BLINK_OK)
        result = prove_schedule(r, &loads);
    pack_spread_fini(&loads);
    return result;
}

/* ---- the optimum ---- */

/* Routes and bound by the program, whose columns so far are the routes known. */
static blink_result_t solve(router_t *r, bool *solved)
{
    plan_lp_allow(r->master.lp, ROUTE_WORK_MAX);
    return pack_master_generate(&r->master, ROUTE_ROUNDS_MAX, solved);
}

/* Few demands have a program, whose end is the optimum. Many come near to it without; if not, and they are
 * not too many, the program goes on from there. */
static blink_result_t optimise(router_t *r)
{
    pack_master_t *m = &r->master;
    uint32_t added = 0;
    bool solved = false;
    for (uint32_t row = 0; row < m->net->row_count; row++)
        m->prices[row] = 1.0 / m->net->row_GBps[row];
    BLINK_TRY(set_unit(r));
    pack_master_set_worth(m, INFINITY);
    BLINK_TRY(pack_master_prove(m, 0.0, &added));
    if (r->demand_count <= ROUTE_FEW_DEMANDS)
        BLINK_TRY(solve(r, &solved));
    if (solved)
        return BLINK_OK;
    BLINK_TRY(route_balance(r));
    return m->unsolved || m->rate >= ROUTE_BALANCED * m->best_bound ? BLINK_OK : solve(r, &solved);
}

/* What all routes of a route's demand carry together. */
static double whole_of(const router_t *r, uint32_t route)
{
    return r->master.rate * r->master.goals[r->master.columns.items[route].goal].size;
}

double route_value(const router_t *r, uint32_t route)
{
    double value = r->master.columns.items[route].value;
    return value > ROUTE_NOISE * whole_of(r, route) ? value : 0.0;
}

static blink_result_t pack_routes(router_t *r, plan_t *plan, double *prices)
{
    if (r->demand_count > 0) {
        BLINK_TRY(r->scheduled ? schedule(r) : optimise(r));
        pack_write_prices(r->master.net, r->master.best_prices, prices);
    }
    if (!plan)
        return BLINK_OK;
    if (r->demand_count > 0 && !r->scheduled)
        BLINK_TRY(route_thin(r));
    BLINK_TRY(route_place(r, plan));
    pack_master_finish(&r->master, plan);
    return BLINK_OK;
}

blink_result_t plan_pack_routes(const topo_t *topo, plan_t *plan, double *prices)
{
    router_t r;
    blink_result_t result = router_init(&r, topo, plan);
    if (result == BLINK_OK)
        result = pack_routes(&r, plan, prices);
    router_fini(&r);
    return result;
}

blink_result_t plan_route_prices(const topo_t *topo, const plan_t *plan, double *prices)
{
    router_t r;
    blink_result_t result = router_init(&r, topo, plan);
    if (result == BLINK_OK)
        result = pack_routes(&r, NULL, prices);
    router_fini(&r);
    return result;
}
