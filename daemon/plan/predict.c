/* The α-β prediction of plan/predict.h: one walk through the trees, then a formula. */
#include "plan/predict.h"

#include "error.h"
#include "plan/blocks.h"
#include "plan/internal.h"
#include "plan/lane/lane.h"
#include "plan/model.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PROTOCOL_COUNT    3u
#define BYTES_PER_US_GBps 1e3 /* 1 GB/s is 1000 bytes per µs */

/* What adds up along a chain of hops. */
typedef enum weight {
    ALPHA_FIRST, /* latency, one weight per protocol */
    MOVE = ALPHA_FIRST + PROTOCOL_COUNT,
    HOP,
    WEIGHT_COUNT
} weight_t;

typedef struct channel_cost {
    double part_share; /* of the payload that one image's part carries */
    double alpha_us[PROTOCOL_COUNT];
    double fill_us_per_byte; /* max(0, F - M) */
    double busy_us_per_byte; /* M */
    bool in_order;           /* several parts, which lanes take in turn */
    double waits;            /* part of the hops that a lane waits for */
} channel_cost_t;

struct plan_predictor {
    double rate_GBps;
    double reached; /* part of it that gets through switches that reduce; 1 without */
    double largest_part_share;
    bool reduces;
    uint32_t phases; /* reduce and broadcast lanes run side by side */
    lane_program_t
        facts[PROTOCOL_COUNT]; /* only what lane_choose_chunk() and lane_choose_slots() read: shares,
                                             parts, depth, rate, latencies; the channels are facts[0]'s */
    uint32_t channel_count;
    channel_cost_t *channels;
    double nic_moves; /* of a chunk of all channels, by the busiest NIC */
    double move_us;   /* that each takes; 0: nothing */
};

/* Scratch for walking through a plan. */
typedef struct walk {
    const topo_t *topo;
    const plan_t *plan;
    double *weights;          /* WEIGHT_COUNT per path */
    double *sums;             /* WEIGHT_COUNT per rank: from the root; the first negative: not known yet */
    uint32_t *stack;          /* ranks below one whose sum is known */
    uint32_t *visits;         /* per link: edges of the channel that cross it */
    uint32_t *nic_visits;     /* per link between a NIC and the network: edges of all channels */
    channel_blocks_t *blocks; /* per channel */
} walk_t;

/* What a block moves. */
static double block_GBps(const plan_t *plan)
{
    return plan->block_GBps > 0.0 ? plan->block_GBps : INFINITY;
}

static void weigh_path(const walk_t *walk, uint32_t index)
{
    const plan_path_t *path = &walk->plan->paths[index];
    double *weights = &walk->weights[(size_t)index * WEIGHT_COUNT];
    double latency_us = plan_path_latency_us(walk->topo, path);
    bool by_switch = walk->plan->algorithm == BLINK_ALGORITHM_MULTICAST;
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++)
        weights[ALPHA_FIRST + protocol] =
            latency_us +
            (by_switch ? MODEL_MULTICAST_HOP_US
                       : model_hop_us(walk->topo, path->links, path->link_count, (blink_protocol_t)protocol));
    weights[MOVE] =
        1.0 / (BYTES_PER_US_GBps * fmin(plan_path_GBps(walk->topo, path), block_GBps(walk->plan)));
    weights[HOP] = 1.0;
}

static blink_result_t walk_init(walk_t *walk, const topo_t *topo, const plan_t *plan)
{
    uint32_t n = plan->rank_count;
    *walk = (walk_t){.topo = topo,
                     .plan = plan,
                     .weights = malloc((plan->path_count + 1u) * WEIGHT_COUNT * sizeof(*walk->weights)),
                     .sums = malloc((size_t)n * WEIGHT_COUNT * sizeof(*walk->sums)),
                     .stack = malloc(n * sizeof(*walk->stack)),
                     .visits = calloc(topo->link_count + 1u, sizeof(*walk->visits)),
                     .nic_visits = calloc(topo->link_count + 1u, sizeof(*walk->nic_visits)),
                     .blocks = calloc(plan->channel_count + 1u, sizeof(*walk->blocks))};
    if (!walk->weights || !walk->sums || !walk->stack || !walk->visits || !walk->nic_visits || !walk->blocks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to predict a plan over %u ranks", n);
    for (uint32_t i = 0; i < plan->path_count; i++)
        weigh_path(walk, i);
    return plan_channel_blocks(plan, walk->blocks);
}

static void walk_fini(walk_t *walk)
{
    free(walk->weights);
    free(walk->sums);
    free(walk->stack);
    free(walk->visits);
    free(walk->nic_visits);
    free(walk->blocks);
}

static const double *weights_of(const walk_t *walk, uint32_t path)
{
    return &walk->weights[(size_t)path * WEIGHT_COUNT];
}

static double *sums_of(const walk_t *walk, uint32_t rank)
{
    return &walk->sums[(size_t)rank * WEIGHT_COUNT];
}

/* Know the sums of a rank and of those on its way to the root. */
static void sum_up(const walk_t *walk, const plan_tree_t *tree, uint32_t rank)
{
    uint32_t height = 0;
    for (uint32_t at = rank; sums_of(walk, at)[0] < 0.0; at = tree->parent[at])
        walk->stack[height++] = at;
    while (height > 0) {
        uint32_t child = walk->stack[--height];
        const double *above = sums_of(walk, tree->parent[child]);
        const double *edge = weights_of(walk, tree->path[child]);
        for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++)
            sums_of(walk, child)[weight] = above[weight] + edge[weight];
    }
}

