/*
 * What every test of the planner needs: topologies by name or from a few lines, plans made or failed loudly,
 * and a check of everything a plan promises.
 */
#ifndef BLINK_TESTS_PLAN_CHECKS_H
#define BLINK_TESTS_PLAN_CHECKS_H

#include "error.h"
#include "names.h"
#include "plan/internal.h"
#include "plan/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS_MAX 16u

/* Dice that fall alike in every run: a side of so many, or a part of one. */
typedef struct dice {
    uint64_t state;
} dice_t;

static inline uint32_t roll(dice_t *dice, uint32_t sides)
{
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice->state >> 33) % sides;
}

static inline double roll_part(dice_t *dice)
{
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(dice->state >> 40) / (double)(1u << 24);
}

static inline topo_t *load(const char *what)
{
    topo_t *topo = NULL;
    if (topo_load(what, &topo) != BLINK_OK)
        fail_msg("%s: %s", what, blink_error_text());
    return topo;
}

/* Gpus named by the bits of a mask, in device order. */
static inline uint32_t choose(const topo_t *topo, uint32_t mask, uint32_t *nodes)
{
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < topo->gpu_count; gpu++)
        if ((mask >> gpu & 1u) != 0)
            nodes[count++] = topo->gpus[gpu];
    return count;
}

static inline plan_t *make(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm,
                           uint32_t mask)
{
    uint32_t nodes[RANKS_MAX];
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = nodes,
                              .rank_count = choose(topo, mask, nodes)};
    plan_t *plan = NULL;
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s, gpus %#x: %s", topo->name, mask, blink_error_text());
    return plan;
}

static inline void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-3 * expected))
        fail_msg("%.6f is not %.6f", value, expected);
}

/* The path leads from one rank's node to the other's, through no gpu. */
static inline void check_path(const topo_t *topo, const plan_t *plan, uint32_t index, uint32_t from,
                              uint32_t to)
{
    assert_true(index < plan->path_count);
    const plan_path_t *path = &plan->paths[index];
    uint32_t at = plan->rank_node[from];
    for (uint32_t i = 0; i < path->link_count; i++) {
        const topo_link_t *link = &topo->links[path->links[i]];
        assert_int_equal(link->from, at);
        at = link->to;
        assert_true(i + 1 == path->link_count || topo->nodes[at].kind != TOPO_DEVICE);
    }
    assert_int_equal(at, plan->rank_node[to]);
}

static inline void check_tree(const topo_t *topo, const plan_t *plan, const plan_tree_t *tree, uint32_t root,
                              bool reduce)
{
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t at = rank, hops = 0;
        for (; tree->parent[at] != PLAN_NONE && hops < plan->rank_count; hops++)
            at = tree->parent[at];
        assert_int_equal(at, root);
        if (rank != root)
            check_path(topo, plan, tree->path[rank], reduce ? rank : tree->parent[rank],
                       reduce ? tree->parent[rank] : rank);
    }
}

/* The chain leads from rank to rank by its paths. */
static inline void check_route(const topo_t *topo, const plan_t *plan, const plan_route_t *route)
{
    for (uint32_t i = 0; i < route->hop_count; i++)
        check_path(topo, plan, route->paths[i], route->ranks[i], route->ranks[i + 1]);
}

/* What a part is, and the block it carries. */
static inline uint64_t check_part(const topo_t *topo, const plan_t *plan, const plan_part_t *part)
{
    bool routes = collective_routes(plan->collective);
    assert_int_equal(part->reduce.parent != NULL, collective_reduces(plan->collective));
    assert_int_equal(part->broadcast.parent != NULL, collective_broadcasts(plan->collective));
    assert_int_equal(part->route.ranks != NULL, routes);
    if (routes) {
        check_route(topo, plan, &part->route);
        return collective_block(plan->collective, plan->rank_count, part->route.ranks[0],
                                part->route.ranks[part->route.hop_count]);
    }
    assert_true(part->root < plan->rank_count);
    assert_true(plan->root == PLAN_NONE || part->root == plan->root);
    if (part->broadcast.parent != NULL)
        check_tree(topo, plan, &part->broadcast, part->root, false);
    if (part->reduce.parent != NULL)
        check_tree(topo, plan, &part->reduce, part->root, true);
    return collective_block(plan->collective, plan->rank_count, part->root, PLAN_NONE);
}

/* All a plan promises: trees that span, every block carried once, a rate that the loads allow and the bound
 * permits. */
static inline void check_plan(const topo_t *topo, const plan_t *stored)
{
    plan_t *plan = NULL;
    assert_int_equal(plan_expand(topo, stored, &plan), BLINK_OK);
    uint64_t blocks = collective_block_count(plan->collective, plan->rank_count);
    double *carried = calloc(blocks, sizeof(*carried)), loads_allow_GBps = 0.0;
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const plan_channel_t *channel = &plan->channels[c];
        assert_true(channel->share > 0.0);
        for (uint32_t i = 0; i < channel->part_count; i++)
            carried[check_part(topo, plan, &channel->parts[i])] += channel->share / channel->part_count;
    }
    for (uint64_t block = 0; block < blocks; block++) /* shares are parts of 1, and so is their rounding */
        assert_true(fabs(carried[block] * (double)blocks - 1.0) <= fmax(1e-9, 1e-12 * (double)blocks));
    free(carried);
    assert_true(plan->rate_GBps > 0.0);
    assert_int_equal(plan_rate_GBps(topo, plan, &loads_allow_GBps), BLINK_OK);
    assert_true(fabs(plan->rate_GBps - loads_allow_GBps) <= 1e-9 * plan->rate_GBps);
    if (plan->rate_GBps > plan->bound_GBps * (1.0 + 1e-6))
        fail_msg("%s %s: rate %f above its bound %f", topo->name, blink_name_collective(plan->collective),
                 plan->rate_GBps, plan->bound_GBps);
    plan_destroy(plan);
}

static inline void assert_trees_near_bound(const topo_t *topo, blink_collective_t collective, uint32_t mask)
{
    plan_t *plan = make(topo, collective, BLINK_ALGORITHM_TREES, mask);
    check_plan(topo, plan);
    if (plan->rate_GBps < 0.99 * plan->bound_GBps)
        fail_msg("%s, gpus %#x: %f of %f", topo->name, mask, plan->rate_GBps, plan->bound_GBps);
    plan_destroy(plan);
}

/* A topology from lines of links; nodes named g… are gpus, s… switches. */
static inline topo_t *parse(const char *nodes, const char *links)
{
    char text[4096];
    topo_t *topo = NULL;
    int bytes = snprintf(text, sizeof(text),
                         "{\"schema\":\"blink-topology/1\",\"name\":\"t\",\"nodes\":[%s],\"links\":[%s]}",
                         nodes, links);
    assert_in_range(bytes, 1, sizeof(text) - 1);
    if (topo_parse_json(text, (size_t)bytes, "test", &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

#define GPU(id)              "{\"id\":\"" id "\",\"kind\":\"gpu\"}"
#define SWITCH(id)           "{\"id\":\"" id "\",\"kind\":\"switch\"}"
#define LINK(from, to, GBps) "{\"from\":\"" from "\",\"to\":\"" to "\",\"GBps\":" GBps ",\"kind\":\"nvlink\"}"
#define ONE_WAY(from, to, GBps)                                                                              \
    "{\"from\":\"" from "\",\"to\":\"" to "\",\"GBps\":" GBps ",\"kind\":\"nvlink\",\"duplex\":false}"

#endif
