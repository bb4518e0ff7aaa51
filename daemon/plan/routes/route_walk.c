/* The cheapest way of each demand under the prices of now, and the column that it is. */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/routes/route.h"

#include <math.h>

void route_price_hop(router_t *r)
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

blink_result_t route_walk(router_t *r, const route_demand_t *demand, uint32_t *walked)
{
    if (demand->from != *walked)
        walk_from(r, demand->from);
    *walked = demand->from;
    if (r->distance[demand->to] < INFINITY)
        return BLINK_OK;
    return plan_fail_unreachable(r->topo, r->plan, demand->from, demand->to);
}

blink_result_t route_trace(router_t *r, const route_demand_t *demand, uint32_t *count)
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

blink_result_t route_take(router_t *r, uint32_t demand, uint32_t *route)
{
    uint32_t count = 0;
    BLINK_TRY(route_trace(r, &r->demands[demand], &count));
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
    BLINK_TRY(route_take(r, demand, &route));
    m->columns.items[route].value += m->goals[demand].size;
    pack_spread_load(loads, m, route, m->goals[demand].size);
    return BLINK_OK;
}

blink_result_t route_sweep(router_t *r, pack_spread_t *loads)
{
    uint32_t walked = PLAN_NONE, sources = 0;
    uint32_t every = r->scheduled ? r->n / ROUTE_SCHEDULE_PRICES : ROUTE_SOURCES;
    for (uint32_t i = 0; i < r->demand_count; i++) {
        if (r->demands[i].from != walked && sources++ % every == 0) {
            pack_spread_price(loads, &r->master, ROUTE_EXPONENT);
            route_price_hop(r);
        }
        BLINK_TRY(route_walk(r, &r->demands[i], &walked));
        BLINK_TRY(repeat_route(r, loads, i));
    }
    return BLINK_OK;
}
