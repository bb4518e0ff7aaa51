/* The plain way between two ranks, for algorithms that do not weigh links: rings across machines, binary and
 * binomial trees, one hop. */
#include "error.h"
#include "plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const topo_t *topo;
    uint32_t *level; /* per node: links from the source; PLAN_NONE where not reached */
    double
        *width; /* per node: widest of the narrowest links of the shortest ways; later, of ways to the end */
    uint32_t *ways;  /* per node: how many shortest, widest ways there are, up to a limit */
    uint32_t *queue; /* nodes in the order reached */
    uint32_t reached;
} search_t;

/* Enough to tell parallel switches apart, little enough not to overflow. */
#define WAYS_MAX 4096u

static blink_result_t search_init(search_t *s, const topo_t *topo)
{
    *s = (search_t){.topo = topo,
                    .level = malloc(topo->node_count * sizeof(*s->level)),
                    .width = calloc(topo->node_count, sizeof(*s->width)),
                    .ways = calloc(topo->node_count, sizeof(*s->ways)),
                    .queue = malloc(topo->node_count * sizeof(*s->queue))};
    if (!s->level || !s->width || !s->ways || !s->queue)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to search %u nodes", topo->node_count);
    memset(s->level, 0xff, topo->node_count * sizeof(*s->level));
    return BLINK_OK;
}

static void search_fini(search_t *s)
{
    free(s->level);
    free(s->width);
    free(s->ways);
    free(s->queue);
}

/* Breadth first through relays up to the end. Level by level the narrowest link of the best way to each node
 * is known before anyone leaves that level. */
static void spread_out(search_t *s, uint32_t source, uint32_t end)
{
    uint32_t head = 0;
    s->level[source] = 0;
    s->width[source] = INFINITY;
    s->ways[source] = 1;
    s->queue[s->reached++] = source;
    while (head < s->reached) {
        uint32_t node = s->queue[head++];
        if (node == end || (node != source && s->topo->nodes[node].kind == TOPO_DEVICE))
            continue;
        for (uint32_t i = s->topo->out_first[node]; i < s->topo->out_first[node + 1]; i++) {
            const topo_link_t *link = &s->topo->links[s->topo->out_links[i]];
            double width = fmin(s->width[node], link->GBps);
            if (s->level[link->to] == PLAN_NONE) {
                s->level[link->to] = s->level[node] + 1;
                s->queue[s->reached++] = link->to;
            }
            if (s->level[link->to] != s->level[node] + 1)
                continue;
            if (width > s->width[link->to]) {
                s->width[link->to] = width;
                s->ways[link->to] = 0;
            }
            if (width >= s->width[link->to])
                s->ways[link->to] = (s->ways[link->to] + s->ways[node]) % WAYS_MAX;
        }
    }
}

/* Whether the link ends a shortest, widest way to its end. */
static bool leads_on(const search_t *s, const topo_link_t *link)
{
    return s->level[link->from] != PLAN_NONE && s->level[link->from] + 1 == s->level[link->to] &&
           fmin(s->width[link->from], link->GBps) >= s->width[link->to];
}

/* Back from the end, taking the choice'th of the ways. links[] holds level[end] entries. */
static void trace(const search_t *s, uint32_t end, uint32_t choice, uint32_t *links)
{
    for (uint32_t at = end; s->level[at] > 0;) {
        choice %= s->ways[at] > 0 ? s->ways[at] : 1;
        uint32_t taken = PLAN_NONE;
        for (uint32_t i = 0; i < s->reached; i++) {
            uint32_t link = topo_find_link(s->topo, s->queue[i], at);
            if (link == TOPO_NONE || !leads_on(s, &s->topo->links[link]))
                continue;
            taken = link;
            if (choice < s->ways[s->queue[i]])
                break;
            choice -= s->ways[s->queue[i]];
        }
        links[s->level[at] - 1] = taken;
        at = s->topo->links[taken].from;
    }
}

blink_result_t plan_shortest_path(const topo_t *topo, plan_t *plan, uint32_t from, uint32_t to,
                                  uint32_t choice, uint32_t *path)
{
    search_t s;
    uint32_t *links = malloc(topo->node_count * sizeof(*links));
    uint32_t source = plan->rank_node[from], end = plan->rank_node[to];
    blink_result_t result = search_init(&s, topo);
    if (result == BLINK_OK && !links)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path over %u nodes", topo->node_count);
    if (result == BLINK_OK)
        spread_out(&s, source, end);
    if (result == BLINK_OK && s.level[end] == PLAN_NONE)
        result = BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no path of %s leads from rank %u (%s) to rank %u (%s)",
                            topo->name, from, topo->nodes[source].id, to, topo->nodes[end].id);
    if (result == BLINK_OK) {
        trace(&s, end, choice, links);
        result = plan_intern_path(plan, links, s.level[end], path);
    }
    search_fini(&s);
    free(links);
    return result;
}

double plan_path_GBps(const topo_t *topo, const plan_path_t *path)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < path->link_count; i++)
        least = fmin(least, topo->links[path->links[i]].GBps);
    return least;
}

double plan_path_latency_us(const topo_t *topo, const plan_path_t *path)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < path->link_count; i++)
        sum += topo->links[path->links[i]].latency_us;
    return sum;
}
