/* What every plan promises, checked of one that comes from elsewhere. */
#include "plan/bytes/bytes.h"

#include "collective.h"
#include "error.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shares are sums and quotients of others. */
#define SHARES_TOLERANCE 1e-6

typedef struct checker {
    const topo_t *topo;
    const plan_t *plan;
    uint32_t *seen; /* by rank: the walk in which a tree's walks came by it */
    uint32_t walks; /* so far */
} checker_t;

/* ---- paths ---- */

/* By links that adjoin, and through no device. */
static blink_result_t check_path(const checker_t *checker, uint32_t index)
{
    const topo_t *topo = checker->topo;
    const plan_path_t *path = &checker->plan->paths[index];
    for (uint32_t i = 1; i < path->link_count; i++) {
        uint32_t at = topo->links[path->links[i]].from;
        if (topo->links[path->links[i - 1]].to != at || topo->nodes[at].kind == TOPO_DEVICE)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "path %u: link %u does not go on where link %u ends", index,
                              path->links[i], path->links[i - 1]);
    }
    return BLINK_OK;
}

/* The path, which is sound, joins the two ranks. */
static blink_result_t check_edge(const checker_t *checker, uint32_t index, uint32_t from, uint32_t to)
{
    const topo_t *topo = checker->topo;
    const plan_t *plan = checker->plan;
    const plan_path_t *path = &plan->paths[index];
    if (topo->links[path->links[0]].from != plan->rank_node[from] ||
        topo->links[path->links[path->link_count - 1]].to != plan->rank_node[to])
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "an edge from rank %u to rank %u by path %u, which joins others", from, to, index);
    return BLINK_OK;
}

/* ---- trees ---- */

/* Up from the rank, to the root or to where a walk was before. */
static blink_result_t walk_up(checker_t *checker, const plan_tree_t *tree, uint32_t root, uint32_t rank,
                              uint32_t first_walk)
{
    uint32_t walk = ++checker->walks;
    for (uint32_t at = rank; at != root && checker->seen[at] < first_walk; at = tree->parent[at]) {
        checker->seen[at] = walk;
        if (tree->parent[at] != root && checker->seen[tree->parent[at]] == walk)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a tree in which rank %u is below itself", at);
    }
    return BLINK_OK;
}

static blink_result_t check_tree(checker_t *checker, const plan_tree_t *tree, uint32_t root, bool reduces)
{
    uint32_t first_walk = checker->walks + 1;
    for (uint32_t rank = 0; tree->parent && rank < checker->plan->rank_count; rank++) {
        uint32_t parent = tree->parent[rank];
        if (rank == root && checker->plan->algorithm == BLINK_ALGORITHM_MULTICAST)
            BLINK_TRY(check_edge(checker, tree->path[rank], root, root));
        if (rank == root)
            continue;
        BLINK_TRY(check_edge(checker, tree->path[rank], reduces ? rank : parent, reduces ? parent : rank));
        BLINK_TRY(walk_up(checker, tree, root, rank, first_walk));
    }
    return BLINK_OK;
}

static blink_result_t check_trees(checker_t *checker, const plan_part_t *part)
{
    const plan_t *plan = checker->plan;
    if (plan->root != PLAN_NONE && part->root != plan->root)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a tree with root %u in a plan with root %u", part->root,
                          plan->root);
    BLINK_TRY(check_tree(checker, &part->reduce, part->root, true));
    BLINK_TRY(check_tree(checker, &part->broadcast, part->root, false));
    if (plan->algorithm == BLINK_ALGORITHM_MULTICAST && !plan_is_multicast_part(checker->topo, plan, part))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a part with root %u that is no star by a switch which reduces",
                          part->root);
    return BLINK_OK;
}

/* ---- routes ---- */

static blink_result_t check_ends(const plan_t *plan, uint32_t from, uint32_t to)
{
    bool from_root = plan->collective == BLINK_SCATTER || plan->collective == BLINK_SENDRECV;
    bool to_root = plan->collective == BLINK_GATHER;
    if ((from_root && from != plan->root) || (to_root && to != plan->root) ||
        (plan->peer != PLAN_NONE && to != plan->peer))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a route from rank %u to rank %u in a plan with root %u", from,
                          to, plan->root);
    return BLINK_OK;
}

static blink_result_t check_route(const checker_t *checker, const plan_route_t *route)
{
    BLINK_TRY(check_ends(checker->plan, route->ranks[0], route->ranks[route->hop_count]));
    for (uint32_t i = 0; i < route->hop_count; i++)
        BLINK_TRY(check_edge(checker, route->paths[i], route->ranks[i], route->ranks[i + 1]));
    return BLINK_OK;
}

/* ---- all of it ---- */

static blink_result_t check_shares(const plan_t *plan)
{
    double sum = 0;
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        double share = plan->channels[c].share;
        if (!isnormal(share) || share < 0 || share > 1)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "channel %u: a share of %g", c, share);
        sum += share;
    }
    if (plan->channel_count > 0 && fabs(sum - 1) > SHARES_TOLERANCE)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "shares that add up to %g", sum);
    return BLINK_OK;
}

static blink_result_t check_all(checker_t *checker)
{
    const plan_t *plan = checker->plan;
    BLINK_TRY(check_shares(plan));
    for (uint32_t i = 0; i < plan->path_count; i++)
        BLINK_TRY(check_path(checker, i));
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++) {
            const plan_part_t *part = &plan->channels[c].parts[i];
            BLINK_TRY(part->route.ranks ? check_route(checker, &part->route) : check_trees(checker, part));
        }
    return BLINK_OK;
}

blink_result_t plan_check(const topo_t *topo, const plan_t *plan)
{
    checker_t checker = {.topo = topo, .plan = plan, .seen = calloc(plan->rank_count, sizeof(*checker.seen))};
    if (!checker.seen)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to check a plan over %u ranks", plan->rank_count);
    blink_result_t result = check_all(&checker);
    free(checker.seen);
    return result;
}
