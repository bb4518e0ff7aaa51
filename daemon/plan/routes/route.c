/*
 * Optimal routes: as much as possible for every pair of ranks that the collective joins, the same for each.
 * Column generation over routes: the program's prices tell by Dijkstra's algorithm, through relays and from
 * rank to rank, whether a pair has a cheaper way than those known (Ford and Fulkerson's scheme for
 * multicommodity flows).
 */
#include "plan/routes/route.h"

#include "base/clock.h"
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
static void add_demands(router_t *r)
{
    bool fans_out = r->plan->collective == BLINK_SCATTER;
    for (uint32_t from = 0; from < r->n; from++)
        for (uint32_t to = 0; to < r->n; to++) {
            uint32_t end = fans_out ? to : from, size = 0;
            if (!is_paired(r->plan, from, to) || r->net->orbit[end] != end)
                continue;
            for (uint32_t rank = 0; rank < r->n; rank++)
                size += r->net->orbit[rank] == end;
            r->demands[r->demand_count++] =
                (route_demand_t){.from = from, .to = to, .size = size, .worth = INFINITY, .first = PLAN_NONE};
            r->pair_count += size;
        }
}

static blink_result_t allocate(router_t *r)
{
    size_t n = r->n, rows = (size_t)r->net->row_count + 1 + n * n;
    r->demands = malloc((n * n + 1) * sizeof(*r->demands));
    r->prices = calloc(r->net->row_count + 1u, sizeof(*r->prices));
    r->best_prices = calloc(r->net->row_count + 1u, sizeof(*r->best_prices));
    r->distance = malloc(n * sizeof(*r->distance));
    r->via = malloc(n * sizeof(*r->via));
    r->settled = malloc(n * sizeof(*r->settled));
    r->rows = malloc(rows * sizeof(*r->rows));
    r->values = malloc(rows * sizeof(*r->values));
    r->loads = calloc(r->net->row_count + 1u, sizeof(*r->loads));
    if (!r->demands || !r->prices || !r->best_prices || !r->distance || !r->via || !r->settled || !r->rows ||
        !r->values || !r->loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to route between %u ranks", r->n);
    return BLINK_OK;
}

/* A balance row per demand, behind the capacity rows, and what each pair gets as column 0. */
static blink_result_t add_balance(router_t *r)
{
    uint32_t capacity_rows = r->net->row_count > 0 ? r->net->row_count : 1;
    BLINK_TRY(plan_lp_create(capacity_rows + r->demand_count, 0.0, &r->lp));
    for (uint32_t i = 0; i < r->demand_count; i++) {
        r->rows[i] = capacity_rows + i;
        r->values[i] = r->demands[i].size;
        plan_lp_balance(r->lp, capacity_rows + i);
    }
    plan_lp_until(r->lp, r->plan->deadline_ns);
    return plan_lp_add(r->lp, r->demand_count, r->rows, r->values);
}

static blink_result_t router_init(router_t *r, const topo_t *topo, const plan_t *plan)
{
    *r = (router_t){.topo = topo, .plan = plan, .n = plan->rank_count, .best_bound = INFINITY};
    if (plan->collective == BLINK_ALLTOALL && r->n > ROUTE_ALLTOALL_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "alltoall is planned for up to %u ranks, not %u",
                          ROUTE_ALLTOALL_RANKS_MAX, r->n);
    if (r->n > PACK_SMALL_RANKS)
        BLINK_TRY(pack_find_symmetries(topo, plan, &r->symmetries, &r->symmetry_count));
    BLINK_TRY(pack_net_create(topo, plan, NULL, r->symmetries, r->symmetry_count, &r->net));
    if (r->net->symmetry_count == 0) {
        pack_free_symmetries(r->symmetries, r->symmetry_count);
        r->symmetries = NULL;
        r->symmetry_count = 0;
    }
    BLINK_TRY(pack_paths_init(&r->paths, r->net));
    BLINK_TRY(allocate(r));
    add_demands(r);
    return add_balance(r);
}

static void router_fini(router_t *r)
{
    plan_lp_destroy(r->lp);
    pack_paths_fini(&r->paths);
    pack_net_destroy(r->net);
    pack_free_symmetries(r->symmetries, r->symmetry_count);
    free(r->demands);
    free(r->routes);
    free(r->route_paths);
    free(r->prices);
    free(r->best_prices);
    free(r->distance);
    free(r->via);
    free(r->settled);
    free(r->rows);
    free(r->values);
    free(r->loads);
}

/* ---- routes ---- */

/* Cheapest ways from a rank over the priced paths (Dijkstra on a dense matrix); of equally cheap ones that of
 * fewer hops. */
static void walk_from(router_t *r, uint32_t source)
{
    size_t n = r->n;
    double hop = 0.0;
    for (size_t pair = 0; pair < n * n; pair++)
        if (r->paths.cost[pair] < INFINITY)
            hop = fmax(hop, r->paths.cost[pair]);
    hop *= 1e-10;
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
            double distance = r->distance[nearest] + r->paths.cost[nearest * n + to] + hop;
            if (distance < r->distance[to]) {
                r->distance[to] = distance;
                r->via[to] = nearest;
            }
        }
    }
}

