/* Minimum-cost spanning arborescences (Chu-Liu/Edmonds): the pricing step of the packing program. */
#include "plan/trees/arborescence.h"
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Costs that differ by less than this factor are the same but for rounding. */
#define SAME_COST (1.0 + 1e-10)

/* Part of the dearest way across a hub that the sums of a few such ways may be wrong by. */
#define ROUNDING 1e-14

enum { FRESH, GROWING, ATTACHED };

blink_result_t pack_arborist_init(pack_arborist_t *arborist, const pack_paths_t *paths)
{
    size_t n = paths->net->rank_count, nodes = 2 * n, hubs = paths->hub_count;
    *arborist = (pack_arborist_t){.paths = paths, .n = paths->net->rank_count};
    arborist->edges = calloc(paths->out_to.count + 1, sizeof(*arborist->edges));
    arborist->newest = calloc(nodes, sizeof(*arborist->newest));
    arborist->from_hub = calloc(nodes * hubs + 1, sizeof(*arborist->from_hub));
    arborist->hub_head = calloc(nodes * hubs + 1, sizeof(*arborist->hub_head));
    arborist->to_hub = calloc(n * hubs + 1, sizeof(*arborist->to_hub));
    arborist->order = calloc(n * hubs + 1, sizeof(*arborist->order));
    arborist->seen = calloc(n, sizeof(*arborist->seen));
    arborist->known = calloc(n, sizeof(*arborist->known));
    arborist->paid = calloc(nodes, sizeof(*arborist->paid));
    arborist->chosen = calloc(nodes, sizeof(*arborist->chosen));
    arborist->target = calloc(nodes, sizeof(*arborist->target));
    arborist->outer = calloc(nodes, sizeof(*arborist->outer));
    arborist->above = calloc(nodes, sizeof(*arborist->above));
    arborist->stack = calloc(nodes, sizeof(*arborist->stack));
    arborist->state = calloc(nodes, sizeof(*arborist->state));
    if (!arborist->edges || !arborist->newest || !arborist->from_hub || !arborist->hub_head ||
        !arborist->to_hub || !arborist->order || !arborist->seen || !arborist->known || !arborist->paid ||
        !arborist->chosen || !arborist->target || !arborist->outer || !arborist->above || !arborist->stack ||
        !arborist->state)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for spanning trees over %u ranks", arborist->n);
    return BLINK_OK;
}

void pack_arborist_fini(pack_arborist_t *arborist)
{
    free(arborist->edges);
    free(arborist->newest);
    free(arborist->from_hub);
    free(arborist->hub_head);
    free(arborist->to_hub);
    free(arborist->order);
    free(arborist->seen);
    free(arborist->known);
    free(arborist->paid);
    free(arborist->chosen);
    free(arborist->target);
    free(arborist->outer);
    free(arborist->above);
    free(arborist->stack);
    free(arborist->state);
}

/* ---- the edges of now ---- */

static void load_edges(pack_arborist_t *a, bool toward_root, const double *extra)
{
    const pack_paths_t *paths = a->paths;
    const uint32_t *first = toward_root ? paths->out_first : paths->in_first;
    const uint32_t *near = toward_root ? paths->out_to.items : paths->in_from;
    size_t n = a->n;
    for (uint32_t head = 0; head < n; head++) {
        for (uint32_t i = first[head]; i < first[head + 1]; i++) {
            uint32_t from = near[i];
            double cost = paths->cost[toward_root ? head * n + from : from * n + head];
            a->edges[i] = (pack_edge_t){from, head, i + 1 < first[head + 1] ? i + 1 : PLAN_NONE,
                                        cost + (extra ? extra[from] : 0.0)};
        }
        a->newest[head] = first[head] < first[head + 1] ? first[head] : PLAN_NONE;
        a->above[head] = head;
        a->outer[head] = PLAN_NONE;
        a->seen[head] = PLAN_NONE;
        a->state[head] = FRESH;
    }
}

