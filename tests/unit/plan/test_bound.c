/*
 * The certificate: known optima, trees and cuts against all there are on small graphs, and prices of any
 * kind, which never prove less than a plan reaches.
 */
#include "plan_checks.h"

#include "hand_plan.h"
#include "plan/bound/bound.h"

#define NODES_MAX 5u

static double bound_of(const topo_t *topo, const plan_t *plan, const double *prices)
{
    double bound_GBps = -1.0;
    assert_int_equal(plan_bound_GBps(topo, plan, prices, &bound_GBps), BLINK_OK);
    return bound_GBps;
}

static double *same_prices(const topo_t *topo, double price)
{
    double *prices = calloc((size_t)topo->link_count + topo->node_count, sizeof(*prices));
    assert_non_null(prices);
    for (uint32_t link = 0; link < topo->link_count; link++)
        prices[link] = price;
    return prices;
}

/* ---- known optima ---- */

static void test_known_optima_of_trees(void **state)
{
    static const struct {
        const char *topology;
        blink_collective_t collective;
        uint32_t mask;
        double GBps;
    } known[] = {
        {"dgx1v", BLINK_ALLREDUCE, 0xff, 600.0 / 7.0},
        {"dgx1v_hybrid", BLINK_ALLREDUCE, 0xff, 92.0},
        {"dgx_a100", BLINK_ALLREDUCE, 0xff, 1200.0 / 7.0},
        {"dgx2", BLINK_ALLREDUCE, 0xffff, 80.0},
        {"dgx1v", BLINK_BROADCAST, 0xff, 150.0},
        {"dgx_h100", BLINK_BROADCAST, 0xff, 450.0},
        {"dgx1v", BLINK_ALLREDUCE, 0x13, 25.0},
        {"dgx1v", BLINK_REDUCE, 0xff, 150.0},
        {"dgx1v", BLINK_ALLGATHER, 0xff, 150.0 * 8 / 7},
        {"dgx1v", BLINK_REDUCESCATTER, 0xff, 150.0 * 8 / 7},
        {"2x_dgx1v_100g", BLINK_ALLREDUCE, 0xffff, 12.5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        topo_t *topo = load(known[i].topology);
        plan_t *plan = make(topo, known[i].collective, BLINK_ALGORITHM_TREES, known[i].mask);
        assert_close(plan->bound_GBps, known[i].GBps);
        assert_close(bound_of(topo, plan, plan->prices), known[i].GBps);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

/* Sixteen gpus of 150 GB/s on non-blocking switches; equal prices are optimal. */
static void test_known_optima_of_routes(void **state)
{
    static const struct {
        blink_collective_t collective;
        double GBps;
    } known[] = {{BLINK_SENDRECV, 150.0},
                 {BLINK_GATHER, 150.0 * 16 / 15},
                 {BLINK_SCATTER, 150.0 * 16 / 15},
                 {BLINK_ALLTOALL, 150.0 * 256 / 15}};
    topo_t *topo = load("dgx2");
    double *prices = same_prices(topo, 1.0);
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        plan_t *plan = hand_plan(topo, 16, known[i].collective, APART);
        assert_close(bound_of(topo, plan, prices), known[i].GBps);
        plan_destroy(plan);
    }
    free(prices);
    topo_destroy(topo);
}

/* a - b - c - d: of 16 blocks 4 cross the middle each way, three of them on a way past other ranks. */
static void test_routes_pass_other_ranks_but_no_other_gpus(void **state)
{
    topo_t *topo = parse(GPU("a") "," GPU("b") "," GPU("c") "," GPU("d"),
                         LINK("a", "b", "10") "," LINK("b", "c", "10") "," LINK("c", "d", "10"));
    double *prices = same_prices(topo, 0.0);
    uint32_t without_c[] = {topo->gpus[0], topo->gpus[1], topo->gpus[3]};
    plan_t plan = {.collective = BLINK_ALLTOALL,
                   .rank_node = topo->gpus,
                   .rank_count = 4,
                   .root = PLAN_NONE,
                   .peer = PLAN_NONE};
    (void)state;
    prices[topo_find_link(topo, topo->gpus[1], topo->gpus[2])] = 1.0;
    prices[topo_find_link(topo, topo->gpus[2], topo->gpus[1])] = 1.0;
    assert_close(bound_of(topo, &plan, prices), 10.0 / (4.0 / 16.0));
    plan.rank_node = without_c;
    plan.rank_count = 3;
    assert_true(bound_of(topo, &plan, prices) <= 0.0);
    free(prices);
    topo_destroy(topo);
}

static void test_backplane_price_proves_its_limit(void **state)
{
    topo_t *topo =
        parse(GPU("a") "," GPU("b") "," GPU("c") ",{\"id\":\"s\",\"kind\":\"switch\",\"GBps_total\":12}",
              LINK("a", "s", "50") "," LINK("b", "s", "50") "," LINK("c", "s", "50"));
    double *prices = same_prices(topo, 0.0);
    (void)state;
    prices[topo->link_count + topo_find_node(topo, "s")] = 3.0;
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        /* Blocks times ways between ranks: a tree has two, an allreduce two trees, an alltoall six of nine.
         */
        static const double ways[] = {
            [BLINK_ALLREDUCE] = 4.0,     [BLINK_BROADCAST] = 2.0,      [BLINK_REDUCE] = 2.0,
            [BLINK_ALLGATHER] = 2.0,     [BLINK_REDUCESCATTER] = 2.0,  [BLINK_GATHER] = 2.0 / 3.0,
            [BLINK_SCATTER] = 2.0 / 3.0, [BLINK_ALLTOALL] = 6.0 / 9.0, [BLINK_SENDRECV] = 1.0};
        plan_t *plan = hand_plan(topo, 3, hand_collectives[i], APART);
        if (plan->root != PLAN_NONE)
            plan->root = 0;
        assert_close(bound_of(topo, plan, prices), 12.0 / ways[hand_collectives[i]]);
        plan_destroy(plan);
    }
    free(prices);
    topo_destroy(topo);
}

/* ---- against all there are ---- */

/* Cheapest of all arborescences from the root: every way to give each other node a parent. */
static double least_tree(const double *in_cost, uint32_t n, uint32_t root)
{
    double least = INFINITY;
    uint32_t choices = 1;
    for (uint32_t i = 0; i < n; i++)
        choices *= n;
    for (uint32_t choice = 0; choice < choices; choice++) {
        uint32_t parent[NODES_MAX] = {0}, rest = choice;
        double cost = 0.0;
        for (uint32_t node = 0; node < n; node++, rest /= n)
            parent[node] = rest % n;
        if (parent[root] != root)
            continue;
        bool spans = true;
        for (uint32_t node = 0; node < n; node++) {
            uint32_t at = node;
            for (uint32_t hop = 0; hop < n; hop++)
                at = parent[at];
            spans = spans && at == root;
            cost += node == root ? 0.0 : in_cost[node * n + parent[node]];
        }
        least = spans ? fmin(least, cost) : least;
    }
    return least;
}

static void check_tree_costs(dice_t *dice, bool symmetric)
{
    double in_cost[NODES_MAX * NODES_MAX] = {0}, spent[NODES_MAX * NODES_MAX], cost[NODES_MAX];
    uint32_t n = 2 + (uint32_t)(roll_part(dice) * 4.0);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            /* Few values, so that ties and zeros occur. */
            double edge = roll_part(dice) < 0.5 ? floor(roll_part(dice) * 5.0) : roll_part(dice) * 5.0;
            in_cost[i * n + j] = symmetric && j < i ? in_cost[j * n + i] : edge;
        }
    memcpy(spent, in_cost, sizeof(spent));
    assert_int_equal(bound_tree_costs(spent, n, cost), BLINK_OK);
    for (uint32_t root = 0; root < n; root++) {
        assert_true(fabs(cost[root] - least_tree(in_cost, n, root)) <= 1e-9);
        assert_true(!symmetric || fabs(cost[root] - cost[0]) <= 1e-9);
    }
}

