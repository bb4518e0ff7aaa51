/* Trees in which no rank is further from the root than a limit. The cheapest of them is hard to find, so the
 * tree grows by the cheapest edge that keeps the limit, and falls back on ways of least latency. */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/model.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_US_GBps 1e3

/* ---- latencies ---- */

/* The topology's link behind a working one; of parallel switches, by way of the first. */
static uint32_t first_link(const pack_net_t *net, uint32_t link)
{
    return topo_find_link(net->topo, net->members[net->first_member[net->from[link]]],
                          net->members[net->first_member[net->to[link]]]);
}

/* One price per row: the latency of its links. */
static void price_by_latency(packer_t *p)
{
    const pack_net_t *net = p->master.net;
    for (uint32_t row = 0; row < net->row_count; row++)
        p->master.prices[row] = 0.0;
    for (uint32_t link = 0; link < net->link_count; link++)
        p->master.prices[net->link_row[link]] = net->topo->links[first_link(net, link)].latency_us;
    pack_paths_price(&p->master.paths, p->master.prices);
}

/* What the way takes that the last prices found from a rank that is the least of its orbit. `links` is
 * scratch. */
static void measure_way(const packer_t *p, pack_limit_t *limit, uint32_t from, uint32_t to, uint32_t *links)
{
    const pack_net_t *net = p->master.net;
    double us = 0.0, narrowest_GBps = INFINITY;
    size_t pair = (size_t)from * p->n + to;
    uint32_t count = 0;
    if (from != to && p->master.paths.cost[pair] < INFINITY)
        count = pack_paths_trace(&p->master.paths, from, to, links);
    for (uint32_t i = 0; i < count; i++) {
        links[i] = first_link(net, links[i]);
        const topo_link_t *link = &net->topo->links[links[i]];
        us += link->latency_us;
        narrowest_GBps = fmin(narrowest_GBps, link->GBps);
    }
    limit->hop_us[pair] = count ? us + model_hop_us(net->topo, links, count, BLINK_PROTOCOL_LL) : INFINITY;
    limit->piece_us[pair] = LIMIT_PIECE_BYTES / (BYTES_PER_US_GBps * narrowest_GBps);
}

static void copy_way(pack_limit_t *limit, size_t from, size_t to)
{
    limit->hop_us[to] = limit->hop_us[from];
    limit->piece_us[to] = limit->piece_us[from];
}

static void fill_latencies(packer_t *p, pack_limit_t *limit, uint32_t *links)
{
    const pack_net_t *net = p->master.net;
    size_t n = p->n;
    price_by_latency(p);
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; net->orbit[from] == from && to < n; to++)
            measure_way(p, limit, from, to, links);
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; net->orbit[from] != from && to < n; to++)
            copy_way(limit, net->orbit[from] * n + to, from * n + pack_net_image(net, from, to));
}

blink_result_t pack_limit_init(pack_limit_t *limit, packer_t *p)
{
    size_t n = p->n;
    uint32_t *links = malloc(p->master.paths.state_count * sizeof(*links));
    *limit = (pack_limit_t){.most_us = INFINITY,
                            .hop_us = malloc(n * n * sizeof(*limit->hop_us)),
                            .piece_us = malloc(n * n * sizeof(*limit->piece_us)),
                            .height_us = malloc(n * sizeof(*limit->height_us)),
                            .best_parent = malloc(n * sizeof(*limit->best_parent)),
                            .least_us = malloc(n * sizeof(*limit->least_us)),
                            .least_parent = malloc(n * sizeof(*limit->least_parent)),
                            .reach_us = malloc(n * sizeof(*limit->reach_us)),
                            .offer = malloc(n * sizeof(*limit->offer)),
                            .offer_parent = malloc(n * sizeof(*limit->offer_parent))};
    blink_result_t result = BLINK_OK;
    if (!links || !limit->hop_us || !limit->piece_us || !limit->height_us || !limit->best_parent ||
        !limit->least_us || !limit->least_parent || !limit->reach_us || !limit->offer || !limit->offer_parent)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the latencies between %u ranks", p->n);
    if (result == BLINK_OK)
        fill_latencies(p, limit, links);
    free(links);
    return result;
}

