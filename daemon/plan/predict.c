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
#define ROUNDING          1e-9

/* What adds up along a chain of hops. */
typedef enum weight {
    ALPHA_FIRST, /* latency, one weight per protocol */
    MOVE = ALPHA_FIRST + PROTOCOL_COUNT,
    SPREAD, /* MOVE beside the tree's other edges */
    HOP,
    WEIGHT_COUNT
} weight_t;

typedef struct channel_cost {
    double part_share; /* of the payload that one image's part carries */
    double alpha_us[PROTOCOL_COUNT];
    double fill_us_per_byte;    /* max(0, F - M), or E - M */
    double busy_us_per_byte;    /* M */
    double through_us_per_byte; /* V */
    bool in_order;              /* several parts, which lanes take in turn */
    bool ring;                  /* and every rank sends all the time */
    bool in_step;               /* and those of all channels send, wait and sum up at the same time */
    double turn_alpha_us[PROTOCOL_COUNT]; /* Q */
    double turn_us_per_byte;              /* U */
} channel_cost_t;

/* Which steps of a channel's lanes send over a link. */
typedef enum visit { VISIT_UP, VISIT_ROOT, VISIT_DOWN, VISIT_COUNT } visit_t;

struct plan_predictor {
    double rate_GBps;
    double reached; /* part of it that gets through switches that reduce; 1 without */
    double largest_part_share;
    bool reduces;
    bool by_links; /* not by blocks is the rate limited */
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
    double *weights;      /* WEIGHT_COUNT per path */
    double *sums;         /* WEIGHT_COUNT per rank: from the root; the first negative: not known yet */
    uint32_t *stack;      /* ranks below one whose sum is known */
    uint32_t *visits;     /* VISIT_COUNT per link: how often a turn of the channel's lanes loads it */
    double *in_step;      /* the same of all channels that are in step, by share of the payload */
    double *spread_us;    /* per rank: what its edge takes for a byte, with others of its tree on the way */
    uint32_t *nic_visits; /* per link between a NIC and the network: edges of all channels */
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
    weights[SPREAD] = weights[MOVE];
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
                     .visits = malloc((topo->link_count + 1u) * VISIT_COUNT * sizeof(*walk->visits)),
                     .in_step = calloc((topo->link_count + 1u) * VISIT_COUNT, sizeof(*walk->in_step)),
                     .spread_us = calloc(n, sizeof(*walk->spread_us)),
                     .nic_visits = calloc(topo->link_count + 1u, sizeof(*walk->nic_visits)),
                     .blocks = calloc(plan->channel_count + 1u, sizeof(*walk->blocks))};
    if (!walk->weights || !walk->sums || !walk->stack || !walk->visits || !walk->in_step ||
        !walk->spread_us || !walk->nic_visits || !walk->blocks)
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
    free(walk->in_step);
    free(walk->spread_us);
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
        sums_of(walk, child)[SPREAD] = above[SPREAD] + walk->spread_us[child];
    }
}

/* What each edge takes for a byte if all edges of the tree but the root's send at once, and those of the root
 * one after the other. */
static void spread(const walk_t *walk, const plan_tree_t *tree, uint32_t root)
{
    const plan_t *plan = walk->plan;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        for (uint32_t i = 0; tree->parent[rank] != PLAN_NONE && i < plan->paths[tree->path[rank]].link_count;
             i++)
            walk->visits[plan->paths[tree->path[rank]].links[i]] = 0;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        for (uint32_t i = 0; tree->parent[rank] != PLAN_NONE && tree->parent[rank] != root &&
                             i < plan->paths[tree->path[rank]].link_count;
             i++)
            walk->visits[plan->paths[tree->path[rank]].links[i]]++;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        if (tree->parent[rank] == PLAN_NONE)
            continue;
        const plan_path_t *path = &plan->paths[tree->path[rank]];
        double *us = &walk->spread_us[rank];
        *us = weights_of(walk, tree->path[rank])[MOVE];
        for (uint32_t i = 0; tree->parent[rank] != root && i < path->link_count; i++)
            *us = fmax(*us, walk->visits[path->links[i]] /
                                (BYTES_PER_US_GBps * walk->topo->links[path->links[i]].GBps));
    }
}