static void test_cheapest_trees_of_every_root_are_exact(void **state)
{
    dice_t dice = {1};
    (void)state;
    for (uint32_t round = 0; round < 2000; round++)
        check_tree_costs(&dice, false);
}

static void test_symmetric_costs_are_the_same_from_every_root(void **state)
{
    dice_t dice = {2};
    (void)state;
    for (uint32_t round = 0; round < 500; round++)
        check_tree_costs(&dice, true);
}

static void test_trees_that_cannot_span_cost_infinity(void **state)
{
    double in_cost[9] = {INFINITY, 1.0, INFINITY, 1.0, INFINITY, INFINITY, 1.0, 1.0, INFINITY}, cost[3];
    (void)state;
    assert_int_equal(bound_tree_costs(in_cost, 3, cost), BLINK_OK); /* nothing leads away from node 2 */
    for (uint32_t root = 0; root < 3; root++)
        assert_true(isinf(cost[root]));
}

/* Gpus and switches at random, joined one way or both ways; or the same with all links turned round. */
static topo_t *roll_topology(dice_t *dice, uint32_t nodes, bool reversed)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    char id[2][16];
    assert_int_equal(topo_build_create("random", "dice", &builder), BLINK_OK);
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(id[0], sizeof(id[0]), "n%u", i);
        topo_node_t node = {.id = id[0], .kind = i < 2 || roll_part(dice) < 0.7 ? TOPO_DEVICE : TOPO_SWITCH};
        assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
    }
    for (uint32_t i = 0; i < nodes; i++)
        for (uint32_t j = 0; j < nodes; j++) {
            snprintf(id[0], sizeof(id[0]), "n%u", i);
            snprintf(id[1], sizeof(id[1]), "n%u", j);
            if (i != j && roll_part(dice) < 0.5)
                assert_int_equal(topo_build_link(builder, id[reversed], id[!reversed], TOPO_NVLINK,
                                                 1.0 + roll_part(dice), 1, 1.0, false),
                                 BLINK_OK);
        }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

