/* Packing trees from one root by multiplicative weights: the paper's section 3.2, after Garg and Könemann.
 * Every row of the working graph (a link, or both directions of one) has a length that grows by a factor with
 * the part of it that the trees taken so far fill, so each next cheapest tree keeps away from what is
 * full. */
#include "error.h"
#include "plan/baseline/blink/blink_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* By how much the length of a row grows when a tree fills it once. */
#define STEP 0.1
/* Equal links start out up to this much apart in length, else every round breaks its ties alike and the trees
 * are too few to choose from later. */
#define SPREAD 0.5
/* Lengths prove a bound on every packing; the search ends this close to it. */
#define GOOD_ENOUGH 0.97
#define ROUNDS_MAX  3000u
/* Where whole links could carry the rate but the trees found do not fit together, search more of them so
 * often. */
#define PASSES_MAX 2u
/* Lengths are scaled back when their sum of all capacity exceeds this. */
#define LENGTHS_MAX 1e200

static void pool_fini(blink_pool_t *pool)
{
    pack_arborist_fini(&pool->arborist);
    pack_paths_fini(&pool->paths);
    pack_net_destroy(pool->net);
    free(pool->trees);
    free(pool->GBps);
    free(pool->lengths);
    free(pool->used);
    free(pool->parent);
    free(pool->rows);
    free(pool->values);
    free(pool->loads);
}

static blink_result_t pool_alloc(blink_pool_t *pool)
{
    size_t rows = pool->net->row_count + 1u;
    pool->lengths = calloc(rows, sizeof(*pool->lengths));
    pool->used = calloc(rows, sizeof(*pool->used));
    pool->parent = calloc(pool->n, sizeof(*pool->parent));
    pool->rows = calloc(rows, sizeof(*pool->rows));
    pool->values = calloc(rows, sizeof(*pool->values));
    pool->loads = calloc(rows, sizeof(*pool->loads));
    if (!pool->lengths || !pool->used || !pool->parent || !pool->rows || !pool->values || !pool->loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to pack trees over %u ranks", pool->n);
    return BLINK_OK;
}

/* The packer's working graph of these ranks alone. It joins the two directions of a link where a plan loads
 * both alike, as it does for every allreduce. */
static blink_result_t make_net(blink_pool_t *pool, const topo_t *view, const plan_t *plan)
{
    uint32_t *nodes = malloc(pool->n * sizeof(*nodes));
    if (!nodes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", pool->n);
    for (uint32_t i = 0; i < pool->n; i++)
        nodes[i] = plan->rank_node[pool->scope->ranks[i]];
    plan_t some = {.collective = pool->scope->flow == BLINK_FLOW_BOTH ? BLINK_ALLREDUCE : BLINK_BROADCAST,
                   .rank_count = pool->n,
                   .rank_node = nodes};
    blink_result_t result = pack_net_create(view, &some, NULL, NULL, 0, &pool->net);
    free(nodes);
    return result;
}

/* Numbers of [0, 1), far apart for neighbours: multiples of the golden ratio. */
static double scatter(uint32_t index)
{
    return fmod(0.6180339887 * (index + 1.0), 1.0);
}

static blink_result_t pool_init(blink_pool_t *pool, const topo_t *view, const plan_t *plan,
                                const blink_scope_t *scope)
{
    *pool = (blink_pool_t){.scope = scope, .n = scope->rank_count, .bound_GBps = INFINITY};
    BLINK_TRY(make_net(pool, view, plan));
    BLINK_TRY(pack_paths_init(&pool->paths, pool->net));
    BLINK_TRY(pack_arborist_init(&pool->arborist, &pool->paths));
    BLINK_TRY(pool_alloc(pool));
    pool->unit_GBps = INFINITY;
    for (uint32_t link = 0; link < view->link_count; link++)
        if (pool->net->link_of[link] != PLAN_NONE)
            pool->unit_GBps = fmin(pool->unit_GBps, view->links[link].unit_GBps);
    return BLINK_OK;
}

uint32_t blink_pool_measure(blink_pool_t *pool, uint32_t tree)
{
    uint32_t count = pack_measure(&pool->paths, &pool->trees[(size_t)tree * pool->n], pool->n, pool->rows,
                                  pool->values, pool->loads);
    /* A reduce crosses what a broadcast does. */
    for (uint32_t i = 0; i < count && pool->scope->flow == BLINK_FLOW_BOTH; i++)
        pool->values[i] *= 2.0;
    return count;
}

/* ---- multiplicative weights ---- */

static blink_result_t reserve_tree(blink_pool_t *pool)
{
    if (pool->tree_count < pool->tree_room)
        return BLINK_OK;
    uint32_t room = 2 * pool->tree_room + 64;
    uint32_t *trees = realloc(pool->trees, (size_t)room * pool->n * sizeof(*trees));
    if (trees)
        pool->trees = trees;
    double *GBps = realloc(pool->GBps, room * sizeof(*GBps));
    if (GBps)
        pool->GBps = GBps;
    if (!trees || !GBps)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees", room);
    pool->tree_room = room;
    return BLINK_OK;
}

/* The cheapest tree under the priced paths: one known already, or a new one. */
static blink_result_t grow_tree(blink_pool_t *pool, uint32_t *tree)
{
    BLINK_TRY(reserve_tree(pool));
    uint32_t *grown = &pool->trees[(size_t)pool->tree_count * pool->n];
    pack_arborist_grow(&pool->arborist, pool->scope->root, false, NULL, pool->parent);
    for (uint32_t i = 0; i < pool->n; i++) {
        grown[i] = PLAN_NONE;
        if (i != pool->scope->root)
            BLINK_TRY(pack_paths_find(&pool->paths, pool->parent[i], i, &grown[i]));
    }
    for (*tree = 0; *tree < pool->tree_count; ++*tree)
        if (memcmp(&pool->trees[(size_t)*tree * pool->n], grown, pool->n * sizeof(*grown)) == 0)
            return BLINK_OK;
    pool->GBps[pool->tree_count++] = 0.0;
    return BLINK_OK;
}

/* What all capacity is worth at the lengths of now. */
static double worth_of_all(blink_pool_t *pool)
{
    double sum = 0.0;
    for (uint32_t row = 0; row < pool->net->row_count; row++)
        sum += pool->lengths[row] * pool->net->row_GBps[row];
    for (uint32_t row = 0; sum > LENGTHS_MAX && row < pool->net->row_count; row++)
        pool->lengths[row] /= sum;
    return sum > LENGTHS_MAX ? 1.0 : sum;
}

/* One round: take as much of the cheapest tree as fills a row. *GBps is how much that is; *fullest the
 * fullest row. */
static blink_result_t take_tree(blink_pool_t *pool, double *GBps, double *fullest)
{
    uint32_t tree = 0;
    double worth = worth_of_all(pool), cost = 0.0, most = 0.0;
    pack_paths_price(&pool->paths, pool->lengths);
    BLINK_TRY(grow_tree(pool, &tree));
    uint32_t count = blink_pool_measure(pool, tree);
    for (uint32_t i = 0; i < count; i++) {
        cost += pool->lengths[pool->rows[i]] * pool->values[i] * pool->net->row_GBps[pool->rows[i]];
        most = fmax(most, pool->values[i]);
    }
    pool->bound_GBps = fmin(pool->bound_GBps, worth / cost);
    *GBps = 1.0 / most;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = pool->rows[i];
        pool->used[row] += pool->values[i] / most;
        pool->lengths[row] *= 1.0 + STEP * pool->values[i] / most;
        *fullest = fmax(*fullest, pool->used[row]);
    }
    return BLINK_OK;
}

static void reset(blink_pool_t *pool, uint32_t pass)
{
    uint32_t rows = pool->net->row_count;
    for (uint32_t row = 0; row < rows; row++) {
        pool->lengths[row] = (1.0 + SPREAD * scatter(pass * rows + row)) / pool->net->row_GBps[row];
        pool->used[row] = 0.0;
    }
}

/* One packing; trees add to those of earlier passes. */
static blink_result_t pack(blink_pool_t *pool, uint32_t pass)
{
    double total = 0.0, fullest = 0.0;
    reset(pool, pass);
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        double GBps = 0.0;
        BLINK_TRY(take_tree(pool, &GBps, &fullest));
        total += GBps;
        if (total / fullest >= GOOD_ENOUGH * pool->bound_GBps)
            break;
    }
    return BLINK_OK;
}

