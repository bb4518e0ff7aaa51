/* What a plan comes to: loads, rate, depth, number of trees. The algorithms' claims are checked with
 * it. */
#include "error.h"
#include "plan/blocks.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool plan_meets_in_host(const topo_t *topo, const plan_t *plan)
{
    for (uint32_t i = 0; i < plan->path_count && topo->non_peer_count > 0; i++)
        if (!plan_path_joins_peers(topo, &plan->paths[i]))
            return true;
    return false;
}

/* The root stands for its own link to the switch and for the one that all edges of the tree have in common.
 */
plan_path_t plan_loaded_links(const plan_t *plan, const plan_part_t *part, const plan_tree_t *tree,
                              uint32_t rank)
{
    if (tree->path[rank] == PLAN_NONE)
        return (plan_path_t){0};
    plan_path_t loaded = plan->paths[tree->path[rank]];
    if (plan->algorithm == BLINK_ALGORITHM_MULTICAST && rank != part->root) {
        loaded.links += tree == &part->reduce ? 0 : 1;
        loaded.link_count = 1;
    }
    return loaded;
}

static void load_links(plan_path_t path, double share, double *loads)
{
    for (uint32_t i = 0; i < path.link_count; i++)
        loads[path.links[i]] += share;
}

static void load_tree(const plan_t *plan, const plan_part_t *part, const plan_tree_t *tree, double share,
                      double *loads)
{
    for (uint32_t rank = 0; tree->parent && rank < plan->rank_count; rank++)
        load_links(plan_loaded_links(plan, part, tree, rank), share, loads);
}

static void load_part(const plan_t *plan, const plan_part_t *part, double share, double *loads)
{
    load_tree(plan, part, &part->reduce, share, loads);
    load_tree(plan, part, &part->broadcast, share, loads);
    for (uint32_t i = 0; i < part->route.hop_count; i++)
        load_links(plan->paths[part->route.paths[i]], share, loads);
}

/* Spread loads over the powers of a symmetry: every link of an orbit carries the orbit's mean. */
static void spread(const topo_t *topo, const plan_symmetry_t *symmetry, double *loads, bool *seen)
{
    memset(seen, 0, topo->link_count * sizeof(*seen));
    for (uint32_t link = 0; link < topo->link_count; link++) {
        double sum = 0.0;
        uint32_t length = 0;
        for (uint32_t at = link; !seen[at]; at = symmetry->link_image[at]) {
            seen[at] = true;
            sum += loads[at];
            length++;
        }
        for (uint32_t i = 0, at = link; i < length; i++, at = symmetry->link_image[at])
            loads[at] = sum / length;
    }
}

blink_result_t plan_link_loads(const topo_t *topo, const plan_t *plan, double *loads)
{
    memset(loads, 0, topo->link_count * sizeof(*loads));
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        for (uint32_t i = 0; i < channel->part_count; i++)
            load_part(plan, &channel->parts[i], channel->share / channel->part_count, loads);
    }
    if (plan->symmetry_count == 0)
        return BLINK_OK;
    bool *seen = malloc((topo->link_count + 1u) * sizeof(*seen));
    if (!seen)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to measure %u links", topo->link_count);
    for (uint32_t i = 0; i < plan->symmetry_count; i++)
        spread(topo, &plan->symmetries[i], loads, seen);
    free(seen);
    return BLINK_OK;
}

/* What crosses a relay comes in by its links, and nothing ends there. `through` is per node. */
static double busiest(const topo_t *topo, const double *loads, double *through)
{
    double worst = 0.0;
    memset(through, 0, topo->node_count * sizeof(*through));
    for (uint32_t link = 0; link < topo->link_count; link++) {
        worst = fmax(worst, loads[link] / topo->links[link].GBps);
        through[topo->links[link].to] += loads[link];
    }
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (topo->nodes[node].kind != TOPO_DEVICE && topo->nodes[node].total_GBps > 0.0)
            worst = fmax(worst, through[node] / topo->nodes[node].total_GBps);
    return worst;
}

blink_result_t plan_rate_GBps(const topo_t *topo, const plan_t *plan, double *rate_GBps)
{
    double *loads = malloc(((size_t)topo->link_count + topo->node_count) * sizeof(*loads));
    if (!loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to measure %u links", topo->link_count);
    blink_result_t result = plan_link_loads(topo, plan, loads);
    if (result == BLINK_OK) {
        double worst = busiest(topo, loads, loads + topo->link_count);
        *rate_GBps = worst > 0.0 ? 1.0 / worst : 0.0;
    }
    free(loads);
    if (result != BLINK_OK || !(plan->block_GBps > 0.0))
        return result;
    plan_blocks_t blocks;
    BLINK_TRY(plan_count_blocks(plan, &blocks));
    *rate_GBps = fmin(*rate_GBps, plan->block_GBps / blocks.busiest);
    return BLINK_OK;
}

/* Every edge is climbed once: a ring is a chain for each of its ranks. */
uint32_t plan_tree_depth(const plan_t *plan, const plan_tree_t *tree)
{
    uint32_t depth[PLAN_RANKS_MAX] = {0}; /* of the ranks that were climbed from */
    uint32_t deepest = 0;
    for (uint32_t rank = 0; tree->parent && rank < plan->rank_count; rank++) {
        uint32_t above = 0, at = rank;
        for (; tree->parent[at] != PLAN_NONE && depth[at] == 0; at = tree->parent[at])
            above++;
        above += depth[at];
        deepest = above > deepest ? above : deepest;
        for (at = rank; tree->parent[at] != PLAN_NONE && depth[at] == 0; at = tree->parent[at])
            depth[at] = above--;
    }
    return deepest;
}

uint32_t plan_depth(const plan_t *plan)
{
    uint32_t deepest = 0;
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++) {
            const plan_part_t *part = &plan->channels[c].parts[i];
            uint32_t depth = plan_tree_depth(plan, &part->reduce) + plan_tree_depth(plan, &part->broadcast) +
                             part->route.hop_count;
            deepest = depth > deepest ? depth : deepest;
        }
    return deepest;
}

uint64_t plan_edge_count(const plan_t *plan)
{
    uint64_t count = 0;
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++) {
            const plan_part_t *part = &plan->channels[c].parts[i];
            uint32_t trees = (part->reduce.parent ? 1u : 0u) + (part->broadcast.parent ? 1u : 0u);
            count += (uint64_t)trees * (plan->rank_count - 1) + part->route.hop_count;
        }
    return count * plan_image_count(plan);
}

uint64_t plan_tree_count(const plan_t *plan)
{
    uint64_t count = 0;
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++) {
            const plan_part_t *part = &plan->channels[c].parts[i];
            count += (part->reduce.parent != NULL ? 1u : 0u) + (part->broadcast.parent != NULL ? 1u : 0u) +
                     (part->route.hop_count > 0 ? 1u : 0u);
        }
    return count * plan_image_count(plan);
}
