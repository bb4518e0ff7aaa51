/* Ways of fewest links, for rings and rails: unlike the search between ranks in reach.c it starts and ends at
 * any node and can be kept inside one host or one kind of link. */
#include "error.h"
#include "plan/baseline/nccl/ring.h"

#include <stdlib.h>
#include <string.h>

bool ring_in_class(const topo_link_t *link, ring_class_t wanted)
{
    return wanted == RING_ANY || topo_is_nvlink(link) == (wanted == RING_NVLINK);
}

blink_result_t ring_search_init(ring_search_t *s, const topo_t *topo, const uint32_t *node_host)
{
    *s = (ring_search_t){.topo = topo,
                         .node_host = node_host,
                         .via = malloc(topo->node_count * sizeof(*s->via)),
                         .queue = malloc(topo->node_count * sizeof(*s->queue)),
                         .links = malloc(topo->node_count * sizeof(*s->links))};
    if (!s->via || !s->queue || !s->links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to search %u nodes", topo->node_count);
    return BLINK_OK;
}

void ring_search_fini(ring_search_t *s)
{
    free(s->via);
    free(s->queue);
    free(s->links);
}

void ring_search_from(ring_search_t *s, const ring_reach_t *reach, uint32_t source)
{
    const topo_t *topo = s->topo;
    uint32_t head = 0, tail = 0;
    memset(s->via, 0xff, topo->node_count * sizeof(*s->via));
    s->queue[tail++] = source;
    while (head < tail) {
        uint32_t node = s->queue[head++];
        uint32_t first = topo->out_first[node], degree = topo->out_first[node + 1] - first;
        if (node != source && topo->nodes[node].kind == TOPO_DEVICE)
            continue;
        for (uint32_t i = 0; i < degree; i++) {
            uint32_t index = topo->out_links[first + (i + reach->choice) % degree];
            const topo_link_t *link = &topo->links[index];
            if (link->to == source || s->via[link->to] != TOPO_NONE || !ring_in_class(link, reach->class) ||
                (reach->host != PLAN_NONE && s->node_host[link->to] != reach->host))
                continue;
            s->via[link->to] = index;
            s->queue[tail++] = link->to;
        }
    }
}

const uint32_t *ring_search_way(const ring_search_t *s, uint32_t source, uint32_t end, uint32_t *count)
{
    uint32_t at = s->topo->node_count;
    for (uint32_t node = end; node != source; node = s->topo->links[s->via[node]].from)
        s->links[--at] = s->via[node];
    *count = s->topo->node_count - at;
    return &s->links[at];
}