static blink_result_t reserve(router_t *r)
{
    if (r->route_count == r->route_room) {
        uint32_t room = 2 * r->route_room + 64;
        route_t *routes = realloc(r->routes, room * sizeof(*routes));
        if (!routes)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u routes", room);
        r->routes = routes;
        r->route_room = room;
    }
    if (r->path_count + r->n > r->path_room) {
        uint32_t room = 2 * (r->path_room + r->n);
        uint32_t *paths = realloc(r->route_paths, room * sizeof(*paths));
        if (!paths)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for routes of %u hops", room);
        r->route_paths = paths;
        r->path_room = room;
    }
    return BLINK_OK;
}

/* Write the walked way to the demand's end behind the last route's paths. */
static blink_result_t trace(router_t *r, const route_demand_t *demand, uint32_t *count)
{
    BLINK_TRY(reserve(r));
    *count = 0;
    for (uint32_t at = demand->to; at != demand->from; at = r->via[at])
        ++*count;
    uint32_t place = r->path_count + *count;
    for (uint32_t at = demand->to; at != demand->from; at = r->via[at])
        BLINK_TRY(pack_paths_find(&r->paths, r->via[at], at, &r->route_paths[--place]));
    return BLINK_OK;
}

/* The demand's route that is the written one, or PLAN_NONE. */
static uint32_t find_route(const router_t *r, const route_demand_t *demand, uint32_t count)
{
    const uint32_t *paths = &r->route_paths[r->path_count];
    for (uint32_t i = demand->first; i != PLAN_NONE; i = r->routes[i].next)
        if (r->routes[i].path_count == count &&
            memcmp(&r->route_paths[r->routes[i].first_path], paths, count * sizeof(*paths)) == 0)
            return i;
    return PLAN_NONE;
}

/* Add the written route to the program. */
static blink_result_t add_route(router_t *r, uint32_t demand, uint32_t path_count)
{
    uint32_t capacity_rows = r->net->row_count > 0 ? r->net->row_count : 1;
    uint32_t count =
        pack_measure(&r->paths, &r->route_paths[r->path_count], path_count, r->rows, r->values, r->loads);
    for (uint32_t i = 0; i < count; i++)
        r->values[i] *= r->unit_GBps;
    r->rows[count] = capacity_rows + demand;
    r->values[count++] = -1.0;
    BLINK_TRY(plan_lp_add(r->lp, count, r->rows, r->values));
    plan_lp_weigh(r->lp, r->route_count + 1, 0.0);
    r->routes[r->route_count] = (route_t){.demand = demand,
                                          .first_path = r->path_count,
                                          .path_count = path_count,
                                          .next = r->demands[demand].first};
    r->demands[demand].first = r->route_count++;
    r->path_count += path_count;
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
    const topo_node_t *nodes = r->topo->nodes;
    return BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no path of %s leads from rank %u (%s) to rank %u (%s)",
                      r->topo->name, demand->from, nodes[r->plan->rank_node[demand->from]].id, demand->to,
                      nodes[r->plan->rank_node[demand->to]].id);
}

/* The unit is what the narrowest of the first routes carries: all get what the narrowest demand does, and x
 * far from 1 would drown in the solver's tolerances. */
static blink_result_t set_unit(router_t *r)
{
    uint32_t walked = PLAN_NONE, count = 0;
    double busiest = 0.0;
    pack_paths_price(&r->paths, r->prices);
    for (uint32_t i = 0; i < r->demand_count; i++) {
        BLINK_TRY(walk_demand(r, &r->demands[i], &walked));
        BLINK_TRY(trace(r, &r->demands[i], &count));
        uint32_t entries =
            pack_measure(&r->paths, &r->route_paths[r->path_count], count, r->rows, r->values, r->loads);
        for (uint32_t j = 0; j < entries; j++)
            busiest = fmax(busiest, r->values[j] * r->demands[i].size);
    }
    r->unit_GBps = 1.0 / busiest;
    return BLINK_OK;
}

/* Price every demand; add routes that are cheaper than they are worth. *cost is what it costs at the least to
 * give every pair one unit. */
