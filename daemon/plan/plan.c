/* One way in: check the request, let the algorithm fill the channels, then measure what it claims: the rate
 * from the loads, the bound from link prices, both by code the algorithms do not share. */
#include "plan/plan.h"

#include "base/clock.h"
#include "error.h"
#include "names.h"
#include "plan/blocks.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A limit beyond this is none. */
#define SECONDS_MAX 1e6

static blink_result_t check_ranks(const topo_t *topo, const plan_request_t *request)
{
    uint32_t *rank_of = malloc(topo->node_count * sizeof(*rank_of));
    if (!rank_of)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u nodes", topo->node_count);
    memset(rank_of, 0xff, topo->node_count * sizeof(*rank_of));
    blink_result_t result = BLINK_OK;
    for (uint32_t rank = 0; result == BLINK_OK && rank < request->rank_count; rank++) {
        uint32_t node = request->rank_node[rank];
        if (node >= topo->node_count)
            result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u is on node %u; %s has %u nodes", rank,
                                node, topo->name, topo->node_count);
        else if (topo->nodes[node].kind != TOPO_DEVICE)
            result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u is on %s, which is a %s, not a gpu",
                                rank, topo->nodes[node].id, topo_node_kind_name(topo->nodes[node].kind));
        else if (rank_of[node] != PLAN_NONE)
            result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "ranks %u and %u are both on %s", rank_of[node],
                                rank, topo->nodes[node].id);
        else
            rank_of[node] = rank;
    }
    free(rank_of);
    return result;
}

static blink_result_t check_ends(const plan_request_t *request)
{
    if (collective_has_root(request->collective) && request->root >= request->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %u is not one of %u ranks", request->root,
                          request->rank_count);
    if (request->collective == BLINK_SENDRECV && request->peer >= request->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "peer %u is not one of %u ranks", request->peer,
                          request->rank_count);
    return BLINK_OK;
}

blink_result_t plan_check_request(const topo_t *topo, const plan_request_t *request)
{
    if (!collective_valid(request->collective))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "no collective %u", (unsigned)request->collective);
    if (request->rank_count == 0 || request->rank_count > PLAN_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u ranks; a communicator has 1 to %u",
                          request->rank_count, PLAN_RANKS_MAX);
    BLINK_TRY(check_ranks(topo, request));
    return check_ends(request);
}

static blink_result_t copy_request(const topo_t *topo, const plan_request_t *request, plan_t *plan)
{
    bool rooted = collective_has_root(request->collective);
    plan->collective = request->collective;
    plan->algorithm = request->algorithm;
    if (plan->algorithm == BLINK_ALGORITHM_AUTO) /* in memory the links are no more than a way to say so */
        plan->algorithm = topo_is_plain_memory(topo) ? BLINK_ALGORITHM_ONE_HOP : BLINK_ALGORITHM_TREES;
    plan->root = rooted ? request->root : PLAN_NONE;
    plan->peer = request->collective == BLINK_SENDRECV ? request->peer : PLAN_NONE;
    plan->rank_count = request->rank_count;
    if (request->plan_seconds > 0.0)
        plan->deadline_ns = clock_ns() + (uint64_t)(fmin(request->plan_seconds, SECONDS_MAX) * 1e9);
    plan->rank_node = malloc(request->rank_count * sizeof(*plan->rank_node));
    plan->prices = calloc((size_t)topo->link_count + topo->node_count, sizeof(*plan->prices));
    if (!plan->rank_node || !plan->prices)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", request->rank_count);
    memcpy(plan->rank_node, request->rank_node, request->rank_count * sizeof(*plan->rank_node));
    return BLINK_OK;
}

/* All algorithms but the packing, which knows its prices by itself. */
static blink_result_t fill_channels(const topo_t *topo, const plan_request_t *request, plan_t *plan)
{
    switch (plan->algorithm) {
    case BLINK_ALGORITHM_RING:
        return plan_find_rings(topo, plan);
    case BLINK_ALGORITHM_ONE_HOP:
    case BLINK_ALGORITHM_BINOMIAL:
    case BLINK_ALGORITHM_RECURSIVE_DOUBLING:
        return plan_make_latency(topo, plan);
    case BLINK_ALGORITHM_SHALLOW_TREES:
        return plan_shallowest_trees(topo, request->bytes, plan);
    case BLINK_ALGORITHM_DOUBLE_BINARY_TREE:
        return plan_double_binary_trees(topo, plan);
    case BLINK_ALGORITHM_BLINK:
        return plan_blink(topo, request->bytes, plan);
    case BLINK_ALGORITHM_MULTICAST:
        return plan_make_multicast(topo, request, plan);
    default:
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "no algorithm %u", (unsigned)plan->algorithm);
    }
}

