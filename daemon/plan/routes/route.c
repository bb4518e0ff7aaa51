/*
 * Optimal routes: as much as possible for every pair of ranks that the collective joins, the same for each.
 * Column generation over routes: the program's prices tell by Dijkstra's algorithm, through relays and from
 * rank to rank, whether a pair has a cheaper way than those known (Ford and Fulkerson's scheme for
 * multicommodity flows).
 *
 * An alltoall of many ranks has too many pairs for a program, and is scheduled instead: one route for each,
 * the cheapest while prices grow with what the routes before load. Where hosts have a few NICs each, these
 * are what limits, every pair of hosts crosses them by its shortest way, and the schedule is an optimum.
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
    r->master.unsolved = r->scheduled;
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

/* The paths have new prices. */
static void price_hop(router_t *r)
{
    size_t pairs = (size_t)r->n * r->n;
    double dearest = 0.0;
    for (size_t pair = 0; pair < pairs; pair++)
        if (r->master.paths.cost[pair] < INFINITY)
            dearest = fmax(dearest, r->master.paths.cost[pair]);
    r->hop = dearest * ROUTE_HOP_PENALTY;
}

/* Cheapest ways from a rank over the priced paths (Dijkstra on a dense matrix); of equally cheap ones that of
 * fewer hops. */
static void walk_from(router_t *r, uint32_t source)
{
    size_t n = r->n;
    for (uint32_t rank = 0; rank < n; rank++) {
        r->distance[rank] = rank == source ? 0.0 : INFINITY;
        r->via[rank] = PLAN_NONE;
        r->settled[rank] = false;
    }
    for (;;) {
        uint32_t nearest = PLAN_NONE;
        for (uint32_t rank = 0; rank < n; rank++)
            if (!r->settled[rank] && r->distance[rank] < INFINITY &&
                (nearest == PLAN_NONE || r->distance[rank] < r->distance[nearest]))
                nearest = rank;
        if (nearest == PLAN_NONE)
            return;
        r->settled[nearest] = true;
        for (uint32_t to = 0; to < n; to++) {
            double distance = r->distance[nearest] + r->master.paths.cost[nearest * n + to] + r->hop;
            if (distance < r->distance[to]) {
                r->distance[to] = distance;
                r->via[to] = nearest;
            }
        }
    }
}

/* Write the walked way to the demand's end behind the last route. */
static blink_result_t trace(router_t *r, const route_demand_t *demand, uint32_t *count)
{
    uint32_t *paths = NULL;
    *count = 0;
    for (uint32_t at = demand->to; at != demand->from; at = r->via[at])
        ++*count;
    BLINK_TRY(pack_master_write(&r->master, *count, &paths));
    uint32_t place = *count;
    for (uint32_t at = demand->to; at != demand->from; at = r->via[at])
        BLINK_TRY(pack_paths_find(&r->master.paths, r->via[at], at, &paths[--place]));
    return BLINK_OK;
}

/* Walk from the demand's source, unless that was the last one walked from. */
static blink_result_t walk_demand(router_t *r, const route_demand_t *demand, uint32_t *walked)
{
    if (demand->from != *walked)
        walk_from(r, demand->from);
    *walked = demand->from;
    if (r->distance[demand->to] < INFINITY)
        return BLINK_OK;
    return plan_fail_unreachable(r->topo, r->plan, demand->from, demand->to);
}

/* The unit is what the narrowest of the first routes carries: all get what the narrowest demand does, and x
 * far from 1 would drown in the solver's tolerances. */