/* Least capacity out of any set of nodes that has the first gpu and not the second. */
static double least_cut(const topo_t *topo)
{
    double least = INFINITY;
    for (uint32_t set = 0; set < 1u << topo->node_count; set++) {
        double out = 0.0;
        if ((set >> topo->gpus[0] & 1u) == 0 || (set >> topo->gpus[1] & 1u) != 0)
            continue;
        for (uint32_t link = 0; link < topo->link_count; link++)
            if ((set >> topo->links[link].from & 1u) != 0 && (set >> topo->links[link].to & 1u) == 0)
                out += topo->links[link].GBps;
        least = fmin(least, out);
    }
    return least;
}

static void test_sendrecv_is_bounded_by_the_least_cut(void **state)
{
    dice_t dice = {3};
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        topo_t *topo = roll_topology(&dice, 2 + round % 6, false);
        double *prices = same_prices(topo, 0.0);
        plan_t plan = {.collective = BLINK_SENDRECV,
                       .rank_node = topo->gpus,
                       .rank_count = topo->gpu_count,
                       .root = 0,
                       .peer = 1};
        assert_true(fabs(bound_of(topo, &plan, prices) - least_cut(topo)) <= 1e-9);
        free(prices);
        topo_destroy(topo);
    }
}

/* The shortest way s-a-d-t shuts both long ones unless part of it is taken back. */
static void test_flow_takes_back_a_greedy_way(void **state)
{
    topo_t *topo = parse(
        GPU("s") "," GPU("t") "," SWITCH("a") "," SWITCH("b") "," SWITCH("c") "," SWITCH("d") "," SWITCH(
            "e") "," SWITCH("f"),
        ONE_WAY("s", "a", "1") "," ONE_WAY("a", "d", "1") "," ONE_WAY("d", "t", "1") "," ONE_WAY(
            "s", "b",
            "1") "," ONE_WAY("b", "e",
                             "1") "," ONE_WAY("e", "d",
                                              "1") "," ONE_WAY("a", "c",
                                                               "1") "," ONE_WAY("c", "f",
                                                                                "1") "," ONE_WAY("f", "t",
                                                                                                 "1"));
    double *prices = same_prices(topo, 0.0);
    plan_t plan = {
        .collective = BLINK_SENDRECV, .rank_node = topo->gpus, .rank_count = 2, .root = 0, .peer = 1};
    (void)state;
    assert_close(bound_of(topo, &plan, prices), 2.0);
    free(prices);
    topo_destroy(topo);
}

/* What one collective is on these links, its mirror image is on the links turned round: so are the bounds. */
static bool check_mirror(uint64_t seed, blink_collective_t collective, blink_collective_t mirrored)
{
    dice_t dice[2] = {{seed}, {seed}};
    topo_t *topo = roll_topology(&dice[0], 6, false), *mirror = roll_topology(&dice[1], 6, true);
    plan_request_t request = {.collective = collective,
                              .algorithm = BLINK_ALGORITHM_TREES,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count};
    plan_t *plan = NULL;
    blink_result_t result = plan_create(topo, &request, &plan);
    if (result == BLINK_OK) {
        plan->collective = mirrored;
        assert_close(bound_of(mirror, plan, plan->prices), plan->bound_GBps);
        plan_destroy(plan);
    } else {
        assert_int_equal(result, BLINK_ERR_UNREACHABLE);
    }
    topo_destroy(mirror);
    topo_destroy(topo);
    return result == BLINK_OK;
}

