/* The route packer's solution as channels. Where every pair has one route, as behind switches, a slice of the
 * parallel switches is one channel of all pairs, so that lanes are few; else every route is a channel. A
 * schedule is placed so also where routes have several hops, as it would have a channel for every pair. Where
 * all that would be more parts than a plan may have, the pairs are dealt to the parallel switches instead. */
#include "error.h"
#include "plan/bytes/bytes.h"
#include "plan/routes/route.h"

#include <math.h>

static const pack_column_t *column_of(const router_t *r, uint32_t route)
{
    return &r->master.columns.items[route];
}

static const uint32_t *paths_of(const router_t *r, uint32_t route)
{
    return pack_master_paths(&r->master, route);
}

/* Hops of a route at position `at` of its parallel switches. */
static blink_result_t fill_route(const router_t *r, plan_t *plan, uint32_t route, double at,
                                 plan_part_t *part)
{
    uint32_t hops = column_of(r, route)->path_count;
    BLINK_TRY(plan_set_route(part, hops));
    part->route.ranks[0] = r->demands[column_of(r, route)->goal].from;
    for (uint32_t i = 0; i < hops; i++) {
        uint32_t path = paths_of(r, route)[i];
        part->route.ranks[i + 1] = r->master.paths.paths.items[path].to;
        BLINK_TRY(pack_place_path(&r->master.paths, plan, path, at, &part->route.paths[i]));
    }
    return BLINK_OK;
}

static blink_result_t fill_own(plan_part_t *part, uint32_t rank)
{
    BLINK_TRY(plan_set_route(part, 0));
    part->route.ranks[0] = rank;
    return BLINK_OK;
}

/* Whether the rank has a block for itself, and stands for its orbit. */
static bool keeps_block(const router_t *r, uint32_t rank)
{
    const plan_t *plan = r->plan;
    switch (plan->collective) {
    case BLINK_ALLTOALL:
        return r->master.net->orbit[rank] == rank;
    case BLINK_SENDRECV:
        return rank == plan->root && rank == plan->peer;
    default:
        return rank == plan->root;
    }
}

/* Shares are in blocks: every pair, and every own block, has one. */
static blink_result_t place_own_blocks(const router_t *r, plan_t *plan)
{
    for (uint32_t rank = 0; rank < r->n; rank++) {
        plan_channel_t *channel = NULL;
        if (!keeps_block(r, rank))
            continue;
        BLINK_TRY(plan_add_channel(plan, pack_net_orbit_size(r->master.net, rank), 1, &channel));
        BLINK_TRY(fill_own(&channel->parts[0], rank));
    }
    return BLINK_OK;
}

/* One channel per route and slice of its parallel switches. */
static blink_result_t place_routes(const router_t *r, plan_t *plan)
{
    for (uint32_t i = 0; i < r->demand_count; i++) {
        double sum = 0.0;
        for (uint32_t route = r->master.goals[i].newest; route != PLAN_NONE;
             route = column_of(r, route)->next)
            sum += route_value(r, route);
        if (!(sum > 0.0))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "the solver gave nothing to rank %u's way to rank %u",
                              r->demands[i].from, r->demands[i].to);
        for (uint32_t route = r->master.goals[i].newest; route != PLAN_NONE;
             route = column_of(r, route)->next) {
            double share = route_value(r, route) / sum * r->master.goals[i].size;
            for (double at = 0.0, end; at < 1.0 && share > 0.0; at = end) {
                plan_channel_t *channel = NULL;
                end =
                    pack_slice_end(&r->master.paths, paths_of(r, route), column_of(r, route)->path_count, at);
                BLINK_TRY(plan_add_channel(plan, share * (end - at), 1, &channel));
                BLINK_TRY(fill_route(r, plan, route, (at + end) / 2.0, &channel->parts[0]));
            }
        }
    }
    return place_own_blocks(r, plan);
}

/* The one route of a demand, or PLAN_NONE if it has several. */
static uint32_t only_route(const router_t *r, uint32_t demand)
{
    uint32_t only = PLAN_NONE;
    for (uint32_t route = r->master.goals[demand].newest; route != PLAN_NONE;
         route = column_of(r, route)->next) {
        if (!(route_value(r, route) > 0.0))
            continue;
        if (only != PLAN_NONE)
            return PLAN_NONE;
        only = route;
    }
    return only;
}

/* Whether every demand has one route. Unless the routes are scheduled, it has one hop, and every demand, and
 * every own block, stands for equally many blocks: the parts of a channel carry equal shares. */
