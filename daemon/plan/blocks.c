#include "plan/blocks.h"

#include "error.h"
#include "plan/internal.h"
#include "plan/model.h"
#include "plan/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */

/* A rank's two lanes of a channel, and its place in the trees of a part. */
typedef struct rank_blocks {
    double up, down, ends;
    bool has_up, has_down, has_flagged_down;
    uint32_t up_children, down_children;
} rank_blocks_t;

static void count_children(const plan_t *plan, const plan_part_t *part, rank_blocks_t *ranks)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        ranks[rank].up_children = ranks[rank].down_children = 0;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        if (part->reduce.parent && part->reduce.parent[rank] != PLAN_NONE)
            ranks[part->reduce.parent[rank]].up_children++;
        if (part->broadcast.parent && part->broadcast.parent[rank] != PLAN_NONE)
            ranks[part->broadcast.parent[rank]].down_children++;
    }
}

/* As lane_compile() has steps: the root's does both phases. */
static void count_trees(const plan_t *plan, const plan_part_t *part, rank_blocks_t *ranks)
{
    bool reduces = part->reduce.parent != NULL, broadcasts = part->broadcast.parent != NULL;
    count_children(plan, part, ranks);
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        rank_blocks_t *of = &ranks[rank];
        bool is_root = rank == part->root;
        double gathers = 1.0 + of->up_children, spreads = of->down_children + (is_root ? 1.0 : 0.0);
        if (reduces) {
            of->up += is_root ? fmax(gathers, spreads) : gathers;
            of->ends += is_root ? fmax(gathers, spreads) : 0.0;
            of->has_up = true;
        }
        if (broadcasts && !(is_root && reduces)) {
            of->down += spreads;
            of->has_down |= spreads > 0.0;
            of->has_flagged_down = true;
        }
    }
}

/* Every rank copies its input to a slot and its output from one; the root's block has what the switch
 * combines pass it, once. */
static void count_multicast(const plan_t *plan, const plan_part_t *part, rank_blocks_t *ranks)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        rank_blocks_t *of = &ranks[rank];
        of->up += rank == part->root ? 2.0 : 1.0;
        of->down += 1.0;
        of->has_up = of->has_down = true;
    }
}

static void count_route(const plan_route_t *route, rank_blocks_t *ranks)
{
    uint32_t steps = route->hop_count > 0 ? route->hop_count : 1;
    for (uint32_t hop = 0; hop < steps; hop++) {
        ranks[route->ranks[hop]].down += 1.0;
        ranks[route->ranks[hop]].has_down = true;
    }
    ranks[route->ranks[route->hop_count]].has_flagged_down = true;
}

static channel_blocks_t count_channel(const plan_t *plan, const plan_channel_t *channel, rank_blocks_t *ranks)
{
    channel_blocks_t most = {0};
    memset(ranks, 0, plan->rank_count * sizeof(*ranks));
    for (uint32_t i = 0; i < channel->part_count; i++) {
        const plan_part_t *part = &channel->parts[i];
        if (part->route.ranks)
            count_route(&part->route, ranks);
        else if (plan->algorithm == BLINK_ALGORITHM_MULTICAST)
            count_multicast(plan, part, ranks);
        else
            count_trees(plan, part, ranks);
    }
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        const rank_blocks_t *of = &ranks[rank];
        uint32_t count = (of->has_up ? 1u : 0u) + (of->has_down ? 1u : 0u);
        uint32_t flagged = (of->has_up ? 1u : 0u) + (of->has_down || of->has_flagged_down ? 1u : 0u);
        most.load = fmax(most.load, fmax(of->up, of->down));
        most.ends = fmax(most.ends, of->ends);
        most.both = fmax(most.both, of->up + of->down);
        most.count = count > most.count ? count : most.count;
        most.flagged = flagged > most.flagged ? flagged : most.flagged;
    }
    return most;
}

