/* NCCL's channel search and cost model. Nothing here plans: the model tells what NCCL would expect of
 * itself. */
#include "plan/baseline/nccl/nccl_model.h"

#include "error.h"
#include "names.h"
#include "plan/baseline/nccl/ring.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS_MAX 64u
#define RINGS_MAX    (CHANNELS_MAX / 2)

/* ---- channel search ---- */

/* Speeds tried per ring, GB/s, fastest first; zero ends a list. One host or several; Hopper has its own. */
static const double speeds[2][2][20] = {
    {{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3}, {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3}},
    {{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12},
     {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12}},
};

/* What NCCL counts one NVLink for, GB/s. */
static const double nvlink_GBps[] = {
    [NCCL_PASCAL] = 18.0, [NCCL_VOLTA] = 20.0, [NCCL_AMPERE] = 20.0, [NCCL_HOPPER] = 20.6};

/* All that rings of one speed must fit in. */
typedef struct room {
    uint32_t pool_count;
    double *pool_GBps; /* ways that rings may be laid along, independent of one another */
    double gpu_GBps;   /* no gpu can send more in all */
} room_t;

static bool is_nvlink(const topo_link_t *link)
{
    return ring_in_class(link, RING_NVLINK);
}

/* All NVLinks out of a node as NCCL counts them, or as the topology says. */
static double nvlinks_GBps(const topo_t *topo, uint32_t node, double most_per_link_GBps)
{
    double sum_GBps = 0.0;
    for (uint32_t i = topo->out_first[node]; i < topo->out_first[node + 1]; i++) {
        const topo_link_t *link = &topo->links[topo->out_links[i]];
        if (is_nvlink(link))
            sum_GBps += link->GBps * fmin(1.0, most_per_link_GBps / link->unit_GBps);
    }
    return sum_GBps;
}

nccl_generation_t nccl_guess_generation(const topo_t *topo, const uint32_t *rank_node, uint32_t rank_count)
{
    double most_GBps = 0.0;
    for (uint32_t rank = 0; rank < rank_count; rank++)
        most_GBps = fmax(most_GBps, nvlinks_GBps(topo, rank_node[rank], INFINITY));
    if (most_GBps <= 0.0)
        return NCCL_AMPERE;
    if (most_GBps <= 100.0)
        return NCCL_PASCAL;
    if (most_GBps <= 160.0)
        return NCCL_VOLTA;
    return most_GBps <= 320.0 ? NCCL_AMPERE : NCCL_HOPPER;
}

/* The rings found are the pools, but for those through switches: NCCL counts all NVSwitches as one. */
static blink_result_t find_room(const topo_t *topo, const plan_t *plan, const nccl_rings_t *rings,
                                nccl_generation_t generation, room_t *room)
{
    room->gpu_GBps = INFINITY;
    room->pool_GBps = calloc(rings->count + 1u, sizeof(*room->pool_GBps));
    if (!room->pool_GBps)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u rings", rings->count);
    for (uint32_t i = 0; i < rings->count; i++) {
        const nccl_ring_t *ring = &rings->rings[i];
        const topo_link_t *link = &topo->links[plan->paths[ring->hops[0]].links[0]];
        bool nvlink = ring->kind == RING_SWITCHED || ring->kind == RING_DIRECT;
        bool merged = ring->kind == RING_SWITCHED && i > 0;
        double rated = nvlink ? fmin(1.0, nvlink_GBps[generation] / link->unit_GBps) : 1.0;
        room->pool_count += !merged;
        room->pool_GBps[room->pool_count - 1] += ring->GBps * rated;
    }
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        double GBps = nvlinks_GBps(topo, plan->rank_node[rank], nvlink_GBps[generation]);
        room->gpu_GBps = GBps > 0.0 ? fmin(room->gpu_GBps, GBps) : room->gpu_GBps;
    }
    return BLINK_OK;
}

static uint32_t rings_that_fit(const room_t *room, double speed_GBps)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < room->pool_count; i++)
        sum += floor(room->pool_GBps[i] / speed_GBps + 1e-6);
    return (uint32_t)fmin(fmin(sum, floor(room->gpu_GBps / speed_GBps + 1e-6)), RINGS_MAX);
}

/* The best speed, and how many rings run at it. */
static uint32_t search_speed(const room_t *room, const double *speed, double *best_GBps)
{
    uint32_t best = 0;
    for (; *speed > 0.0 && (best == 0 || *speed / *best_GBps > 0.49); speed++) {
        uint32_t count = rings_that_fit(room, *speed);
        if (count * *speed > best * *best_GBps + 1e-6) {
            best = count;
            *best_GBps = *speed;
        }
    }
    if (best > 0)
        return best;
    *best_GBps = room->pool_GBps[0];
    return 1;
}

/* Whether the search would rather have twice as many rings at half the speed. */
static bool doubles(nccl_generation_t generation, uint32_t count, double GBps)
{
    return GBps >= 25.0 && (generation < NCCL_HOPPER || GBps >= 50.0 || count <= 4);
}