static int compare_ways(const void *one, const void *other, void *context)
{
    const double *to_hub = context;
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    if (to_hub[a] < to_hub[b] || to_hub[a] > to_hub[b])
        return to_hub[a] < to_hub[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void load_hubs(pack_arborist_t *a, bool toward_root, const double *extra)
{
    uint32_t hubs = a->paths->hub_count;
    a->rounding = 0.0;
    for (uint32_t i = 0; i < hubs; i++) {
        const pack_hub_t *hub = &a->paths->hubs[i];
        double *to_hub = &a->to_hub[(size_t)i * a->n];
        uint32_t *order = &a->order[(size_t)i * a->n];
        for (uint32_t rank = 0; rank < a->n; rank++) {
            to_hub[rank] = (toward_root ? hub->from : hub->to)[rank] + (extra ? extra[rank] : 0.0);
            a->from_hub[rank * hubs + i] = (toward_root ? hub->to : hub->from)[rank];
            a->hub_head[rank * hubs + i] = rank;
            order[rank] = rank;
            if (hub->to[rank] + hub->from[rank] < INFINITY)
                a->rounding = fmax(a->rounding, ROUNDING * (hub->to[rank] + hub->from[rank]));
        }
        qsort_r(order, a->n, sizeof(*order), compare_ways, to_hub);
    }
}

/* ---- contraction ---- */

/* The outermost contraction of a rank or contraction. */
static uint32_t find_top(pack_arborist_t *a, uint32_t node)
{
    for (; a->above[node] != node; node = a->above[node])
        a->above[node] = a->above[a->above[node]];
    return node;
}

/* The rank outside `node` that is the nearest to a hub. */
static uint32_t nearest_outside(pack_arborist_t *a, uint32_t node, uint32_t hub)
{
    const uint32_t *order = &a->order[(size_t)hub * a->n];
    uint32_t i = 0;
    while (i + 1 < a->n && find_top(a, order[i]) == node)
        i++;
    return order[i];
}

/* Take a way into `node` if it is the cheapest so far; of equal ones that from the least rank, whatever the
 * order of the edges. */
static void weigh(pack_arborist_t *a, uint32_t node, uint32_t from, uint32_t head, double cost)
{
    if (cost > a->paid[node] || (!(cost < a->paid[node]) && from > a->chosen[node]))
        return;
    a->paid[node] = cost;
    a->chosen[node] = from;
    a->target[node] = head;
}

/* Choose the cheapest way into `node` from outside it; returns the outermost node it comes from. */
static uint32_t choose_way_in(pack_arborist_t *a, uint32_t node)
{
    uint32_t hubs = a->paths->hub_count;
    a->paid[node] = INFINITY;
    a->chosen[node] = PLAN_NONE;
    for (uint32_t i = a->newest[node]; i != PLAN_NONE; i = a->edges[i].next)
        weigh(a, node, a->edges[i].from, a->edges[i].head, a->edges[i].cost);
    for (uint32_t hub = 0; hub < hubs; hub++) {
        uint32_t from = nearest_outside(a, node, hub);
        double cost = a->to_hub[hub * a->n + from] + a->from_hub[node * hubs + hub];
        weigh(a, node, from, a->hub_head[node * hubs + hub], cost);
    }
    return find_top(a, a->chosen[node]);
}

/* Hand the edges into a member of a cycle over to the cycle, at what they add; of several from one rank only
 * the cheapest, and of equally cheap ones the first: the later a member joined, the deeper its tree would be.
 */
static void hand_over(pack_arborist_t *a, uint32_t node, uint32_t cycle)
{
    for (uint32_t i = a->newest[node], next; i != PLAN_NONE; i = next) {
        pack_edge_t *edge = &a->edges[i];
        next = edge->next;
        if (find_top(a, edge->from) == cycle)
            continue;
        edge->cost -= a->paid[node];
        if (a->seen[edge->from] == cycle) {
            pack_edge_t *known = &a->edges[a->known[edge->from]];
            if (edge->cost < known->cost) {
                known->cost = edge->cost;
                known->head = edge->head;
            }
            continue;
        }
        a->seen[edge->from] = cycle;
        a->known[edge->from] = i;
        edge->next = a->newest[cycle];
        a->newest[cycle] = i;
    }
    for (uint32_t hub = 0, hubs = a->paths->hub_count; hub < hubs; hub++) {
        double cost = a->from_hub[node * hubs + hub] - a->paid[node];
        if (cost < a->from_hub[cycle * hubs + hub] - a->rounding) {
            a->from_hub[cycle * hubs + hub] = cost;
            a->hub_head[cycle * hubs + hub] = a->hub_head[node * hubs + hub];
        }
    }
}

/* The stack from `depth` on has closed into a cycle: make it one node. */
static void contract(pack_arborist_t *a, uint32_t depth, uint32_t height, uint32_t cycle)
{
    a->newest[cycle] = PLAN_NONE;
    a->above[cycle] = cycle;
    a->outer[cycle] = PLAN_NONE;
    a->state[cycle] = FRESH;
    for (uint32_t hub = 0, hubs = a->paths->hub_count; hub < hubs; hub++)
        a->from_hub[cycle * hubs + hub] = INFINITY;
    for (uint32_t i = depth; i < height; i++)
        a->outer[a->stack[i]] = a->above[a->stack[i]] = cycle;
    for (uint32_t i = depth; i < height; i++)
        hand_over(a, a->stack[i], cycle);
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

void pack_arborist_grow(pack_arborist_t *arborist, uint32_t root, bool toward_root, const double *extra,
                        uint32_t *parent)
{
    uint32_t node_count = arborist->n;
    load_edges(arborist, toward_root, extra);
    load_hubs(arborist, toward_root, extra);
    arborist->state[root] = ATTACHED;
    for (uint32_t node = 0; node < arborist->n; node++)
        attach(arborist, find_top(arborist, node), &node_count);
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