void pack_limit_fini(pack_limit_t *limit)
{
    free(limit->hop_us);
    free(limit->piece_us);
    free(limit->height_us);
    free(limit->best_parent);
    free(limit->least_us);
    free(limit->least_parent);
    free(limit->reach_us);
    free(limit->offer);
    free(limit->offer_parent);
}

/* ---- growth ---- */

typedef struct growth {
    packer_t *p;
    pack_limit_t *limit;
    uint32_t root;
    bool toward_root;
    uint32_t taste; /* 0: edges seem to cost what they cost */
} growth_t;

static size_t edge(const growth_t *g, uint32_t parent, uint32_t child)
{
    size_t n = g->p->n;
    return g->toward_root ? child * n + parent : parent * n + child;
}

static double hop_us(const growth_t *g, uint32_t parent, uint32_t child)
{
    return g->limit->hop_us[edge(g, parent, child)];
}

double pack_limit_least_us(packer_t *p, pack_limit_t *limit, uint32_t root, bool toward_root)
{
    growth_t g = {p, limit, root, toward_root, 0};
    double farthest_us = 0.0;
    for (uint32_t rank = 0; rank < p->n; rank++) {
        limit->least_us[rank] = rank == root ? 0.0 : INFINITY;
        limit->least_parent[rank] = PLAN_NONE;
        limit->offer_parent[rank] = PLAN_NONE; /* settled: itself */
    }
    for (uint32_t settled = 0; settled < p->n; settled++) {
        uint32_t nearest = PLAN_NONE;
        for (uint32_t rank = 0; rank < p->n; rank++)
            if (limit->offer_parent[rank] == PLAN_NONE &&
                (nearest == PLAN_NONE || limit->least_us[rank] < limit->least_us[nearest]))
                nearest = rank;
        limit->offer_parent[nearest] = nearest;
        farthest_us = limit->least_us[nearest];
        for (uint32_t rank = 0; rank < p->n; rank++) {
            double us = limit->least_us[nearest] + hop_us(&g, nearest, rank);
            if (!(us < limit->least_us[rank] - LIMIT_ROUNDING_US))
                continue;
            limit->least_us[rank] = us;
            limit->least_parent[rank] = nearest;
        }
    }
    return farthest_us;
}

/* Latency of an edge and the time of a small piece on its links. */
static double edge_us(const growth_t *g, uint32_t parent, uint32_t child)
{
    return hop_us(g, parent, child) + g->limit->piece_us[edge(g, parent, child)];
}

/* What an edge seems to cost while a tree grows. */
static double seeming_cost(const growth_t *g, uint32_t parent, uint32_t child)
{
    size_t at = edge(g, parent, child);
    return g->p->master.paths.cost[at] * (1.0 + LIMIT_TASTE * pack_taste((uint32_t)at, g->taste));
}

/* Whether `parent` is a better one for the rank than its best so far: cheaper, or as cheap and sooner. */
static bool outbids(const growth_t *g, uint32_t parent, uint32_t rank)
{
    const pack_limit_t *limit = g->limit;
    double cost = seeming_cost(g, parent, rank), least = limit->offer[rank];
    uint32_t best = limit->offer_parent[rank];
    if (!(least < INFINITY) || fabs(cost - least) > LIMIT_TIE * (cost + least))
        return cost < least;
    return limit->reach_us[parent] + edge_us(g, parent, rank) <
           limit->reach_us[best] + edge_us(g, best, rank) - LIMIT_ROUNDING_US;
}

/* Let a rank of the tree offer itself as parent to all outside. */
static void offer(const growth_t *g, uint32_t parent)
{
    pack_limit_t *limit = g->limit;
    for (uint32_t rank = 0; rank < g->p->n; rank++) {
        if (limit->reach_us[rank] < INFINITY || !outbids(g, parent, rank) ||
            limit->reach_us[parent] + hop_us(g, parent, rank) > limit->most_us + LIMIT_ROUNDING_US)
            continue;
        limit->offer[rank] = seeming_cost(g, parent, rank);
        limit->offer_parent[rank] = parent;
    }
}