/* Add the heaviest chain between the root and any rank, by each weight. */
static void add_heaviest_chain(const walk_t *walk, const plan_tree_t *tree, double sum[WEIGHT_COUNT])
{
    double heaviest[WEIGHT_COUNT] = {0};
    if (!tree->parent)
        return;
    for (uint32_t rank = 0; rank < walk->plan->rank_count; rank++)
        if (tree->parent[rank] == PLAN_NONE)
            memset(sums_of(walk, rank), 0, WEIGHT_COUNT * sizeof(*walk->sums));
        else
            sums_of(walk, rank)[0] = -1.0;
    for (uint32_t rank = 0; rank < walk->plan->rank_count; rank++) {
        sum_up(walk, tree, rank);
        for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++)
            if (sums_of(walk, rank)[weight] > heaviest[weight])
                heaviest[weight] = sums_of(walk, rank)[weight];
    }
    for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++)
        sum[weight] += heaviest[weight];
}

static void weigh_part(const walk_t *walk, const plan_part_t *part, double sum[WEIGHT_COUNT])
{
    memset(sum, 0, WEIGHT_COUNT * sizeof(*sum));
    add_heaviest_chain(walk, &part->reduce, sum);
    add_heaviest_chain(walk, &part->broadcast, sum);
    for (uint32_t i = 0; i < part->route.hop_count; i++)
        for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++)
            sum[weight] += weights_of(walk, part->route.paths[i])[weight];
}

/* Whether a link joins a host to the network, and not two switches of that. */
static bool is_of_nic(const topo_t *topo, uint32_t link)
{
    const topo_link_t *l = &topo->links[link];
    return l->kind == TOPO_NET &&
           (topo->nodes[l->from].kind != TOPO_SWITCH || topo->nodes[l->to].kind != TOPO_SWITCH);
}

static void visit_links(const walk_t *walk, plan_path_t path)
{
    for (uint32_t i = 0; i < path.link_count; i++)
        walk->visits[path.links[i]]++;
}

static void visit_tree(const walk_t *walk, const plan_part_t *part, const plan_tree_t *tree)
{
    for (uint32_t rank = 0; tree->parent && rank < walk->plan->rank_count; rank++)
        visit_links(walk, plan_loaded_links(walk->plan, part, tree, rank));
}

static void visit_channel(const walk_t *walk, const plan_channel_t *channel)
{
    memset(walk->visits, 0, walk->topo->link_count * sizeof(*walk->visits));
    for (uint32_t i = 0; i < channel->part_count; i++) {
        const plan_part_t *part = &channel->parts[i];
        visit_tree(walk, part, &part->reduce);
        visit_tree(walk, part, &part->broadcast);
        for (uint32_t hop = 0; hop < part->route.hop_count; hop++)
            visit_links(walk, walk->plan->paths[part->route.paths[hop]]);
    }
}

/* What the channel's busiest link takes for a byte of every part. */
static double busiest_link(const walk_t *walk, const plan_channel_t *channel)
{
    double longest = 0.0;
    visit_channel(walk, channel);
    for (uint32_t i = 0; i < walk->topo->link_count; i++) {
        if (walk->visits[i] == 0)
            continue;
        walk->nic_visits[i] += is_of_nic(walk->topo, i) ? walk->visits[i] : 0;
        longest = fmax(longest, walk->visits[i] / (BYTES_PER_US_GBps * walk->topo->links[i].GBps));
    }
    return longest;
}

