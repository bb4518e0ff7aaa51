/* Three phases across servers (the paper's section 3.5): reduce within each server, reduce and broadcast in
 * one hop among the servers, broadcast within each server. A tree of the plan is one tree of every server,
 * each hung below that server's root, and those roots hung below one of them, the centre. */
#include "error.h"
#include "plan/baseline/blink/blink_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Server-local trees: packed ones, or behind NVSwitches a star for every switch and root. */
typedef struct server {
    const char *host;
    uint32_t rank_count;
    uint32_t *ranks; /* of the plan */
    blink_forest_t forest;
    uint32_t switch_count;
    uint32_t *switches;
    uint32_t tree_count;
    double *shares;  /* per tree, adding up to 1 */
    uint32_t *roots; /* per tree: a rank of the plan */
    uint32_t at;     /* tree that the current slice of the payload crosses */
    double at_end;   /* where in [0, 1) of the payload that tree's share ends */
} server_t;

typedef struct servers {
    const topo_t *topo;
    plan_t *plan;
    uint32_t count;
    server_t *list;
    uint32_t *rank_server; /* per rank */
    uint32_t slices;       /* of the payload so far */
} servers_t;

static bool same_host(const topo_t *topo, const plan_t *plan, uint32_t rank, const char *host)
{
    const char *own = topo->nodes[plan->rank_node[rank]].host;
    return strcmp(own ? own : "", host ? host : "") == 0;
}

bool blink_on_several_hosts(const topo_t *topo, const plan_t *plan)
{
    for (uint32_t rank = 1; rank < plan->rank_count; rank++)
        if (!same_host(topo, plan, rank, topo->nodes[plan->rank_node[0]].host))
            return true;
    return false;
}

static void forget_trees(server_t *server)
{
    blink_forest_fini(&server->forest);
    free(server->shares);
    free(server->roots);
    server->forest = (blink_forest_t){0};
    server->shares = NULL;
    server->roots = NULL;
}

static void servers_fini(servers_t *all)
{
    for (uint32_t s = 0; all->list && s < all->count; s++) {
        forget_trees(&all->list[s]);
        free(all->list[s].ranks);
        free(all->list[s].switches);
    }
    free(all->list);
    free(all->rank_server);
}

static blink_result_t add_rank(servers_t *all, uint32_t rank)
{
    uint32_t s = 0;
    while (s < all->count && !same_host(all->topo, all->plan, rank, all->list[s].host))
        s++;
    server_t *server = &all->list[s];
    all->rank_server[rank] = s;
    if (s == all->count) {
        server->host = all->topo->nodes[all->plan->rank_node[rank]].host;
        server->ranks = malloc(all->plan->rank_count * sizeof(*server->ranks));
        all->count++;
        if (!server->ranks)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the ranks of a server");
    }
    server->ranks[server->rank_count++] = rank;
    return BLINK_OK;
}

static blink_result_t find_switches(const servers_t *all, server_t *server)
{
    server->switches = malloc(all->topo->node_count * sizeof(*server->switches));
    if (!server->switches)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the switches of a server");
    for (uint32_t node = 0; server->rank_count > 1 && node < all->topo->node_count; node++)
        if (blink_switch_GBps(all->topo, all->plan, server->ranks, server->rank_count, node) > 0.0)
            server->switches[server->switch_count++] = node;
    return BLINK_OK;
}

static blink_result_t servers_init(servers_t *all, const topo_t *topo, plan_t *plan)
{
    *all = (servers_t){.topo = topo, .plan = plan};
    all->list = calloc(plan->rank_count, sizeof(*all->list));
    all->rank_server = calloc(plan->rank_count, sizeof(*all->rank_server));
    if (!all->list || !all->rank_server)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for servers of %u ranks", plan->rank_count);
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        BLINK_TRY(add_rank(all, rank));
    for (uint32_t s = 0; s < all->count; s++)
        BLINK_TRY(find_switches(all, &all->list[s]));
    return BLINK_OK;
}

/* ---- trees of one server ---- */