static blink_result_t price_routes(router_t *r, double *cost, uint32_t *added)
{
    uint32_t walked = PLAN_NONE;
    *cost = 0.0;
    *added = 0;
    pack_paths_price(&r->paths, r->prices);
    for (uint32_t i = 0; i < r->demand_count; i++) {
        route_demand_t *demand = &r->demands[i];
        uint32_t count = 0;
        BLINK_TRY(walk_demand(r, demand, &walked));
        *cost += demand->size * r->distance[demand->to];
        if (r->distance[demand->to] >= demand->worth * (1.0 - ROUTE_GAIN))
            continue;
        BLINK_TRY(trace(r, demand, &count));
        if (find_route(r, demand, count) != PLAN_NONE)
            continue;
        BLINK_TRY(add_route(r, i, count));
        ++*added;
    }
    return BLINK_OK;
}

/* ---- the program ---- */

static bool late(const router_t *r)
{
    return r->plan->deadline_ns > 0 && clock_ns() > r->plan->deadline_ns;
}

/* Solve with the routes of now; *solved says whether work and time sufficed. If not, the solution is the last
 * one. */
static blink_result_t solve(router_t *r, bool *solved)
{
    blink_result_t result = plan_lp_solve(r->lp);
    *solved = result == BLINK_OK;
    if (result != BLINK_OK)
        return result == BLINK_ERR_INTERNAL ? BLINK_OK : result;
    for (uint32_t route = 0; route < r->route_count; route++)
        r->routes[route].value = plan_lp_value(r->lp, route + 1);
    r->rate = plan_lp_value(r->lp, 0);
    return BLINK_OK;
}

/* Take the program's prices. */
static void take_prices(router_t *r)
{
    uint32_t capacity_rows = r->net->row_count > 0 ? r->net->row_count : 1;
    for (uint32_t row = 0; row < r->net->row_count; row++)
        r->prices[row] = fmax(plan_lp_price(r->lp, row), 0.0) * r->unit_GBps / r->net->row_GBps[row];
    for (uint32_t i = 0; i < r->demand_count; i++)
        r->demands[i].worth = fmax(plan_lp_price(r->lp, capacity_rows + i), 0.0);
}

/* Price all routes; keep the prices if they prove a lower bound. */
static blink_result_t prove(router_t *r, uint32_t *added)
{
    double budget = 0.0, cost = 0.0;
    for (uint32_t row = 0; row < r->net->row_count; row++)
        budget += r->prices[row] * r->net->row_GBps[row] / r->unit_GBps;
    BLINK_TRY(price_routes(r, &cost, added));
    if (!(budget / cost < r->best_bound))
        return BLINK_OK;
    r->best_bound = budget / cost;
    memcpy(r->best_prices, r->prices, r->net->row_count * sizeof(*r->prices));
    return BLINK_OK;
}

/* ---- a first packing ---- */

/* Routes one after the other, each the cheapest when a row costs exponentially more the more of the routes
 * before cross it (multiplicative weights, as for trees). */
typedef struct spread {
    double *load; /* per row, parts of what it carries */
    double most;
    uint32_t sweeps;
} spread_t;

static void set_prices(router_t *r, const spread_t *s)
{
    double exponent = ROUTE_EXPONENT + ROUTE_EXPONENT_GROWTH * s->sweeps;
    for (uint32_t row = 0; row < r->net->row_count; row++)
        r->prices[row] =
            exp(s->most > 0.0 ? exponent * (s->load[row] / s->most - 1.0) : 0.0) / r->net->row_GBps[row];
    pack_paths_price(&r->paths, r->prices);
}

/* The walked way of a demand once more. */
static blink_result_t repeat_route(router_t *r, spread_t *s, uint32_t index)
{
    const route_demand_t *demand = &r->demands[index];
    uint32_t count = 0;
    BLINK_TRY(trace(r, demand, &count));
    uint32_t route = find_route(r, demand, count), entries;
    if (route == PLAN_NONE) {
        route = r->route_count;
        BLINK_TRY(add_route(r, index, count));
    }
    r->routes[route].value += demand->size;
    entries = pack_measure(&r->paths, &r->route_paths[r->routes[route].first_path], count, r->rows, r->values,
                           r->loads);
    for (uint32_t i = 0; i < entries; i++) {
        s->load[r->rows[i]] += r->values[i] * demand->size;
        s->most = fmax(s->most, s->load[r->rows[i]]);
    }
    return BLINK_OK;
}

static blink_result_t sweep(router_t *r, spread_t *s)
{
    uint32_t walked = PLAN_NONE, sources = 0;
    for (uint32_t i = 0; i < r->demand_count; i++) {
        if (r->demands[i].from != walked && sources++ % ROUTE_SOURCES == 0)
            set_prices(r, s);
        BLINK_TRY(walk_demand(r, &r->demands[i], &walked));
        BLINK_TRY(repeat_route(r, s, i));
    }
    s->sweeps++;
    return BLINK_OK;
}

