/* Minimum-cost spanning arborescences (Chu-Liu/Edmonds): the pricing step of the packing program.
 * It knows nothing of topologies: a dense cost matrix in, a parent array out. */
#include "plan/trees/arborescence.h"
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Costs that differ by less than this factor are the same but for rounding. */
#define SAME_COST (1.0 + 1e-10)

enum { FRESH, GROWING, ATTACHED };

blink_result_t pack_arborist_init(pack_arborist_t *arborist, uint32_t n)
{
    size_t nodes = 2u * (size_t)n;
    *arborist = (pack_arborist_t){.n = n};
    arborist->in_cost = calloc(nodes * n, sizeof(*arborist->in_cost));
    arborist->head = calloc(nodes * n, sizeof(*arborist->head));
    arborist->chosen = calloc(nodes, sizeof(*arborist->chosen));
    arborist->target = calloc(nodes, sizeof(*arborist->target));
    arborist->outer = calloc(nodes, sizeof(*arborist->outer));
    arborist->top = calloc(n, sizeof(*arborist->top));
    arborist->stack = calloc(nodes, sizeof(*arborist->stack));
    arborist->state = calloc(nodes, sizeof(*arborist->state));
    if (!arborist->in_cost || !arborist->head || !arborist->chosen || !arborist->target || !arborist->outer ||
        !arborist->top || !arborist->stack || !arborist->state)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for spanning trees over %u ranks", n);
    return BLINK_OK;
}

void pack_arborist_fini(pack_arborist_t *arborist)
{
    free(arborist->in_cost);
    free(arborist->head);
    free(arborist->chosen);
    free(arborist->target);
    free(arborist->outer);
    free(arborist->top);
    free(arborist->stack);
    free(arborist->state);
}

static void load_costs(pack_arborist_t *a, const double *cost)
{
    for (uint32_t to = 0; to < a->n; to++) {
        for (uint32_t from = 0; from < a->n; from++) {
            a->in_cost[(size_t)to * a->n + from] = from == to ? INFINITY : cost[(size_t)from * a->n + to];
            a->head[to * a->n + from] = to;
        }
        a->top[to] = to;
        a->outer[to] = PLAN_NONE;
        a->state[to] = FRESH;
    }
}

/* Choose the cheapest way into `node` from outside it; returns the outermost node it comes from. */
static uint32_t choose_way_in(pack_arborist_t *a, uint32_t node)
{
    const double *in_cost = &a->in_cost[node * a->n];
    uint32_t best = PLAN_NONE;
    for (uint32_t from = 0; from < a->n; from++)
        if (a->top[from] != node && (best == PLAN_NONE || in_cost[from] < in_cost[best]))
            best = from;
    a->chosen[node] = best;
    a->target[node] = a->head[node * a->n + best];
    return a->top[best];
}

/* The stack from `depth` on has closed into a cycle: make it one node, whose ways in cost what they add. */
static void contract(pack_arborist_t *a, uint32_t depth, uint32_t height, uint32_t cycle)
{
    for (uint32_t from = 0; from < a->n; from++)
        a->in_cost[cycle * a->n + from] = INFINITY;
    for (uint32_t i = depth; i < height; i++) {
        uint32_t node = a->stack[i];
        double paid = a->in_cost[node * a->n + a->chosen[node]];
        for (uint32_t from = 0; from < a->n; from++) {
            double added = a->in_cost[node * a->n + from] - paid;
            if (added < a->in_cost[cycle * a->n + from]) {
                a->in_cost[cycle * a->n + from] = added;
                a->head[cycle * a->n + from] = a->head[node * a->n + from];
            }
        }
        a->outer[node] = cycle;
    }
    for (uint32_t from = 0; from < a->n; from++)
        if (a->outer[a->top[from]] == cycle)
            a->top[from] = cycle;
    a->outer[cycle] = PLAN_NONE;
    a->state[cycle] = FRESH;
}

/* Follow cheapest ways in from `node` until an attached node, contracting what closes. */
static void attach(pack_arborist_t *a, uint32_t node, uint32_t *node_count)
{
    uint32_t height = 0;
    while (a->state[node] != ATTACHED) {
        a->state[node] = GROWING;
        a->stack[height++] = node;
        uint32_t from = choose_way_in(a, node);
        if (a->state[from] == GROWING) {
            uint32_t depth = height - 1;
            while (a->stack[depth] != from)
                depth--;
            contract(a, depth, height, *node_count);
            height = depth;
            from = (*node_count)++;
        }
        node = from;
    }
    while (height > 0)
        a->state[a->stack[--height]] = ATTACHED;
}

/* Undo contractions, last first: a cycle keeps all its ways in but at the node where its own way in enters.
 */
static void expand(pack_arborist_t *a, uint32_t node_count)
{
    for (uint32_t cycle = node_count; cycle-- > a->n;) {
        uint32_t entered = a->target[cycle];
        while (a->outer[entered] != cycle)
            entered = a->outer[entered];
        a->chosen[entered] = a->chosen[cycle];
        a->target[entered] = a->target[cycle];
    }
}

void pack_arborist_grow(pack_arborist_t *arborist, const double *cost, uint32_t root, uint32_t *parent)
{
    uint32_t node_count = arborist->n;
    load_costs(arborist, cost);
    arborist->state[root] = ATTACHED;
    for (uint32_t node = 0; node < arborist->n; node++)
        attach(arborist, arborist->top[node], &node_count);
    expand(arborist, node_count);
    memcpy(parent, arborist->chosen, arborist->n * sizeof(*parent));
    parent[root] = PLAN_NONE;
}

void pack_span(uint32_t n, const double *cost, uint32_t root, uint32_t *parent, double *distance,
               uint32_t *level)
{
    for (uint32_t node = 0; node < n; node++) {
        distance[node] = cost[(size_t)root * n + node];
        parent[node] = root;
        level[node] = PLAN_NONE;
    }
    level[root] = 0;
    parent[root] = PLAN_NONE;
    for (uint32_t attached = 1; attached < n; attached++) {
        uint32_t nearest = PLAN_NONE;
        for (uint32_t node = 0; node < n; node++)
            if (level[node] == PLAN_NONE && (nearest == PLAN_NONE || distance[node] < distance[nearest]))
                nearest = node;
        level[nearest] = level[parent[nearest]] + 1;
        const double *out = &cost[(size_t)nearest * n];
        for (uint32_t node = 0; node < n; node++)
            if (level[node] == PLAN_NONE &&
                (out[node] < distance[node] ||
                 (out[node] <= distance[node] * SAME_COST && level[nearest] < level[parent[node]]))) {
                distance[node] = out[node];
                parent[node] = nearest;
            }
    }
}
