/* Blink's choice among its schemes, and the split of a payload between two sets of trees. */
#include "plan/baseline/blink/blink.h"

#include "error.h"
#include "names.h"
#include "plan/baseline/blink/blink_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SWITCH_US_PER_GPU 650.0

double blink_switch_us(uint32_t gpu_count)
{
    return SWITCH_US_PER_GPU * gpu_count;
}

double blink_hybrid_split(double total_bytes, double pcie_GBps, double nvlink_GBps, double switch_us)
{
    double switch_bytes =
        switch_us * nvlink_GBps * 1e3; /* what NVLink carries meanwhile; GB/s are 1e3 B/us */
    return fmax(0.0, (total_bytes - switch_bytes) * pcie_GBps / (pcie_GBps + nvlink_GBps));
}

/* ---- drafts: plans of the same request to choose from ---- */

static blink_result_t draft_create(const plan_t *plan, plan_t **draft)
{
    plan_t *made = calloc(1, sizeof(*made));
    if (!made)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a draft of a plan");
    *made = (plan_t){.collective = plan->collective,
                     .algorithm = plan->algorithm,
                     .rank_count = plan->rank_count,
                     .root = plan->root,
                     .peer = plan->peer};
    made->rank_node = malloc(plan->rank_count * sizeof(*made->rank_node));
    if (!made->rank_node) {
        plan_destroy(made);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", plan->rank_count);
    }
    memcpy(made->rank_node, plan->rank_node, plan->rank_count * sizeof(*made->rank_node));
    *draft = made;
    return BLINK_OK;
}

static blink_result_t adopt_tree(const plan_t *draft, const plan_tree_t *from, plan_t *plan, plan_tree_t *to)
{
    for (uint32_t rank = 0; from->parent && rank < plan->rank_count; rank++) {
        if (from->parent[rank] == PLAN_NONE)
            continue;
        const plan_path_t *path = &draft->paths[from->path[rank]];
        to->parent[rank] = from->parent[rank];
        BLINK_TRY(plan_intern_path(plan, path->links, path->link_count, &to->path[rank]));
    }
    return BLINK_OK;
}

/* Take over the draft's channels for a part of the payload. */
static blink_result_t adopt(const plan_t *draft, double share, plan_t *plan)
{
    for (uint32_t c = 0; c < draft->channel_count; c++) {
        const plan_channel_t *from = &draft->channels[c];
        plan_channel_t *to = NULL;
        BLINK_TRY(plan_add_channel(plan, share * from->share, from->part_count, &to));
        for (uint32_t i = 0; i < from->part_count; i++) {
            to->parts[i].root = from->parts[i].root;
            BLINK_TRY(adopt_tree(draft, &from->parts[i].reduce, plan, &to->parts[i].reduce));
            BLINK_TRY(adopt_tree(draft, &from->parts[i].broadcast, plan, &to->parts[i].broadcast));
        }
    }
    return BLINK_OK;
}

/* ---- packed trees on one server ---- */

/* One channel per tree, for `total` of the payload. */
static blink_result_t add_forest(const topo_t *topo, plan_t *plan, const blink_forest_t *forest,
                                 uint32_t root, double total)
{
    double sum = blink_forest_GBps(forest);
    for (uint32_t tree = 0; tree < forest->tree_count; tree++) {
        plan_channel_t *channel = NULL;
        BLINK_TRY(plan_add_channel(plan, total * forest->GBps[tree] / sum, 1, &channel));
        channel->parts[0].root = root;
        BLINK_TRY(blink_hang_tree(topo, plan, &channel->parts[0], forest, tree, root));
    }
    return BLINK_OK;
}

/* Trees of one root for `total` of the payload; no channels if these links do not join the ranks: then *apart
 * is one that they do not join to the root. */
static blink_result_t add_root(const topo_t *topo, plan_t *plan, blink_scope_t *scope, double total,
                               uint32_t *apart)
{
    blink_forest_t forest;
    blink_result_t result = blink_forest_pack(topo, plan, scope, &forest);
    *apart = forest.apart;
    if (result == BLINK_OK)
        result = add_forest(topo, plan, &forest, scope->ranks[scope->root], total);
    blink_forest_fini(&forest);
    return result;
}

/* Packed trees over one class of links. An AllReduce has one root, as in the paper; undirected trees do as
 * well from any, so it is rank 0. Every rank of an allgather or reducescatter has trees of its own, with
 * equal shares of the links. */
static blink_result_t fill_packed(const topo_t *topo, plan_t *plan, blink_links_t links, uint32_t *apart)
{
    uint32_t n = plan->rank_count;
    blink_scope_t scope = {.rank_count = n, .links = links};
    bool both = plan->collective == BLINK_ALLREDUCE, each = collective_per_rank(plan->collective);
    scope.flow = both                                   ? BLINK_FLOW_BOTH
                 : collective_reduces(plan->collective) ? BLINK_FLOW_TO_ROOT
                                                        : BLINK_FLOW_FROM_ROOT;
    uint32_t *ranks = malloc(n * sizeof(*ranks));
    if (!ranks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", n);
    for (uint32_t rank = 0; rank < n; rank++)
        ranks[rank] = rank;
    scope.ranks = ranks;
    scope.root = plan->root != PLAN_NONE ? plan->root : 0;
    *apart = PLAN_NONE;
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; result == BLINK_OK && *apart == PLAN_NONE && i < (each ? n : 1); i++) {
        scope.root = each ? i : scope.root;
        result = add_root(topo, plan, &scope, each ? 1.0 / n : 1.0, apart);
    }
    free(ranks);
    plan_normalise_shares(plan);
    return result;
}

