#include "topo/network.h"

#include "error.h"
#include "topo/source.h"

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
static bool reaches_network(const topo_t *topo)
{
    bool to = false, from = false;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        bool is_to = topo_is_of_network(topo, topo->links[i].to);
        bool is_from = topo_is_of_network(topo, topo->links[i].from);
        to |= is_to && !is_from;
        from |= is_from && !is_to;
    }
    return to && from;
}

/* The next of the network's switches, or of the links between them, from `at` on; TOPO_NONE: no more. */
static uint32_t next_switch(const topo_t *topo, uint32_t at)
{
    while (at < topo->node_count && !topo_is_of_network(topo, at))
        at++;
    return at < topo->node_count ? at : TOPO_NONE;
}

static uint32_t next_trunk(const topo_t *topo, uint32_t at)
{
    while (at < topo->link_count && !topo_is_trunk(topo, at))
        at++;
    return at < topo->link_count ? at : TOPO_NONE;
}

#define FAIL_CONTRADICTION(one, other, format, ...)                                                          \
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,                                                                   \
               "hosts '%.64s' and '%.64s' do not say the same of the network" format                         \
               "; all hosts need the same fabric file",                                                      \
               (one)->name, (other)->name __VA_OPT__(, ) __VA_ARGS__)

static blink_result_t check_switches(const topo_host_t *one, const topo_host_t *other)
{
    uint32_t a = next_switch(one->topo, 0), b = next_switch(other->topo, 0);
    for (; a != TOPO_NONE && b != TOPO_NONE;
         a = next_switch(one->topo, a + 1), b = next_switch(other->topo, b + 1)) {
        const topo_node_t *first = &one->topo->nodes[a], *second = &other->topo->nodes[b];
        if (strcmp(first->id, second->id) != 0)
            return FAIL_CONTRADICTION(one, other, ": one has a switch " TOPO_SHOWN ", the other " TOPO_SHOWN,
                                      first->id, second->id);
        if (first->multicast != second->multicast || first->reduces != second->reduces ||
            first->total_GBps != second->total_GBps)
            return FAIL_CONTRADICTION(one, other, ", of the switch " TOPO_SHOWN, first->id);
    }
    if (a != b)
        return FAIL_CONTRADICTION(one, other, ": only one has a switch " TOPO_SHOWN,
                                  a != TOPO_NONE ? one->topo->nodes[a].id : other->topo->nodes[b].id);
    return BLINK_OK;
}

/* Between switches that are the same. */
static bool are_same_trunks(const topo_host_t *one, const topo_host_t *other, uint32_t a, uint32_t b)
{
    if (a == TOPO_NONE || b == TOPO_NONE)
        return a == b;
    const topo_link_t *first = &one->topo->links[a], *second = &other->topo->links[b];
    return strcmp(one->topo->nodes[first->from].id, other->topo->nodes[second->from].id) == 0 &&
           strcmp(one->topo->nodes[first->to].id, other->topo->nodes[second->to].id) == 0 &&
           first->kind == second->kind && first->GBps == second->GBps &&
           first->unit_GBps == second->unit_GBps && first->latency_us == second->latency_us;
}

static blink_result_t check_trunks(const topo_host_t *one, const topo_host_t *other)
{
    uint32_t a = next_trunk(one->topo, 0), b = next_trunk(other->topo, 0);
    while (a != TOPO_NONE && are_same_trunks(one, other, a, b)) {
        a = next_trunk(one->topo, a + 1);
        b = next_trunk(other->topo, b + 1);
    }
    if (a == TOPO_NONE && b == TOPO_NONE)
        return BLINK_OK;
    const topo_t *topo = a != TOPO_NONE ? one->topo : other->topo;
    const topo_link_t *link = &topo->links[a != TOPO_NONE ? a : b];
    return FAIL_CONTRADICTION(one, other, ", of the link from " TOPO_SHOWN " to " TOPO_SHOWN,
                              topo->nodes[link->from].id, topo->nodes[link->to].id);
}

static blink_result_t check_host(const join_t *join, const topo_host_t *host)
{
    if (!reaches_network(host->topo))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "host '%.64s' has no NIC that joins it to the network \"" TOPO_NET_ID "\"",
                          host->name);
    BLINK_TRY(check_switches(&join->hosts[0], host));
    return check_trunks(&join->hosts[0], host);
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

static const char *joined_id(const join_t *join, const topo_t *topo, uint32_t node)
{
    return topo_is_of_network(topo, node) ? topo->nodes[node].id : join->ids[node];
}

static blink_result_t add_all(join_t *join, const topo_host_t *host)
{
    const topo_t *topo = host->topo;
    for (uint32_t i = 0; i < topo->node_count; i++)
        if (!topo_is_of_network(topo, i))
            BLINK_TRY(add_node(join, host, i));
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_link_t *link = &topo->links[i];
        if (!topo_is_trunk(topo, i))
            BLINK_TRY(topo_build_again(join->builder, joined_id(join, topo, link->from),
                                       joined_id(join, topo, link->to), link));
    }
    return topo_build_same_non_peers(join->builder, topo, join->ids);
}

/* As the first host says, and all others. */
static blink_result_t add_network(join_t *join)
{
    const topo_t *topo = join->hosts[0].topo;
    for (uint32_t i = next_switch(topo, 0); i != TOPO_NONE; i = next_switch(topo, i + 1))
        BLINK_TRY(topo_build_node(join->builder, &topo->nodes[i]));
    for (uint32_t i = next_trunk(topo, 0); i != TOPO_NONE; i = next_trunk(topo, i + 1)) {
        const topo_link_t *link = &topo->links[i];
        BLINK_TRY(
            topo_build_again(join->builder, topo->nodes[link->from].id, topo->nodes[link->to].id, link));
    }
    return BLINK_OK;
}

static blink_result_t add_host(join_t *join, const topo_host_t *host)
{
    BLINK_TRY(check_host(join, host));
    join->ids = calloc(host->topo->node_count, sizeof(*join->ids));
    if (!join->ids)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to join host '%.64s'", host->name);
    blink_result_t result = add_all(join, host);
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
    BLINK_TRY(add_network(join));
    return topo_build_finish(join->builder, joined);
}

blink_result_t topo_join(const topo_host_t *hosts, uint32_t host_count, topo_t **joined)
{
    join_t join = {.hosts = hosts, .host_count = host_count};
    blink_result_t result = join_hosts(&join, joined);
    topo_build_destroy(join.builder);
    return result;
}
