#include "topo/network.h"

#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct join {
    const topo_host_t *hosts;
    uint32_t host_count;
    topo_builder_t *builder;
    char **ids; /* of the current host's nodes in the joined topology */
} join_t;

/* ---- whether they fit ---- */

static int compare_names(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static blink_result_t check_names(const join_t *join)
{
    const char **names = calloc(join->host_count, sizeof(*names));
    blink_result_t result = BLINK_OK;
    if (!names)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to join %u hosts", join->host_count);
    for (uint32_t i = 0; i < join->host_count; i++)
        names[i] = join->hosts[i].name;
    qsort(names, join->host_count, sizeof(*names), compare_names);
    for (uint32_t i = 1; i < join->host_count && result == BLINK_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "two hosts are named '%.64s'", names[i]);
    free(names);
    return result;
}

/* Whether links lead to the network and from it. */
static bool reaches_network(const topo_t *topo, uint32_t net)
{
    bool to = false, from = false;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        to |= topo->links[i].to == net;
        from |= topo->links[i].from == net;
    }
    return to && from;
}

static blink_result_t check_host(const join_t *join, const topo_host_t *host)
{
    const topo_t *first = join->hosts[0].topo;
    uint32_t net = topo_find_network(host->topo);
    if (net == TOPO_NONE || !reaches_network(host->topo, net))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "host '%.64s' has no NIC that joins it to the network \"" TOPO_NET_ID "\"",
                          host->name);
    const topo_node_t *one = &first->nodes[topo_find_network(first)], *other = &host->topo->nodes[net];
    if (one->multicast != other->multicast || one->total_GBps != other->total_GBps)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "hosts '%.64s' and '%.64s' do not say the same of the network \"" TOPO_NET_ID "\"",
                          join->hosts[0].name, host->name);
    return BLINK_OK;
}

/* ---- joining ---- */

static blink_result_t add_node(join_t *join, const topo_host_t *host, uint32_t index)
{
    topo_node_t node = host->topo->nodes[index];
    if (asprintf(&join->ids[index], "%s/%s", host->name, node.id) < 0) {
        join->ids[index] = NULL;
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to join host '%.64s'", host->name);
    }
    node.id = join->ids[index];
    node.host = (char *)(uintptr_t)host->name;
    return topo_build_node(join->builder, &node);
}

static blink_result_t add_nodes_and_links(join_t *join, const topo_host_t *host)
{
    const topo_t *topo = host->topo;
    uint32_t net = topo_find_network(topo);
    for (uint32_t i = 0; i < topo->node_count; i++)
        if (i != net)
            BLINK_TRY(add_node(join, host, i));
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_link_t *link = &topo->links[i];
        const char *from = link->from == net ? TOPO_NET_ID : join->ids[link->from];
        const char *to = link->to == net ? TOPO_NET_ID : join->ids[link->to];
        BLINK_TRY(topo_build_again(join->builder, from, to, link));
    }
    return BLINK_OK;
}

static blink_result_t add_host(join_t *join, const topo_host_t *host)
{
    BLINK_TRY(check_host(join, host));
    join->ids = calloc(host->topo->node_count, sizeof(*join->ids));
    if (!join->ids)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to join host '%.64s'", host->name);
    blink_result_t result = add_nodes_and_links(join, host);
    for (uint32_t i = 0; i < host->topo->node_count; i++)
        free(join->ids[i]);
    free(join->ids);
    return result;
}

static blink_result_t join_hosts(join_t *join, topo_t **joined)
{
    char name[32];
    snprintf(name, sizeof(name), "%u hosts", join->host_count);
    BLINK_TRY(check_names(join));
    BLINK_TRY(topo_build_create(name, name, &join->builder));
    for (uint32_t i = 0; i < join->host_count; i++)
        BLINK_TRY(add_host(join, &join->hosts[i]));
    const topo_t *first = join->hosts[0].topo;
    BLINK_TRY(topo_build_node(join->builder, &first->nodes[topo_find_network(first)]));
    return topo_build_finish(join->builder, joined);
}

blink_result_t topo_join(const topo_host_t *hosts, uint32_t host_count, topo_t **joined)
{
    join_t join = {.hosts = hosts, .host_count = host_count};
    blink_result_t result = join_hosts(&join, joined);
    topo_build_destroy(join.builder);
    return result;
}
