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
    uint32_t returned; /* so many of them, by next_node() */
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

static void search_from(search_t *s, uint32_t source)
{
    s->level[source] = 0;
    s->width[source] = INFINITY;
    s->ways[source] = 1;
    s->queue[s->reached++] = source;
}

/* Reach what its links lead to, unless it is a device on the way, which relays nothing. */
static void leave_node(search_t *s, uint32_t node)
{
    if (s->level[node] > 0 && s->topo->nodes[node].kind == TOPO_DEVICE)
        return;
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

/* Breadth first through relays: the next node that was reached, or TOPO_NONE. Level by level the narrowest
 * link of the best way to each node is known before anyone leaves that level. */
static uint32_t next_node(search_t *s)
{
    if (s->returned > 0)
        leave_node(s, s->queue[s->returned - 1]);
    return s->returned < s->reached ? s->queue[s->returned++] : TOPO_NONE;
}

/* The link by which a shortest, widest way to a node, which no other device stands in, comes from another
 * one, or TOPO_NONE. */
static uint32_t last_link(const search_t *s, uint32_t from, uint32_t to)
{
    if (s->level[from] + 1 != s->level[to])
        return TOPO_NONE;
    if (s->level[from] > 0 && s->topo->nodes[from].kind == TOPO_DEVICE)
        return TOPO_NONE;
    uint32_t link = topo_find_link(s->topo, from, to);
    if (link == TOPO_NONE || fmin(s->width[from], s->topo->links[link].GBps) < s->width[to])
        return TOPO_NONE;
    return link;
}

/* Back from the end, taking the choice'th of the ways. links[] holds level[end] entries. */
static void trace(const search_t *s, uint32_t end, uint32_t choice, uint32_t *links)
{
    for (uint32_t at = end; s->level[at] > 0;) {
        choice %= s->ways[at] > 0 ? s->ways[at] : 1;
        uint32_t taken = PLAN_NONE;
        for (uint32_t i = 0; i < s->reached; i++) {
            uint32_t link = last_link(s, s->queue[i], at);
            if (link == TOPO_NONE)
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

/* A way between two nodes. */
typedef struct way {
    uint32_t *links; /* room for those of any two ways */
    uint32_t count;  /* 0: there is none */
    double GBps;     /* of its narrowest link */
} way_t;

static blink_result_t find_way(const topo_t *topo, uint32_t source, uint32_t end, uint32_t choice, way_t *way)
{
    search_t s;
    blink_result_t result = search_init(&s, topo);
    way->count = 0;
    if (result == BLINK_OK) {
        search_from(&s, source);
        uint32_t node;
        do
            node = next_node(&s);
        while (node != end && node != TOPO_NONE);
        if (s.level[end] != PLAN_NONE) {
            way->count = s.level[end];
            way->GBps = s.width[end];
            trace(&s, end, choice, way->links);
        }
    }
    search_fini(&s);
    return result;
}

/* The CPU by which it is the fewest links from the source of a search, of these the widest way; TOPO_NONE if
 * there is none. A CPU that is as far as the best way is long cannot be on a shorter one. links[] is room for
 * a way. */
static blink_result_t choose_cpu(search_t *s, uint32_t end, uint32_t choice, uint32_t *links, uint32_t *best)
{
    uint32_t least = UINT32_MAX;
    double widest = 0.0;
    *best = TOPO_NONE;
    for (uint32_t cpu = next_node(s); cpu != TOPO_NONE && s->level[cpu] < least; cpu = next_node(s)) {
        way_t rest = {.links = links};
        if (s->topo->nodes[cpu].kind != TOPO_CPU)
            continue;
        BLINK_TRY(find_way(s->topo, cpu, end, choice, &rest));
        uint32_t count = s->level[cpu] + rest.count;
        double GBps = fmin(s->width[cpu], rest.GBps);
        if (rest.count == 0 || count > least || (count == least && GBps <= widest))
            continue;
        *best = cpu;
        least = count;
        widest = GBps;
    }
    return BLINK_OK;
}

/* Between devices that are no peers: by way of a CPU. */
static blink_result_t find_way_by_host(const topo_t *topo, uint32_t source, uint32_t end, uint32_t choice,
                                       way_t *way)
{
    search_t s;
    uint32_t cpu = TOPO_NONE;
    blink_result_t result = search_init(&s, topo);
    way->count = 0;
    if (result == BLINK_OK) {
        search_from(&s, source);
        result = choose_cpu(&s, end, choice, way->links, &cpu);
    }
    if (result == BLINK_OK && cpu != TOPO_NONE) {
        way_t rest = {.links = way->links + s.level[cpu]};
        trace(&s, cpu, choice, way->links);
        result = find_way(topo, cpu, end, choice, &rest);
        way->count = s.level[cpu] + rest.count;
    }
    search_fini(&s);
    return result;
}

static bool has_cpu(const topo_t *topo)
{
    for (uint32_t i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_CPU)
            return true;
    return false;
}

blink_result_t plan_fail_unreachable(const topo_t *topo, const plan_t *plan, uint32_t from, uint32_t to)
{
    uint32_t source = plan->rank_node[from], end = plan->rank_node[to];
    const char *why = ", which are no peers, by way of a CPU";
    if (topo_are_peers(topo, source, end))
        why = "";
    else if (!has_cpu(topo))
        why = ", which are no peers, by way of a CPU, as it has none: name a topology that has, or let the "
              "daemon detect it";
    return BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no path of %s leads from rank %u (%s) to rank %u (%s)%s",
                      topo->name, from, topo->nodes[source].id, to, topo->nodes[end].id, why);
}

blink_result_t plan_shortest_path(const topo_t *topo, plan_t *plan, uint32_t from, uint32_t to,
                                  uint32_t choice, uint32_t *path)
{
    uint32_t source = plan->rank_node[from], end = plan->rank_node[to];
    way_t way = {.links = malloc(2 * topo->node_count * sizeof(*way.links))};
    blink_result_t result = BLINK_OK;
    if (!way.links)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a path over %u nodes", topo->node_count);
    else
        result = topo_are_peers(topo, source, end) ? find_way(topo, source, end, choice, &way)
                                                   : find_way_by_host(topo, source, end, choice, &way);
    if (result == BLINK_OK && way.count == 0)
        result = plan_fail_unreachable(topo, plan, from, to);
    if (result == BLINK_OK)
        result = plan_intern_path(plan, way.links, way.count, path);
    free(way.links);
    return result;
}

bool plan_path_joins_peers(const topo_t *topo, const plan_path_t *path)
{
    return topo_are_peers(topo, topo->links[path->links[0]].from,
                          topo->links[path->links[path->link_count - 1]].to);
}

bool plan_path_by_host(const topo_t *topo, const plan_path_t *path)
{
    for (uint32_t i = 1; i < path->link_count; i++)
        if (topo->nodes[topo->links[path->links[i]].from].kind == TOPO_CPU)
            return true;
    return false;
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
