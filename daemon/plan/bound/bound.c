/*
 * The certificate: an upper bound on what any plan can reach, from link prices and from cuts. Whoever made
 * the prices, every plan pays at least the cheapest trees' or ways' cost per unit of payload and can buy at
 * most the capacity there is: rate <= sum(capacity · price) / cheapest. Shares no code with the packer, so
 * that a defect there cannot hide here.
 */
#include "plan/bound/bound.h"

#include "error.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what plans may use ---- */

static blink_result_t net_init(bound_net_t *net, const topo_t *topo, const plan_t *plan)
{
    *net = (bound_net_t){.topo = topo, .plan = plan};
    net->usable = malloc(topo->node_count * sizeof(*net->usable));
    net->price = calloc((size_t)topo->link_count + topo->node_count, sizeof(*net->price));
    if (!net->usable || !net->price)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to bound a plan over %u nodes", topo->node_count);
    for (uint32_t node = 0; node < topo->node_count; node++)
        net->usable[node] = topo->nodes[node].kind != TOPO_DEVICE;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        net->usable[plan->rank_node[rank]] = true;
    return BLINK_OK;
}

static void net_fini(bound_net_t *net)
{
    free(net->usable);
    free(net->price);
}

/* What item `item` can carry, GB/s, as prices are counted: links, then nodes; 0: nothing, or no limit. */
static double capacity_GBps(const bound_net_t *net, uint32_t item)
{
    const topo_t *topo = net->topo;
    if (item >= topo->link_count) {
        const topo_node_t *node = &topo->nodes[item - topo->link_count];
        return node->kind == TOPO_DEVICE ? 0.0 : node->total_GBps;
    }
    const topo_link_t *link = &topo->links[item];
    return net->usable[link->from] && net->usable[link->to] ? link->GBps : 0.0;
}

/* Take the prices as parts of the largest, and those that are none as 0: so sums cannot overflow. Returns the
 * worth of all capacity. */
static double take_prices(bound_net_t *net, const double *prices)
{
    uint32_t count = net->topo->link_count + net->topo->node_count;
    double largest = 0.0, budget = 0.0;
    for (uint32_t i = 0; i < count; i++)
        if (isfinite(prices[i]) && prices[i] > largest && capacity_GBps(net, i) > 0.0)
            largest = prices[i];
    for (uint32_t i = 0; i < count; i++) {
        double GBps = capacity_GBps(net, i);
        net->price[i] = isfinite(prices[i]) && prices[i] > 0.0 && GBps > 0.0 ? prices[i] / largest : 0.0;
        budget += GBps * net->price[i];
    }
    return budget;
}

/* ---- what a unit of payload costs ---- */

/* Costs of the edges between ranks: cost[to * n + from], or with ends exchanged for trees toward the root.
 * Edges into the root of a rooted collective are free: no tree has them, and every rank leads to it. */
static void price_edges(const bound_net_t *net, bound_search_t *search, bool toward_root, double *cost)
{
    const plan_t *plan = net->plan;
    size_t n = plan->rank_count;
    for (uint32_t from = 0; from < n; from++) {
        bound_search(net, search, plan->rank_node[from], false);
        for (uint32_t to = 0; to < n; to++)
            cost[toward_root ? from * n + to : to * n + from] = search->distance[plan->rank_node[to]];
    }
    for (uint32_t from = 0; plan->root != PLAN_NONE && from < n; from++)
        cost[plan->root * n + from] = 0.0;
}

/* Add what trees cost, to the sums of each root. */
static blink_result_t add_tree_costs(const bound_net_t *net, bound_search_t *search, bool toward_root,
                                     double *root_cost)
{
    size_t n = net->plan->rank_count;
    double *cost = malloc(n * (n + 1) * sizeof(*cost));
    if (!cost)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to price trees over %zu ranks", n);
    price_edges(net, search, toward_root, cost);
    blink_result_t result = bound_tree_costs(cost, (uint32_t)n, cost + n * n);
    for (size_t root = 0; result == BLINK_OK && root < n; root++)
        root_cost[root] += cost[n * n + root];
    free(cost);
    return result;
}