static blink_result_t set_unit(router_t *r)
{
    pack_master_t *m = &r->master;
    uint32_t walked = PLAN_NONE, count = 0;
    double busiest = 0.0;
    pack_paths_price(&m->paths, m->prices);
    price_hop(r);
    for (uint32_t i = 0; i < r->demand_count; i++) {
        BLINK_TRY(walk_demand(r, &r->demands[i], &walked));
        BLINK_TRY(trace(r, &r->demands[i], &count));
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
    price_hop(r);
    for (uint32_t i = 0; i < r->demand_count; i++) {
        const route_demand_t *demand = &r->demands[i];
        const pack_goal_t *goal = &r->master.goals[i];
        uint32_t count = 0;
        BLINK_TRY(walk_demand(r, demand, &walked));
        *cost += goal->size * r->distance[demand->to];
        if (r->distance[demand->to] >= goal->worth * (1.0 - least_gain))
            continue;
        BLINK_TRY(trace(r, demand, &count));
        if (pack_master_find(&r->master, i, count) != PLAN_NONE)
            continue;
        BLINK_TRY(pack_master_add(&r->master, i, count));
        ++*added;
    }
    return BLINK_OK;
}

/* ---- a first packing ---- */

/* The column that is the walked way of a demand. */
static blink_result_t take_route(router_t *r, uint32_t demand, uint32_t *route)
{
    uint32_t count = 0;
    BLINK_TRY(trace(r, &r->demands[demand], &count));
    *route = pack_master_find(&r->master, demand, count);
    if (*route != PLAN_NONE)
        return BLINK_OK;
    *route = (uint32_t)r->master.columns.count;
    return pack_master_add(&r->master, demand, count);
}

/* The walked way of a demand once more. */
static blink_result_t repeat_route(router_t *r, pack_spread_t *loads, uint32_t demand)
{
    pack_master_t *m = &r->master;
    uint32_t route = PLAN_NONE;
    BLINK_TRY(take_route(r, demand, &route));
    m->columns.items[route].value += m->goals[demand].size;
    pack_spread_load(loads, m, route, m->goals[demand].size);
    return BLINK_OK;
}

/* All demands once. */
static blink_result_t sweep(router_t *r, pack_spread_t *loads, double exponent)
{
    uint32_t walked = PLAN_NONE, sources = 0;
    uint32_t every = r->scheduled ? r->n / ROUTE_SCHEDULE_PRICES : ROUTE_SOURCES;
    for (uint32_t i = 0; i < r->demand_count; i++) {
        if (r->demands[i].from != walked && sources++ % every == 0) {
            pack_spread_price(loads, &r->master, exponent);
            price_hop(r);
        }
        BLINK_TRY(walk_demand(r, &r->demands[i], &walked));
        BLINK_TRY(repeat_route(r, loads, i));
    }
    return BLINK_OK;
}

/* Take the mean of so many sweeps for the solution, as much of it as the busiest row allows. */
static blink_result_t sweep_all(router_t *r, pack_spread_t *loads, uint32_t most)
{
    pack_master_t *m = &r->master;
    uint32_t sweeps = 0;
    for (uint32_t route = 0; route < m->columns.count; route++)
        m->columns.items[route].value = 0.0;
    do
        BLINK_TRY(sweep(r, loads, ROUTE_EXPONENT + ROUTE_EXPONENT_GROWTH * sweeps++));
    while (sweeps < most && !pack_master_late(m));
    for (uint32_t route = 0; route < m->columns.count; route++)
        m->columns.items[route].value /= loads->most * m->unit_GBps;
    m->rate = sweeps / (loads->most * m->unit_GBps);
    return BLINK_OK;
}

static blink_result_t spread(router_t *r, uint32_t sweeps)
{
    pack_spread_t loads;
    blink_result_t result = pack_spread_init(&loads, &r->master);
    if (result == BLINK_OK)
        result = sweep_all(r, &loads, sweeps);
    pack_spread_fini(&loads);
    return result;
}

/* ---- one route for each demand ---- */

/* Take some demands of one source from their routes, and give each the way that is the cheapest then. */
static blink_result_t reroute_some(router_t *r, pack_spread_t *loads, double exponent, uint32_t first,
                                   uint32_t count, uint32_t *chosen)
{
    pack_master_t *m = &r->master;
    uint32_t walked = PLAN_NONE;
    for (uint32_t i = first; i < first + count; i++)
        if (chosen[i] != PLAN_NONE)
            pack_spread_load(loads, m, chosen[i], -(double)m->goals[i].size);
    loads->most = 0.0;
    for (uint32_t row = 0; row < m->net->row_count; row++)
        loads->most = fmax(loads->most, loads->load[row]);
    pack_spread_price(loads, m, exponent);
    price_hop(r);
    for (uint32_t i = first; i < first + count; i++) {
        BLINK_TRY(walk_demand(r, &r->demands[i], &walked));
        BLINK_TRY(take_route(r, i, &chosen[i]));
        pack_spread_load(loads, m, chosen[i], m->goals[i].size);
    }
    return BLINK_OK;
}

/* Give every demand its route anew, the others' being as they are. */
static blink_result_t reroute_all(router_t *r, pack_spread_t *loads, double exponent, uint32_t *chosen)
{
    for (uint32_t first = 0, count; first < r->demand_count; first += count) {
        for (count = 1; count * ROUTE_TOGETHER < r->n && first + count < r->demand_count &&
                        r->demands[first + count].from == r->demands[first].from;)
            count++;
        BLINK_TRY(reroute_some(r, loads, exponent, first, count, chosen));
    }
    return BLINK_OK;
}

/* The routes chosen are the solution, as much of it as the busiest row allows. */
static blink_result_t take_chosen(router_t *r, const pack_spread_t *loads, const uint32_t *chosen)
{
    pack_master_t *m = &r->master;
    for (uint32_t route = 0; route < m->columns.count; route++)
        m->columns.items[route].value = 0.0;
    m->rate = 1.0 / (loads->most * m->unit_GBps);
    uint32_t tight = 0;
    for (uint32_t row = 0; row < m->net->row_count; row++)
        if (loads->load[row] > loads->load[tight])
            tight = row;
    for (uint32_t i = 0; i < r->demand_count; i++)
        m->columns.items[chosen[i]].value = m->goals[i].size * m->rate;
    return pack_master_start(m, chosen, tight);
}

/* Reroute until the best solution is near its bound, or has been the best for some sweeps. */
static blink_result_t improve(router_t *r, pack_spread_t *loads, uint32_t *chosen)
{
    pack_master_t *m = &r->master;
    uint32_t added = 0;
    uint32_t idle = 0;
    double exponent = ROUTE_EXPONENT;
    pack_master_set_worth(m, 0.0);
    m->rate = 0.0;
    do {
        BLINK_TRY(reroute_all(r, loads, exponent, chosen));
        idle++;
        if (1.0 / (loads->most * m->unit_GBps) > (1.0 + ROUTE_NOISE) * m->rate) {
            BLINK_TRY(take_chosen(r, loads, chosen));
            idle = 0;
        }
        pack_spread_price(loads, m, exponent);
        BLINK_TRY(pack_master_prove(m, 0.0, &added));
        exponent *= ROUTE_SHARPER;
    } while (!pack_master_near_bound(m) && idle < ROUTE_IDLE_SWEEPS && !pack_master_late(m));
    return BLINK_OK;
}

/* One route for each demand. A demand is a small part of what its links carry where ranks are many, so such
 * routes come near to the optimum, and no plan has fewer. */
static blink_result_t choose_routes(router_t *r)
{
    pack_spread_t loads = {0};
    uint32_t *chosen = malloc((r->demand_count + 1u) * sizeof(*chosen));
    if (!chosen)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u routes", r->demand_count);
    for (uint32_t i = 0; i < r->demand_count; i++)
        chosen[i] = PLAN_NONE;
    blink_result_t result = pack_spread_init(&loads, &r->master);
    if (result == BLINK_OK)
        result = improve(r, &loads, chosen);
    pack_spread_fini(&loads);
    free(chosen);
    return result;
}

/* ---- a schedule ---- */

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
        result = sweep_all(r, &loads, 1);
    if (result == BLINK_OK)
        result = prove_schedule(r, &loads);
    pack_spread_fini(&loads);
    return result;
}