static void test_links_turned_round_mirror_the_bound(void **state)
{
    uint32_t checked = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        checked += check_mirror(seed, BLINK_ALLGATHER, BLINK_REDUCESCATTER);
        checked += check_mirror(seed, BLINK_BROADCAST, BLINK_REDUCE);
        checked += check_mirror(seed, BLINK_ALLREDUCE, BLINK_ALLREDUCE);
    }
    assert_in_range(checked, 60, 180);
}

/* Nothing leads back to a, and nothing needs to. */
static void test_broadcast_needs_no_way_back(void **state)
{
    topo_t *topo =
        parse(GPU("a") "," GPU("b") "," GPU("c"), ONE_WAY("a", "b", "6") "," ONE_WAY("b", "c", "3"));
    double *prices = same_prices(topo, 1.0);
    plan_t plan = {.collective = BLINK_BROADCAST,
                   .rank_node = topo->gpus,
                   .rank_count = 3,
                   .root = 0,
                   .peer = PLAN_NONE};
    (void)state;
    assert_close(bound_of(topo, &plan, prices), 3.0);
    plan.collective = BLINK_REDUCE;
    assert_true(bound_of(topo, &plan, prices) <= 0.0);
    free(prices);
    topo_destroy(topo);
}

/* ---- any prices ---- */

static void check_random_prices(const topo_t *topo, const plan_t *plan, dice_t *dice)
{
    double *prices = same_prices(topo, 0.0), rate_GBps = 0.0;
    assert_int_equal(plan_rate_GBps(topo, plan, &rate_GBps), BLINK_OK);
    for (uint32_t round = 0; round < 60; round++) {
        double few = roll_part(dice);
        for (uint32_t i = 0; i < topo->link_count + topo->node_count; i++)
            prices[i] = roll_part(dice) < few ? pow(10.0, 12.0 * roll_part(dice) - 6.0) : 0.0;
        assert_true(bound_of(topo, plan, prices) >= rate_GBps * (1.0 - 1e-9));
    }
    free(prices);
}

static void test_any_prices_bound_every_collective(void **state)
{
    static const char *const names[] = {"dgx1v_hybrid", "dgx2", "pcie8"};
    dice_t dice = {4};
    (void)state;
    for (size_t t = 0; t < sizeof(names) / sizeof(names[0]); t++) {
        topo_t *topo = load(names[t]);
        for (uint32_t i = 0; i < 2 * HAND_COLLECTIVES; i++) {
            plan_t *plan = hand_plan(topo, 5, hand_collectives[i / 2], i % 2 == 0 ? APART : TOGETHER);
            check_random_prices(topo, plan, &dice);
            plan_destroy(plan);
        }
        topo_destroy(topo);
    }
}