static void hang(const growth_t *g, uint32_t rank, uint32_t parent)
{
    g->p->parent[rank] = parent;
    g->limit->reach_us[rank] = g->limit->reach_us[parent] + hop_us(g, parent, rank);
}

/* Hang a rank that nobody can take by its way of least latency, and everybody on it. Ranks below those come
 * nearer. */
static void hang_by_least(const growth_t *g, uint32_t rank)
{
    packer_t *p = g->p;
    pack_limit_t *limit = g->limit;
    for (uint32_t at = rank; at != g->root; at = limit->least_parent[at]) {
        p->parent[at] = limit->least_parent[at];
        limit->reach_us[at] = limit->least_us[at];
    }
    for (uint32_t below = 0; below < p->n; below++) {
        double us = 0.0;
        if (!(limit->reach_us[below] < INFINITY))
            continue;
        for (uint32_t at = below; at != g->root; at = p->parent[at])
            us += hop_us(g, p->parent[at], at);
        limit->reach_us[below] = us;
    }
    for (uint32_t parent = 0; parent < p->n; parent++)
        if (limit->reach_us[parent] < INFINITY)
            offer(g, parent);
}

/* The rank outside the tree with the cheapest offer; with none, the one that is hardest to reach. PLAN_NONE:
 * all are in. */
static uint32_t next_rank(const growth_t *g)
{
    const pack_limit_t *limit = g->limit;
    uint32_t best = PLAN_NONE;
    for (uint32_t rank = 0; rank < g->p->n; rank++) {
        if (limit->reach_us[rank] < INFINITY)
            continue;
        if (best == PLAN_NONE || limit->offer[rank] < limit->offer[best] ||
            (!(limit->offer[best] < INFINITY) && limit->least_us[rank] > limit->least_us[best]))
            best = rank;
    }
    return best;
}

/* Grow from the root by the cheapest edge that keeps the limit. */
static void grow_greedily(const growth_t *g)
{
    pack_limit_t *limit = g->limit;
    for (uint32_t rank = 0; rank < g->p->n; rank++) {
        limit->reach_us[rank] = limit->offer[rank] = INFINITY;
        limit->offer_parent[rank] = g->root;
    }
    g->p->parent[g->root] = PLAN_NONE;
    limit->reach_us[g->root] = 0.0;
    offer(g, g->root);
    for (uint32_t rank; (rank = next_rank(g)) != PLAN_NONE;) {
        if (!(limit->offer[rank] < INFINITY)) {
            hang_by_least(g, rank);
            continue;
        }
        hang(g, rank, limit->offer_parent[rank]);
        offer(g, rank);
    }
}

/* ---- improvement ---- */

static bool is_below(const growth_t *g, uint32_t rank, uint32_t top)
{
    while (rank != top && rank != g->root)
        rank = g->p->parent[rank];
    return rank == top;
}

/* How far each rank is from the root, and into height_us[] how far the farthest below it is from it. */
static void measure(const growth_t *g)
{
    pack_limit_t *limit = g->limit;
    for (uint32_t rank = 0; rank < g->p->n; rank++)
        limit->height_us[rank] = 0.0;
    for (uint32_t rank = 0; rank < g->p->n; rank++) {
        double us = 0.0;
        for (uint32_t at = rank; at != g->root; at = g->p->parent[at]) {
            us += hop_us(g, g->p->parent[at], at);
            limit->height_us[g->p->parent[at]] = fmax(limit->height_us[g->p->parent[at]], us);
        }
        limit->reach_us[rank] = us;
    }
}

