/* Rails between hosts: in which order they go through these, and by which ways over the network. */
#include "error.h"
#include "plan/baseline/nccl/ring.h"

#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

typedef struct order {
    const topo_t *topo;
    const uint32_t *node_host;
    uint32_t host_count;
    bool *taken;         /* per host */
    uint32_t *far_links; /* per node: links from the host from which the search goes; TOPO_NONE: not met */
    uint32_t *queue;     /* per node */
} order_t;

/* All of a host's nodes. */
static uint32_t start_at(order_t *o, uint32_t host)
{
    uint32_t count = 0;
    memset(o->far_links, 0xff, o->topo->node_count * sizeof(*o->far_links));
    for (uint32_t node = 0; node < o->topo->node_count; node++)
        if (o->node_host[node] == host) {
            o->far_links[node] = 0;
            o->queue[count++] = node;
        }
    return count;
}

/* Of the hosts that are not taken, the nearest one over what belongs to none of them; the first where several
 * are. host_count: none can be reached. */
static uint32_t find_nearest(order_t *o, uint32_t host)
{
    const topo_t *topo = o->topo;
    uint32_t tail = start_at(o, host), nearest = o->host_count, distance = TOPO_NONE;
    for (uint32_t head = 0; head < tail && o->far_links[o->queue[head]] < distance; head++) {
        uint32_t node = o->queue[head];
        for (uint32_t i = topo->out_first[node]; i < topo->out_first[node + 1]; i++) {
            uint32_t to = topo->links[topo->out_links[i]].to, at = o->node_host[to];
            if (o->far_links[to] != TOPO_NONE)
                continue;
            o->far_links[to] = o->far_links[node] + 1;
            if (at == PLAN_NONE && topo->nodes[to].kind != TOPO_DEVICE)
                o->queue[tail++] = to;
            if (at == PLAN_NONE || o->taken[at])
                continue;
            distance = o->far_links[to];
            nearest = at < nearest ? at : nearest;
        }
    }
    return nearest;
}

static void order_all(order_t *o, uint32_t *place)
{
    uint32_t host = 0, first_left = 0;
    for (uint32_t i = 0; i < o->host_count; i++) {
        place[host] = i;
        o->taken[host] = true;
        while (first_left < o->host_count && o->taken[first_left])
            first_left++;
        host = find_nearest(o, host);
        if (host == o->host_count)
            host = first_left;
    }
}

blink_result_t rails_order_hosts(const topo_t *topo, const uint32_t *node_host, uint32_t host_count,
                                 uint32_t *place)
{
    order_t o = {.topo = topo,
                 .node_host = node_host,
                 .host_count = host_count,
                 .taken = calloc(host_count, sizeof(*o.taken)),
                 .far_links = malloc(topo->node_count * sizeof(*o.far_links)),
                 .queue = malloc(topo->node_count * sizeof(*o.queue))};
    blink_result_t result = BLINK_OK;
    if (o.taken && o.far_links && o.queue)
        order_all(&o, place);
    else
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to order %u hosts", host_count);
    free(o.queue);
    free(o.far_links);
    free(o.taken);
    return result;
}

/* ---- ways ---- */

/* Links from the last search's source to a node that it has reached. */
static uint32_t depth_of(const ring_search_t *search, uint32_t source, uint32_t node)
{
    uint32_t depth = 0;
    for (; node != source; node = search->topo->links[search->via[node]].from)
        depth++;
    return depth;
}

/* The last link of one of the shortest ways to a node that the last search has reached: of the choice'th of
 * them, in turns. */
static uint32_t choose_link(const ring_search_t *search, uint32_t source, uint32_t node, uint32_t choice)
{
    const topo_t *topo = search->topo;
    uint32_t depth = depth_of(search, source, node), count = 0;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint32_t from = topo->links[i].from;
        if (topo->links[i].to != node ||
            (from != source && (search->via[from] == TOPO_NONE || topo->nodes[from].kind == TOPO_DEVICE)))
            continue;
        if (depth_of(search, source, from) + 1 == depth)
            search->links[count++] = i;
    }
    return search->links[choice % count];
}

blink_result_t rails_join(ring_search_t *search, uint32_t rail, uint32_t from, uint32_t to, rail_walk_t *walk)
{
    const topo_t *topo = search->topo;
    ring_search_from(search, &(ring_reach_t){.class = RING_ANY, .host = PLAN_NONE}, from);
    if (search->via[to] == TOPO_NONE)
        return BLINK_FAIL(BLINK_ERR_UNREACHABLE, "no path of %s leads from %s to %s", topo->name,
                          topo->nodes[from].id, topo->nodes[to].id);
    for (uint32_t node = to; node != from; node = topo->links[search->via[node]].from)
        search->via[node] = choose_link(search, from, node, rail);
    uint32_t count = 0;
    const uint32_t *links = ring_search_way(search, from, to, &count);
    for (uint32_t i = 0; i < count; i++)
        BLINK_TRY(rail_walk_append(walk, topo->links[links[i]].to));
    return BLINK_OK;
}