blink_result_t plan_channel_blocks(const plan_t *plan, channel_blocks_t *channels)
{
    rank_blocks_t *ranks = calloc(plan->rank_count, sizeof(*ranks));
    if (!ranks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the blocks of %u ranks", plan->rank_count);
    for (uint32_t i = 0; i < plan->channel_count; i++)
        channels[i] = count_channel(plan, &plan->channels[i], ranks);
    free(ranks);
    return BLINK_OK;
}

/* Of the payload, by one image of a channel's part. */
static double part_share(const plan_t *plan, uint32_t channel)
{
    const plan_channel_t *of = &plan->channels[channel];
    return of->share / ((double)plan_image_count(plan) * of->part_count);
}

blink_result_t plan_count_blocks(const plan_t *plan, plan_blocks_t *blocks)
{
    channel_blocks_t *channels = calloc(plan->channel_count + 1u, sizeof(*channels));
    *blocks = (plan_blocks_t){0};
    if (!channels)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the blocks of %u channels",
                          plan->channel_count);
    blink_result_t result = plan_channel_blocks(plan, channels);
    for (uint32_t i = 0; result == BLINK_OK && i < plan->channel_count; i++) {
        blocks->busiest = fmax(blocks->busiest, channels[i].load * part_share(plan, i));
        blocks->count += plan_image_count(plan) * channels[i].count;
        blocks->flagged += plan_image_count(plan) * channels[i].flagged;
    }
    free(channels);
    return result;
}

/* ---- dividing ---- */

/* A plan of several hosts is shipped to all of them: it is not divided into more edges. */
#define DIVIDED_EDGES_MOST (1u << 20)

typedef struct division {
    channel_blocks_t blocks;
    double channel_share; /* before it is divided */
    double share;         /* of the payload, that a part moves */
    uint32_t pieces_most; /* of the payload asked for */
    uint32_t pieces;
} division_t;

static double busiest_of(const division_t *of)
{
    return of->blocks.load * of->share / of->pieces;
}

/* The channel whose blocks are the busiest. */
static division_t *find_busiest(division_t *channels, uint32_t count)
{
    division_t *busiest = &channels[0];
    for (uint32_t i = 1; i < count; i++)
        if (busiest_of(&channels[i]) > busiest_of(busiest))
            busiest = &channels[i];
    return busiest;
}

/* Give the busiest channel one more piece, and again, until its blocks keep up with the links. */
static void divide(const plan_t *plan, uint64_t most, division_t *channels)
{
    uint64_t images = plan_image_count(plan), count = 0;
    for (uint32_t i = 0; i < plan->channel_count; i++)
        count += images * channels[i].blocks.flagged;
    for (;;) {
        division_t *busiest = find_busiest(channels, plan->channel_count);
        count += images * busiest->blocks.flagged;
        if (busiest_of(busiest) * plan->rate_GBps <= PLAN_BLOCK_BUSY * plan->block_GBps || count > most ||
            busiest->pieces >= busiest->pieces_most)
            return;
        busiest->pieces++;
    }
}

/* The pieces that are left of a channel's when each 2^halvings are one. */
static uint32_t pieces_of(const division_t *of, uint32_t halvings)
{
    return (of->pieces + (1u << halvings) - 1) >> halvings;
}

static blink_result_t apply(const topo_t *topo, plan_t *plan, const division_t *channels, uint32_t halvings)
{
    uint32_t channel_count = plan->channel_count;
    for (uint32_t i = 0; i < channel_count; i++)
        BLINK_TRY(plan_divide_channel(plan, i, pieces_of(&channels[i], halvings)));
    plan_normalise_shares(plan);
    return plan_rate_GBps(topo, plan, &plan->rate_GBps);
}

/* ---- between hosts ---- */

static uint32_t most_pieces(const plan_t *plan, const division_t *channels, uint32_t halvings)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < plan->channel_count; i++)
        most = pieces_of(&channels[i], halvings) > most ? pieces_of(&channels[i], halvings) : most;
    return most;
}

/* What the payload is predicted to take with channels divided so. They are undivided again afterwards. */
static blink_result_t try_division(const topo_t *topo, const plan_request_t *request, plan_t *plan,
                                   const division_t *channels, uint32_t halvings, double *us)
{
    uint32_t channel_count = plan->channel_count;
    plan_predictor_t *predictor = NULL;
    BLINK_TRY(apply(topo, plan, channels, halvings));
    BLINK_TRY(plan_predictor_create(topo, plan, &predictor));
    plan_predictor_charge_moves(predictor, request->move_us);
    *us = plan_predictor_us(predictor, request->bytes, plan->protocol, 0);
    plan_predictor_destroy(predictor);
    plan_keep_channels(plan, channel_count);
    for (uint32_t i = 0; i < channel_count; i++)
        plan->channels[i].share = channels[i].channel_share;
    return BLINK_OK;
}

