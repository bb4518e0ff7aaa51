#include "topo/network.h"

#include "error.h"
#include "topo/rates.h"
#include "topo/source.h"

#include <stdio.h>
#include <stdlib.h>

/* What NICs hang on, the best first. */
typedef enum hub_kind { HUB_PCIE_SWITCH, HUB_CPU, HUB_SWITCH, HUB_DEVICE, HUB_NONE } hub_kind_t;

/* Of a switch's id, and its end. */
#define SWITCH_ID_BYTES (sizeof(TOPO_NET_ID "/") + FABRIC_NAME_BYTES)

typedef struct network {
    const topo_t *local;
    const topo_nic_t *nics;
    uint32_t nic_count;
    const topo_fabric_t *fabric; /* NULL: one switch */
    uint32_t net;                /* local's network of one switch; TOPO_NONE: it has none */
    topo_builder_t *builder;
    uint32_t *part; /* by node: the first node that links join it with */
    uint32_t *hubs; /* of the part that NICs are hung on */
} network_t;

/* ---- switches ---- */

static const char *switch_id(const network_t *network, uint32_t at, char id[SWITCH_ID_BYTES])
{
    snprintf(id, SWITCH_ID_BYTES, TOPO_NET_ID "/%s", network->fabric->file->switches.items[at].name);
    return id;
}

static uint32_t count_switches(const network_t *network)
{
    return network->fabric ? (uint32_t)network->fabric->file->switches.count : 1;
}

static blink_result_t add_switch(network_t *network, uint32_t at)
{
    char id[SWITCH_ID_BYTES] = TOPO_NET_ID;
    topo_node_t node = {.id = id, .host = (char *)(uintptr_t) "", .kind = TOPO_SWITCH};
    if (network->fabric) {
        node.total_GBps = network->fabric->file->switches.items[at].total_GBps;
        switch_id(network, at, id);
    }
    return topo_build_node(network->builder, &node);
}

/* The id of what a node hangs on that is joined to the network. */
static blink_result_t find_switch(const network_t *network, const char *node, char id[SWITCH_ID_BYTES])
{
    uint32_t at;
    snprintf(id, SWITCH_ID_BYTES, TOPO_NET_ID);
    if (!network->fabric)
        return BLINK_OK;
    BLINK_TRY(fabric_file_find(network->fabric->file, network->fabric->host, node, &at));
    switch_id(network, at, id);
    return BLINK_OK;
}

static blink_result_t add_trunks(network_t *network)
{
    const fabric_file_t *file = network->fabric ? network->fabric->file : NULL;
    for (size_t i = 0; file && i < file->links.count; i++) {
        const fabric_link_t *link = &file->links.items[i];
        char from[SWITCH_ID_BYTES], to[SWITCH_ID_BYTES];
        BLINK_TRY(topo_build_link(network->builder, switch_id(network, link->ends[0], from),
                                  switch_id(network, link->ends[1], to), TOPO_NET, link->GBps, link->count,
                                  TOPO_NET_LATENCY_US, true));
    }
    return BLINK_OK;
}

/* ---- what there is ---- */

/* A link of local's, of whose ends one may be its network, which the fabric takes the place of. */
static blink_result_t copy_link(network_t *network, const topo_link_t *link)
{
    const topo_node_t *nodes = network->local->nodes;
    const char *from = nodes[link->from].id, *to = nodes[link->to].id;
    char id[SWITCH_ID_BYTES];
    bool leaves = link->to == network->net, comes = link->from == network->net;
    if (leaves || comes)
        BLINK_TRY(find_switch(network, leaves ? from : to, id));
    return topo_build_again(network->builder, comes ? id : from, leaves ? id : to, link);
}

static blink_result_t copy_local(network_t *network)
{
    const topo_t *local = network->local;
    for (uint32_t i = 0; i < local->node_count; i++)
        BLINK_TRY(i == network->net && network->fabric ? add_switch(network, 0)
                                                       : topo_build_node(network->builder, &local->nodes[i]));
    for (uint32_t i = 0; i < local->link_count; i++)
        BLINK_TRY(copy_link(network, &local->links[i]));
    return topo_build_same_non_peers(network->builder, local, NULL);
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
    char id[SWITCH_ID_BYTES];
    BLINK_TRY(find_switch(network, nic, id));
    return topo_build_link(network->builder, nic, id, TOPO_NET, GBps, 1, TOPO_NET_LATENCY_US, true);
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

/* All switches but the one that has the place of local's network. */
static blink_result_t build(network_t *network, topo_t **topo)
{
    const topo_t *local = network->local;
    bool has_network = network->net != TOPO_NONE;
    BLINK_TRY(topo_build_create(local->name, local->name, &network->builder));
    BLINK_TRY(copy_local(network));
    for (uint32_t i = has_network ? 1 : 0; i < count_switches(network); i++)
        BLINK_TRY(add_switch(network, i));
    if (!has_network)
        BLINK_TRY(has_nics(local) ? connect_own_nics(network) : add_nics(network));
    BLINK_TRY(add_trunks(network));
    return topo_build_finish(network->builder, topo);
}

/* Local's network, if it has one; whether it is of several switches. */
static bool find_network(const topo_t *local, uint32_t *net)
{
    uint32_t count = 0;
    *net = TOPO_NONE;
    for (uint32_t node = 0; node < local->node_count; node++)
        if (topo_is_of_network(local, node) && count++ == 0)
            *net = node;
    return count > 1;
}

blink_result_t topo_add_network(const topo_t *local, const topo_nic_t *nics, uint32_t nic_count,
                                const topo_fabric_t *fabric, topo_t **topo)
{
    network_t network = {.local = local,
                         .nics = nics,
                         .nic_count = nic_count,
                         .fabric = fabric,
                         .part = calloc(local->node_count, sizeof(*network.part)),
                         .hubs = calloc(local->node_count, sizeof(*network.hubs))};
    bool has_several = find_network(local, &network.net);
    blink_result_t result;
    if (!network.part || !network.hubs)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": no memory for its network", local->name);
    else if (nic_count == 0 && !has_nics(local))
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": there is no NIC", local->name);
    else if (fabric && has_several)
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                            TOPO_SHOWN ": it says itself what the network is made of", local->name);
    else
        result = build(&network, topo);
    topo_build_destroy(network.builder);
    free(network.hubs);
    free(network.part);
    return result;
}