static blink_result_t reserve_trees(server_t *server, uint32_t tree_count)
{
    server->tree_count = tree_count;
    server->shares = calloc(tree_count, sizeof(*server->shares));
    server->roots = calloc(tree_count, sizeof(*server->roots));
    if (!server->shares || !server->roots)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u trees of a server", tree_count);
    return BLINK_OK;
}

/* Stars: every rank is the root of one per switch. */
static blink_result_t make_stars(const servers_t *all, server_t *server)
{
    uint32_t n = server->rank_count;
    double sum = 0.0;
    BLINK_TRY(reserve_trees(server, server->switch_count * n));
    for (uint32_t tree = 0; tree < server->tree_count; tree++) {
        server->roots[tree] = server->ranks[tree % n];
        server->shares[tree] =
            blink_switch_GBps(all->topo, all->plan, server->ranks, n, server->switches[tree / n]);
        sum += server->shares[tree];
    }
    for (uint32_t tree = 0; tree < server->tree_count; tree++)
        server->shares[tree] /= sum;
    return BLINK_OK;
}

/* A distinct local root for every tree as far as there are ranks: the one with the least to do so far. Trees
 * packed from one root keep it. */
static blink_result_t choose_roots(server_t *server, uint32_t root)
{
    double *given = calloc(server->rank_count, sizeof(*given)), sum = blink_forest_GBps(&server->forest);
    if (!given)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u roots", server->rank_count);
    for (uint32_t tree = 0; tree < server->tree_count; tree++) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < server->rank_count; i++)
            if (given[i] < given[least] - 1e-9)
                least = i;
        server->shares[tree] = server->forest.GBps[tree] / sum;
        server->roots[tree] = root != PLAN_NONE ? root : server->ranks[least];
        given[least] += server->shares[tree];
    }
    free(given);
    return BLINK_OK;
}

/* NVLink if it joins the server's ranks, else whatever does, the network at last. */
static blink_result_t make_forest(const servers_t *all, server_t *server, uint32_t root, blink_flow_t flow)
{
    blink_scope_t scope = {.ranks = server->ranks, .rank_count = server->rank_count, .flow = flow};
    const struct {
        blink_links_t links;
        const char *host;
    } tries[] = {
        {BLINK_LINKS_NVLINK, server->host}, {BLINK_LINKS_ANY, server->host}, {BLINK_LINKS_ANY, NULL}};
    for (uint32_t i = 0; root != PLAN_NONE && i < server->rank_count; i++)
        if (server->ranks[i] == root)
            scope.root = i;
    for (uint32_t i = 0; i < 3 && server->forest.tree_count == 0; i++) {
        blink_forest_fini(&server->forest);
        scope.links = tries[i].links;
        scope.host = tries[i].host;
        BLINK_TRY(blink_forest_pack(all->topo, all->plan, &scope, &server->forest));
    }
    if (server->forest.tree_count == 0)
        return BLINK_FAIL(
            BLINK_ERR_UNREACHABLE, "no path of %s joins rank %u (%s) and rank %u (%s)", all->topo->name,
            server->ranks[scope.root], all->topo->nodes[all->plan->rank_node[server->ranks[scope.root]]].id,
            server->forest.apart, all->topo->nodes[all->plan->rank_node[server->forest.apart]].id);
    BLINK_TRY(reserve_trees(server, server->forest.tree_count));
    return choose_roots(server, root);
}

/* Trees with one root if it is given, else undirected ones with roots spread over the server. */
static blink_result_t make_trees(const servers_t *all, server_t *server, uint32_t root)
{
    bool reduces = collective_reduces(all->plan->collective);
    forget_trees(server);
    if (root == PLAN_NONE && server->switch_count > 0)
        return make_stars(all, server);
    if (root == PLAN_NONE)
        return make_forest(all, server, PLAN_NONE, BLINK_FLOW_BOTH);
    return make_forest(all, server, root, reduces ? BLINK_FLOW_TO_ROOT : BLINK_FLOW_FROM_ROOT);
}

/* ---- all servers together ---- */

