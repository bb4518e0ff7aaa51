/* Which links are priced, and what falls apart without them. */
#include "plan/show/limit_groups.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this part of the largest, a price is the solver's noise. */
#define NOISE 1e-6

static blink_result_t allocate(limit_groups_t *g)
{
    size_t nodes = g->topo->node_count, links = g->topo->link_count;
    g->usable = malloc(nodes * sizeof(*g->usable));
    g->part = calloc(links + nodes, sizeof(*g->part));
    g->group = malloc(nodes * sizeof(*g->group));
    g->ranks = calloc(nodes, sizeof(*g->ranks));
    if (!g->usable || !g->part || !g->group || !g->ranks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to group %zu nodes", nodes);
    for (size_t node = 0; node < nodes; node++)
        g->usable[node] = g->topo->nodes[node].kind != TOPO_DEVICE;
    for (uint32_t rank = 0; rank < g->plan->rank_count; rank++)
        g->usable[g->plan->rank_node[rank]] = true;
    return BLINK_OK;
}

bool limit_link_usable(const limit_groups_t *g, uint32_t link)
{
    return g->usable[g->topo->links[link].from] && g->usable[g->topo->links[link].to];
}

static double capacity_GBps(const limit_groups_t *g, uint32_t item)
{
    if (item < g->topo->link_count)
        return limit_link_usable(g, item) ? g->topo->links[item].GBps : 0.0;
    const topo_node_t *node = &g->topo->nodes[item - g->topo->link_count];
    return node->kind == TOPO_DEVICE ? 0.0 : node->total_GBps;
}

static void share_price(limit_groups_t *g)
{
    uint32_t count = g->topo->link_count + g->topo->node_count;
    double largest = 0.0, sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        g->part[i] = fmax(0.0, g->plan->prices[i]) * capacity_GBps(g, i);
        largest = fmax(largest, g->part[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        g->part[i] = g->part[i] > NOISE * largest ? g->part[i] : 0.0;
        sum += g->part[i];
    }
    for (uint32_t i = 0; sum > 0.0 && i < count; i++)
        g->part[i] /= sum;
}

/* ---- strongly connected parts (Tarjan 1972), without recursion ---- */

typedef struct walk {
    uint32_t *order; /* per node: when it was found, from 0; PLAN_NONE before */
    uint32_t *low;   /* per node: the earliest open node it leads back to */
    uint32_t *next;  /* per node: the next way out to try */
    uint32_t *open;  /* found, not yet in a group */
    uint32_t *trail; /* from the start to where the walk stands */
    uint32_t open_count, trail_count, found;
} walk_t;

static blink_result_t walk_init(walk_t *w, const topo_t *topo)
{
    size_t nodes = topo->node_count;
    *w = (walk_t){.order = malloc(nodes * sizeof(*w->order)),
                  .low = malloc(nodes * sizeof(*w->low)),
                  .next = malloc(nodes * sizeof(*w->next)),
                  .open = malloc(nodes * sizeof(*w->open)),
                  .trail = malloc(nodes * sizeof(*w->trail))};
    if (!w->order || !w->low || !w->next || !w->open || !w->trail)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to group %zu nodes", nodes);
    memset(w->order, 0xff, nodes * sizeof(*w->order));
    return BLINK_OK;
}

static void walk_fini(walk_t *w)
{
    free(w->order);
    free(w->low);
    free(w->next);
    free(w->open);
    free(w->trail);
}

static void step_into(const limit_groups_t *g, walk_t *w, uint32_t node)
{
    w->order[node] = w->low[node] = w->found++;
    w->next[node] = g->topo->out_first[node];
    w->open[w->open_count++] = node;
    w->trail[w->trail_count++] = node;
}

/* Whether the link holds its ends together: usable, free, and into no node that asks a price itself. */
static bool joins(const limit_groups_t *g, uint32_t link)
{
    uint32_t to = g->topo->links[link].to;
    return limit_link_usable(g, link) && g->part[link] <= 0.0 && g->part[g->topo->link_count + to] <= 0.0;
}

static void step_back(limit_groups_t *g, walk_t *w)
{
    uint32_t node = w->trail[--w->trail_count], member;
    if (w->trail_count > 0) {
        uint32_t before = w->trail[w->trail_count - 1];
        w->low[before] = w->low[node] < w->low[before] ? w->low[node] : w->low[before];
    }
    if (w->low[node] != w->order[node])
        return;
    do {
        member = w->open[--w->open_count];
        g->group[member] = g->count;
    } while (member != node);
    g->count++;
}

static void walk_from(limit_groups_t *g, walk_t *w, uint32_t start)
{
    step_into(g, w, start);
    while (w->trail_count > 0) {
        uint32_t node = w->trail[w->trail_count - 1];
        if (w->next[node] == g->topo->out_first[node + 1]) {
            step_back(g, w);
            continue;
        }
        uint32_t link = g->topo->out_links[w->next[node]++], to = g->topo->links[link].to;
        if (!joins(g, link))
            continue;
        if (w->order[to] == PLAN_NONE)
            step_into(g, w, to);
        else if (g->group[to] == PLAN_NONE && w->order[to] < w->low[node])
            w->low[node] = w->order[to];
    }
}

/* Number the groups anew: by their first ranks, then the others as they come. */
static void sort_groups(limit_groups_t *g, uint32_t *number)
{
    uint32_t numbered = 0;
    memset(number, 0xff, g->count * sizeof(*number));
    for (uint32_t rank = 0; rank < g->plan->rank_count; rank++) {
        uint32_t *at = &number[g->group[g->plan->rank_node[rank]]];
        if (*at == PLAN_NONE)
            *at = numbered++;
        g->ranks[*at]++;
    }
    g->parties = numbered;
    for (uint32_t group = 0; group < g->count; group++)
        if (number[group] == PLAN_NONE)
            number[group] = numbered++;
    for (uint32_t node = 0; node < g->topo->node_count; node++)
        if (g->group[node] != PLAN_NONE)
            g->group[node] = number[g->group[node]];
}

static blink_result_t find_groups(limit_groups_t *g)
{
    walk_t walk;
    blink_result_t result = walk_init(&walk, g->topo);
    memset(g->group, 0xff, g->topo->node_count * sizeof(*g->group));
    for (uint32_t node = 0; result == BLINK_OK && node < g->topo->node_count; node++)
        if (g->usable[node] && walk.order[node] == PLAN_NONE)
            walk_from(g, &walk, node);
    if (result == BLINK_OK)
        sort_groups(g, walk.open);
    walk_fini(&walk);
    return result;
}

blink_result_t limit_groups_init(limit_groups_t *g, const topo_t *topo, const plan_t *plan)
{
    *g = (limit_groups_t){.topo = topo, .plan = plan};
    BLINK_TRY(allocate(g));
    share_price(g);
    return find_groups(g);
}

void limit_groups_fini(limit_groups_t *g)
{
    free(g->usable);
    free(g->part);
    free(g->group);
    free(g->ranks);
}