/* Whichever of two drafts is faster; of equals the shallower. */
static bool better(const plan_t *one, const plan_t *other)
{
    if (fabs(one->rate_GBps - other->rate_GBps) > 1e-6 * other->rate_GBps)
        return one->rate_GBps > other->rate_GBps;
    return plan_depth(one) < plan_depth(other);
}

/* Replace the draft by the poster's groups where those are better. */
static blink_result_t try_groups(const topo_t *topo, plan_t **draft)
{
    plan_t *groups = NULL;
    BLINK_TRY(draft_create(*draft, &groups));
    blink_result_t result = blink_fill_groups(topo, groups);
    if (result == BLINK_OK && groups->channel_count > 0)
        result = plan_rate_GBps(topo, groups, &groups->rate_GBps);
    if (result == BLINK_OK && groups->channel_count > 0 && better(groups, *draft)) {
        plan_t *worse = *draft;
        *draft = groups;
        groups = worse;
    }
    plan_destroy(groups);
    return result;
}

/* The best of one class of links, with its rate; no channels where it does not join the ranks. */
static blink_result_t make_draft(const topo_t *topo, const plan_t *plan, blink_links_t links, plan_t **draft,
                                 uint32_t *apart)
{
    BLINK_TRY(draft_create(plan, draft));
    BLINK_TRY(fill_packed(topo, *draft, links, apart));
    if ((*draft)->channel_count == 0)
        return BLINK_OK;
    BLINK_TRY(plan_rate_GBps(topo, *draft, &(*draft)->rate_GBps));
    if (links == BLINK_LINKS_NVLINK && plan->collective == BLINK_ALLREDUCE)
        return try_groups(topo, draft);
    return BLINK_OK;
}

/* The part of the payload that goes over PCIe. A payload of unknown size, 0, does not notice the
 * switching. */
static double pcie_share(uint64_t bytes, const plan_t *pcie, const plan_t *nvlink)
{
    if (bytes == 0)
        return blink_hybrid_split(1.0, pcie->rate_GBps, nvlink->rate_GBps, 0.0);
    return blink_hybrid_split((double)bytes, pcie->rate_GBps, nvlink->rate_GBps,
                              blink_switch_us(pcie->rank_count)) /
           (double)bytes;
}

static blink_result_t adopt_both(uint64_t bytes, const plan_t *pcie, const plan_t *nvlink, plan_t *plan)
{
    double share = nvlink->channel_count == 0 ? 1.0
                   : pcie->channel_count == 0 ? 0.0
                                              : pcie_share(bytes, pcie, nvlink);
    if (share < 1.0)
        BLINK_TRY(adopt(nvlink, 1.0 - share, plan));
    return share > 0.0 ? adopt(pcie, share, plan) : BLINK_OK;
}

/* Neither NVLink nor the rest joins the ranks alone: trees over both, or it cannot be done. */
static blink_result_t fill_mixed(const topo_t *topo, plan_t *plan)
{
    uint32_t apart = PLAN_NONE, root = plan->root != PLAN_NONE ? plan->root : 0;
    BLINK_TRY(fill_packed(topo, plan, BLINK_LINKS_ANY, &apart));
    if (apart == PLAN_NONE)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no path%s of %s joins rank %u (%s) and rank %u (%s)",
                      plan->collective == BLINK_ALLREDUCE ? " that runs both ways" : "", topo->name, root,
                      topo->nodes[plan->rank_node[root]].id, apart, topo->nodes[plan->rank_node[apart]].id);
}

static blink_result_t fill_server(const topo_t *topo, uint64_t bytes, plan_t *plan)
{
    plan_t *nvlink = NULL, *pcie = NULL;
    uint32_t apart = PLAN_NONE;
    blink_result_t result = make_draft(topo, plan, BLINK_LINKS_NVLINK, &nvlink, &apart);
    if (result == BLINK_OK)
        result = make_draft(topo, plan, BLINK_LINKS_OTHER, &pcie, &apart);
    if (result == BLINK_OK && nvlink->channel_count + pcie->channel_count > 0)
        result = adopt_both(bytes, pcie, nvlink, plan);
    else if (result == BLINK_OK)
        result = fill_mixed(topo, plan);
    plan_destroy(nvlink);
    plan_destroy(pcie);
    plan_normalise_shares(plan);
    return result;
}

blink_result_t plan_blink(const topo_t *topo, uint64_t bytes, plan_t *plan)
{
    if (collective_routes(plan->collective))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "blink plans trees only, not %s",
                          blink_name_collective(plan->collective));
    BLINK_TRY(blink_fill_one_hop(topo, plan));
    if (plan->channel_count > 0)
        return BLINK_OK;
    if (blink_on_several_hosts(topo, plan))
        return blink_fill_servers(topo, plan);
    return fill_server(topo, bytes, plan);
}
