/* Plans by switches that reduce and copy: of every part such a switch makes what its root gets out of what
 * all ranks have, and what all ranks get out of what its root has. */
#include "error.h"
#include "names.h"
#include "plan/internal.h"

#include <math.h>
#include <string.h>

/* The least capacity of the links between the ranks and a switch, GB/s; 0 if one is missing. */
static double narrowest_GBps(const topo_t *topo, const plan_t *plan, uint32_t node)
{
    double least_GBps = INFINITY;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t up = topo_find_link(topo, plan->rank_node[rank], node);
        uint32_t down = topo_find_link(topo, node, plan->rank_node[rank]);
        if (up == TOPO_NONE || down == TOPO_NONE)
            return 0.0;
        least_GBps = fmin(least_GBps, fmin(topo->links[up].GBps, topo->links[down].GBps));
    }
    return least_GBps;
}

/* From a rank to another one, or back to itself. */
static blink_result_t find_path(const topo_t *topo, plan_t *plan, uint32_t node, uint32_t from, uint32_t to,
                                uint32_t *path)
{
    const uint32_t links[] = {topo_find_link(topo, plan->rank_node[from], node),
                              topo_find_link(topo, node, plan->rank_node[to])};
    return plan_intern_path(plan, links, 2, path);
}

static blink_result_t fill_part(const topo_t *topo, plan_t *plan, uint32_t node, uint32_t root,
                                plan_part_t *part)
{
    part->root = root;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        BLINK_TRY(find_path(topo, plan, node, rank, root, &part->reduce.path[rank]));
        BLINK_TRY(find_path(topo, plan, node, root, rank, &part->broadcast.path[rank]));
        if (rank != root)
            part->reduce.parent[rank] = part->broadcast.parent[rank] = root;
    }
    return BLINK_OK;
}

/* Switches take what their links carry. */
static blink_result_t add_channels(const topo_t *topo, plan_t *plan)
{
    for (uint32_t node = 0; node < topo->node_count; node++) {
        double GBps = topo->nodes[node].reduces ? narrowest_GBps(topo, plan, node) : 0.0;
        plan_channel_t *channel = NULL;
        if (!(GBps > 0.0))
            continue;
        BLINK_TRY(plan_add_channel(plan, GBps, plan->rank_count, &channel));
        for (uint32_t root = 0; root < plan->rank_count; root++)
            BLINK_TRY(fill_part(topo, plan, node, root, &channel->parts[root]));
    }
    plan_normalise_shares(plan);
    return BLINK_OK;
}

static bool is_one_host(const topo_t *topo, const plan_t *plan)
{
    const char *host = topo->nodes[plan->rank_node[0]].host;
    for (uint32_t rank = 1; rank < plan->rank_count; rank++)
        if (strcmp(topo->nodes[plan->rank_node[rank]].host, host) != 0)
            return false;
    return true;
}

blink_result_t plan_make_multicast(const topo_t *topo, const plan_request_t *request, plan_t *plan)
{
    const char *name = blink_name_algorithm(plan->algorithm);
    if (plan->collective != BLINK_ALLREDUCE)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s does no %s", name,
                          blink_name_collective(plan->collective));
    if (!request->multicast)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%s: these devices cannot make a switch reduce and copy, or not with this type and "
                          "operator",
                          name);
    if (!is_one_host(topo, plan))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s joins ranks of one host, and these are of several",
                          name);
    BLINK_TRY(add_channels(topo, plan));
    if (plan->channel_count == 0)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%s needs a switch that reduces and has links with all %u ranks; %s has none", name,
                          plan->rank_count, topo->name);
    return BLINK_OK;
}

/* ---- what comes from elsewhere ---- */

/* Two links that meet in the switch. */
static bool meets_at(const topo_t *topo, const plan_t *plan, uint32_t path, uint32_t node)
{
    const plan_path_t *of = &plan->paths[path];
    return of->link_count == 2 && topo->links[of->links[0]].to == node;
}

static bool is_star(const topo_t *topo, const plan_t *plan, const plan_tree_t *tree, uint32_t root,
                    uint32_t node)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if ((rank != root && tree->parent[rank] != root) || !meets_at(topo, plan, tree->path[rank], node))
            return false;
    return true;
}

bool plan_is_multicast_part(const topo_t *topo, const plan_t *plan, const plan_part_t *part)
{
    uint32_t node = topo->links[plan->paths[part->reduce.path[part->root]].links[0]].to;
    return topo->nodes[node].reduces && is_one_host(topo, plan) &&
           is_star(topo, plan, &part->reduce, part->root, node) &&
           is_star(topo, plan, &part->broadcast, part->root, node);
}