static void measure_channel(const walk_t *walk, uint32_t index, plan_predictor_t *predictor)
{
    const plan_channel_t *channel = &walk->plan->channels[index];
    double heaviest[WEIGHT_COUNT] = {0};
    for (uint32_t i = 0; i < channel->part_count; i++) {
        double sum[WEIGHT_COUNT];
        weigh_part(walk, &channel->parts[i], sum);
        for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++)
            heaviest[weight] = fmax(heaviest[weight], sum[weight]);
    }
    channel_cost_t *cost = &predictor->channels[index];
    double images = (double)plan_image_count(walk->plan);
    double block_us_per_byte = walk->blocks[index].load / (BYTES_PER_US_GBps * block_GBps(walk->plan));
    double busy = fmax(busiest_link(walk, channel), block_us_per_byte);
    bool by_switch = walk->plan->algorithm == BLINK_ALGORITHM_MULTICAST;
    *cost = (channel_cost_t){.part_share = channel->share / (images * channel->part_count),
                             .fill_us_per_byte = by_switch ? 2.0 * busy : fmax(0.0, heaviest[MOVE] - busy),
                             .busy_us_per_byte = busy,
                             .in_order = channel->part_count > 1,
                             .waits =
                                 predictor->reduces || heaviest[HOP] < 1.0 ? 1.0 : 1.0 - 1.0 / heaviest[HOP]};
    memcpy(cost->alpha_us, heaviest, sizeof(cost->alpha_us));
    predictor->largest_part_share = fmax(predictor->largest_part_share, cost->part_share);
    predictor->facts[0].channels[index] =
        (lane_channel_t){.share = channel->share / images, .part_count = channel->part_count};
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++)
        if ((uint32_t)heaviest[HOP] > predictor->facts[protocol].depth)
            predictor->facts[protocol].depth = (uint32_t)heaviest[HOP];
}

/* As lane_compile() does, of one physical link where several are parallel. */
static uint64_t path_bdp_bytes(const topo_t *topo, const plan_path_t *path, double latency_us)
{
    double slowest_GBps = INFINITY;
    for (uint32_t i = 0; i < path->link_count; i++)
        slowest_GBps = fmin(slowest_GBps, topo->links[path->links[i]].unit_GBps);
    return (uint64_t)(slowest_GBps * latency_us * BYTES_PER_US_GBps);
}

static void measure_paths(const walk_t *walk, plan_predictor_t *predictor)
{
    for (uint32_t i = 0; i < walk->plan->path_count; i++)
        for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
            lane_program_t *facts = &predictor->facts[protocol];
            double latency_us = walk->weights[(size_t)i * WEIGHT_COUNT + ALPHA_FIRST + protocol];
            uint64_t bdp_bytes = path_bdp_bytes(walk->topo, &walk->plan->paths[i], latency_us);
            facts->latency_us = fmax(facts->latency_us, latency_us);
            facts->bdp_bytes = bdp_bytes > facts->bdp_bytes ? bdp_bytes : facts->bdp_bytes;
        }
}

/* Of a plan of templates the images' moves are taken to be dealt evenly to all NICs. */
static double busiest_nic(const walk_t *walk)
{
    uint64_t images = plan_image_count(walk->plan), most = 0, all = 0, nics = 0;
    for (uint32_t i = 0; i < walk->topo->link_count; i++) {
        uint64_t visits = walk->nic_visits[i];
        nics += is_of_nic(walk->topo, i);
        most = visits > most ? visits : most;
        all += visits;
    }
    return images == 1 || nics == 0 ? (double)most : (double)(images * all) / (double)nics;
}

blink_result_t plan_predictor_create(const topo_t *topo, const plan_t *plan, plan_predictor_t **out)
{
    walk_t walk;
    blink_result_t result = walk_init(&walk, topo, plan);
    plan_predictor_t *predictor = calloc(1, sizeof(*predictor));
    if (predictor) {
        *predictor = (plan_predictor_t){
            .rate_GBps = plan->rate_GBps,
            .reached = plan->algorithm == BLINK_ALGORITHM_MULTICAST ? MODEL_MULTICAST_REACHED : 1.0,
            .reduces = collective_reduces(plan->collective),
            .phases = collective_reduces(plan->collective) && collective_broadcasts(plan->collective) ? 2 : 1,
            .channel_count = plan->channel_count,
            .channels = calloc(plan->channel_count + 1u, sizeof(*predictor->channels))};
        lane_channel_t *channels = calloc(plan->channel_count + 1u, sizeof(*channels));
        for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++)
            predictor->facts[protocol] =
                (lane_program_t){.protocol = (blink_protocol_t)protocol,
                                 .rate_GBps = plan->rate_GBps,
                                 .block_GBps = plan->block_GBps,
                                 .multicast = plan->algorithm == BLINK_ALGORITHM_MULTICAST,
                                 .channel_count = plan->channel_count,
                                 .channels = channels};
    }
    if (result == BLINK_OK && (!predictor || !predictor->channels || !predictor->facts[0].channels))
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to predict %u channels", plan->channel_count);
    for (uint32_t i = 0; result == BLINK_OK && i < plan->channel_count; i++)
        measure_channel(&walk, i, predictor);
    if (result == BLINK_OK) {
        measure_paths(&walk, predictor);
        predictor->nic_moves = busiest_nic(&walk);
    }
    walk_fini(&walk);
    if (result != BLINK_OK) {
        plan_predictor_destroy(predictor);
        return result;
    }
    *out = predictor;
    return BLINK_OK;
}