/* Optimal plans are the hardest to stay above. */
static void test_any_prices_bound_optimal_trees(void **state)
{
    dice_t dice = {5};
    topo_t *topo = load("dgx1v_hybrid");
    (void)state;
    for (blink_collective_t c = BLINK_ALLREDUCE; c <= BLINK_REDUCESCATTER; c++) {
        if (collective_routes(c))
            continue;
        plan_t *plan = make(topo, c, BLINK_ALGORITHM_TREES, 0x72);
        check_random_prices(topo, plan, &dice);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* ---- switches that reduce and copy ---- */

#define REDUCING(id) "{\"id\":\"" id "\",\"kind\":\"switch\",\"multicast\":true,\"reduces\":true}"

static double multicast_bound_of(const topo_t *topo, const plan_t *plan)
{
    double bound_GBps = -1.0;
    assert_int_equal(plan_multicast_bound_GBps(topo, plan, &bound_GBps), BLINK_OK);
    return bound_GBps;
}

/* Of an allreduce each gpu sends all its payload to the switches and gets all of the result from them. What
 * else is done behind an NVSwitch fills all links, or those of one gpu, without its help. */
static void test_switches_that_reduce_bound_by_the_links_of_gpus(void **state)
{
    static const struct {
        const char *topology;
        blink_collective_t collective;
        uint32_t mask;
        double GBps, multicast_GBps;
    } known[] = {
        {"dgx_h100", BLINK_ALLREDUCE, 0xff, 450.0 * 8 / 14, 450.0},
        {"dgx_h100", BLINK_ALLREDUCE, 0x1d, 450.0 * 4 / 6, 450.0},
        {"dgx_h100", BLINK_ALLREDUCE, 0x11, 450.0, 450.0},
        {"dgx_h100", BLINK_ALLGATHER, 0xff, 450.0 * 8 / 7, 450.0 * 8 / 7},
        {"dgx_h100", BLINK_REDUCESCATTER, 0xff, 450.0 * 8 / 7, 450.0 * 8 / 7},
        {"dgx_h100", BLINK_BROADCAST, 0xff, 450.0, 450.0},
        {"dgx_h100", BLINK_REDUCE, 0xff, 450.0, 450.0},
        {"dgx_h100", BLINK_ALLTOALL, 0xff, 450.0 * 64 / 7, 450.0 * 64 / 7},
        {"2xdgx_h100", BLINK_ALLREDUCE, 0xffff, 500.0 * 16 / 30, 400.0}, /* by eight NICs of 50 */
        {"2xdgx_h100", BLINK_ALLREDUCE, 0x000f, 500.0 * 4 / 6, 500.0},   /* NICs help a little */
        {"dgx_a100", BLINK_ALLREDUCE, 0xff, 1200.0 / 7.0, 1200.0 / 7.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        topo_t *topo = load(known[i].topology);
        plan_t *plan = make(topo, known[i].collective, BLINK_ALGORITHM_TREES, known[i].mask);
        assert_close(plan->bound_GBps, known[i].GBps);
        assert_close(multicast_bound_of(topo, plan), known[i].multicast_GBps);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

/* Three switches with two gpus each, behind one that only forwards: as of three ranks, all results cross what
 * joins them 2 · 2 times. */
static void test_prices_between_switches_that_reduce_hold(void **state)
{
    topo_t *topo =
        parse(GPU("a") "," GPU("b") "," GPU("c") "," GPU("d") "," GPU("e") "," GPU("f") "," REDUCING(
                  "r") "," REDUCING("s") "," REDUCING("t") "," SWITCH("net"),
              LINK("a", "r", "50") "," LINK("b", "r", "50") "," LINK("c", "s", "50") "," LINK(
                  "d", "s",
                  "50") "," LINK("e", "t",
                                 "50") "," LINK("f", "t",
                                                "50") "," LINK("r", "net",
                                                               "6") "," LINK("s", "net",
                                                                             "6") "," LINK("t", "net", "6"));
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0x3f);
    (void)state;
    assert_close(multicast_bound_of(topo, plan), 3 * 6.0 / 4.0);
    /* Without a gpu of its own a switch stands for no rank: what is left is the links of each gpu. */
    topo->nodes[topo_find_node(topo, "net")].reduces = true;
    assert_close(multicast_bound_of(topo, plan), 50.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Gpus at a switch that reduces, each by links of its own capacities, and links between them at random. */
static topo_t *roll_star(dice_t *dice, uint32_t gpus, double *least_GBps)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    char id[2][16];
    *least_GBps = INFINITY;
    assert_int_equal(topo_build_create("star", "dice", &builder), BLINK_OK);
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = strcpy(id[0], "s"),
                                                             .kind = TOPO_SWITCH,
                                                             .multicast = true,
                                                             .reduces = true}),
                     BLINK_OK);
    for (uint32_t i = 0; i < 2 * gpus; i++) {
        double GBps = 1.0 + 9.0 * roll_part(dice);
        snprintf(id[1], sizeof(id[1]), "n%u", i / 2);
        if (i % 2 == 0)
            assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = id[1], .kind = TOPO_DEVICE}),
                             BLINK_OK);
        assert_int_equal(
            topo_build_link(builder, id[i % 2], id[i % 2 == 0], TOPO_NVSWITCH, GBps, 1, 1.0, false),
            BLINK_OK);
        *least_GBps = fmin(*least_GBps, GBps);
    }
    for (uint32_t i = 0; i < gpus; i++) {
        snprintf(id[0], sizeof(id[0]), "n%u", i);
        snprintf(id[1], sizeof(id[1]), "n%u", roll(dice, gpus));
        if (strcmp(id[0], id[1]) != 0)
            assert_int_equal(topo_build_link(builder, id[0], id[1], TOPO_NVLINK, 1.0, 1, 1.0, false),
                             BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

/* By the switch alone everybody's link carries all of an allreduce's payload once each way, and of a
 * broadcast's or reduce's no more. */
static void test_no_price_denies_what_a_switch_can_do(void **state)
{
    static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST, BLINK_REDUCE};
    dice_t dice = {6};
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        double star_GBps = 0.0;
        topo_t *topo = roll_star(&dice, 2 + round % 6, &star_GBps);
        double *prices = same_prices(topo, 0.0);
        for (uint32_t i = 0; i < topo->link_count + topo->node_count; i++)
            prices[i] = roll_part(&dice) < 0.7 ? pow(10.0, 6.0 * roll_part(&dice)) : 0.0;
        for (size_t c = 0; c < sizeof(collectives) / sizeof(*collectives); c++) {
            plan_t plan = {.collective = collectives[c],
                           .rank_node = topo->gpus,
                           .rank_count = topo->gpu_count,
                           .root = collectives[c] == BLINK_ALLREDUCE ? PLAN_NONE : 0,
                           .peer = PLAN_NONE,
                           .prices = prices};
            assert_true(multicast_bound_of(topo, &plan) >= star_GBps * (1.0 - 1e-9));
        }
        free(prices);
        topo_destroy(topo);
    }
}