/* ---- the optimum ---- */

/* Sweep on where the program found no end, and keep what there was if that is better. */
static blink_result_t spread_further(router_t *r)
{
    pack_master_t *m = &r->master;
    size_t count = m->columns.count;
    double rate = m->rate, *values = malloc((count + 1) * sizeof(*values));
    if (!values)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu routes", count);
    for (size_t i = 0; i < count; i++)
        values[i] = m->columns.items[i].value;
    blink_result_t result = spread(r, ROUTE_SWEEPS);
    if (result == BLINK_OK && m->rate < rate) {
        for (size_t i = 0; i < m->columns.count; i++)
            m->columns.items[i].value = i < count ? values[i] : 0.0;
        m->rate = rate;
    }
    free(values);
    return result;
}

/* One sweep is a solution, whatever comes. */
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
    BLINK_TRY(r->n > PACK_SMALL_RANKS ? choose_routes(r) : spread(r, 1));
    if (r->n > PACK_SMALL_RANKS && pack_master_near_bound(m))
        return BLINK_OK;
    bool many = r->demand_count > ROUTE_MANY_DEMANDS;
    plan_lp_allow(m->lp, many ? ROUTE_MANY_WORK : ROUTE_WORK_MAX);
    if (!many || m->rate >= ROUTE_HARD * m->best_bound)
        BLINK_TRY(pack_master_generate(m, ROUTE_ROUNDS_MAX, &solved));
    return solved || pack_master_late(m) ? BLINK_OK : spread_further(r);
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

