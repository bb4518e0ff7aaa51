/*
 * Columns of the packing program: the cheapest tree, or pair of trees, with a given root under the prices of
 * now. The program need not know how trees are found.
 */
#include "error.h"
#include "plan/columns/tuning.h"
#include "plan/trees/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cost of an edge a tree may use between two ranks, in tree direction: away from the root, or toward it. */
static double edge_cost(const packer_t *p, uint32_t parent, uint32_t child, bool toward_root)
{
    size_t n = p->n;
    return toward_root ? p->master.paths.cost[child * n + parent] : p->master.paths.cost[parent * n + child];
}

/* Put a rank into the queue, unless it has been there. */
static void reach(packer_t *p, uint32_t rank, uint32_t level, uint32_t *tail)
{
    if (p->level[rank] != PLAN_NONE)
        return;
    p->level[rank] = level;
    p->queue[(*tail)++] = rank;
}

/* All ranks that a hub reaches, or that reach it. */
static void reach_across(packer_t *p, const pack_hub_t *hub, bool toward_root, uint32_t level, uint32_t *tail)
{
    const double *cost = toward_root ? hub->to : hub->from;
    for (uint32_t rank = 0; rank < p->n; rank++)
        if (cost[rank] < INFINITY)
            reach(p, rank, level, tail);
}

/* Fewest tree edges between the root and each rank; PLAN_NONE where there is no way. */
static void find_levels(packer_t *p, uint32_t root, bool toward_root)
{
    const pack_paths_t *paths = &p->master.paths;
    const uint32_t *first = toward_root ? paths->in_first : paths->out_first;
    const uint32_t *near = toward_root ? paths->in_from : paths->out_to.items;
    bool crossed[PATHS_HUBS_MAX] = {false};
    uint32_t head = 0, tail = 0;
    for (uint32_t rank = 0; rank < p->n; rank++)
        p->level[rank] = PLAN_NONE;
    reach(p, root, 0, &tail);
    while (head < tail && tail < p->n) {
        uint32_t parent = p->queue[head++], level = p->level[parent] + 1;
        for (uint32_t i = first[parent]; i < first[parent + 1]; i++)
            reach(p, near[i], level, &tail);
        for (uint32_t i = 0; i < paths->hub_count; i++) {
            const pack_hub_t *hub = &paths->hubs[i];
            if (crossed[i] || !((toward_root ? hub->from : hub->to)[parent] < INFINITY))
                continue;
            crossed[i] = true;
            reach_across(p, hub, toward_root, level, &tail);
        }
    }
}

static blink_result_t check_direction(packer_t *p, uint32_t root, bool toward_root)
{
    find_levels(p, root, toward_root);
    for (uint32_t rank = 0; rank < p->n; rank++) {
        uint32_t from = toward_root ? rank : root, to = toward_root ? root : rank;
        if (p->level[rank] == PLAN_NONE)
            return plan_fail_unreachable(p->topo, p->plan, from, to);
    }
    return BLINK_OK;
}

blink_result_t pack_check_reachable(packer_t *p)
{
    bool rooted = collective_has_root(p->plan->collective);
    uint32_t root = rooted ? p->plan->root : 0;
    if (!rooted || collective_broadcasts(p->plan->collective))
        BLINK_TRY(check_direction(p, root, false));
    if (!rooted || collective_reduces(p->plan->collective))
        BLINK_TRY(check_direction(p, root, true));
    return BLINK_OK;
}

/* What the mean edge costs: of those between near ranks, and one across each hub from each rank to itself. */
static double mean_cost(const packer_t *p)
{
    const pack_paths_t *paths = &p->master.paths;
    size_t n = p->n, count = paths->out_first[n];
    double sum = 0.0;
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t i = paths->out_first[from]; i < paths->out_first[from + 1]; i++)
            sum += paths->cost[from * n + paths->out_to.items[i]];
    for (uint32_t i = 0; i < paths->hub_count; i++)
        for (uint32_t rank = 0; rank < n; rank++) {
            double across = paths->hubs[i].to[rank] + paths->hubs[i].from[rank];
            sum += across < INFINITY ? across : 0.0;
            count += across < INFINITY;
        }
    return sum / fmax((double)count, 1.0);
}

/* Edges out of ranks near the root are a hair cheaper, so that of equally cheap trees a shallow one is found.
 */
static void penalise_levels(packer_t *p, uint32_t root, bool toward_root)
{
    double step = GROW_LEVEL_PENALTY * mean_cost(p);
    find_levels(p, root, toward_root);
    for (uint32_t rank = 0; rank < p->n; rank++)
        p->distance[rank] = step * p->level[rank];
}