/* Add the heaviest chain between the root and any rank, by each weight. */
static void add_heaviest_chain(const walk_t *walk, const plan_tree_t *tree, uint32_t root,
                               double sum[WEIGHT_COUNT])
{
    double heaviest[WEIGHT_COUNT] = {0};
    if (!tree->parent)
        return;
    spread(walk, tree, root);
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

/* The heaviest chains of a part's two lanes, each by itself. */
static void weigh_part(const walk_t *walk, const plan_part_t *part, double sum[2][WEIGHT_COUNT])
{
    memset(sum, 0, 2 * sizeof(sum[0]));
    add_heaviest_chain(walk, &part->reduce, part->root, sum[LANE_UP]);
    add_heaviest_chain(walk, &part->broadcast, part->root, sum[LANE_DOWN]);
    for (uint32_t i = 0; i < part->route.hop_count; i++)
        for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++)
            sum[LANE_DOWN][weight] += weights_of(walk, part->route.paths[i])[weight];
}

/* Whether a link joins a host to the network, and not two switches of that. */
static bool is_of_nic(const topo_t *topo, uint32_t link)
{
    const topo_link_t *l = &topo->links[link];
    return l->kind == TOPO_NET &&
           (topo->nodes[l->from].kind != TOPO_SWITCH || topo->nodes[l->to].kind != TOPO_SWITCH);
}

static void visit_links(const walk_t *walk, visit_t visit, plan_path_t path)
{
    for (uint32_t i = 0; i < path.link_count; i++)
        walk->visits[path.links[i] * VISIT_COUNT + visit]++;
}

/* The root of a tree that reduces sends what is complete in the step that completes it. */
static void visit_trees(const walk_t *walk, const plan_part_t *part)
{
    const plan_tree_t *up = &part->reduce, *down = &part->broadcast;
    for (uint32_t rank = 0; rank < walk->plan->rank_count; rank++) {
        if (up->parent)
            visit_links(walk, VISIT_UP, plan_loaded_links(walk->plan, part, up, rank));
        if (down->parent)
            visit_links(walk, up->parent && down->parent[rank] == part->root ? VISIT_ROOT : VISIT_DOWN,
                        plan_loaded_links(walk->plan, part, down, rank));
    }
}

static void visit_channel(const walk_t *walk, const plan_channel_t *channel)
{
    memset(walk->visits, 0, walk->topo->link_count * VISIT_COUNT * sizeof(*walk->visits));
    for (uint32_t i = 0; i < channel->part_count; i++) {
        const plan_part_t *part = &channel->parts[i];
        visit_trees(walk, part);
        for (uint32_t hop = 0; hop < part->route.hop_count; hop++)
            visit_links(walk, VISIT_DOWN, walk->plan->paths[part->route.paths[hop]]);
    }
}

/* What the channel's busiest link takes for a byte of every part; *turn: for what the lanes of one phase
 * send; *through: the busiest one up, and after it the busiest one down. */
static double busiest_link(const walk_t *walk, const plan_channel_t *channel, double *turn, double *through)
{
    double longest = 0.0, longest_up = 0.0, longest_down = 0.0;
    *turn = 0.0;
    visit_channel(walk, channel);
    for (uint32_t i = 0; i < walk->topo->link_count; i++) {
        const uint32_t *visits = &walk->visits[(size_t)i * VISIT_COUNT];
        uint32_t up = visits[VISIT_UP] + visits[VISIT_ROOT], all = up + visits[VISIT_DOWN];
        double us_per_byte = 1.0 / (BYTES_PER_US_GBps * walk->topo->links[i].GBps);
        walk->nic_visits[i] += is_of_nic(walk->topo, i) ? all : 0;
        longest = fmax(longest, all * us_per_byte);
        *turn = fmax(*turn, (up > visits[VISIT_DOWN] ? up : visits[VISIT_DOWN]) * us_per_byte);
        longest_up = fmax(longest_up, visits[VISIT_UP] * us_per_byte);
        longest_down = fmax(longest_down, (visits[VISIT_ROOT] + visits[VISIT_DOWN]) * us_per_byte);
    }
    *through = longest_up + longest_down;
    return longest;
}

/* What a lane waits for in a turn through its parts: all hops towards the roots; or away from them, where the
 * first hop waits for nothing. Under protocols with flags every receiver has a step, so that it waits for the
 * last hop too; where all parts come from one root, or go there, that holds no sender up. */
static double turn_alpha_us(const walk_t *walk, const double up[WEIGHT_COUNT],
                            const double down[WEIGHT_COUNT], uint32_t protocol)
{
    bool all_wait = protocol != BLINK_PROTOCOL_SIMPLE && !collective_has_root(walk->plan->collective);
    double waits = all_wait || down[HOP] < 1.0 ? 1.0 : 1.0 - 1.0 / down[HOP];
    return fmax(up[ALPHA_FIRST + protocol], waits * down[ALPHA_FIRST + protocol]);
}