static bool all_nvlink(const topo_t *topo, const plan_t *plan, const nccl_rings_t *rings)
{
    for (uint32_t i = 0; i < plan->rank_count * rings->count; i++) {
        const nccl_ring_t *ring = &rings->rings[i / plan->rank_count];
        const plan_path_t *path = &plan->paths[ring->hops[i % plan->rank_count]];
        uint32_t from = topo->links[path->links[0]].from,
                 to = topo->links[path->links[path->link_count - 1]].to;
        if (strcmp(topo->nodes[from].host, topo->nodes[to].host) == 0 &&
            !is_nvlink(&topo->links[path->links[0]]))
            return false;
    }
    return true;
}

static bool all_in_order(const nccl_rings_t *rings)
{
    size_t bytes = rings->rank_count * sizeof(*rings->rings[0].order);
    for (uint32_t i = 1; i < rings->count; i++)
        if (memcmp(rings->rings[i].order, rings->rings[0].order, bytes) != 0)
            return false;
    return true;
}

static void settle(const room_t *room, nccl_graph_t *graph)
{
    double GBps = 0.0;
    const double *list = speeds[graph->host_count > 1][graph->generation == NCCL_HOPPER];
    uint32_t count = search_speed(room, list, &GBps);
    if (doubles(graph->generation, count, GBps) && 2 * count <= RINGS_MAX) {
        count *= 2;
        GBps /= 2.0;
    }
    graph->copies = 2;
    graph->channel_count = graph->copies * count;
    graph->channel_GBps = GBps / graph->copies;
}

blink_result_t nccl_find_graph(const topo_t *topo, const uint32_t *rank_node, uint32_t rank_count,
                               nccl_generation_t generation, nccl_graph_t *graph)
{
    plan_t *plan = calloc(1, sizeof(*plan));
    room_t room = {0};
    nccl_rings_t rings = {0};
    rails_t rails = {0};
    if (!plan || (plan->rank_node = malloc(rank_count * sizeof(*rank_node))) == NULL) {
        free(plan);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", rank_count);
    }
    memcpy(plan->rank_node, rank_node, rank_count * sizeof(*rank_node));
    plan->rank_count = rank_count;
    blink_result_t result = rings_find(topo, plan, &rings);
    if (result == BLINK_OK)
        result = rails_find(topo, plan, &rails);
    if (result == BLINK_OK)
        result = find_room(topo, plan, &rings, generation, &room);
    if (result == BLINK_OK) {
        *graph = (nccl_graph_t){.generation = generation,
                                .rank_count = rank_count,
                                .host_count = rails.host_count,
                                .nvlink = all_nvlink(topo, plan, &rings),
                                .same_order = all_in_order(&rings)};
        settle(&room, graph);
    }
    free(room.pool_GBps);
    rails_fini(&rails);
    rings_fini(&rings);
    plan_destroy(plan);
    return result;
}

/* ---- cost model: tables by protocol (Simple, LL, LL128, as enumerated), generation and number of hosts ----
 */

enum { TREE, RING };
enum { OVER_NVLINK, OVER_PCIE, OVER_NETWORK };

/* By the row of a generation; Pascal shares Volta's. By one host, two, or more. */
static const double ring_ll128_GBps[3] = {20.0, 20.0, 36.7};
static const double tree_ll128_GBps[3][3] = {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}};
static const double tree_GBps[3][3] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}};
static const double ll_one_host_GBps[3] = {39.0, 87.7, 141.0};
static const double ll_hosts_GBps[3] = {0.0, 39.0, 20.4};

static const double base_us[2][3] = {{8.4, 6.8, 14.0}, {8.4, 6.6, 14.0}};
static const double hop_us[3][2][3] = {
    {{4.0, 0.6, 1.25}, {3.4, 0.6, 1.9}},
    {{4.0, 1.0, 1.9}, {5.7, 1.0, 2.5}},
    {{14.0, 5.0, 8.5}, {14.0, 2.7, 4.0}},
};

/* Trees fall short of the model in the middle: by the binary logarithm of the payload over 64 bytes. */
#define CORRECTIONS 24u
static const double tree_correction[3][CORRECTIONS] = {
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
};

static uint32_t generation_row(const nccl_graph_t *graph)
{
    return graph->generation <= NCCL_VOLTA ? 0 : (uint32_t)graph->generation - NCCL_VOLTA;
}

static uint32_t hosts_column(const nccl_graph_t *graph)
{
    return graph->host_count <= 2 ? graph->host_count - 1 : 2;
}

static double ll_GBps(const nccl_graph_t *graph)
{
    return graph->host_count == 1 ? ll_one_host_GBps[generation_row(graph)]
                                  : ll_hosts_GBps[hosts_column(graph)];
}

static uint32_t ring_steps(const nccl_graph_t *graph, blink_collective_t collective)
{
    if (collective == BLINK_ALLREDUCE)
        return 2 * (graph->rank_count - 1);
    return collective_has_root(collective) ? graph->rank_count : graph->rank_count - 1;
}