/* Edges to the root from each rank, into level[]; the deepest is returned. Every rank is visited once, since
 * levels already known are not walked again. */
static uint32_t measure_levels(packer_t *p, uint32_t root)
{
    uint32_t deepest = 0;
    for (uint32_t rank = 0; rank < p->n; rank++)
        p->level[rank] = PLAN_NONE;
    p->level[root] = 0;
    for (uint32_t rank = 0; rank < p->n; rank++) {
        uint32_t height = 0, at = rank;
        for (; p->level[at] == PLAN_NONE; at = p->parent[at])
            p->queue[height++] = at;
        for (uint32_t level = p->level[at]; height > 0;)
            p->level[p->queue[--height]] = ++level;
        deepest = p->level[rank] > deepest ? p->level[rank] : deepest;
    }
    return deepest;
}

/* The rank farthest from the root of the tree in parent[]. */
static uint32_t find_deepest(packer_t *p, uint32_t root)
{
    uint32_t deepest = root;
    measure_levels(p, root);
    for (uint32_t rank = 0; rank < p->n; rank++)
        deepest = p->level[rank] > p->level[deepest] ? rank : deepest;
    return deepest;
}

/* Turn the tree in parent[] to the root that makes it shallowest: the middle of a longest way through it. */
static uint32_t centre_tree(packer_t *p, uint32_t root)
{
    uint32_t one_end = find_deepest(p, root);
    pack_turn_tree(p, one_end);
    uint32_t centre = find_deepest(p, one_end);
    for (uint32_t i = p->level[centre] / 2; i > 0; i--)
        centre = p->parent[centre];
    pack_turn_tree(p, centre);
    return centre;
}

/* Write the tree in parent[] as path indices and add its cost and depth. */
static blink_result_t write_tree(packer_t *p, uint32_t root, bool toward_root, uint32_t *tree,
                                 pack_candidate_t *made)
{
    made->depth += measure_levels(p, root);
    for (uint32_t rank = 0; rank < p->n; rank++) {
        uint32_t parent = p->parent[rank];
        tree[rank] = PLAN_NONE;
        if (rank == root)
            continue;
        made->cost += edge_cost(p, parent, rank, toward_root);
        BLINK_TRY(pack_paths_find(&p->master.paths, toward_root ? rank : parent, toward_root ? parent : rank,
                                  &tree[rank]));
    }
    return BLINK_OK;
}

/* No tree with this root keeps the limit. */
static blink_result_t forgo(pack_candidate_t *made)
{
    made->cost = INFINITY;
    return BLINK_OK;
}

/* Prices are the same both ways, so the cheapest tree is a minimum spanning tree, its reduce tree is its
 * broadcast tree backwards, and any rank may be the root. */
static blink_result_t grow_reversible(packer_t *p, uint32_t root, uint32_t *column, pack_candidate_t *made)
{
    if (p->limit) {
        if (!pack_limit_grow(p, p->limit, root, false))
            return forgo(made);
        made->root = pack_limit_centre(p, p->limit, root);
    } else {
        pack_span(p->n, p->master.paths.cost, root, p->parent, p->distance, p->level);
        made->root = centre_tree(p, root);
    }
    BLINK_TRY(write_tree(p, made->root, false, column, made));
    for (uint32_t rank = 0; rank < p->n; rank++) {
        column[p->n + rank] = PLAN_NONE;
        if (rank != made->root)
            BLINK_TRY(pack_paths_reverse(&p->master.paths, column[rank], &column[p->n + rank]));
    }
    made->cost *= 2.0;
    made->depth *= 2;
    return BLINK_OK;
}

static blink_result_t grow_tree(packer_t *p, uint32_t root, bool toward_root, uint32_t *tree,
                                pack_candidate_t *made)
{
    if (p->limit) {
        if (!pack_limit_grow(p, p->limit, root, toward_root))
            return forgo(made);
    } else {
        penalise_levels(p, root, toward_root);
        pack_arborist_grow(&p->arborist, root, toward_root, p->distance, p->parent);
    }
    return write_tree(p, root, toward_root, tree, made);
}

blink_result_t pack_grow_column(packer_t *p, uint32_t root, uint32_t *column, pack_candidate_t *made)
{
    *made = (pack_candidate_t){.root = root};
    if (p->master.net->reversible)
        return grow_reversible(p, root, column, made);
    if (collective_broadcasts(p->plan->collective)) {
        BLINK_TRY(grow_tree(p, root, false, column, made));
        column += p->n;
    }
    if (collective_reduces(p->plan->collective))
        BLINK_TRY(grow_tree(p, root, true, column, made));
    return BLINK_OK;
}
