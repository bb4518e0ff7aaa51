/*
 * Topologies of several hosts, and which host each rank of a plan is on.
 */
#ifndef BLINK_TEST_HAND_HOSTS_H
#define BLINK_TEST_HAND_HOSTS_H

#include "error.h"
#include "plan/plan.h"
#include "topo/topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static inline void hand_node(topo_builder_t *builder, const char *id, const char *host, topo_node_kind_t kind)
{
    topo_node_t node = {.id = (char *)(uintptr_t)id, .host = (char *)(uintptr_t)host, .kind = kind};
    assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
}

/* A host whose devices share its memory, with one NIC on a network that all hosts share. */
static inline void hand_host(topo_builder_t *builder, uint32_t number, uint32_t devices,
                             uint32_t first_device)
{
    char host[32], memory[32], nic[32], device[32];
    snprintf(host, sizeof(host), "n%u", number);
    snprintf(memory, sizeof(memory), "memory%u", number);
    snprintf(nic, sizeof(nic), "nic%u", number);
    hand_node(builder, memory, host, TOPO_SWITCH);
    hand_node(builder, nic, host, TOPO_NIC);
    assert_int_equal(topo_build_link(builder, memory, nic, TOPO_NIC_LINK, 12, 1, 1, true), BLINK_OK);
    assert_int_equal(topo_build_link(builder, nic, "net", TOPO_NET, 1, 1, 5, true), BLINK_OK);
    for (uint32_t i = 0; i < devices; i++) {
        snprintf(device, sizeof(device), "host%u", first_device + i);
        hand_node(builder, device, host, TOPO_DEVICE);
        assert_int_equal(topo_build_link(builder, device, memory, TOPO_SHM, 10, 1, 0.5, true), BLINK_OK);
    }
}

/* Hosts of so many devices each. */
static inline topo_t *hand_hosts(const uint32_t *devices, uint32_t hosts)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    uint32_t before = 0;
    assert_int_equal(topo_build_create("hosts", "test", &builder), BLINK_OK);
    hand_node(builder, "net", "net", TOPO_SWITCH);
    for (uint32_t i = 0; i < hosts; before += devices[i++])
        hand_host(builder, i, devices[i], before);
    if (topo_build_finish(builder, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    topo_build_destroy(builder);
    return topo;
}

/* Number the hosts of a plan's ranks by their names, in the order in which the topology has them. */
static inline void hand_number_hosts(const topo_t *topo, const plan_t *plan, uint32_t *of_rank)
{
    const char *names[PLAN_RANKS_MAX];
    uint32_t hosts = 0;
    for (uint32_t gpu = 0; gpu < topo->gpu_count; gpu++) {
        const char *host = topo->nodes[topo->gpus[gpu]].host;
        uint32_t known = 0;
        while (known < hosts && strcmp(names[known], host) != 0)
            known++;
        names[known] = host;
        hosts += known == hosts;
        for (uint32_t rank = 0; rank < plan->rank_count; rank++)
            if (plan->rank_node[rank] == topo->gpus[gpu])
                of_rank[rank] = known;
    }
}

#endif