/* The first rank of the scope that no way joins to the root, or PLAN_NONE. Ranks reached pass data on. */
static uint32_t find_apart(blink_pool_t *pool)
{
    uint32_t n = pool->n, reached = 1;
    bool grown = true;
    uint32_t *state = pool->parent;
    memset(state, 0, n * sizeof(*state));
    state[pool->scope->root] = 1;
    pack_paths_price(&pool->paths, pool->lengths);
    while (grown) {
        grown = false;
        for (uint32_t from = 0; from < n; from++)
            for (uint32_t to = 0; state[from] != 0 && to < n; to++)
                if (state[to] == 0 && pool->paths.cost[from * n + to] < INFINITY) {
                    state[to] = 1;
                    reached++;
                    grown = true;
                }
    }
    for (uint32_t i = 0; reached < n && i < n; i++)
        if (state[i] == 0)
            return pool->scope->ranks[i];
    return PLAN_NONE;
}

/* ---- from the working graph to the topology's links ---- */

/* The end of the slice of [0, 1) that starts at `at`: up to there the tree crosses the same members of every
 * group of parallel switches. */
static double slice_end(const blink_pool_t *pool, const uint32_t *tree, double at)
{
    const pack_net_t *net = pool->net;
    double end = 1.0;
    for (uint32_t i = 0; i < pool->n; i++) {
        const pack_path_t *path = tree[i] == PLAN_NONE ? NULL : &pool->paths.paths.items[tree[i]];
        for (uint32_t j = 0; path && j < path->link_count; j++) {
            uint32_t node = net->to[pool->paths.links.items[path->first_link + j]];
            for (uint32_t m = net->first_member[node]; m < net->first_member[node + 1]; m++)
                if (net->member_end[m] > at + 1e-9)
                    end = fmin(end, net->member_end[m]);
        }
    }
    return end;
}