static void test_nonsense_prices_count_as_zero(void **state)
{
    static const double nonsense[] = {NAN, -1.0, INFINITY, -INFINITY, -0.0};
    topo_t *topo = load("dgx1v_hybrid");
    (void)state;
    for (size_t c = 0; c < HAND_COLLECTIVES; c++) {
        plan_t *plan = hand_plan(topo, 8, hand_collectives[c], APART);
        double *zeros = same_prices(topo, 0.0), cuts_GBps = bound_of(topo, plan, zeros);
        assert_true(isfinite(cuts_GBps) && cuts_GBps > 0.0); /* by cuts alone */
        for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
            double *prices = same_prices(topo, nonsense[i]);
            assert_close(bound_of(topo, plan, prices), cuts_GBps);
            free(prices);
        }
        free(zeros);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_only_proportions_of_prices_matter(void **state)
{
    static const double scales[] = {1e-300, 1e-9, 1e9, 1e300};
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0xff);
    double *prices = same_prices(topo, 0.0);
    (void)state;
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        double largest = 0.0;
        for (uint32_t link = 0; link < topo->link_count; link++)
            largest = fmax(largest, plan->prices[link]);
        for (uint32_t link = 0; link < topo->link_count; link++)
            prices[link] = plan->prices[link] / largest * scales[i];
        assert_close(bound_of(topo, plan, prices), 600.0 / 7.0);
    }
    free(prices);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_nothing_moves_at_zero(void **state)
{
    topo_t *topo = load("dgx1v");
    double *prices = same_prices(topo, 1.0);
    plan_t alone = {.rank_node = topo->gpus, .rank_count = 1, .root = PLAN_NONE, .peer = PLAN_NONE};
    plan_t itself = {
        .collective = BLINK_SENDRECV, .rank_node = topo->gpus, .rank_count = 4, .root = 2, .peer = 2};
    (void)state;
    assert_true(bound_of(topo, &alone, prices) <= 0.0);
    assert_true(bound_of(topo, &itself, prices) <= 0.0);
    free(prices);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_optima_of_trees),
        cmocka_unit_test(test_known_optima_of_routes),
        cmocka_unit_test(test_routes_pass_other_ranks_but_no_other_gpus),
        cmocka_unit_test(test_backplane_price_proves_its_limit),
        cmocka_unit_test(test_cheapest_trees_of_every_root_are_exact),
        cmocka_unit_test(test_symmetric_costs_are_the_same_from_every_root),
        cmocka_unit_test(test_trees_that_cannot_span_cost_infinity),
        cmocka_unit_test(test_sendrecv_is_bounded_by_the_least_cut),
        cmocka_unit_test(test_flow_takes_back_a_greedy_way),
        cmocka_unit_test(test_links_turned_round_mirror_the_bound),
        cmocka_unit_test(test_broadcast_needs_no_way_back),
        cmocka_unit_test(test_any_prices_bound_every_collective),
        cmocka_unit_test(test_any_prices_bound_optimal_trees),
        cmocka_unit_test(test_switches_that_reduce_bound_by_the_links_of_gpus),
        cmocka_unit_test(test_prices_between_switches_that_reduce_hold),
        cmocka_unit_test(test_no_price_denies_what_a_switch_can_do),
        cmocka_unit_test(test_nonsense_prices_count_as_zero),
        cmocka_unit_test(test_only_proportions_of_prices_matter),
        cmocka_unit_test(test_nothing_moves_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
