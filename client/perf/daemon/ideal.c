/* The ideal bus bandwidth from the daemon's topology, devices and pace. */
#include "daemon/ideal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The topology as sums: what leaves each rank's device within its host, what leaves each host in use. */
typedef struct sums {
    const json_t *nodes, *links;
    uint32_t rank_count;
    const char **device; /* by rank: node id */
    const char **host;   /* by rank */
    double *inner_GBps;  /* by rank: from the device, within the host */
    double *outer_GBps;  /* by rank: from its host to elsewhere */
} sums_t;

blink_result_t perf_ask_device_count(query_t *query, uint32_t *count)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &reply));
    *count = (uint32_t)reply->query->n_devices;
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

blink_result_t perf_ask_gpus(query_t *query, const perf_options_t *options, perf_gpu_choice_t *choices)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &reply));
    blink_result_t result = perf_choose_gpus(reply->query, options, choices);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *host_of(const sums_t *sums, const char *id)
{
    for (size_t i = 0; i < json_array_size(sums->nodes); i++) {
        const json_t *node = json_array_get(sums->nodes, i);
        if (strcmp(string_of(node, "id"), id) == 0)
            return string_of(node, "host");
    }
    return "";
}

static blink_result_t find_devices(sums_t *sums, const Blinkwire__QueryReply *query,
                                   const perf_options_t *options)
{
    for (uint32_t rank = 0; rank < sums->rank_count; rank++) {
        const Blinkwire__Device *device;
        BLINK_TRY(perf_find_device(query, options, rank, &device));
        sums->device[rank] = device->node;
        sums->host[rank] = host_of(sums, sums->device[rank]);
    }
    return BLINK_OK;
}

static void add_direction(sums_t *sums, const char *from, const char *to, double GBps)
{
    const char *from_host = host_of(sums, from), *to_host = host_of(sums, to);
    bool inner = strcmp(from_host, to_host) == 0;
    for (uint32_t rank = 0; rank < sums->rank_count; rank++) {
        if (inner && strcmp(sums->device[rank], from) == 0)
            sums->inner_GBps[rank] += GBps;
        if (!inner && strcmp(sums->host[rank], from_host) == 0)
            sums->outer_GBps[rank] += GBps;
    }
}

static void add_links(sums_t *sums)
{
    for (size_t i = 0; i < json_array_size(sums->links); i++) {
        const json_t *link = json_array_get(sums->links, i);
        const json_t *count = json_object_get(link, "count");
        double GBps =
            json_number_value(json_object_get(link, "GBps")) * (count ? json_number_value(count) : 1);
        const char *from = string_of(link, "from"), *to = string_of(link, "to");
        add_direction(sums, from, to, GBps);
        if (!json_is_false(json_object_get(link, "duplex")))
            add_direction(sums, to, from, GBps);
    }
}

static uint32_t count_hosts(const sums_t *sums)
{
    uint32_t hosts = 0;
    for (uint32_t rank = 0; rank < sums->rank_count; rank++) {
        uint32_t first = 0;
        while (strcmp(sums->host[first], sums->host[rank]) != 0)
            first++;
        hosts += first == rank;
    }
    return hosts;
}

static double least(const double *values, uint32_t count)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        least = fmin(least, values[i]);
    return least;
}

/* In the topology's GB/s, from sums that are complete. */
static double ideal_of(const sums_t *sums)
{
    double n = sums->rank_count, q = count_hosts(sums);
    double inner_GBps = least(sums->inner_GBps, sums->rank_count);
    if (sums->rank_count == 1)
        return 0;
    if (q <= 1)
        return inner_GBps;
    double outer_GBps = least(sums->outer_GBps, sums->rank_count) * (n - 1) * q / (n * (q - 1));
    return n > q ? fmin(outer_GBps, inner_GBps * (n - 1) / (n - q)) : outer_GBps;
}

static blink_result_t compute(const json_t *topology, const Blinkwire__QueryReply *devices,
                              const perf_options_t *options, double *ideal_GBps)
{
    uint32_t count = options->rank_count;
    sums_t sums = {.nodes = json_object_get(topology, "nodes"),
                   .links = json_object_get(topology, "links"),
                   .rank_count = count,
                   .device = calloc(count, sizeof(*sums.device)),
                   .host = calloc(count, sizeof(*sums.host)),
                   .inner_GBps = calloc(count, sizeof(*sums.inner_GBps)),
                   .outer_GBps = calloc(count, sizeof(*sums.outer_GBps))};
    blink_result_t result = BLINK_OK;
    if (!sums.device || !sums.host || !sums.inner_GBps || !sums.outer_GBps)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the links of %u ranks", count);
    else
        result = find_devices(&sums, devices, options);
    if (result == BLINK_OK) {
        add_links(&sums);
        *ideal_GBps = ideal_of(&sums);
    }
    free(sums.outer_GBps);
    free(sums.inner_GBps);
    free(sums.host);
    free(sums.device);
    return result;
}

blink_result_t perf_ask_ideal_GBps(query_t *query, const perf_options_t *options, double *ideal_GBps)
{
    Blinkwire__Reply *status = NULL, *devices = NULL, *topology = NULL;
    json_t *parsed = NULL;
    blink_result_t result = query_ask(query, BLINKWIRE__QUERY_KIND__STATUS, &status);
    if (result != BLINK_OK)
        return result;
    double scale = status->query->status ? status->query->status->pace_scale : 0;
    blinkwire__reply__free_unpacked(status, NULL);

    result = query_ask(query, BLINKWIRE__QUERY_KIND__DEVICES, &devices);
    if (result != BLINK_OK)
        return result;
    result = query_ask(query, BLINKWIRE__QUERY_KIND__TOPOLOGY, &topology);
    if (result != BLINK_OK)
        goto free_devices;
    parsed = json_loads(topology->query->topology_json, 0, NULL);
    if (!parsed)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's topology is no JSON");
    else
        result = compute(parsed, devices->query, options, ideal_GBps);
    if (result == BLINK_OK && scale > 0)
        *ideal_GBps *= scale;
    json_decref(parsed);
    blinkwire__reply__free_unpacked(topology, NULL);
free_devices:
    blinkwire__reply__free_unpacked(devices, NULL);
    return result;
}