/* Algorithms that take links as they find them know nothing of devices that are no peers. */
static blink_result_t check_paths(const topo_t *topo, const plan_t *plan)
{
    for (uint32_t i = 0; i < plan->path_count && topo->non_peer_count > 0; i++) {
        const plan_path_t *path = &plan->paths[i];
        if (plan_path_joins_peers(topo, path) || plan_path_by_host(topo, path))
            continue;
        const topo_link_t *first = &topo->links[path->links[0]];
        const topo_link_t *last = &topo->links[path->links[path->link_count - 1]];
        return BLINK_FAIL(BLINK_ERR_UNREACHABLE,
                          "%s and %s are no peers, and the way between them comes by no CPU of %s",
                          topo->nodes[first->from].id, topo->nodes[last->to].id, topo->name);
    }
    return BLINK_OK;
}

static blink_result_t fill(const topo_t *topo, const plan_request_t *request, plan_t *plan)
{
    if (plan->algorithm != BLINK_ALGORITHM_TREES)
        BLINK_TRY(fill_channels(topo, request, plan));
    else if (collective_routes(plan->collective))
        BLINK_TRY(plan_pack_routes(topo, plan, plan->prices));
    else
        BLINK_TRY(plan_pack_trees(topo, plan, plan->prices));
    BLINK_TRY(check_paths(topo, plan));
    BLINK_TRY(plan_rate_GBps(topo, plan, &plan->rate_GBps));
    return plan_fill_blocks(topo, request, plan);
}

blink_result_t plan_create_unproven(const topo_t *topo, const plan_request_t *request, plan_t **out)
{
    uint64_t start_ns = clock_ns();
    BLINK_TRY(plan_check_request(topo, request));
    plan_t *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan");
    blink_result_t result = copy_request(topo, request, plan);
    if (result == BLINK_OK && request->rank_count > 1)
        result = fill(topo, request, plan);
    if (result != BLINK_OK) {
        plan_destroy(plan);
        return result;
    }
    plan->plan_ms = (double)(clock_ns() - start_ns) * 1e-6;
    *out = plan;
    return BLINK_OK;
}

blink_result_t plan_create_shallow(const topo_t *topo, const plan_request_t *request,
                                   plan_t *plans[PLAN_SHALLOW_MOST], uint32_t *count)
{
    plan_t *head = calloc(1, sizeof(*head));
    *count = 0;
    if (!head)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan");
    blink_result_t result = copy_request(topo, request, head);
    if (result == BLINK_OK && request->rank_count > 1) {
        result = plan_shallow_trees(topo, head, plans, count);
        for (uint32_t i = 0; result == BLINK_OK && i < *count; i++)
            result = plan_fill_blocks(topo, request, plans[i]);
        plan_destroy(head);
    } else {
        plans[(*count)++] = head;
    }
    return result;
}

/* One rank, or a sendrecv to oneself. */
static bool moves_nothing(const plan_t *plan)
{
    return plan->rank_count < 2 || (plan->collective == BLINK_SENDRECV && plan->root == plan->peer);
}

blink_result_t plan_prove_bound(const topo_t *topo, plan_t *plan, const plan_t *packed)
{
    if (moves_nothing(plan))
        return BLINK_OK;
    if (!packed)
        BLINK_TRY(collective_routes(plan->collective) ? plan_route_prices(topo, plan, plan->prices)
                                                      : plan_pack_prices(topo, plan, plan->prices));
    else if (packed != plan)
        memcpy(plan->prices, packed->prices,
               ((size_t)topo->link_count + topo->node_count) * sizeof(*plan->prices));
    return plan->algorithm == BLINK_ALGORITHM_MULTICAST
               ? plan_multicast_bound_GBps(topo, plan, &plan->bound_GBps)
               : plan_bound_GBps(topo, plan, plan->prices, &plan->bound_GBps);
}