/* ---- fewer routes ---- */

/* The narrowest of the routes that are not needed and not the only one of their demand; or PLAN_NONE. */
static uint32_t find_narrowest(const router_t *r, const bool *needed)
{
    uint32_t narrowest = PLAN_NONE;
    for (uint32_t route = 0; route < r->master.columns.count; route++) {
        double value = route_value(r, route);
        bool only = value >= (1.0 - ROUTE_NOISE) * whole_of(r, route);
        if (!needed[route] && !only && value > 0.0 &&
            (narrowest == PLAN_NONE || value < route_value(r, narrowest)))
            narrowest = route;
    }
    return narrowest;
}

/* Drop the routes that the optimum does not use, then narrow ones while the rate stays at or above `floor`.
 * Where work or time do not suffice, the last solution that did stands. */
static blink_result_t eliminate(router_t *r, double floor, bool *needed)
{
    pack_master_t *m = &r->master;
    bool solved = true;
    for (uint32_t route = 0; route < m->columns.count; route++)
        if (!(route_value(r, route) > 0.0))
            pack_master_fix(m, route, 0.0);
    BLINK_TRY(pack_master_solve(m, &solved));
    for (uint32_t route; solved && (route = find_narrowest(r, needed)) != PLAN_NONE;) {
        pack_master_fix(m, route, 0.0);
        BLINK_TRY(pack_master_solve(m, &solved));
        if (!solved || m->rate >= floor)
            continue;
        pack_master_free(m, route);
        BLINK_TRY(pack_master_solve(m, &solved));
        needed[route] = true;
    }
    return BLINK_OK;
}

static blink_result_t thin(router_t *r)
{
    if (r->n > PACK_SMALL_RANKS)
        return BLINK_OK;
    size_t routes = r->master.columns.count;
    bool *needed = calloc(routes, sizeof(*needed));
    if (!needed)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %zu routes", routes);
    blink_result_t result = eliminate(r, ROUTE_THIN_FLOOR * r->master.rate, needed);
    free(needed);
    return result;
}

static blink_result_t pack_routes(router_t *r, plan_t *plan, double *prices)
{
    if (r->demand_count > 0) {
        BLINK_TRY(r->scheduled ? schedule(r) : optimise(r));
        pack_write_prices(r->master.net, r->master.best_prices, prices);
    }
    if (!plan)
        return BLINK_OK;
    if (r->demand_count > 0)
        BLINK_TRY(thin(r));
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