static blink_result_t hang_local(const servers_t *all, plan_part_t *part, const server_t *server)
{
    uint32_t root = server->roots[server->at];
    if (server->forest.tree_count > 0)
        return blink_hang_tree(all->topo, all->plan, part, &server->forest, server->at, root);
    for (uint32_t i = 0; i < server->rank_count; i++)
        if (server->ranks[i] != root)
            BLINK_TRY(blink_hang_through(all->topo, all->plan, part, server->ranks[i], root,
                                         server->switches[server->at / server->rank_count]));
    return BLINK_OK;
}

/* One slice of the payload around one centre. */
static blink_result_t add_slice(servers_t *all, double share, uint32_t centre)
{
    plan_channel_t *channel = NULL;
    BLINK_TRY(plan_add_channel(all->plan, share, 1, &channel));
    plan_part_t *part = &channel->parts[0];
    part->root = all->list[centre].roots[all->list[centre].at];
    for (uint32_t s = 0; s < all->count; s++) {
        const server_t *server = &all->list[s];
        if (s != centre)
            BLINK_TRY(blink_hang_rank(all->topo, all->plan, part, server->roots[server->at], part->root,
                                      all->slices));
        BLINK_TRY(hang_local(all, part, server));
    }
    return BLINK_OK;
}

/* Go to the next slice: where the first of the servers' current trees ends. */
static double next_end(servers_t *all, double from)
{
    double end = 1.0;
    for (uint32_t s = 0; s < all->count; s++) {
        server_t *server = &all->list[s];
        while (server->at_end <= from + 1e-9 && server->at + 1 < server->tree_count)
            server->at_end += server->shares[++server->at];
        end = fmin(end, server->at + 1 == server->tree_count ? 1.0 : server->at_end);
    }
    return end > 1.0 - 1e-9 ? 1.0 : end;
}

/* The payload, or `total` of it, in slices that cross one tree of every server. A centre sends to all others:
 * each server in turn where there is a choice, for each slice if there are more than two servers, as two load
 * one another alike whichever is the centre. */
static blink_result_t add_slices(servers_t *all, double total, uint32_t centre)
{
    for (uint32_t s = 0; s < all->count; s++) {
        all->list[s].at = 0;
        all->list[s].at_end = all->list[s].shares[0];
    }
    for (double from = 0.0, end; from < 1.0; from = end) {
        end = next_end(all, from);
        double share = total * (end - from);
        uint32_t centres = centre == PLAN_NONE && all->count > 2 ? all->count : 1;
        for (uint32_t i = 0; i < centres; i++)
            BLINK_TRY(add_slice(all, share / centres,
                                centre != PLAN_NONE ? centre : (all->slices + i) % all->count));
        all->slices++;
    }
    return BLINK_OK;
}

/* Data from or to one root: its server is the centre of all slices. The trees of the other servers are made
 * already. */
static blink_result_t add_root(servers_t *all, uint32_t root, double total)
{
    uint32_t s = all->rank_server[root];
    BLINK_TRY(make_trees(all, &all->list[s], root));
    return add_slices(all, total, s);
}

static blink_result_t fill_servers(servers_t *all)
{
    uint32_t n = all->plan->rank_count, last = PLAN_NONE;
    for (uint32_t s = 0; s < all->count; s++)
        BLINK_TRY(make_trees(all, &all->list[s], PLAN_NONE));
    if (all->plan->collective == BLINK_ALLREDUCE)
        return add_slices(all, 1.0, PLAN_NONE);
    if (all->plan->root != PLAN_NONE)
        return add_root(all, all->plan->root, 1.0);
    for (uint32_t root = 0; root < n; root++) {
        if (last != PLAN_NONE && last != all->rank_server[root])
            BLINK_TRY(make_trees(all, &all->list[last], PLAN_NONE));
        last = all->rank_server[root];
        BLINK_TRY(add_root(all, root, 1.0 / n));
    }
    return BLINK_OK;
}

blink_result_t blink_fill_servers(const topo_t *topo, plan_t *plan)
{
    servers_t all;
    blink_result_t result = servers_init(&all, topo, plan);
    if (result == BLINK_OK)
        result = fill_servers(&all);
    servers_fini(&all);
    plan_normalise_shares(plan);
    return result;
}