/* The root's cost, or the mean or least over all roots, as the collective deals its payload to them. */
static blink_result_t price_trees(const bound_net_t *net, bound_search_t *search, double *cost)
{
    const plan_t *plan = net->plan;
    double *root_cost = calloc(plan->rank_count, sizeof(*root_cost)), sum = 0.0, least = INFINITY;
    if (!root_cost)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u roots", plan->rank_count);
    blink_result_t result = BLINK_OK;
    if (collective_broadcasts(plan->collective))
        result = add_tree_costs(net, search, false, root_cost);
    if (result == BLINK_OK && collective_reduces(plan->collective))
        result = add_tree_costs(net, search, true, root_cost);
    for (uint32_t root = 0; root < plan->rank_count; root++) {
        sum += root_cost[root];
        least = fmin(least, root_cost[root]);
    }
    if (plan->root != PLAN_NONE)
        *cost = root_cost[plan->root];
    else
        *cost = collective_per_rank(plan->collective) ? sum / plan->rank_count : least;
    free(root_cost);
    return result;
}

/* Whether a block leads from one rank to another. */
static bool demanded(const plan_t *plan, uint32_t from, uint32_t to)
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

/* Every block takes its cheapest way. */
static double price_routes(const bound_net_t *net, bound_search_t *search)
{
    const plan_t *plan = net->plan;
    double sum = 0.0;
    for (uint32_t from = 0; from < plan->rank_count; from++) {
        bool sends = plan->root == PLAN_NONE || from == plan->root || plan->collective == BLINK_GATHER;
        if (!sends)
            continue;
        bound_search(net, search, plan->rank_node[from], true);
        for (uint32_t to = 0; to < plan->rank_count; to++)
            if (demanded(plan, from, to))
                sum += search->distance[plan->rank_node[to]];
    }
    return sum / (double)collective_block_count(plan->collective, plan->rank_count);
}

static blink_result_t bound_by_prices(const bound_net_t *net, double budget, double *bound_GBps)
{
    bound_search_t search;
    double cost = 0.0;
    blink_result_t result = bound_search_init(&search, net->topo);
    if (result == BLINK_OK) {
        if (collective_routes(net->plan->collective))
            cost = price_routes(net, &search);
        else
            result = price_trees(net, &search, &cost);
    }
    bound_search_fini(&search);
    *bound_GBps = cost > 0.0 ? budget / cost : INFINITY;
    return result;
}

/* ---- cuts ---- */

/* Part of the payload that at least comes into a rank, or goes out of it. */
static double must_pass(const plan_t *plan, uint32_t rank, bool in)
{
    uint32_t others = 0;
    double blocks = (double)collective_block_count(plan->collective, plan->rank_count);
    if (collective_per_rank(plan->collective))
        return in == (plan->collective == BLINK_ALLGATHER) ? (blocks - 1.0) / blocks : 1.0 / blocks;
    if (!collective_routes(plan->collective))
        return plan->root == PLAN_NONE || (rank == plan->root) == (in == (plan->collective == BLINK_REDUCE));
    for (uint32_t other = 0; other < plan->rank_count; other++)
        others += in ? demanded(plan, other, rank) : demanded(plan, rank, other);
    return others / blocks;
}

/* Each rank against the rest. */
static blink_result_t bound_by_ranks(const bound_net_t *net, double *bound_GBps)
{
    const topo_t *topo = net->topo;
    double *GBps = calloc(2 * (size_t)topo->node_count, sizeof(*GBps)); /* into each node, then out of it */
    if (!GBps)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u nodes", topo->node_count);
    for (uint32_t link = 0; link < topo->link_count; link++) {
        GBps[topo->links[link].to] += capacity_GBps(net, link);
        GBps[topo->node_count + topo->links[link].from] += capacity_GBps(net, link);
    }
    for (uint32_t rank = 0; rank < net->plan->rank_count; rank++)
        for (uint32_t out = 0; out < 2; out++) {
            double must = must_pass(net->plan, rank, !out);
            if (must > 0.0)
                *bound_GBps =
                    fmin(*bound_GBps, GBps[out * topo->node_count + net->plan->rank_node[rank]] / must);
        }
    free(GBps);
    return BLINK_OK;
}

/* The root against each rank it sends all to, or that sends all to it. */
static blink_result_t bound_by_flows(const bound_net_t *net, double *bound_GBps)
{
    const plan_t *plan = net->plan;
    bound_flow_t *flow = NULL;
    BLINK_TRY(bound_flow_create(net, &flow));
    uint32_t root = plan->rank_node[plan->root];
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t node = plan->rank_node[rank];
        if (rank == plan->root || (plan->peer != PLAN_NONE && rank != plan->peer))
            continue;
        double GBps = plan->collective == BLINK_REDUCE ? bound_flow_GBps(flow, node, root, *bound_GBps)
                                                       : bound_flow_GBps(flow, root, node, *bound_GBps);
        *bound_GBps = fmin(*bound_GBps, GBps);
    }
    bound_flow_destroy(flow);
    return BLINK_OK;
}

