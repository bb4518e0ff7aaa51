#include "topo/network.h"

#include "error.h"
#include "topo/rates.h"
#include "topo/source.h"

#include <stdlib.h>

/* What NICs hang on, the best first. */
typedef enum hub_kind { HUB_PCIE_SWITCH, HUB_CPU, HUB_SWITCH, HUB_DEVICE, HUB_NONE } hub_kind_t;

typedef struct network {
    const topo_t *local;
    const topo_nic_t *nics;
    uint32_t nic_count;
    topo_builder_t *builder;
    uint32_t *part; /* by node: the first node that links join it with */
    uint32_t *hubs; /* of the part that NICs are hung on */
} network_t;

uint32_t topo_find_network(const topo_t *topo)
{
    uint32_t node = topo_find_node(topo, TOPO_NET_ID);
    return node != TOPO_NONE && topo->nodes[node].kind == TOPO_SWITCH ? node : TOPO_NONE;
}

/* ---- what there is ---- */

static blink_result_t copy_local(network_t *network)
{
    const topo_t *local = network->local;
    for (uint32_t i = 0; i < local->node_count; i++)
        BLINK_TRY(topo_build_node(network->builder, &local->nodes[i]));
    for (uint32_t i = 0; i < local->link_count; i++) {
        const topo_link_t *link = &local->links[i];
        BLINK_TRY(
            topo_build_again(network->builder, local->nodes[link->from].id, local->nodes[link->to].id, link));
    }
    return BLINK_OK;
}

static bool has_nics(const topo_t *topo)
{
    uint32_t node = 0;
    while (node < topo->node_count && topo->nodes[node].kind != TOPO_NIC)
        node++;
    return node < topo->node_count;
}

static void find_parts(network_t *network)
{
    const topo_t *local = network->local;
    bool changed = true;
    for (uint32_t i = 0; i < local->node_count; i++)
        network->part[i] = i;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < local->link_count; i++) {
            uint32_t *from = &network->part[local->links[i].from], *to = &network->part[local->links[i].to];
            uint32_t first = *from < *to ? *from : *to;
            changed |= *from != *to;
            *from = *to = first;
        }
    }
}

static hub_kind_t kind_of(const topo_t *topo, uint32_t node)
{
    if (topo_is_pcie_switch(topo, node))
        return HUB_PCIE_SWITCH;
    switch (topo->nodes[node].kind) {
    case TOPO_CPU:
        return HUB_CPU;
    case TOPO_SWITCH:
        return HUB_SWITCH;
    case TOPO_DEVICE:
        return HUB_DEVICE;
    case TOPO_NIC:
        break;
    }
    return HUB_NONE;
}

/* The part's hubs of its best kind; returns how many. */
static uint32_t find_hubs(network_t *network, uint32_t part, hub_kind_t *best)
{
    uint32_t count = 0;
    *best = HUB_NONE;
    for (uint32_t node = 0; node < network->local->node_count; node++) {
        hub_kind_t kind = kind_of(network->local, node);
        if (network->part[node] != part || kind > *best || kind == HUB_NONE)
            continue;
        if (kind < *best)
            count = 0;
        *best = kind;
        network->hubs[count++] = node;
    }
    return count;
}

/* ---- what is added ---- */

static blink_result_t hang_on(network_t *network, const topo_nic_t *nic, uint32_t hub, hub_kind_t kind)
{
    double fastest_GBps = topo_fastest_GBps(network->local, hub);
    const char *id = network->local->nodes[hub].id;
    if (kind == HUB_DEVICE)
        return topo_build_link(network->builder, id, nic->name, TOPO_NIC_LINK, nic->GBps, 1,
                               TOPO_DEFAULT_LATENCY_US, true);
    return topo_build_link(network->builder, id, nic->name, TOPO_PCIE,
                           fastest_GBps > nic->GBps ? fastest_GBps : nic->GBps, 1, TOPO_PCIE_LATENCY_US,
                           true);
}

/* Each NIC gets one hub of a part, or if these are devices its share of them. */
static blink_result_t hang_nics(network_t *network, uint32_t part)
{
    hub_kind_t kind;
    uint32_t hub_count = find_hubs(network, part, &kind);
    for (uint32_t i = 0; i < network->nic_count && hub_count > 0; i++) {
        uint32_t first = (uint32_t)((uint64_t)i * hub_count / network->nic_count);
        uint32_t end = (uint32_t)((uint64_t)(i + 1) * hub_count / network->nic_count);
        if (kind != HUB_DEVICE || end == first)
            end = first + 1;
        for (uint32_t hub = first; hub < end; hub++)
            BLINK_TRY(hang_on(network, &network->nics[i], network->hubs[hub], kind));
    }
    return BLINK_OK;
}

static blink_result_t connect(network_t *network, const char *nic, double GBps)
{
    return topo_build_link(network->builder, nic, TOPO_NET_ID, TOPO_NET, GBps, 1, TOPO_NET_LATENCY_US, true);
}

static blink_result_t connect_own_nics(network_t *network)
{
    const topo_t *local = network->local;
    for (uint32_t node = 0; node < local->node_count; node++)
        if (local->nodes[node].kind == TOPO_NIC && topo_fastest_GBps(local, node) > 0)
            BLINK_TRY(connect(network, local->nodes[node].id, topo_fastest_GBps(local, node)));
    return BLINK_OK;
}

static blink_result_t add_nics(network_t *network)
{
    const topo_t *local = network->local;
    char *host = local->nodes[local->gpus[0]].host;
    for (uint32_t i = 0; i < network->nic_count; i++) {
        topo_node_t node = {.id = (char *)(uintptr_t)network->nics[i].name, .host = host, .kind = TOPO_NIC};
        BLINK_TRY(topo_build_node(network->builder, &node));
    }
    find_parts(network);
    for (uint32_t part = 0; part < local->node_count; part++)
        if (network->part[part] == part)
            BLINK_TRY(hang_nics(network, part));
    for (uint32_t i = 0; i < network->nic_count; i++)
        BLINK_TRY(connect(network, network->nics[i].name, network->nics[i].GBps));
    return BLINK_OK;
}

static blink_result_t build(network_t *network, topo_t **topo)
{
    const topo_t *local = network->local;
    topo_node_t net = {
        .id = (char *)(uintptr_t)TOPO_NET_ID, .host = (char *)(uintptr_t) "", .kind = TOPO_SWITCH};
    BLINK_TRY(topo_build_create(local->name, local->name, &network->builder));
    BLINK_TRY(copy_local(network));
    if (topo_find_network(local) != TOPO_NONE)
        return topo_build_finish(network->builder, topo);
    BLINK_TRY(topo_build_node(network->builder, &net));
    BLINK_TRY(has_nics(local) ? connect_own_nics(network) : add_nics(network));
    return topo_build_finish(network->builder, topo);
}

blink_result_t topo_add_network(const topo_t *local, const topo_nic_t *nics, uint32_t nic_count,
                                topo_t **topo)
{
    network_t network = {.local = local,
                         .nics = nics,
                         .nic_count = nic_count,
                         .part = calloc(local->node_count, sizeof(*network.part)),
                         .hubs = calloc(local->node_count, sizeof(*network.hubs))};
    blink_result_t result;
    if (!network.part || !network.hubs)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": no memory for its network", local->name);
    else if (nic_count == 0 && !has_nics(local))
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": there is no NIC", local->name);
    else
        result = build(&network, topo);
    topo_build_destroy(network.builder);
    free(network.hubs);
    free(network.part);
    return result;
}