/* Hang the one rank elsewhere that saves the most; false if none saves anything. */
static bool improve(const growth_t *g)
{
    const packer_t *p = g->p;
    double most = 0.0;
    uint32_t moved = PLAN_NONE, to = PLAN_NONE;
    measure(g);
    for (uint32_t rank = 0; rank < p->n; rank++)
        for (uint32_t parent = 0; rank != g->root && parent < p->n; parent++) {
            double reach_us =
                g->limit->reach_us[parent] + hop_us(g, parent, rank) + g->limit->height_us[rank];
            double saved = p->master.paths.cost[edge(g, p->parent[rank], rank)] -
                           p->master.paths.cost[edge(g, parent, rank)];
            if (saved <= most + LIMIT_SAVING || reach_us > g->limit->most_us + LIMIT_ROUNDING_US ||
                is_below(g, parent, rank))
                continue;
            most = saved;
            moved = rank;
            to = parent;
        }
    if (moved != PLAN_NONE)
        p->parent[moved] = to;
    return moved != PLAN_NONE;
}

static double tree_cost(const growth_t *g)
{
    double cost = 0.0;
    for (uint32_t rank = 0; rank < g->p->n; rank++)
        if (rank != g->root)
            cost += g->p->master.paths.cost[edge(g, g->p->parent[rank], rank)];
    return cost;
}

/* Improve the tree in parent[]; keep it in best_parent[] if it is cheaper than what is there, which costs
 * `least`. */
static void settle(const growth_t *g, double *least)
{
    while (!g->p->master.large && improve(g))
        continue;
    double cost = tree_cost(g);
    if (cost >= *least - LIMIT_SAVING)
        return;
    memcpy(g->limit->best_parent, g->p->parent, g->p->n * sizeof(*g->p->parent));
    *least = cost;
}

bool pack_limit_grow(packer_t *p, pack_limit_t *limit, uint32_t root, bool toward_root)
{
    growth_t g = {p, limit, root, toward_root, 0};
    double least = INFINITY;
    if (pack_limit_least_us(p, limit, root, toward_root) > limit->most_us + LIMIT_ROUNDING_US)
        return false;
    for (; g.taste <= limit->tastes; g.taste++) {
        grow_greedily(&g);
        settle(&g, &least);
    }
    /* The tree of least latencies leaves most room to move. */
    memcpy(p->parent, limit->least_parent, p->n * sizeof(*p->parent));
    settle(&g, &least);
    memcpy(p->parent, limit->best_parent, p->n * sizeof(*p->parent));
    return true;
}

/* ---- the best root ---- */

void pack_turn_tree(packer_t *p, uint32_t root)
{
    uint32_t above = PLAN_NONE;
    for (uint32_t rank = root; rank != PLAN_NONE;) {
        uint32_t next = p->parent[rank];
        p->parent[rank] = above;
        above = rank;
        rank = next;
    }
}

/* The rank farthest from the root; into reach_us[] how far each is. */
static uint32_t find_farthest(const growth_t *g)
{
    uint32_t farthest = g->root;
    for (uint32_t rank = 0; rank < g->p->n; rank++) {
        g->limit->reach_us[rank] = 0.0;
        for (uint32_t at = rank; at != g->root; at = g->p->parent[at])
            g->limit->reach_us[rank] += edge_us(g, g->p->parent[at], at);
        if (g->limit->reach_us[rank] > g->limit->reach_us[farthest] + LIMIT_ROUNDING_US)
            farthest = rank;
    }
    return farthest;
}

uint32_t pack_limit_centre(packer_t *p, pack_limit_t *limit, uint32_t root)
{
    growth_t g = {p, limit, root, false, 0};
    g.root = find_farthest(&g);
    pack_turn_tree(p, g.root);
    uint32_t centre = find_farthest(&g);
    double whole_us = limit->reach_us[centre];
    /* From the far end up, as long as the next rank is nearer to the middle. */
    while (p->parent[centre] != PLAN_NONE && limit->reach_us[p->parent[centre]] > whole_us / 2.0)
        centre = p->parent[centre];
    uint32_t next = p->parent[centre];
    if (next != PLAN_NONE && whole_us - limit->reach_us[next] < limit->reach_us[centre] - LIMIT_ROUNDING_US)
        centre = next;
    pack_turn_tree(p, centre);
    return centre;
}
