/* Maximum flows by Dinic's algorithm: shortest augmenting paths, a level at a time. Its own file because it needs
 * no prices: a second proof beside that of bound.c. */
#include "plan/bound_flow.h"

#include "error.h"
#include "plan/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranks looked at; more add time, and in fabrics of like hosts no proof. */
#define FLOW_RANKS_MAX 64u
/* A residual below this part of the widest link is rounding. */
#define RESIDUAL_NOISE 1e-12

/* Arcs stand in pairs: 2·link forward, 2·link + 1 back. */
typedef struct flow {
    const topo_t *topo;
    bool *passes; /* per node: may carry this plan's traffic */
    double *left; /* per arc: capacity left */
    double noise;
    uint32_t *first; /* per node, and one more: offsets into arcs */
    uint32_t *arcs;
    uint32_t *level; /* per node: links from the source */
    uint32_t *next;  /* per node: arc to try next */
    uint32_t *queue; /* per node */
} flow_t;

static uint32_t arc_end(const flow_t *f, uint32_t arc)
{
    return arc % 2 == 0 ? f->topo->links[arc / 2].to : f->topo->links[arc / 2].from;
}

static void index_arcs(flow_t *f)
{
    uint32_t links = f->topo->link_count;
    for (uint32_t arc = 0; arc < 2 * links; arc++)
        f->first[arc_end(f, arc ^ 1) + 1]++;
    for (uint32_t node = 0; node < f->topo->node_count; node++) {
        f->first[node + 1] += f->first[node];
        f->next[node] = f->first[node];
    }
    for (uint32_t arc = 0; arc < 2 * links; arc++)
        f->arcs[f->next[arc_end(f, arc ^ 1)]++] = arc;
}

static blink_result_t flow_init(flow_t *f, const topo_t *topo, const plan_t *plan)
{
    size_t nodes = topo->node_count, arcs = 2 * (size_t)topo->link_count + 1;
    *f = (flow_t){.topo = topo,
                  .passes = calloc(nodes, sizeof(*f->passes)),
                  .left = malloc(arcs * sizeof(*f->left)),
                  .first = calloc(nodes + 1, sizeof(*f->first)),
                  .arcs = malloc(arcs * sizeof(*f->arcs)),
                  .level = malloc(nodes * sizeof(*f->level)),
                  .next = malloc(nodes * sizeof(*f->next)),
                  .queue = malloc(nodes * sizeof(*f->queue))};
    if (f->passes == NULL || f->left == NULL || f->first == NULL || f->arcs == NULL || f->level == NULL ||
        f->next == NULL || f->queue == NULL)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for flows over %u links", topo->link_count);
    for (uint32_t node = 0; node < topo->node_count; node++)
        f->passes[node] = topo->nodes[node].kind != TOPO_GPU;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        f->passes[plan->rank_node[rank]] = true;
    index_arcs(f);
    return BLINK_OK;
}

static void flow_fini(flow_t *f)
{
    free(f->passes);
    free(f->left);
    free(f->first);
    free(f->arcs);
    free(f->level);
    free(f->next);
    free(f->queue);
}

static void reset(flow_t *f)
{
    double widest = 0.0;
    for (uint32_t link = 0; link < f->topo->link_count; link++) {
        const topo_link_t *l = &f->topo->links[link];
        f->left[2 * link] = f->passes[l->from] && f->passes[l->to] ? l->GBps : 0.0;
        f->left[2 * link + 1] = 0.0;
        widest = fmax(widest, l->GBps);
    }
    f->noise = RESIDUAL_NOISE * widest;
}

/* Levels from the source; whether the sink has one. */
static bool find_levels(flow_t *f, uint32_t source, uint32_t sink)
{
    uint32_t head = 0, tail = 0;
    for (uint32_t node = 0; node < f->topo->node_count; node++) {
        f->level[node] = PLAN_NONE;
        f->next[node] = f->first[node];
    }
    f->level[source] = 0;
    f->queue[tail++] = source;
    while (head < tail && f->level[sink] == PLAN_NONE) {
        uint32_t node = f->queue[head++];
        for (uint32_t i = f->first[node]; i < f->first[node + 1]; i++) {
            uint32_t end = arc_end(f, f->arcs[i]);
            if (f->left[f->arcs[i]] <= f->noise || f->level[end] != PLAN_NONE)
                continue;
            f->level[end] = f->level[node] + 1;
            f->queue[tail++] = end;
        }
    }
    return f->level[sink] != PLAN_NONE;
}

/* Follow arcs one level on from node to node, retreating where none is left; the path's arcs go to queue[].
 * Returns its length, 0 if the sink cannot be reached any more. */
static uint32_t find_path(flow_t *f, uint32_t source, uint32_t sink)
{
    uint32_t length = 0;
    for (uint32_t node = source; node != sink;) {
        if (f->next[node] == f->first[node + 1]) {
            if (length == 0)
                return 0;
            node = arc_end(f, f->queue[--length] ^ 1);
            f->next[node]++;
            continue;
        }
        uint32_t arc = f->arcs[f->next[node]];
        if (f->left[arc] <= f->noise || f->level[arc_end(f, arc)] != f->level[node] + 1) {
            f->next[node]++;
            continue;
        }
        f->queue[length++] = arc;
        node = arc_end(f, arc);
    }
    return length;
}

static double max_flow(flow_t *f, uint32_t source, uint32_t sink)
{
    double flow = 0.0;
    reset(f);
    while (find_levels(f, source, sink))
        for (uint32_t length; (length = find_path(f, source, sink)) > 0;) {
            double carried = INFINITY;
            for (uint32_t i = 0; i < length; i++)
                carried = fmin(carried, f->left[f->queue[i]]);
            for (uint32_t i = 0; i < length; i++) {
                f->left[f->queue[i]] -= carried;
                f->left[f->queue[i] ^ 1] += carried;
            }
            flow += carried;
        }
    return flow;
}

/* The flow that the payload must take between the root and another rank. */
static double flow_between(flow_t *f, const plan_t *plan, uint32_t other)
{
    uint32_t root = plan->rank_node[plan->root], end = plan->rank_node[other];
    return plan->collective == BLINK_REDUCE ? max_flow(f, end, root) : max_flow(f, root, end);
}

blink_result_t plan_flow_bound_GBps(const topo_t *topo, const plan_t *plan, double *bound_GBps)
{
    flow_t f;
    bool whole = collective_has_root(plan->collective) &&
                 collective_block_count(plan->collective, plan->rank_count) == 1;
    if (!whole)
        return BLINK_OK;
    blink_result_t result = flow_init(&f, topo, plan);
    uint32_t stride = (plan->rank_count + FLOW_RANKS_MAX - 1) / FLOW_RANKS_MAX;
    for (uint32_t rank = 0; result == BLINK_OK && rank < plan->rank_count; rank += stride)
        if (rank != plan->root && (plan->collective != BLINK_SENDRECV || rank == plan->peer))
            *bound_GBps = fmin(*bound_GBps, flow_between(&f, plan, rank));
    if (result == BLINK_OK && plan->collective == BLINK_SENDRECV && plan->peer != plan->root)
        *bound_GBps = fmin(*bound_GBps, flow_between(&f, plan, plan->peer));
    flow_fini(&f);
    return result;
}
