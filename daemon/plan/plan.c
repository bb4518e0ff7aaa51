/* One way in: check the request, let the algorithm fill the channels, then measure what it claims: the rate
 * from the loads, the bound from link prices, both by code the algorithms do not share. */
#include "plan/plan.h"

#include "error.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static blink_result_t check_rank(const topo_t *topo, const plan_request_t *request, uint32_t rank)
{
    uint32_t node = request->rank_node[rank];
    if (node >= topo->node_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u is on node %u; %s has %u nodes", rank, node,
                          topo->name, topo->node_count);
    if (topo->nodes[node].kind != TOPO_GPU)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u is on %s, which is a %s, not a gpu", rank,
                          topo->nodes[node].id, topo_node_kind_name(topo->nodes[node].kind));
    for (uint32_t other = 0; other < rank; other++)
        if (request->rank_node[other] == node)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "ranks %u and %u are both on %s", other, rank,
                              topo->nodes[node].id);
    return BLINK_OK;
}

static blink_result_t check_request(const topo_t *topo, const plan_request_t *request)
{
    if (request->collective != BLINK_ALLREDUCE && request->collective != BLINK_BROADCAST)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "no plan for collective %u",
                          (unsigned)request->collective);
    if (request->algorithm != BLINK_ALGORITHM_AUTO && request->algorithm != BLINK_ALGORITHM_TREES &&
        request->algorithm != BLINK_ALGORITHM_RING)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "no algorithm %u", (unsigned)request->algorithm);
    if (request->rank_count == 0 || request->rank_count > PLAN_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u ranks; a communicator has 1 to %u",
                          request->rank_count, PLAN_RANKS_MAX);
    for (uint32_t rank = 0; rank < request->rank_count; rank++)
        BLINK_TRY(check_rank(topo, request, rank));
    if (request->collective == BLINK_BROADCAST && request->root >= request->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %u is not one of %u ranks", request->root,
                          request->rank_count);
    return BLINK_OK;
}