static bool folds(const router_t *r)
{
    for (uint32_t i = 0; i < r->demand_count; i++) {
        uint32_t route = only_route(r, i);
        if (route == PLAN_NONE)
            return false;
        if (!r->scheduled &&
            (column_of(r, route)->path_count != 1 || r->master.goals[i].size != r->master.goals[0].size))
            return false;
    }
    for (uint32_t rank = 0; rank < r->n && r->demand_count > 0 && !r->scheduled; rank++)
        if (keeps_block(r, rank) && pack_net_orbit_size(r->master.net, rank) != r->master.goals[0].size)
            return false;
    return r->demand_count > 1;
}

/* The end of the slice in which all routes keep to their members of parallel switches. */
static double common_slice_end(const router_t *r, double at)
{
    double end = 1.0;
    for (uint32_t i = 0; i < r->demand_count; i++) {
        uint32_t route = only_route(r, i);
        end = fmin(end,
                   pack_slice_end(&r->master.paths, paths_of(r, route), column_of(r, route)->path_count, at));
    }
    return end;
}

/* Whether the rank's own block, or the demand, is among those that stand for so many. */
static bool own_has_size(const router_t *r, uint32_t rank, uint32_t size)
{
    return keeps_block(r, rank) && pack_net_orbit_size(r->master.net, rank) == size;
}

static bool demand_has_size(const router_t *r, uint32_t demand, uint32_t size)
{
    return r->master.goals[demand].size == size;
}

/* Whether a part for every pair and slice is more than a plan may have. */
static bool is_dealt(const router_t *r)
{
    uint64_t slices = 0;
    for (double at = 0.0; at < 1.0; at = common_slice_end(r, at))
        slices++;
    return slices * r->n * r->n > PLAN_PARTS_MOST;
}

/* A pair's position among parallel switches, if pairs are dealt to them. Multiples of the golden ratio are
 * spread evenly however many there are, so also among the ranks of a host, which are few and adjoin. */
static double dealt_position(const router_t *r, uint32_t demand)
{
    uint32_t from = r->demands[demand].from, to = r->demands[demand].to;
    double whole;
    return modf((to + r->n - from) % r->n * 0.6180339887498949, &whole);
}

/* A channel of all demands and own blocks that stand for so many, in a slice; the whole is dealt. */
static blink_result_t place_slice(const router_t *r, plan_t *plan, uint32_t size, uint32_t parts, double at,
                                  double end, bool dealt)
{
    plan_channel_t *channel = NULL;
    uint32_t filled = 0;
    BLINK_TRY(plan_add_channel(plan, (end - at) * parts * size, parts, &channel));
    for (uint32_t i = 0; i < r->demand_count; i++) {
        double position = dealt ? dealt_position(r, i) : (at + end) / 2.0;
        if (demand_has_size(r, i, size))
            BLINK_TRY(fill_route(r, plan, only_route(r, i), position, &channel->parts[filled++]));
    }
    for (uint32_t rank = 0; rank < r->n; rank++)
        if (own_has_size(r, rank, size))
            BLINK_TRY(fill_own(&channel->parts[filled++], rank));
    return BLINK_OK;
}

/* Channels of all demands and own blocks that stand for so many. */
static blink_result_t place_folded(const router_t *r, plan_t *plan, uint32_t size, bool dealt)
{
    uint32_t parts = 0;
    for (uint32_t rank = 0; rank < r->n; rank++)
        parts += own_has_size(r, rank, size);
    if (parts == 0) /* a demand stands for as many as its rank's own block */
        return BLINK_OK;
    for (uint32_t i = 0; i < r->demand_count; i++)
        parts += demand_has_size(r, i, size);
    for (double at = 0.0, end; at < 1.0; at = end) {
        end = dealt ? 1.0 : common_slice_end(r, at);
        BLINK_TRY(place_slice(r, plan, size, parts, at, end, dealt));
    }
    return BLINK_OK;
}

static blink_result_t place_all_folded(const router_t *r, plan_t *plan)
{
    bool dealt = is_dealt(r);
    for (uint32_t size = 1; size <= r->n; size++)
        BLINK_TRY(place_folded(r, plan, size, dealt));
    return BLINK_OK;
}

blink_result_t route_place(const router_t *r, plan_t *plan)
{
    return folds(r) ? place_all_folded(r, plan) : place_routes(r, plan);
}