/* The mean of so many sweeps, as much of it as the busiest row allows. */
static blink_result_t sweep_all(router_t *r, spread_t *s, uint32_t sweeps)
{
    for (uint32_t route = 0; route < r->route_count; route++)
        r->routes[route].value = 0.0;
    do
        BLINK_TRY(sweep(r, s));
    while (s->sweeps < sweeps && !late(r));
    for (uint32_t route = 0; route < r->route_count; route++)
        r->routes[route].value /= s->most * r->unit_GBps;
    r->rate = s->sweeps / (s->most * r->unit_GBps);
    return BLINK_OK;
}

static blink_result_t spread(router_t *r, uint32_t sweeps)
{
    spread_t s = {.load = calloc(r->net->row_count + 1u, sizeof(*s.load))};
    if (!s.load)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the loads of %u rows", r->net->row_count);
    blink_result_t result = sweep_all(r, &s, sweeps);
    free(s.load);
    return result;
}

/* ---- the optimum ---- */

static blink_result_t generate_routes(router_t *r)
{
    uint32_t added = 1;
    bool solved = true;
    for (uint32_t round = 0; round < ROUTE_ROUNDS_MAX && added > 0 && !late(r); round++) {
        BLINK_TRY(solve(r, &solved));
        if (!solved)
            return round > 0 || late(r) ? BLINK_OK : spread(r, ROUTE_SWEEPS);
        take_prices(r);
        BLINK_TRY(prove(r, &added));
        if (r->rate >= (1.0 - ROUTE_ENOUGH) * r->best_bound)
            break;
    }
    return BLINK_OK;
}

/* One sweep is a solution, whatever comes. */
static blink_result_t optimise(router_t *r)
{
    uint32_t added = 0;
    for (uint32_t row = 0; row < r->net->row_count; row++)
        r->prices[row] = 1.0 / r->net->row_GBps[row];
    BLINK_TRY(set_unit(r));
    BLINK_TRY(prove(r, &added));
    BLINK_TRY(spread(r, 1));
    plan_lp_allow(r->lp, ROUTE_WORK_MAX);
    return generate_routes(r);
}

double route_value(const router_t *r, uint32_t route)
{
    double value = r->routes[route].value;
    double whole = r->rate * r->demands[r->routes[route].demand].size;
    return value > ROUTE_NOISE * whole ? value : 0.0;
}

/* ---- fewer routes ---- */

/* The narrowest of the routes that are not needed and not the only one of their demand; or PLAN_NONE. */
static uint32_t find_narrowest(const router_t *r, const bool *needed)
{
    uint32_t narrowest = PLAN_NONE;
    for (uint32_t route = 0; route < r->route_count; route++) {
        double value = route_value(r, route);
        bool only = value >= (1.0 - ROUTE_NOISE) * r->demands[r->routes[route].demand].size * r->rate;
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
    bool solved = true;
    for (uint32_t route = 0; route < r->route_count; route++)
        if (!(route_value(r, route) > 0.0))
            plan_lp_fix(r->lp, route + 1, 0.0);
    BLINK_TRY(solve(r, &solved));
    for (uint32_t route; solved && (route = find_narrowest(r, needed)) != PLAN_NONE;) {
        plan_lp_fix(r->lp, route + 1, 0.0);
        BLINK_TRY(solve(r, &solved));
        if (!solved || r->rate >= floor)
            continue;
        plan_lp_free(r->lp, route + 1);
        BLINK_TRY(solve(r, &solved));
        needed[route] = true;
    }
    return BLINK_OK;
}

static blink_result_t thin(router_t *r)
{
    if (r->n > PACK_SMALL_RANKS)
        return BLINK_OK;
    bool *needed = calloc(r->route_count, sizeof(*needed));
    if (!needed)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to thin %u routes", r->route_count);
    blink_result_t result = eliminate(r, ROUTE_THIN_FLOOR * r->rate, needed);
    free(needed);
    return result;
}

static blink_result_t pack_routes(router_t *r, plan_t *plan, double *prices)
{
    if (r->demand_count > 0) {
        BLINK_TRY(optimise(r));
        pack_write_prices(r->net, r->best_prices, prices);
    }
    if (!plan)
        return BLINK_OK;
    if (r->demand_count > 0)
        BLINK_TRY(thin(r));
    BLINK_TRY(route_place(r, plan));
    plan_normalise_shares(plan);
    plan->symmetries = r->symmetries;
    plan->symmetry_count = r->symmetry_count;
    r->symmetries = NULL;
    r->symmetry_count = 0;
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
