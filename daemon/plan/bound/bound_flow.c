/* What can flow between two nodes. Proves bounds by cuts, without prices. */
#include "plan/bound/bound.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each usable link is two arcs, itself and its residual: arc ^ 1 is the other. */
struct bound_flow {
    uint32_t node_count, arc_count;
    uint32_t *head;         /* per arc: the node it leads to */
    double *capacity;       /* per arc, GB/s, with no flow */
    double *left;           /* per arc: what may flow still */
    uint32_t *first, *arcs; /* arcs by the node they leave */
    uint32_t *level, *next; /* per node: hops from the source; the first arc not yet used up */
    uint32_t *queue;        /* nodes in search; then the arcs of the path */
};

static bool joins_usable(const bound_net_t *net, uint32_t link)
{
    return net->usable[net->topo->links[link].from] && net->usable[net->topo->links[link].to];
}

static void add_arcs(bound_flow_t *flow, const bound_net_t *net)
{
    for (uint32_t link = 0; link < net->topo->link_count; link++) {
        const topo_link_t *l = &net->topo->links[link];
        if (!joins_usable(net, link))
            continue;
        flow->capacity[flow->arc_count] = l->GBps;
        flow->head[flow->arc_count++] = l->to;
        flow->capacity[flow->arc_count] = 0.0;
        flow->head[flow->arc_count++] = l->from;
    }
    for (uint32_t arc = 0; arc < flow->arc_count; arc++)
        flow->first[flow->head[arc ^ 1u] + 1]++;
    for (uint32_t node = 0; node < flow->node_count; node++)
        flow->first[node + 1] += flow->first[node];
    memcpy(flow->next, flow->first, flow->node_count * sizeof(*flow->next));
    for (uint32_t arc = 0; arc < flow->arc_count; arc++)
        flow->arcs[flow->next[flow->head[arc ^ 1u]]++] = arc;
}

blink_result_t bound_flow_create(const bound_net_t *net, bound_flow_t **out)
{
    uint32_t nodes = net->topo->node_count, arcs = 2 * net->topo->link_count;
    bound_flow_t *flow = calloc(1, sizeof(*flow));
    if (!flow)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a flow");
    flow->node_count = nodes;
    flow->head = malloc((arcs + 1u) * sizeof(*flow->head));
    flow->capacity = malloc((arcs + 1u) * sizeof(*flow->capacity));
    flow->left = malloc((arcs + 1u) * sizeof(*flow->left));
    flow->first = calloc(nodes + 1u, sizeof(*flow->first));
    flow->arcs = malloc((arcs + 1u) * sizeof(*flow->arcs));
    flow->level = malloc(nodes * sizeof(*flow->level));
    flow->next = malloc(nodes * sizeof(*flow->next));
    flow->queue = malloc(nodes * sizeof(*flow->queue));
    if (!flow->head || !flow->capacity || !flow->left || !flow->first || !flow->arcs || !flow->level ||
        !flow->next || !flow->queue) {
        bound_flow_destroy(flow);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a flow over %u links", arcs / 2);
    }
    add_arcs(flow, net);
    *out = flow;
    return BLINK_OK;
}

void bound_flow_destroy(bound_flow_t *flow)
{
    if (!flow)
        return;
    free(flow->head);
    free(flow->capacity);
    free(flow->left);
    free(flow->first);
    free(flow->arcs);
    free(flow->level);
    free(flow->next);
    free(flow->queue);
    free(flow);
}

/* Hops from the source over what is left; false if they do not lead to the sink. */
static bool find_levels(bound_flow_t *flow, uint32_t source, uint32_t sink)
{
    uint32_t head = 0, tail = 0;
    memset(flow->level, 0xff, flow->node_count * sizeof(*flow->level));
    memcpy(flow->next, flow->first, flow->node_count * sizeof(*flow->next));
    flow->level[source] = 0;
    flow->queue[tail++] = source;
    while (head < tail && flow->level[sink] == PLAN_NONE) {
        uint32_t node = flow->queue[head++];
        for (uint32_t i = flow->first[node]; i < flow->first[node + 1]; i++) {
            uint32_t to = flow->head[flow->arcs[i]];
            if (flow->left[flow->arcs[i]] > 0.0 && flow->level[to] == PLAN_NONE) {
                flow->level[to] = flow->level[node] + 1;
                flow->queue[tail++] = to;
            }
        }
    }
    return flow->level[sink] != PLAN_NONE;
}

static double send_along(bound_flow_t *flow, const uint32_t *path, uint32_t length)
{
    double sent = INFINITY;
    for (uint32_t i = 0; i < length; i++)
        sent = fmin(sent, flow->left[path[i]]);
    for (uint32_t i = 0; i < length; i++) {
        flow->left[path[i]] -= sent;
        flow->left[path[i] ^ 1u] += sent;
    }
    return sent;
}

/* One more path whose every hop leads a level up, and what it carries; 0 when none is left. */
static double augment(bound_flow_t *flow, uint32_t source, uint32_t sink)
{
    uint32_t *path = flow->queue, length = 0, node = source;
    while (node != sink) {
        uint32_t arc = PLAN_NONE;
        for (; flow->next[node] < flow->first[node + 1]; flow->next[node]++) {
            arc = flow->arcs[flow->next[node]];
            if (flow->left[arc] > 0.0 && flow->level[flow->head[arc]] == flow->level[node] + 1)
                break;
        }
        if (flow->next[node] < flow->first[node + 1]) {
            path[length++] = arc;
            node = flow->head[arc];
        } else if (length == 0) {
            return 0.0;
        } else {
            node = flow->head[path[--length] ^ 1u];
            flow->next[node]++;
        }
    }
    return send_along(flow, path, length);
}

double bound_flow_GBps(bound_flow_t *flow, uint32_t source, uint32_t sink, double enough_GBps)
{
    double flow_GBps = 0.0;
    memcpy(flow->left, flow->capacity, flow->arc_count * sizeof(*flow->left));
    while (flow_GBps < enough_GBps && find_levels(flow, source, sink))
        for (double more; (more = augment(flow, source, sink)) > 0.0;)
            flow_GBps += more;
    return flow_GBps;
}
