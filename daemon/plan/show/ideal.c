/* The ideal bus bandwidth: what devices and hosts can send, whatever the plan. */
#include "plan/show/ideal.h"

#include "error.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Per relay: up to two ranks that ways through relays lead to. Two, because one may be where the way began.
 */
typedef struct ends {
    uint32_t nodes[2];
} ends_t;

typedef struct view {
    const topo_t *topo;
    const uint32_t *rank_node;
    uint32_t rank_count;
    bool several_hosts;
    ends_t *ends; /* per node */
} view_t;

double ideal_busbw_GBps(blink_collective_t collective, double gpu_GBps, double host_GBps, uint32_t rank_count,
                        uint32_t host_count)
{
    double n = rank_count, q = host_count;
    if (rank_count <= 1)
        return 0.0;
    if (host_count <= 1)
        return gpu_GBps;
    double between = host_GBps * (n - 1.0) * q / (n * (q - 1.0)), within = gpu_GBps * (n - 1.0) / (n - q);
    if (collective == BLINK_ALLTOALL) {
        between *= q / n;
        within *= q;
    }
    return rank_count > host_count ? fmin(between, within) : between;
}

static bool same_host(const view_t *v, uint32_t one, uint32_t other)
{
    return strcmp(v->topo->nodes[one].host, v->topo->nodes[other].host) == 0;
}

static bool add_end(ends_t *ends, uint32_t node)
{
    if (node == PLAN_NONE || ends->nodes[0] == node || ends->nodes[1] == node || ends->nodes[1] != PLAN_NONE)
        return false;
    ends->nodes[ends->nodes[0] != PLAN_NONE] = node;
    return true;
}

/* Until nothing more is learnt: a relay leads wherever its links do. */
static void spread_ends(view_t *v)
{
    memset(v->ends, 0xff, v->topo->node_count * sizeof(*v->ends));
    for (uint32_t rank = 0; rank < v->rank_count; rank++)
        v->ends[v->rank_node[rank]].nodes[0] = v->rank_node[rank];
    for (bool learnt = true; learnt;) {
        learnt = false;
        for (uint32_t i = 0; i < v->topo->link_count; i++) {
            const topo_link_t *link = &v->topo->links[i];
            if (v->topo->nodes[link->from].kind == TOPO_DEVICE ||
                (v->several_hosts && !same_host(v, link->from, link->to)))
                continue;
            for (uint32_t j = 0; j < 2; j++)
                learnt = add_end(&v->ends[link->from], v->ends[link->to].nodes[j]) || learnt;
        }
    }
}

/* Out of one rank to others. */
static double gpu_GBps(const view_t *v, uint32_t node)
{
    double sum_GBps = 0.0;
    for (uint32_t i = v->topo->out_first[node]; i < v->topo->out_first[node + 1]; i++) {
        const topo_link_t *link = &v->topo->links[v->topo->out_links[i]];
        const uint32_t *ends = v->ends[link->to].nodes;
        bool leads = (ends[0] != PLAN_NONE && ends[0] != node) || (ends[1] != PLAN_NONE && ends[1] != node);
        if (leads && (!v->several_hosts || same_host(v, node, link->to)))
            sum_GBps += link->GBps;
    }
    return sum_GBps;
}

/* Out of the host that a node is on. */
static double host_GBps(const view_t *v, uint32_t node)
{
    double sum_GBps = 0.0;
    for (uint32_t i = 0; i < v->topo->link_count; i++) {
        const topo_link_t *link = &v->topo->links[i];
        if (same_host(v, node, link->from) && !same_host(v, node, link->to))
            sum_GBps += link->GBps;
    }
    return sum_GBps;
}

/* Whether no earlier rank is on this rank's host. */
static bool opens_host(const view_t *v, uint32_t rank)
{
    for (uint32_t earlier = 0; earlier < rank; earlier++)
        if (same_host(v, v->rank_node[earlier], v->rank_node[rank]))
            return false;
    return true;
}

static void measure(view_t *v, blink_collective_t collective, ideal_t *ideal)
{
    for (uint32_t rank = 0; rank < v->rank_count; rank++)
        ideal->host_count += opens_host(v, rank);
    v->several_hosts = ideal->host_count > 1;
    spread_ends(v);
    ideal->gpu_GBps = INFINITY;
    ideal->host_GBps = v->several_hosts ? INFINITY : 0.0;
    for (uint32_t rank = 0; rank < v->rank_count; rank++) {
        ideal->gpu_GBps = fmin(ideal->gpu_GBps, gpu_GBps(v, v->rank_node[rank]));
        if (v->several_hosts && opens_host(v, rank))
            ideal->host_GBps = fmin(ideal->host_GBps, host_GBps(v, v->rank_node[rank]));
    }
    ideal->busbw_GBps =
        ideal_busbw_GBps(collective, ideal->gpu_GBps, ideal->host_GBps, ideal->rank_count, ideal->host_count);
}

blink_result_t ideal_find(const topo_t *topo, blink_collective_t collective, const uint32_t *rank_node,
                          uint32_t rank_count, ideal_t *ideal)
{
    view_t view = {.topo = topo,
                   .rank_node = rank_node,
                   .rank_count = rank_count,
                   .ends = malloc(topo->node_count * sizeof(*view.ends))};
    if (!view.ends)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u nodes", topo->node_count);
    *ideal = (ideal_t){.rank_count = rank_count};
    measure(&view, collective, ideal);
    free(view.ends);
    return BLINK_OK;
}