void plan_predictor_destroy(plan_predictor_t *predictor)
{
    if (!predictor)
        return;
    free(predictor->channels);
    free(predictor->facts[0].channels);
    free(predictor);
}

void plan_predictor_charge_moves(plan_predictor_t *predictor, double move_us)
{
    predictor->move_us = move_us;
}

uint64_t plan_predictor_chunk(const plan_predictor_t *predictor, uint64_t payload_bytes,
                              blink_protocol_t protocol)
{
    return lane_choose_chunk(&predictor->facts[protocol], payload_bytes);
}

uint32_t plan_predictor_depth(const plan_predictor_t *predictor)
{
    return predictor->facts[0].depth;
}

/* Of what links carry. */
static double payload_share_of(const plan_predictor_t *predictor, blink_protocol_t protocol)
{
    return predictor->reached * model_payload_share(protocol);
}

/* Least time of all the bytes of a channel, in pieces of this many: R_c of the header. */
static double channel_us(const plan_predictor_t *predictor, const channel_cost_t *cost, double bytes,
                         double piece_bytes, blink_protocol_t protocol, uint32_t slots)
{
    double later = bytes * cost->part_share / piece_bytes - 1.0;
    double busy_us = cost->busy_us_per_byte * piece_bytes / payload_share_of(predictor, protocol);
    if (cost->in_order)
        return busy_us + later * (cost->waits * cost->alpha_us[protocol] + busy_us) / predictor->phases;
    return predictor->reduces ? later * (predictor->facts[protocol].latency_us + 2.0 * busy_us) / slots : 0.0;
}

double plan_predictor_us(const plan_predictor_t *predictor, uint64_t payload_bytes, blink_protocol_t protocol,
                         uint64_t chunk_bytes)
{
    double fill_us = 0.0, bytes = (double)payload_bytes;
    double payload_share = payload_share_of(predictor, protocol);
    if (!(predictor->rate_GBps > 0.0))
        return model_launch_us(protocol);
    uint64_t chunk =
        chunk_bytes != 0 ? chunk_bytes : plan_predictor_chunk(predictor, payload_bytes, protocol);
    uint32_t slots = lane_choose_slots(&predictor->facts[protocol], chunk);
    double largest = fmin((double)chunk, bytes * predictor->largest_part_share);
    double move_us = bytes / (BYTES_PER_US_GBps * predictor->rate_GBps * payload_share);
    double chunks = largest > 0.0 ? ceil(bytes * predictor->largest_part_share / largest) : 1.0;
    move_us = fmax(move_us, predictor->nic_moves * chunks * predictor->move_us);
    for (uint32_t i = 0; i < predictor->channel_count; i++) {
        const channel_cost_t *cost = &predictor->channels[i];
        double piece_bytes = largest * cost->part_share / predictor->largest_part_share;
        fill_us =
            fmax(fill_us, cost->alpha_us[protocol] + cost->fill_us_per_byte * piece_bytes / payload_share);
        if (piece_bytes > 0.0)
            move_us = fmax(move_us, channel_us(predictor, cost, bytes, piece_bytes, protocol, slots));
    }
    return model_launch_us(protocol) + fill_us + move_us;
}

blink_result_t plan_predict_us(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes,
                               blink_protocol_t protocol, uint64_t chunk_bytes, double *predicted_us)
{
    plan_predictor_t *predictor = NULL;
    BLINK_TRY(plan_predictor_create(topo, plan, &predictor));
    *predicted_us = plan_predictor_us(predictor, payload_bytes, protocol, chunk_bytes);
    plan_predictor_destroy(predictor);
    return BLINK_OK;
}
