/* Queries to the daemon. */
#include "daemon/ask.h"

#include "check/facts.h"
#include "tools/ideal.h"

#include <stdlib.h>
#include <string.h>

blink_result_t perf_ask_device_count(query_t *query, uint32_t *count)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &reply));
    *count = (uint32_t)reply->query->n_devices;
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

static blink_result_t find_root(const Blinkwire__QueryReply *devices, perf_options_t *options)
{
    for (uint32_t rank = 0; rank < options->rank_count; rank++) {
        const Blinkwire__Device *device;
        BLINK_TRY(perf_find_device(devices, options, rank, &device));
        if (strcmp(device->node, options->root_node) != 0)
            continue;
        options->root = rank;
        return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                      "--root %s: neither the number of a rank nor the node of one's device, which blinkctl "
                      "devices shows",
                      options->root_node);
}

blink_result_t perf_ask_root(query_t *query, perf_options_t *options)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &reply));
    blink_result_t result = find_root(reply->query, options);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t perf_ask_gpus(query_t *query, const perf_options_t *options, perf_gpu_choice_t *choices)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &reply));
    blink_result_t result = perf_choose_gpus(reply->query, options, choices);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t perf_ask_links(query_t *query, perf_links_t *links)
{
    Blinkwire__Reply *reply;
    *links = (perf_links_t){0};
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__STATUS, &reply));
    const Blinkwire__StatusReply *status = reply->query->status;
    if (status)
        *links = (perf_links_t){.pace_scale = status->pace_scale, .are_gpus = *status->gpu_sharing != '\0'};
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

static blink_result_t ideal_of_ranks(const char *topology, const Blinkwire__QueryReply *devices,
                                     const perf_options_t *options, const char **nodes, double *ideal_GBps)
{
    for (uint32_t rank = 0; rank < options->rank_count; rank++) {
        const Blinkwire__Device *device;
        BLINK_TRY(perf_find_device(devices, options, rank, &device));
        nodes[rank] = device->node;
    }
    return tools_ideal_GBps(topology, perf_collective_kind(options->collective), nodes, options->rank_count,
                            ideal_GBps);
}

static blink_result_t ask_topology(query_t *query, const Blinkwire__QueryReply *devices,
                                   const perf_options_t *options, double *ideal_GBps)
{
    Blinkwire__Reply *reply;
    const char **nodes = calloc(options->rank_count, sizeof(*nodes));
    if (!nodes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the devices of %u ranks", options->rank_count);
    blink_result_t result = query_ask(query, BLINKWIRE__QUERY_KIND__TOPOLOGY, &reply);
    if (result == BLINK_OK) {
        result = ideal_of_ranks(reply->query->topology_json, devices, options, nodes, ideal_GBps);
        blinkwire__reply__free_unpacked(reply, NULL);
    }
    free(nodes);
    return result;
}

blink_result_t perf_ask_ideal_GBps(query_t *query, const perf_options_t *options, const perf_links_t *links,
                                   double *ideal_GBps)
{
    Blinkwire__Reply *devices;
    *ideal_GBps = 0;
    if (links->pace_scale == 0 && !links->are_gpus)
        return BLINK_OK;
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &devices));
    blink_result_t result = ask_topology(query, devices->query, options, ideal_GBps);
    blinkwire__reply__free_unpacked(devices, NULL);
    if (links->pace_scale > 0)
        *ideal_GBps *= links->pace_scale;
    return result;
}