static blink_result_t alloc_tree(plan_tree_t *tree, uint32_t rank_count)
{
    tree->parent = malloc(rank_count * sizeof(*tree->parent));
    tree->path = malloc(rank_count * sizeof(*tree->path));
    if (tree->parent == NULL || tree->path == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a tree over %u ranks", rank_count);
    for (uint32_t rank = 0; rank < rank_count; rank++)
        tree->parent[rank] = tree->path[rank] = PLAN_NONE;
    return BLINK_OK;
}

static blink_result_t alloc_channel(const plan_t *plan, plan_channel_t *channel, uint32_t part_count)
{
    channel->parts = calloc(part_count, sizeof(*channel->parts));
    if (channel->parts == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a channel of %u parts", part_count);
    channel->part_count = part_count;
    for (uint32_t i = 0; i < part_count; i++) {
        BLINK_TRY(alloc_tree(&channel->parts[i].broadcast, plan->rank_count));
        if (plan->collective == BLINK_ALLREDUCE)
            BLINK_TRY(alloc_tree(&channel->parts[i].reduce, plan->rank_count));
    }
    return BLINK_OK;
}

blink_result_t plan_alloc_channels(plan_t *plan, uint32_t channel_count, uint32_t part_count)
{
    plan->channels = calloc(channel_count, sizeof(*plan->channels));
    if (plan->channels == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u channels", channel_count);
    plan->channel_count = channel_count;
    for (uint32_t i = 0; i < channel_count; i++)
        BLINK_TRY(alloc_channel(plan, &plan->channels[i], part_count));
    return BLINK_OK;
}

blink_result_t plan_intern_path(plan_t *plan, const uint32_t *links, uint32_t link_count, uint32_t *index)
{
    for (uint32_t i = 0; i < plan->path_count; i++)
        if (plan->paths[i].link_count == link_count &&
            memcmp(plan->paths[i].links, links, link_count * sizeof(*links)) == 0) {
            *index = i;
            return BLINK_OK;
        }
    plan_path_t *paths = realloc(plan->paths, (plan->path_count + 1) * sizeof(*paths));
    if (paths == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u paths", plan->path_count + 1);
    plan->paths = paths;
    uint32_t *copy = malloc(link_count * sizeof(*copy));
    if (copy == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path of %u links", link_count);
    memcpy(copy, links, link_count * sizeof(*copy));
    plan->paths[plan->path_count] = (plan_path_t){copy, link_count};
    *index = plan->path_count++;
    return BLINK_OK;
}

static void free_tree(plan_tree_t *tree)
{
    free(tree->parent);
    free(tree->path);
}

void plan_destroy(plan_t *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++) {
            free_tree(&plan->channels[c].parts[i].reduce);
            free_tree(&plan->channels[c].parts[i].broadcast);
        }
        free(plan->channels[c].parts);
    }
    for (uint32_t i = 0; i < plan->path_count; i++)
        free(plan->paths[i].links);
    free(plan->channels);
    free(plan->paths);
    free(plan->rank_node);
    free(plan);
}

static void load_tree(const plan_t *plan, const plan_tree_t *tree, double share, double *loads)
{
    if (tree->parent == NULL)
        return;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        if (tree->path[rank] == PLAN_NONE)
            continue;
        const plan_path_t *path = &plan->paths[tree->path[rank]];
        for (uint32_t i = 0; i < path->link_count; i++)
            loads[path->links[i]] += share;
    }
}

void plan_link_loads(const topo_t *topo, const plan_t *plan, double *loads)
{
    memset(loads, 0, topo->link_count * sizeof(*loads));
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        for (uint32_t i = 0; i < channel->part_count; i++) {
            load_tree(plan, &channel->parts[i].reduce, channel->share / channel->part_count, loads);
            load_tree(plan, &channel->parts[i].broadcast, channel->share / channel->part_count, loads);
        }
    }
}

/* What crosses a relay comes in by its links, and nothing ends there. */
static double busiest(const topo_t *topo, const double *loads)
{
    double worst = 0.0;
    for (uint32_t link = 0; link < topo->link_count; link++)
        worst = fmax(worst, loads[link] / topo->links[link].GBps);
    for (uint32_t node = 0; node < topo->node_count; node++) {
        double through = 0.0;
        if (topo->nodes[node].kind == TOPO_GPU || topo->nodes[node].total_GBps <= 0.0)
            continue;
        for (uint32_t link = 0; link < topo->link_count; link++)
            through += topo->links[link].to == node ? loads[link] : 0.0;
        worst = fmax(worst, through / topo->nodes[node].total_GBps);
    }
    return worst;
}

double plan_rate_GBps(const topo_t *topo, const plan_t *plan)
{
    double *loads = calloc(topo->link_count + 1u, sizeof(*loads));
    if (loads == NULL)
        return 0.0;
    plan_link_loads(topo, plan, loads);
    double worst = busiest(topo, loads);
    free(loads);
    return worst > 0.0 ? 1.0 / worst : 0.0;
}

static uint32_t tree_depth(const plan_t *plan, const plan_tree_t *tree)
{
    uint32_t deepest = 0;
    for (uint32_t rank = 0; tree->parent != NULL && rank < plan->rank_count; rank++) {
        uint32_t depth = 0;
        for (uint32_t at = rank; tree->parent[at] != PLAN_NONE; at = tree->parent[at])
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

uint32_t plan_depth(const plan_t *plan)
{
    uint32_t deepest = 0;
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++) {
            const plan_part_t *part = &plan->channels[c].parts[i];
            uint32_t depth = tree_depth(plan, &part->reduce) + tree_depth(plan, &part->broadcast);
            deepest = depth > deepest ? depth : deepest;
        }
    return deepest;
}

static blink_result_t copy_request(plan_t *plan, const plan_request_t *request)
{
    plan->collective = request->collective;
    plan->algorithm = request->algorithm == BLINK_ALGORITHM_RING ? "ring" : "packed-trees";
    plan->root = request->collective == BLINK_BROADCAST ? request->root : PLAN_NONE;
    plan->rank_count = request->rank_count;
    plan->rank_node = malloc(request->rank_count * sizeof(*plan->rank_node));
    if (plan->rank_node == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", request->rank_count);
    memcpy(plan->rank_node, request->rank_node, request->rank_count * sizeof(*plan->rank_node));
    return BLINK_OK;
}

static blink_result_t fill(const topo_t *topo, const plan_request_t *request, plan_t *plan, double *prices)
{
    if (request->algorithm == BLINK_ALGORITHM_RING) {
        BLINK_TRY(plan_find_rings(topo, plan));
        BLINK_TRY(plan_pack_prices(topo, plan, prices));
    } else {
        BLINK_TRY(plan_pack_trees(topo, plan, prices));
    }
    plan->rate_GBps = plan_rate_GBps(topo, plan);
    return plan_bound_GBps(topo, plan, prices, &plan->bound_GBps);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

blink_result_t plan_create(const topo_t *topo, const plan_request_t *request, plan_t **out)
{
    double start_ms = now_ms();
    BLINK_TRY(check_request(topo, request));
    plan_t *plan = calloc(1, sizeof(*plan));
    double *prices = calloc(topo->link_count + topo->node_count, sizeof(*prices));
    blink_result_t result = plan != NULL && prices != NULL
                                ? copy_request(plan, request)
                                : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan");
    if (result == BLINK_OK && request->rank_count > 1)
        result = fill(topo, request, plan, prices);
    free(prices);
    if (result != BLINK_OK) {
        plan_destroy(plan);
        return result;
    }
    plan->plan_ms = now_ms() - start_ms;
    *out = plan;
    return BLINK_OK;
}