/* Lanes that are in step send as much as they can before they wait, those of all channels at once, and then
 * complete sums at once: that takes as long as the links take with all channels, or a block if that is
 * slower. */
static void add_in_step(const walk_t *walk, const channel_cost_t *cost)
{
    for (size_t i = 0; i < (size_t)walk->topo->link_count * VISIT_COUNT; i++)
        walk->in_step[i] += cost->part_share * walk->visits[i];
}

static void measure_in_step(const walk_t *walk, plan_predictor_t *predictor)
{
    double sending = 0.0, ending = 0.0, both = 0.0;
    double byte_us = 1.0 / (BYTES_PER_US_GBps * block_GBps(walk->plan));
    for (uint32_t i = 0; i < walk->topo->link_count; i++) {
        double link_us = 1.0 / (BYTES_PER_US_GBps * walk->topo->links[i].GBps);
        const double *loads = &walk->in_step[(size_t)i * VISIT_COUNT];
        sending = fmax(sending, loads[VISIT_UP] * link_us);
        ending = fmax(ending, loads[VISIT_ROOT] * link_us);
        both = fmax(both, (loads[VISIT_UP] + loads[VISIT_ROOT]) * link_us);
    }
    for (uint32_t i = 0; i < walk->plan->channel_count; i++) {
        channel_cost_t *cost = &predictor->channels[i];
        double ends_us = walk->blocks[i].ends * byte_us, sends_us = walk->blocks[i].load * byte_us - ends_us;
        if (!cost->in_step)
            continue;
        cost->turn_us_per_byte = both / cost->part_share;
        if (walk->plan->block_GBps > 0.0)
            cost->turn_us_per_byte =
                fmax(sending / cost->part_share, sends_us) + fmax(ending / cost->part_share, ends_us);
    }
}

/* What the slowest path takes for a byte. */
static double longest_path(const walk_t *walk)
{
    double longest = 0.0;
    for (uint32_t i = 0; i < walk->plan->path_count; i++)
        longest = fmax(longest, weights_of(walk, i)[MOVE]);
    return longest;
}

