/* Cheapest ways under link prices, from one node to all. Spanning trees and routes are both priced with them.
 */
#include "plan/bound/bound.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>

typedef struct bound_stop {
    double distance;
    uint32_t node;
} bound_stop_t;

blink_result_t bound_search_init(bound_search_t *search, const topo_t *topo)
{
    search->distance = malloc(topo->node_count * sizeof(*search->distance));
    search->heap = malloc((topo->link_count + 1u) * sizeof(*search->heap));
    search->heap_count = 0;
    if (!search->distance || !search->heap)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to price ways over %u links", topo->link_count);
    return BLINK_OK;
}

void bound_search_fini(bound_search_t *search)
{
    free(search->distance);
    free(search->heap);
}

static void push(bound_search_t *search, double distance, uint32_t node)
{
    uint32_t at = search->heap_count++;
    for (; at > 0 && search->heap[(at - 1) / 2].distance > distance; at = (at - 1) / 2)
        search->heap[at] = search->heap[(at - 1) / 2];
    search->heap[at] = (bound_stop_t){distance, node};
}

static bound_stop_t pop(bound_search_t *search)
{
    bound_stop_t nearest = search->heap[0], moved = search->heap[--search->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < search->heap_count; child = 2 * at + 1) {
        if (child + 1 < search->heap_count && search->heap[child + 1].distance < search->heap[child].distance)
            child++;
        if (search->heap[child].distance >= moved.distance)
            break;
        search->heap[at] = search->heap[child];
        at = child;
    }
    search->heap[at] = moved;
    return nearest;
}

void bound_search(const bound_net_t *net, bound_search_t *search, uint32_t from, bool through_ranks)
{
    const topo_t *topo = net->topo;
    for (uint32_t node = 0; node < topo->node_count; node++)
        search->distance[node] = INFINITY;
    search->distance[from] = 0.0;
    search->heap_count = 0;
    push(search, 0.0, from);
    while (search->heap_count > 0) {
        bound_stop_t stop = pop(search);
        if (stop.distance > search->distance[stop.node])
            continue;
        for (uint32_t i = topo->out_first[stop.node]; i < topo->out_first[stop.node + 1]; i++) {
            uint32_t link = topo->out_links[i], to = topo->links[link].to;
            double distance = stop.distance + net->price[link] + net->price[topo->link_count + to];
            if (!net->usable[to] || distance >= search->distance[to])
                continue;
            search->distance[to] = distance;
            if (through_ranks || topo->nodes[to].kind != TOPO_DEVICE)
                push(search, distance, to);
        }
    }
}