static double ring_bandwidth_GBps(const nccl_graph_t *graph, blink_collective_t collective,
                                  blink_protocol_t protocol)
{
    double rings = graph->channel_count / graph->copies;
    double GBps = graph->channel_count * graph->channel_GBps;
    if (protocol == BLINK_PROTOCOL_LL)
        GBps = fmin(GBps / 2.0, ll_GBps(graph));
    if (protocol == BLINK_PROTOCOL_LL128)
        GBps = fmin(GBps * 0.92, rings * ring_ll128_GBps[generation_row(graph)]);
    return GBps * graph->rank_count / ring_steps(graph, collective);
}

static double tree_bandwidth_GBps(const nccl_graph_t *graph, blink_protocol_t protocol, uint64_t bytes)
{
    uint32_t row = generation_row(graph), column = hosts_column(graph);
    double rings = graph->channel_count / graph->copies;
    double GBps = fmin(graph->channel_count * graph->channel_GBps * 0.92, rings * tree_GBps[row][column]);
    if (protocol == BLINK_PROTOCOL_LL)
        GBps = fmin(GBps / 3.8, ll_GBps(graph));
    if (protocol == BLINK_PROTOCOL_LL128)
        GBps = fmin(GBps * (graph->host_count == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                    rings * tree_ll128_GBps[row][column]);
    uint32_t log = bytes < 64 ? 0 : 63 - (uint32_t)__builtin_clzll(bytes / 64);
    return GBps / 2.0 * (log < CORRECTIONS ? tree_correction[protocol][log] : 1.0);
}

static double ring_latency_us(const nccl_graph_t *graph, blink_collective_t collective,
                              blink_protocol_t protocol)
{
    uint32_t inside = graph->nvlink ? OVER_NVLINK : OVER_PCIE, steps = ring_steps(graph, collective);
    uint32_t across = (collective == BLINK_ALLREDUCE ? 2 : 1) * (graph->host_count - 1);
    if (!collective_has_root(collective))
        return base_us[RING][protocol] + (steps - across) * hop_us[inside][RING][protocol] +
               across * hop_us[OVER_NETWORK][RING][protocol];
    /* A chunk is not waited for where all rings pass it on in one order. */
    uint32_t over = graph->host_count > 1 ? OVER_NETWORK : inside;
    if (graph->same_order)
        return base_us[RING][protocol] + hop_us[over][RING][protocol];
    return base_us[RING][protocol] +
           steps * hop_us[over][protocol == BLINK_PROTOCOL_SIMPLE ? TREE : RING][protocol];
}

static double tree_latency_us(const nccl_graph_t *graph, blink_protocol_t protocol)
{
    uint32_t inside = graph->nvlink ? OVER_NVLINK : OVER_PCIE;
    uint32_t chain = graph->rank_count / graph->host_count - 1;
    uint32_t levels = 31 - (uint32_t)__builtin_clz(graph->host_count);
    return base_us[TREE][protocol] +
           2.0 * (chain * hop_us[inside][TREE][protocol] + levels * hop_us[OVER_NETWORK][TREE][protocol]);
}

blink_result_t nccl_predict(const nccl_graph_t *graph, blink_collective_t collective,
                            blink_algorithm_t algorithm, blink_protocol_t protocol, uint64_t bytes,
                            nccl_prediction_t *prediction)
{
    bool tree = algorithm == BLINK_ALGORITHM_DOUBLE_BINARY_TREE;
    if (collective_routes(collective) || (tree && collective != BLINK_ALLREDUCE) ||
        (!tree && algorithm != BLINK_ALGORITHM_RING))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "NCCL's model has no %s by %s",
                          blink_name_collective(collective), blink_name_algorithm(algorithm));
    *prediction = (nccl_prediction_t){.algorithm = algorithm,
                                      .protocol = protocol,
                                      .latency_us = tree ? tree_latency_us(graph, protocol)
                                                         : ring_latency_us(graph, collective, protocol),
                                      .GBps = tree ? tree_bandwidth_GBps(graph, protocol, bytes)
                                                   : ring_bandwidth_GBps(graph, collective, protocol)};
    prediction->time_us = prediction->latency_us + (double)bytes / (1000.0 * prediction->GBps);
    return BLINK_OK;
}

blink_result_t nccl_choose(const nccl_graph_t *graph, blink_collective_t collective, uint64_t bytes,
                           nccl_prediction_t *best)
{
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_RING, BLINK_ALGORITHM_DOUBLE_BINARY_TREE};
    uint32_t algorithm_count = collective == BLINK_ALLREDUCE ? 2 : 1;
    bool ll128 = graph->nvlink && graph->generation >= NCCL_VOLTA;
    best->time_us = INFINITY;
    for (uint32_t i = 0; i < algorithm_count; i++)
        for (uint32_t p = BLINK_PROTOCOL_SIMPLE; p <= BLINK_PROTOCOL_LL128; p++) {
            nccl_prediction_t one;
            BLINK_TRY(nccl_predict(graph, collective, algorithms[i], (blink_protocol_t)p, bytes, &one));
            if ((p != BLINK_PROTOCOL_LL128 || ll128) && one.time_us < best->time_us)
                *best = one;
        }
    return BLINK_OK;
}
