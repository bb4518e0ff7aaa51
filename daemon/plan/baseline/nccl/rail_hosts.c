#include "plan/baseline/nccl/rail_hosts.h"

#include "error.h"
#include "plan/baseline/nccl/ring.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static blink_result_t push(uint32_t **list, uint32_t *count, uint32_t value)
{
    /* The room doubles: it is full whenever the count is a power of two. */
    if ((*count & (*count - 1)) == 0) {
        uint32_t *grown = realloc(*list, (*count ? 2 * (size_t)*count : 1) * sizeof(*grown));
        if (!grown)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for hosts of more than %u nodes", *count);
        *list = grown;
    }
    (*list)[(*count)++] = value;
    return BLINK_OK;
}

/* The host of this name, or as many as there are. Nodes of one host mostly stand together: look behind first.
 */
static uint32_t find_host(const rail_hosts_t *h, const char *name, uint32_t last)
{
    uint32_t count = h->count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t host = (last + i) % count;
        if (strcmp(h->topo->nodes[h->hosts[host].rank_node[0]].host, name) == 0)
            return host;
    }
    return count;
}

/* Put hosts, which stand in order of their first ranks, into that of rings. */
static blink_result_t order_hosts(rail_hosts_t *h, uint32_t rank_count)
{
    uint32_t count = h->count, *place = malloc(count * sizeof(*place));
    rail_host_t *ordered = malloc(count * sizeof(*ordered));
    blink_result_t result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to order %u hosts", count);
    if (place && ordered)
        result = rails_order_hosts(h->topo, h->node_host, count, place);
    if (result == BLINK_OK) {
        for (uint32_t host = 0; host < count; host++)
            ordered[place[host]] = h->hosts[host];
        memcpy(h->hosts, ordered, count * sizeof(*ordered));
        for (uint32_t rank = 0; rank < rank_count; rank++)
            h->rank_host[rank] = place[h->rank_host[rank]];
        for (uint32_t node = 0; node < h->topo->node_count; node++)
            if (h->node_host[node] != PLAN_NONE)
                h->node_host[node] = place[h->node_host[node]];
    }
    free(ordered);
    free(place);
    return result;
}

static blink_result_t list_hosts(rail_hosts_t *h, const plan_t *plan)
{
    uint32_t last = 0;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t node = plan->rank_node[rank];
        last = find_host(h, h->topo->nodes[node].host, last);
        if (last == h->count)
            h->count++;
        h->rank_host[rank] = last;
        BLINK_TRY(push(&h->hosts[last].rank_node, &h->hosts[last].rank_count, node));
    }
    for (uint32_t node = 0; node < h->topo->node_count; node++) {
        uint32_t found = find_host(h, h->topo->nodes[node].host, last);
        h->node_host[node] = PLAN_NONE;
        if (found == h->count)
            continue;
        last = h->node_host[node] = found;
        h->place[node] = h->hosts[found].node_count;
        BLINK_TRY(push(&h->hosts[found].nodes, &h->hosts[found].node_count, node));
    }
    return order_hosts(h, plan->rank_count);
}

double rail_hosts_port_GBps(const rail_hosts_t *h, uint32_t nic)
{
    double widest_GBps = 0.0;
    for (uint32_t i = h->topo->out_first[nic]; i < h->topo->out_first[nic + 1]; i++) {
        const topo_link_t *link = &h->topo->links[h->topo->out_links[i]];
        if (h->node_host[link->to] != h->node_host[nic])
            widest_GBps = fmax(widest_GBps, link->GBps);
    }
    return widest_GBps;
}

static blink_result_t list_nics(rail_hosts_t *h)
{
    for (uint32_t host = 0; host < h->count; host++)
        for (uint32_t i = 0; i < h->hosts[host].node_count; i++) {
            uint32_t node = h->hosts[host].nodes[i];
            if (h->topo->nodes[node].kind == TOPO_NIC && rail_hosts_port_GBps(h, node) > 0.0)
                BLINK_TRY(push(&h->hosts[host].nics, &h->hosts[host].nic_count, node));
        }
    return BLINK_OK;
}

/* The i'th link that leaves a node and stays in its host, or NULL. */
static const topo_link_t *inner_link(const rail_hosts_t *h, uint32_t node, uint32_t i)
{
    for (uint32_t j = h->topo->out_first[node]; j < h->topo->out_first[node + 1]; j++) {
        const topo_link_t *link = &h->topo->links[h->topo->out_links[j]];
        if (h->node_host[link->to] == h->node_host[node] && i-- == 0)
            return link;
    }
    return NULL;
}

static bool same_links(const rail_hosts_t *h, uint32_t one, uint32_t other)
{
    for (uint32_t i = 0;; i++) {
        const topo_link_t *a = inner_link(h, one, i), *b = inner_link(h, other, i);
        if (!a || !b)
            return a == b;
        if (h->place[a->to] != h->place[b->to] || a->kind != b->kind || a->GBps < b->GBps ||
            a->GBps > b->GBps || a->unit_GBps < b->unit_GBps || a->unit_GBps > b->unit_GBps)
            return false;
    }
}

bool rail_hosts_are_equal(const rail_hosts_t *h, const rail_host_t *one, const rail_host_t *other)
{
    if (one->node_count != other->node_count || one->rank_count != other->rank_count ||
        one->nic_count != other->nic_count)
        return false;
    for (uint32_t i = 0; i < one->rank_count; i++)
        if (h->place[one->rank_node[i]] != h->place[other->rank_node[i]])
            return false;
    for (uint32_t i = 0; i < one->node_count; i++)
        if (h->topo->nodes[one->nodes[i]].kind != h->topo->nodes[other->nodes[i]].kind ||
            !same_links(h, one->nodes[i], other->nodes[i]))
            return false;
    return true;
}

blink_result_t rail_hosts_find(const topo_t *topo, const plan_t *plan, rail_hosts_t *h)
{
    *h = (rail_hosts_t){.topo = topo,
                        .hosts = calloc(plan->rank_count, sizeof(*h->hosts)),
                        .rank_host = malloc(plan->rank_count * sizeof(*h->rank_host)),
                        .node_host = calloc(topo->node_count, sizeof(*h->node_host)),
                        .place = calloc(topo->node_count, sizeof(*h->place))};
    if (!h->hosts || !h->rank_host || !h->node_host || !h->place)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", plan->rank_count);
    BLINK_TRY(list_hosts(h, plan));
    return h->count > 1 ? list_nics(h) : BLINK_OK;
}

void rail_hosts_fini(rail_hosts_t *h)
{
    for (uint32_t host = 0; host < h->count; host++) {
        free(h->hosts[host].nodes);
        free(h->hosts[host].nics);
        free(h->hosts[host].rank_node);
    }
    free(h->hosts);
    free(h->rank_host);
    free(h->node_host);
    free(h->place);
}
