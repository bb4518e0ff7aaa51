/*
 * Plans made by hand, for every collective over any topology: enough shapes to compile each kind of part,
 * alone in its channel and together with others. Apart from the planner so that its algorithms need not know
 * them.
 */
#ifndef BLINK_TEST_HAND_PLAN_H
#define BLINK_TEST_HAND_PLAN_H

#include "error.h"
#include "plan/internal.h"
#include "plan/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Everything that is to travel goes two ways of unequal shares: a chain and a star of ranks; a route of up to
 * three hops and a direct one. APART: each way is a channel; an allreduce has one root. TOGETHER: all ways
 * are parts of one channel; an allreduce has all roots. */
typedef enum hand_shape { APART, TOGETHER } hand_shape_t;

enum { LONG_WAY, SHORT_WAY, WAYS, HOPS_MAX = 3 };

static const blink_collective_t hand_collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST,     BLINK_REDUCE,
                                                      BLINK_ALLGATHER, BLINK_REDUCESCATTER, BLINK_GATHER,
                                                      BLINK_SCATTER,   BLINK_ALLTOALL,      BLINK_SENDRECV};

#define HAND_COLLECTIVES (sizeof(hand_collectives) / sizeof(*hand_collectives))

/* Whether the plan has a tree with this root (to: PLAN_NONE), or a route with these ends. */
static bool hand_travels(const plan_t *plan, hand_shape_t shape, uint32_t from, uint32_t to)
{
    switch (plan->collective) {
    case BLINK_ALLREDUCE:
        return shape == TOGETHER || from == 0;
    case BLINK_BROADCAST:
    case BLINK_REDUCE:
    case BLINK_SCATTER:
        return from == plan->root;
    case BLINK_GATHER:
        return to == plan->root;
    case BLINK_SENDRECV:
        return from == plan->root && to == plan->peer;
    case BLINK_ALLGATHER:
    case BLINK_REDUCESCATTER:
    case BLINK_ALLTOALL:
        break;
    }
    return true;
}

static uint32_t hand_path(const topo_t *topo, plan_t *plan, uint32_t from, uint32_t to)
{
    uint32_t path;
    if (plan_shortest_path(topo, plan, from, to, 0, &path) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return path;
}

static void hand_fill_tree(const topo_t *topo, plan_t *plan, plan_tree_t *tree, uint32_t root, uint32_t way,
                           bool inwards)
{
    uint32_t ranks = plan->rank_count;
    for (uint32_t i = 1; tree->parent != NULL && i < ranks; i++) {
        uint32_t rank = (root + i) % ranks;
        uint32_t parent = way == SHORT_WAY ? root : (root + i - 1) % ranks;
        tree->parent[rank] = parent;
        tree->path[rank] =
            inwards ? hand_path(topo, plan, rank, parent) : hand_path(topo, plan, parent, rank);
    }
}

/* The long way visits the ranks behind the source. */
static void hand_fill_route(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t from, uint32_t to,
                            uint32_t way)
{
    uint32_t distance = (to + plan->rank_count - from) % plan->rank_count;
    uint32_t most = way == LONG_WAY ? HOPS_MAX : 1;
    assert_int_equal(plan_set_route(part, distance < most ? distance : most), BLINK_OK);
    plan_route_t *route = &part->route;
    for (uint32_t hop = 0; hop <= route->hop_count; hop++)
        route->ranks[hop] = hop == route->hop_count ? to : (from + hop) % plan->rank_count;
    for (uint32_t hop = 0; hop < route->hop_count; hop++)
        route->paths[hop] = hand_path(topo, plan, route->ranks[hop], route->ranks[hop + 1]);
}

static void hand_fill_part(const topo_t *topo, plan_t *plan, plan_part_t *part, uint32_t from, uint32_t to,
                           uint32_t way)
{
    if (to != PLAN_NONE) {
        hand_fill_route(topo, plan, part, from, to, way);
        return;
    }
    part->root = from;
    hand_fill_tree(topo, plan, &part->reduce, from, way, true);
    hand_fill_tree(topo, plan, &part->broadcast, from, way, false);
}

static void hand_fill_channels(const topo_t *topo, plan_t *plan, hand_shape_t shape)
{
    uint32_t ends = collective_routes(plan->collective) ? plan->rank_count : 1, count = 0;
    uint32_t all = plan->rank_count * ends * WAYS;
    plan_channel_t *channel = NULL;
    for (uint32_t i = 0; i < all; i++)
        count += hand_travels(plan, shape, i / WAYS / ends, i / WAYS % ends);
    if (shape == TOGETHER)
        assert_int_equal(plan_add_channel(plan, 1.0, count, &channel), BLINK_OK);
    for (uint32_t i = 0, part = 0; i < all; i++) {
        uint32_t from = i / WAYS / ends, to = i / WAYS % ends, way = i % WAYS;
        if (!hand_travels(plan, shape, from, to))
            continue;
        if (shape == APART)
            assert_int_equal(plan_add_channel(plan, way == LONG_WAY ? 0.7 : 0.3, 1, &channel), BLINK_OK);
        hand_fill_part(topo, plan, &channel->parts[shape == APART ? 0 : part++], from,
                       ends > 1 ? to : PLAN_NONE, way);
    }
    plan_normalise_shares(plan);
}

/* Over the first `ranks` gpus, from or to the last of them; a sendrecv goes to rank 2, three hops away if
 * there are more than three ranks, else to where that is modulo their number. */
static plan_t *hand_plan(const topo_t *topo, uint32_t ranks, blink_collective_t collective,
                         hand_shape_t shape)
{
    plan_t *plan = calloc(1, sizeof(*plan));
    assert_non_null(plan);
    *plan = (plan_t){.collective = collective,
                     .algorithm = BLINK_ALGORITHM_TREES,
                     .rank_count = ranks,
                     .rank_node = malloc(ranks * sizeof(*plan->rank_node)),
                     .root = collective_has_root(collective) ? ranks - 1 : PLAN_NONE,
                     .peer = collective == BLINK_SENDRECV ? 2 % ranks : PLAN_NONE};
    assert_non_null(plan->rank_node);
    memcpy(plan->rank_node, topo->gpus, ranks * sizeof(*plan->rank_node));
    if (ranks > 1)
        hand_fill_channels(topo, plan, shape);
    return plan;
}

static inline lane_program_t *hand_compile(const topo_t *topo, uint32_t ranks, blink_collective_t collective,
                                           hand_shape_t shape, blink_protocol_t protocol)
{
    plan_t *plan = hand_plan(topo, ranks, collective, shape);
    plan->protocol = protocol;
    lane_program_t *program = NULL;
    if (lane_compile(topo, plan, NULL, &program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    plan_destroy(plan);
    return program;
}

#endif