/* More channels fill links, and make more moves between hosts: double the pieces, from one for each channel
 * on, as long as that is predicted to be faster. */
static blink_result_t weigh_moves(const topo_t *topo, const plan_request_t *request, plan_t *plan,
                                  const division_t *channels, uint32_t *halvings)
{
    double best_us, us;
    uint32_t next = 0;
    while (most_pieces(plan, channels, next) > 1)
        next++;
    *halvings = next;
    BLINK_TRY(try_division(topo, request, plan, channels, next, &best_us));
    while (next-- > 0) {
        if (most_pieces(plan, channels, next) * plan_edge_count(plan) > DIVIDED_EDGES_MOST)
            return BLINK_OK;
        BLINK_TRY(try_division(topo, request, plan, channels, next, &us));
        if (us >= best_us)
            return BLINK_OK;
        best_us = us;
        *halvings = next;
    }
    return BLINK_OK;
}

/* ---- of a plan ---- */

static division_t division_of(const plan_t *plan, uint64_t bytes, uint32_t channel,
                              const channel_blocks_t *blocks)
{
    double share = part_share(plan, channel);
    double pieces = bytes > 0 ? (double)bytes * share / PLAN_BLOCK_PIECE_BYTES : PLAN_BLOCKS_MOST;
    return (division_t){.blocks = *blocks,
                        .channel_share = plan->channels[channel].share,
                        .share = share,
                        .pieces_most = (uint32_t)fmin(fmax(pieces, 1.0), PLAN_BLOCKS_MOST),
                        .pieces = 1};
}

static bool is_star(const plan_t *plan, const plan_part_t *part)
{
    uint32_t rank = 0;
    while (rank < plan->rank_count &&
           (part->broadcast.parent[rank] == PLAN_NONE || part->broadcast.parent[rank] == part->root))
        rank++;
    return rank == plan->rank_count;
}

static bool has_waits(const plan_t *plan, const plan_part_t *part)
{
    if (part->route.ranks)
        return part->route.hop_count > 1;
    return part->reduce.parent || !part->broadcast.parent || !is_star(plan, part);
}

/* Whether its lanes have nothing to wait for where they write to outputs: then any block runs any chunk, or
 * copy engines do, which take a copy for each piece. */
static bool is_independent(const plan_t *plan)
{
    for (uint32_t i = 0; i < plan->channel_count; i++)
        for (uint32_t p = 0; p < plan->channels[i].part_count; p++)
            if (has_waits(plan, &plan->channels[i].parts[p]))
                return false;
    return true;
}

blink_result_t plan_fill_blocks(const topo_t *topo, const plan_request_t *request, plan_t *plan)
{
    if (!(request->block_GBps > 0.0) || topo_is_plain_memory(topo) || !(plan->rate_GBps > 0.0) ||
        is_independent(plan))
        return BLINK_OK;
    uint64_t most = request->blocks_most > 0 && request->blocks_most < PLAN_BLOCKS_MOST ? request->blocks_most
                                                                                        : PLAN_BLOCKS_MOST;
    channel_blocks_t *blocks = calloc(plan->channel_count, sizeof(*blocks));
    division_t *channels = calloc(plan->channel_count, sizeof(*channels));
    blink_result_t result =
        blocks && channels
            ? plan_channel_blocks(plan, blocks)
            : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to divide %u channels", plan->channel_count);
    const bool is_narrow = request->narrow && plan->algorithm == BLINK_ALGORITHM_MULTICAST;
    plan->block_GBps = request->block_GBps * (is_narrow ? MODEL_NARROW_SHARE : 1.0);
    for (uint32_t i = 0; result == BLINK_OK && i < plan->channel_count; i++)
        channels[i] = division_of(plan, request->bytes, i, &blocks[i]);
    uint32_t halvings = 0;
    if (result == BLINK_OK)
        divide(plan, most, channels);
    if (result == BLINK_OK && request->move_us > 0.0 && request->bytes > 0)
        result = weigh_moves(topo, request, plan, channels, &halvings);
    if (result == BLINK_OK)
        result = apply(topo, plan, channels, halvings);
    free(blocks);
    free(channels);
    return result;
}