static blink_result_t bound(bound_net_t *net, const double *prices, double *bound_GBps)
{
    const plan_t *plan = net->plan;
    double budget = take_prices(net, prices);
    BLINK_TRY(bound_by_prices(net, budget, bound_GBps));
    BLINK_TRY(bound_by_ranks(net, bound_GBps));
    if (plan->root != PLAN_NONE && collective_block_count(plan->collective, plan->rank_count) == 1)
        BLINK_TRY(bound_by_flows(net, bound_GBps));
    return BLINK_OK;
}

static bool moves_nothing(const plan_t *plan)
{
    return plan->rank_count < 2 || (plan->peer != PLAN_NONE && plan->peer == plan->root);
}

blink_result_t plan_bound_GBps(const topo_t *topo, const plan_t *plan, const double *prices,
                               double *bound_GBps)
{
    bound_net_t net;
    if (moves_nothing(plan)) {
        *bound_GBps = 0.0;
        return BLINK_OK;
    }
    blink_result_t result = net_init(&net, topo, plan);
    if (result == BLINK_OK)
        result = bound(&net, prices, bound_GBps);
    net_fini(&net);
    return result;
}

/* ---- where switches reduce and copy ---- */

/* Whether trees that branch at the switch cost no more than trees over the ranks do: some rank and the switch
 * have links to each other, or nothing passes the switch as all its links are those of other gpus. */
static bool stands_for_ranks(const bound_net_t *net, uint32_t node)
{
    const topo_t *topo = net->topo;
    bool leads = false;
    for (uint32_t i = topo->out_first[node]; i < topo->out_first[node + 1]; i++) {
        uint32_t to = topo->links[topo->out_links[i]].to;
        leads = leads || net->usable[to];
        if (topo->nodes[to].kind == TOPO_DEVICE && net->usable[to] &&
            topo_find_link(topo, to, node) != TOPO_NONE)
            return true;
    }
    return !leads;
}

static bool joins_switch_and_gpu(const topo_t *topo, const topo_link_t *link)
{
    const topo_node_t *from = &topo->nodes[link->from], *to = &topo->nodes[link->to];
    return (from->reduces && to->kind == TOPO_DEVICE) || (to->reduces && from->kind == TOPO_DEVICE);
}

/* Change prices so that they prove a bound where switches copy and reduce, too. */
static void free_switches(const bound_net_t *net, double *prices)
{
    const topo_t *topo = net->topo;
    bool hold = true;
    for (uint32_t node = 0; node < topo->node_count; node++)
        if (topo->nodes[node].reduces) {
            prices[topo->link_count + node] = 0.0;
            hold = hold && stands_for_ranks(net, node);
        }
    for (uint32_t link = 0; link < topo->link_count; link++)
        if (joins_switch_and_gpu(topo, &topo->links[link]))
            prices[link] = 0.0;
    if (!hold)
        memset(prices, 0, ((size_t)topo->link_count + topo->node_count) * sizeof(*prices));
}

/*
 * Where switches copy and reduce, a tree may branch at them, and may cost less than any tree over the ranks.
 * But give its branches to a rank that is at the switch: if the rank is nearer to the root than the switch,
 * nothing leads to the switch any more, else the rank leaves its place and what led to the switch leads to
 * it. Where links between the two are free, this tree costs no more, so that the cheapest tree over the ranks
 * still proves a bound. Cuts prove theirs whatever nodes do.
 */
static blink_result_t multicast_bound(bound_net_t *net, double *prices, double *bound_GBps)
{
    memcpy(prices, net->plan->prices,
           ((size_t)net->topo->link_count + net->topo->node_count) * sizeof(*prices));
    free_switches(net, prices);
    return bound(net, prices, bound_GBps);
}

blink_result_t plan_multicast_bound_GBps(const topo_t *topo, const plan_t *plan, double *bound_GBps)
{
    bound_net_t net;
    double *prices = NULL;
    if (moves_nothing(plan)) {
        *bound_GBps = 0.0;
        return BLINK_OK;
    }
    blink_result_t result = net_init(&net, topo, plan);
    if (result == BLINK_OK) {
        prices = malloc(((size_t)topo->link_count + topo->node_count) * sizeof(*prices));
        result = prices ? multicast_bound(&net, prices, bound_GBps)
                        : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for prices of %u links and %u nodes",
                                     topo->link_count, topo->node_count);
    }
    free(prices);
    net_fini(&net);
    return result;
}