static void measure_channel(const walk_t *walk, uint32_t index, plan_predictor_t *predictor)
{
    const plan_channel_t *channel = &walk->plan->channels[index];
    double heaviest[WEIGHT_COUNT] = {0}, of_lanes[2][WEIGHT_COUNT] = {0}, turn, through;
    for (uint32_t i = 0; i < channel->part_count; i++) {
        double sum[2][WEIGHT_COUNT];
        weigh_part(walk, &channel->parts[i], sum);
        for (uint32_t weight = 0; weight < WEIGHT_COUNT; weight++) {
            heaviest[weight] = fmax(heaviest[weight], sum[LANE_UP][weight] + sum[LANE_DOWN][weight]);
            for (uint32_t phase = 0; phase < 2; phase++)
                of_lanes[phase][weight] = fmax(of_lanes[phase][weight], sum[phase][weight]);
        }
    }
    channel_cost_t *cost = &predictor->channels[index];
    double images = (double)plan_image_count(walk->plan), hops = walk->plan->rank_count - 1;
    double byte_us = 1.0 / (BYTES_PER_US_GBps * block_GBps(walk->plan));
    bool in_order = channel->part_count > 1, by_switch = walk->plan->algorithm == BLINK_ALGORITHM_MULTICAST;
    double link_us = busiest_link(walk, channel, &turn, &through),
           block_us = walk->blocks[index].load * byte_us;
    double busy = fmax(link_us, in_order && !by_switch ? walk->blocks[index].both * byte_us : block_us);
    double fill = fmax(0.0, heaviest[MOVE] - busy);
    if (collective_has_root(walk->plan->collective) && !collective_routes(walk->plan->collective))
        fill = fmax(0.0, heaviest[SPREAD] - longest_path(walk));
    if (predictor->reduces && !collective_broadcasts(walk->plan->collective) && !in_order &&
        walk->plan->block_GBps > 0.0)
        fill = predictor->by_links ? fmax(fill, heaviest[MOVE] - link_us) + block_us : fill + link_us;
    *cost =
        (channel_cost_t){.part_share = channel->share / (images * channel->part_count),
                         .fill_us_per_byte = by_switch ? 2.0 * busy : fill,
                         .busy_us_per_byte = busy,
                         .through_us_per_byte = through,
                         .in_order = in_order,
                         .ring = in_order && fmax(of_lanes[LANE_UP][HOP], of_lanes[LANE_DOWN][HOP]) >= hops,
                         .turn_us_per_byte = by_switch ? busy / 2.0 : fmax(turn, block_us)};
    if (cost->ring && predictor->reduces && collective_broadcasts(walk->plan->collective))
        cost->turn_us_per_byte = busy / 2.0;
    cost->in_step = in_order && predictor->reduces && !cost->ring && !by_switch;
    memcpy(cost->alpha_us, heaviest, sizeof(cost->alpha_us));
    predictor->largest_part_share = fmax(predictor->largest_part_share, cost->part_share);
    predictor->facts[0].channels[index] =
        (lane_channel_t){.share = channel->share / images, .part_count = channel->part_count};
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        cost->turn_alpha_us[protocol] = turn_alpha_us(walk, of_lanes[LANE_UP], of_lanes[LANE_DOWN], protocol);
        if ((uint32_t)heaviest[HOP] > predictor->facts[protocol].depth)
            predictor->facts[protocol].depth = (uint32_t)heaviest[HOP];
    }
    if (cost->in_step)
        add_in_step(walk, cost);
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
    plan_blocks_t blocks = {0};
    if (result == BLINK_OK)
        result = plan_count_blocks(plan, &blocks);
    if (predictor) {
        *predictor = (plan_predictor_t){
            .rate_GBps = plan->rate_GBps,
            .reached = plan->algorithm == BLINK_ALGORITHM_MULTICAST ? MODEL_MULTICAST_REACHED : 1.0,
            .reduces = collective_reduces(plan->collective),
            .by_links = plan->block_GBps > blocks.busiest * plan->rate_GBps * (1.0 + ROUNDING),
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
        measure_in_step(&walk, predictor);
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
    double pieces = bytes * cost->part_share / piece_bytes, later = pieces - 1.0;
    double payload_share = payload_share_of(predictor, protocol);
    double busy_us = cost->busy_us_per_byte * piece_bytes / payload_share;
    double turn_us = cost->turn_us_per_byte * piece_bytes / payload_share;
    if (cost->in_order)
        return fmax(busy_us, cost->in_step ? turn_us : 0.0) +
               (ceil(pieces * (1.0 - ROUNDING)) - 1.0) * cost->turn_alpha_us[protocol] + later * turn_us;
    return predictor->reduces ? later * (predictor->facts[protocol].latency_us + 2.0 * busy_us) / slots : 0.0;
}

/* Least time of a channel of one part: the first piece comes up to the root and goes down again, and the
 * others are behind it. */
static double through_us(const plan_predictor_t *predictor, const channel_cost_t *cost, double bytes,
                         double piece_bytes, blink_protocol_t protocol)
{
    double later_bytes = bytes * cost->part_share - piece_bytes;
    if (cost->in_order)
        return 0.0;
    return cost->alpha_us[protocol] +
           (cost->through_us_per_byte * piece_bytes + cost->busy_us_per_byte * later_bytes) /
               payload_share_of(predictor, protocol);
}

/* What takes as long as the longer one, and a little longer where both are about as long: waits of one are in
 * the way of the other. */
static double meet(double one_us, double other_us)
{
    return sqrt(hypot(one_us * one_us, other_us * other_us));
}

double plan_predictor_us(const plan_predictor_t *predictor, uint64_t payload_bytes, blink_protocol_t protocol,
                         uint64_t chunk_bytes)
{
    double longest_us = 0.0, bytes = (double)payload_bytes;
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
        double fill_us = cost->alpha_us[protocol] + cost->fill_us_per_byte * piece_bytes / payload_share;
        double least_us =
            piece_bytes > 0.0 ? channel_us(predictor, cost, bytes, piece_bytes, protocol, slots) : 0.0;
        double alone_us = fmax(fill_us + least_us, through_us(predictor, cost, bytes, piece_bytes, protocol)),
               whole_us = fmax(fill_us + move_us, alone_us);
        if (cost->ring && predictor->move_us == 0.0)
            whole_us = fmin(whole_us, meet(predictor->facts[protocol].latency_us + move_us, alone_us));
        longest_us = fmax(longest_us, whole_us);
    }
    return model_launch_us(protocol) + longest_us;
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