static blink_result_t reserve_slice(blink_forest_t *forest, uint32_t links)
{
    size_t trees = forest->tree_count + 1u;
    double *GBps = realloc(forest->GBps, trees * sizeof(*GBps));
    if (GBps)
        forest->GBps = GBps;
    blink_edge_t *edges = realloc(forest->edges, (trees * forest->edge_count + 1) * sizeof(*edges));
    if (edges)
        forest->edges = edges;
    uint32_t *pool = realloc(forest->links, (forest->link_count + links + 1u) * sizeof(*pool));
    if (pool)
        forest->links = pool;
    if (!GBps || !edges || !pool)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu trees", trees);
    return BLINK_OK;
}

/* The working path as an edge of the forest. A view of what flows to the root has its links turned round. */
static void write_edge(const topo_t *topo, const blink_pool_t *pool, const pack_path_t *path, double at,
                       blink_forest_t *forest, blink_edge_t *edge)
{
    bool turned = pool->scope->flow == BLINK_FLOW_TO_ROOT;
    uint32_t from = pool->scope->ranks[path->from], to = pool->scope->ranks[path->to];
    *edge = (blink_edge_t){turned ? to : from, turned ? from : to, forest->link_count, path->link_count};
    for (uint32_t i = 0; i < path->link_count; i++) {
        uint32_t link = pool->paths.links.items[path->first_link + i];
        uint32_t a = pack_net_member(pool->net, pool->net->from[link], at);
        uint32_t b = pack_net_member(pool->net, pool->net->to[link], at);
        uint32_t place = forest->link_count + (turned ? path->link_count - 1 - i : i);
        forest->links[place] = turned ? topo_find_link(topo, b, a) : topo_find_link(topo, a, b);
    }
    forest->link_count += path->link_count;
}

/* A tree that crosses parallel switches becomes one per switch, in proportion to their capacities. */
static blink_result_t write_tree(const topo_t *topo, const blink_pool_t *pool, uint32_t index,
                                 blink_forest_t *forest)
{
    const uint32_t *tree = &pool->trees[(size_t)index * pool->n];
    uint32_t links = 0;
    for (uint32_t i = 0; i < pool->n; i++)
        links += tree[i] == PLAN_NONE ? 0 : pool->paths.paths.items[tree[i]].link_count;
    for (double at = 0.0, end; at < 1.0; at = end) {
        end = slice_end(pool, tree, at);
        BLINK_TRY(reserve_slice(forest, links));
        blink_edge_t *edge = &forest->edges[(size_t)forest->tree_count * forest->edge_count];
        for (uint32_t i = 0; i < pool->n; i++)
            if (tree[i] != PLAN_NONE)
                write_edge(topo, pool, &pool->paths.paths.items[tree[i]], (at + end) / 2.0, forest, edge++);
        forest->GBps[forest->tree_count++] = pool->GBps[index] * (end - at);
    }
    return BLINK_OK;
}

static blink_result_t pack_into(const topo_t *topo, blink_pool_t *pool, blink_forest_t *forest)
{
    forest->apart = find_apart(pool);
    if (forest->apart != PLAN_NONE)
        return BLINK_OK;
    bool found = false;
    for (uint32_t pass = 0; pass < PASSES_MAX && !found; pass++) {
        BLINK_TRY(pack(pool, pass));
        BLINK_TRY(blink_pool_pick(pool, 1, &found));
        if (blink_pool_units(pool, 1) <= 0.0)
            break;
    }
    if (!found)
        BLINK_TRY(blink_pool_relax(pool));
    for (uint32_t tree = 0; tree < pool->tree_count; tree++)
        if (pool->GBps[tree] > 0.0)
            BLINK_TRY(write_tree(topo, pool, tree, forest));
    return BLINK_OK;
}

blink_result_t blink_forest_pack(const topo_t *topo, const plan_t *plan, const blink_scope_t *scope,
                                 blink_forest_t *forest)
{
    *forest = (blink_forest_t){.edge_count = scope->rank_count - 1, .apart = PLAN_NONE};
    if (scope->rank_count == 1) {
        BLINK_TRY(reserve_slice(forest, 0));
        forest->GBps[forest->tree_count++] = 1.0;
        return BLINK_OK;
    }
    topo_t *view = NULL;
    BLINK_TRY(blink_view_create(topo, scope, &view));
    blink_pool_t pool;
    blink_result_t result = pool_init(&pool, view, plan, scope);
    if (result == BLINK_OK)
        result = pack_into(topo, &pool, forest);
    pool_fini(&pool);
    blink_view_destroy(view);
    return result;
}

void blink_forest_fini(blink_forest_t *forest)
{
    free(forest->GBps);
    free(forest->edges);
    free(forest->links);
}

double blink_forest_GBps(const blink_forest_t *forest)
{
    double sum = 0.0;
    for (uint32_t tree = 0; tree < forest->tree_count; tree++)
        sum += forest->GBps[tree];
    return sum;
}
