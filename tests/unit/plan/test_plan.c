/*
 * The planner: known optima, every connected subset of a DGX-1V against its proven bound, NCCL-like rings and
 * their absence, odd topologies, bad requests, and both printed forms.
 */
#include "plan_checks.h"

#include <jansson.h>

/* Links between the chosen gpus, as counts of physical links. */
static uint32_t adjacency(const topo_t *topo, uint32_t mask, uint32_t matrix[8][8])
{
    uint32_t nodes[RANKS_MAX], n = choose(topo, mask, nodes);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            uint32_t link = topo_find_link(topo, nodes[i], nodes[j]);
            matrix[i][j] = link == TOPO_NONE
                               ? 0
                               : (uint32_t)lround(topo->links[link].GBps / topo->links[link].unit_GBps);
        }
    return n;
}

static bool connected(const topo_t *topo, uint32_t mask)
{
    uint32_t matrix[8][8], n = adjacency(topo, mask, matrix), seen = 1;
    for (uint32_t round = 0; round < n; round++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                if ((seen >> i & 1u) != 0 && matrix[i][j] > 0)
                    seen |= 1u << j;
    return seen == (1u << n) - 1u;
}

static void test_known_optima(void **state)
{
    static const struct {
        const char *topology;
        blink_collective_t collective;
        uint32_t mask;
        double GBps;
    } known[] = {
        {"dgx1v", BLINK_ALLREDUCE, 0xff, 600.0 / 7.0}, {"dgx1v_hybrid", BLINK_ALLREDUCE, 0xff, 92.0},
        {"dgx_a100", BLINK_ALLREDUCE, 0xff, 171.43},   {"dgx2", BLINK_ALLREDUCE, 0xffff, 80.0},
        {"dgx1v", BLINK_BROADCAST, 0xff, 150.0},       {"dgx1v", BLINK_ALLREDUCE, 0x13, 25.0},
        {"dgx1p", BLINK_BROADCAST, 0xff, 80.0},        {"pcie8", BLINK_ALLREDUCE, 0xff, 44.0 / 7.0},
        {"dgx_h100", BLINK_BROADCAST, 0xff, 450.0},    {"dgx1v", BLINK_ALLREDUCE, 0x09, 50.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        topo_t *topo = load(known[i].topology);
        plan_t *plan = make(topo, known[i].collective, BLINK_ALGORITHM_AUTO, known[i].mask);
        check_plan(topo, plan);
        assert_close(plan->bound_GBps, known[i].GBps);
        assert_true(plan->rate_GBps >= 0.99 * known[i].GBps);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static void test_trees_reach_the_bound_on_every_connected_subset(void **state)
{
    topo_t *topo = load("dgx1v");
    (void)state;
    for (uint32_t mask = 1; mask < 256; mask++) {
        if (__builtin_popcount(mask) < 3 || !connected(topo, mask))
            continue;
        assert_trees_near_bound(topo, BLINK_ALLREDUCE, mask);
        assert_trees_near_bound(topo, BLINK_BROADCAST, mask);
    }
    topo_destroy(topo);
}

static void test_trees_use_pcie_beside_nvlink(void **state)
{
    static const uint32_t masks[] = {0x3f, 0x72, 0x13, 0x81, 0x24};
    topo_t *topo = load("dgx1v_hybrid");
    (void)state;
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        assert_trees_near_bound(topo, BLINK_ALLREDUCE, masks[i]);
        assert_trees_near_bound(topo, BLINK_BROADCAST, masks[i]);
    }
    topo_destroy(topo);
}

static void test_switch_rates_hold_on_every_real_link(void **state)
{
    static const char *const names[] = {"dgx2", "dgx_a100", "dgx_h100", "pcie8", "2x_dgx1v_100g"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo = load(names[i]);
        assert_trees_near_bound(topo, BLINK_ALLREDUCE, 0x1f);
        assert_trees_near_bound(topo, BLINK_BROADCAST, 0xf3);
        topo_destroy(topo);
    }
}

static void test_full_broadcast_takes_six_trees(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0xff);
    (void)state;
    assert_int_equal(plan->channel_count, 6);
    plan_destroy(plan);
    plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0xff);
    assert_in_range(plan->channel_count, 4, 12);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_full_dgx1v_has_six_rings(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0xff);
    (void)state;
    check_plan(topo, plan);
    assert_close(plan->rate_GBps, 600.0 / 7.0);
    assert_close(plan->bound_GBps, 600.0 / 7.0);
    assert_int_equal(plan->channels[0].part_count, 8);
    assert_int_equal(plan_depth(plan), 14);
    plan_destroy(plan);
    plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_RING, 0xff);
    check_plan(topo, plan);
    assert_close(plan->rate_GBps, 150.0);
    assert_int_equal(plan->channels[0].part_count, 1);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* The least adjacency under any renumbering: equal exactly for isomorphic subsets. */
static void canonise(uint32_t n, uint32_t matrix[8][8], uint32_t *order, uint32_t placed, uint32_t used,
                     char *least)
{
    char text[64];
    if (placed < n) {
        for (uint32_t node = 0; node < n; node++)
            if ((used >> node & 1u) == 0) {
                order[placed] = node;
                canonise(n, matrix, order, placed + 1, used | 1u << node, least);
            }
        return;
    }
    uint32_t length = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            text[length++] = (char)('0' + matrix[order[i]][order[j]]);
    text[length] = '\0';
    if (least[0] == '\0' || strcmp(text, least) < 0)
        memcpy(least, text, length + 1);
}

static bool has_ring(const topo_t *topo, uint32_t mask)
{
    uint32_t nodes[RANKS_MAX];
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = BLINK_ALGORITHM_RING,
                              .rank_node = nodes,
                              .rank_count = choose(topo, mask, nodes)};
    plan_t *plan = NULL;
    blink_result_t result = plan_create(topo, &request, &plan);
    if (result == BLINK_OK)
        check_plan(topo, plan);
    else
        assert_int_equal(result, BLINK_ERR_UNREACHABLE);
    plan_destroy(plan);
    return result == BLINK_OK;
}

static void count_rings(const char *name, uint32_t expected_classes, uint32_t expected_with_ring)
{
    char seen[256][64];
    uint32_t classes = 0, with_ring = 0, matrix[8][8], order[8];
    topo_t *topo = load(name);
    for (uint32_t mask = 1; mask < 256; mask++) {
        if (__builtin_popcount(mask) < 3 || !connected(topo, mask))
            continue;
        uint32_t n = adjacency(topo, mask, matrix), i = 0;
        seen[classes][0] = '\0';
        canonise(n, matrix, order, 0, 0, seen[classes]);
        while (strcmp(seen[i], seen[classes]) != 0)
            i++;
        if (i < classes)
            continue;
        classes++;
        with_ring += has_ring(topo, mask);
    }
    topo_destroy(topo);
    assert_int_equal(classes, expected_classes);
    assert_int_equal(with_ring, expected_with_ring);
}

static void test_rings_exist_on_as_many_subsets_as_published(void **state)
{
    (void)state;
    count_rings("dgx1v", 46, 25);
    count_rings("dgx1p", 14, 9);
}

static void test_ring_falls_back_to_one_pcie_ring(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0x72);
    (void)state;
    check_plan(topo, plan);
    assert_int_equal(plan->path_count, 4);
    assert_close(plan->rate_GBps, 11.0 * 4.0 / 6.0);
    assert_true(plan->bound_GBps > 5.0 * plan->rate_GBps);
    for (uint32_t i = 0; i < plan->path_count; i++)
        assert_int_not_equal(topo->links[plan->paths[i].links[0]].kind, TOPO_NVLINK);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_gathers_over_a_whole_dgx1_take_few_trees_at_the_full_rate(void **state)
{
    static const char *const machines[] = {"dgx1v", "dgx1p"};
    static const blink_collective_t collectives[] = {BLINK_ALLGATHER, BLINK_REDUCESCATTER};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        topo_t *topo = load(machines[i / 2]);
        plan_t *plan = make(topo, collectives[i % 2], BLINK_ALGORITHM_TREES, 0xff);
        check_plan(topo, plan);
        assert_in_range(plan->channel_count, 8, 17);
        assert_close(plan->rate_GBps, plan->bound_GBps);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static void test_switch_rings_share_the_switches_by_width(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0xff);
    (void)state;
    check_plan(topo, plan);
    assert_int_equal(plan->channel_count, 24);
    assert_close(plan->channels[0].share, 5.0 / 18.0 / 6.0);
    assert_close(plan->rate_GBps, 257.143);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_one_rank_moves_nothing(void **state)
{
    topo_t *topo = load("dgx1v");
    (void)state;
    for (blink_algorithm_t algorithm = BLINK_ALGORITHM_AUTO; algorithm <= BLINK_ALGORITHM_RING; algorithm++) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, algorithm, 0x08);
        assert_int_equal(plan->channel_count, 0);
        assert_true(plan->rate_GBps <= 0.0 && plan->bound_GBps <= 0.0);
        assert_int_equal(plan_depth(plan), 0);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_two_ranks_use_their_links_both_ways(void **state)
{
    topo_t *topo = load("dgx1v");
    (void)state;
    for (blink_algorithm_t algorithm = BLINK_ALGORITHM_TREES; algorithm <= BLINK_ALGORITHM_RING;
         algorithm++) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, algorithm, 0x09);
        check_plan(topo, plan);
        assert_int_equal(plan->path_count, 2);
        assert_close(plan->rate_GBps, 50.0);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void assert_refused(const topo_t *topo, plan_request_t request, blink_result_t code, const char *part)
{
    plan_t *plan = NULL;
    assert_int_equal(plan_create(topo, &request, &plan), code);
    assert_null(plan);
    if (strstr(blink_error_text(), part) == NULL)
        fail_msg("expected \"%s\" in: %s", part, blink_error_text());
}

static void test_bad_requests_name_what_is_wrong(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    uint32_t switch_node = topo_find_node(topo, "plx0");
    uint32_t twice[] = {topo->gpus[1], topo->gpus[2], topo->gpus[1]};
    uint32_t not_gpu[] = {topo->gpus[0], switch_node}, outside[] = {topo->gpus[0], topo->node_count};
    (void)state;
    assert_refused(topo, (plan_request_t){.collective = BLINK_ALLREDUCE, .rank_node = twice, .rank_count = 3},
                   BLINK_ERR_INVALID_ARGUMENT, "ranks 0 and 2 are both on gpu1");
    assert_refused(topo,
                   (plan_request_t){.collective = BLINK_ALLREDUCE, .rank_node = not_gpu, .rank_count = 2},
                   BLINK_ERR_INVALID_ARGUMENT, "rank 1 is on plx0, which is a switch");
    assert_refused(topo,
                   (plan_request_t){.collective = BLINK_ALLREDUCE, .rank_node = outside, .rank_count = 2},
                   BLINK_ERR_INVALID_ARGUMENT, "node 14");
    assert_refused(
        topo, (plan_request_t){.collective = BLINK_BROADCAST, .rank_node = twice, .rank_count = 2, .root = 2},
        BLINK_ERR_INVALID_ARGUMENT, "root 2");
    assert_refused(topo, (plan_request_t){.collective = BLINK_ALLREDUCE, .rank_node = twice},
                   BLINK_ERR_INVALID_ARGUMENT, "0 ranks");
    assert_refused(
        topo,
        (plan_request_t){.collective = BLINK_ALLREDUCE, .algorithm = 99, .rank_node = twice, .rank_count = 2},
        BLINK_ERR_INVALID_ARGUMENT, "algorithm 99");
    assert_refused(topo, (plan_request_t){.collective = 99, .rank_node = twice, .rank_count = 2},
                   BLINK_ERR_INVALID_ARGUMENT, "collective 99");
    topo_destroy(topo);
}

static void test_unconnected_ranks_are_named(void **state)
{
    topo_t *topo = load("dgx1v");
    uint32_t apart[] = {topo->gpus[0], topo->gpus[5]};
    (void)state;
    assert_refused(topo,
                   (plan_request_t){.collective = BLINK_ALLREDUCE,
                                    .algorithm = BLINK_ALGORITHM_TREES,
                                    .rank_node = apart,
                                    .rank_count = 2},
                   BLINK_ERR_UNREACHABLE, "rank 0 (gpu0) to rank 1 (gpu5)");
    assert_refused(topo,
                   (plan_request_t){.collective = BLINK_ALLREDUCE,
                                    .algorithm = BLINK_ALGORITHM_RING,
                                    .rank_node = apart,
                                    .rank_count = 2},
                   BLINK_ERR_UNREACHABLE, "closes a ring");
    topo_destroy(topo);
}

static void test_one_way_links_are_planned_one_way(void **state)
{
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2"),
              ONE_WAY("g0", "g1", "10") "," ONE_WAY("g1", "g2", "20") "," ONE_WAY("g2", "g0", "10"));
    uint32_t nodes[3] = {0, 1, 2};
    (void)state;
    assert_trees_near_bound(topo, BLINK_ALLREDUCE, 7);
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 7);
    assert_close(plan->rate_GBps, 10.0);
    plan_destroy(plan);
    topo_destroy(topo);
    topo = parse(GPU("g0") "," GPU("g1"), ONE_WAY("g0", "g1", "10"));
    assert_refused(topo, (plan_request_t){.collective = BLINK_ALLREDUCE, .rank_node = nodes, .rank_count = 2},
                   BLINK_ERR_UNREACHABLE, "rank 1 (g1) to rank 0 (g0)");
    plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 3);
    assert_close(plan->rate_GBps, 10.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_backplane_limits_the_rate(void **state)
{
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2") ",{\"id\":\"s0\",\"kind\":\"switch\",\"GBps_total\":30}",
              LINK("g0", "s0", "100") "," LINK("g1", "s0", "100") "," LINK("g2", "s0", "100"));
    (void)state;
    for (blink_algorithm_t algorithm = BLINK_ALGORITHM_TREES; algorithm <= BLINK_ALGORITHM_RING;
         algorithm++) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, algorithm, 7);
        check_plan(topo, plan);
        assert_close(plan->rate_GBps, 7.5); /* four tree edges cross the switch */
        assert_close(plan->bound_GBps, 7.5);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_uneven_parallel_switches_share_in_proportion(void **state)
{
    topo_t *topo = parse(GPU("g0") "," GPU("g1") "," SWITCH("s0") "," SWITCH("s1"),
                         LINK("g0", "s0", "10") "," LINK("g1", "s0", "10") "," LINK(
                             "g0", "s1", "30") "," LINK("g1", "s1", "30"));
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 3);
    (void)state;
    check_plan(topo, plan);
    assert_close(plan->rate_GBps, 40.0);
    assert_int_equal(plan->channel_count, 2);
    assert_close(fmin(plan->channels[0].share, plan->channels[1].share), 0.25);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_capacities_over_six_orders_of_magnitude(void **state)
{
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2") "," GPU("g3") "," SWITCH("s0"),
              LINK("g0", "g1", "1000") "," LINK("g1", "g2", "0.001") "," LINK("g2", "g3", "1") "," LINK(
                  "g3", "g0", "0.02") "," LINK("g0", "g2", "37") "," LINK("g1", "s0",
                                                                          "0.5") "," LINK("g3", "s0", "900"));
    (void)state;
    for (uint32_t mask = 3; mask < 16; mask++) {
        if (__builtin_popcount(mask) < 2)
            continue;
        assert_trees_near_bound(topo, BLINK_ALLREDUCE, mask);
        assert_trees_near_bound(topo, BLINK_BROADCAST, mask);
    }
    topo_destroy(topo);
}

static void test_any_prices_prove_a_bound(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    double *prices = calloc(topo->link_count + topo->node_count, sizeof(*prices));
    unsigned seed = 1;
    (void)state;
    assert_non_null(prices);
    for (blink_collective_t collective = BLINK_ALLREDUCE; collective <= BLINK_BROADCAST; collective++) {
        plan_t *plan = make(topo, collective, BLINK_ALGORITHM_TREES, 0x72);
        for (uint32_t round = 0; round < 200; round++) {
            double bound_GBps = 0.0;
            for (uint32_t i = 0; i < topo->link_count + topo->node_count; i++) {
                seed = seed * 1664525u + 1013904223u;
                prices[i] = (double)(seed >> 16);
            }
            assert_int_equal(plan_bound_GBps(topo, plan, prices, &bound_GBps), BLINK_OK);
            assert_true(bound_GBps >= plan->rate_GBps * (1.0 - 1e-9));
        }
        plan_destroy(plan);
    }
    free(prices);
    topo_destroy(topo);
}

/* Adds the tree's share under its phase; every edge's path starts and ends at ranks. */
static void check_json_tree(json_t *tree, json_t *ranks, double *reduce, double *broadcast)
{
    double share = json_real_value(json_object_get(tree, "share"));
    const char *phase = json_string_value(json_object_get(tree, "phase"));
    json_t *edges = json_object_get(tree, "edges");
    assert_true(share > 0.0);
    assert_int_equal(json_array_size(edges), json_array_size(ranks) - 1);
    for (size_t i = 0; i < json_array_size(edges); i++) {
        json_t *path = json_object_get(json_array_get(edges, i), "path");
        uint32_t ends = 0;
        for (size_t rank = 0; rank < json_array_size(ranks); rank++)
            ends += (uint32_t)json_equal(json_array_get(ranks, rank), json_array_get(path, 0)) +
                    (uint32_t)json_equal(json_array_get(ranks, rank),
                                         json_array_get(path, json_array_size(path) - 1));
        assert_int_equal(ends, 2);
    }
    if (strcmp(phase, "reduce") == 0)
        *reduce += share;
    else if (strcmp(phase, "broadcast") == 0)
        *broadcast += share;
    else
        fail_msg("phase %s", phase);
}

static void test_json_is_a_blink_plan(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    (void)state;
    for (blink_algorithm_t algorithm = BLINK_ALGORITHM_TREES; algorithm <= BLINK_ALGORITHM_RING;
         algorithm++) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, algorithm, 0x72);
        double reduce = 0.0, broadcast = 0.0;
        char *text = NULL;
        assert_int_equal(plan_write_json(topo, plan, &text), BLINK_OK);
        json_t *object = json_loads(text, 0, NULL);
        assert_non_null(object);
        assert_string_equal(json_string_value(json_object_get(object, "schema")), "blink-plan/1");
        assert_string_equal(json_string_value(json_object_get(object, "collective")), "allreduce");
        assert_true(json_is_null(json_object_get(object, "root")));
        json_t *trees = json_object_get(object, "trees");
        for (size_t i = 0; i < json_array_size(trees); i++)
            check_json_tree(json_array_get(trees, i), json_object_get(object, "ranks"), &reduce, &broadcast);
        assert_true(fabs(reduce - 1.0) <= 1e-9 && fabs(broadcast - 1.0) <= 1e-9);
        json_decref(object);
        free(text);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_table_names_algorithm_and_trees(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 0x13);
    char *text = NULL;
    (void)state;
    assert_int_equal(plan_write_table(topo, plan, 0, &text), BLINK_OK);
    assert_non_null(
        strstr(text, "broadcast from gpu0 on dgx1v, 3 ranks: packed-trees, simple protocol\nplan "));
    assert_non_null(strstr(text, "\ntrees 1, channels 1, depth 1\n"));
    assert_non_null(strstr(text, "rate 25.000 GB/s, bound 25.000 GB/s (100.0%)"));
    assert_non_null(strstr(text, "gpu0>gpu4"));
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* What is rounding beside one link is a capacity beside another. */
static void test_a_wide_link_does_not_hide_narrow_ones_from_the_bound(void **state)
{
    (void)state;
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2"), LINK("g0", "g1", "10") "," LINK("g0", "g2", "1e14"));
    assert_trees_near_bound(topo, BLINK_BROADCAST, 3);
    topo_destroy(topo);
    topo = parse(GPU("g0") "," GPU("g1") "," GPU("g2") "," SWITCH("s0") "," SWITCH("s1") "," SWITCH("s2"),
                 LINK("g0", "s0", "1") "," LINK("s0", "s1", "0.9995") "," LINK("s1", "g1", "5") "," LINK(
                     "s0", "s2", "3") "," LINK("s2", "g1", "5") "," LINK("g1", "g2", "1e9"));
    assert_trees_near_bound(topo, BLINK_BROADCAST, 7);
    assert_trees_near_bound(topo, BLINK_REDUCE, 7);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_optima),
        cmocka_unit_test(test_trees_reach_the_bound_on_every_connected_subset),
        cmocka_unit_test(test_trees_use_pcie_beside_nvlink),
        cmocka_unit_test(test_switch_rates_hold_on_every_real_link),
        cmocka_unit_test(test_full_broadcast_takes_six_trees),
        cmocka_unit_test(test_full_dgx1v_has_six_rings),
        cmocka_unit_test(test_rings_exist_on_as_many_subsets_as_published),
        cmocka_unit_test(test_ring_falls_back_to_one_pcie_ring),
        cmocka_unit_test(test_gathers_over_a_whole_dgx1_take_few_trees_at_the_full_rate),
        cmocka_unit_test(test_switch_rings_share_the_switches_by_width),
        cmocka_unit_test(test_one_rank_moves_nothing),
        cmocka_unit_test(test_two_ranks_use_their_links_both_ways),
        cmocka_unit_test(test_bad_requests_name_what_is_wrong),
        cmocka_unit_test(test_unconnected_ranks_are_named),
        cmocka_unit_test(test_one_way_links_are_planned_one_way),
        cmocka_unit_test(test_backplane_limits_the_rate),
        cmocka_unit_test(test_uneven_parallel_switches_share_in_proportion),
        cmocka_unit_test(test_capacities_over_six_orders_of_magnitude),
        cmocka_unit_test(test_any_prices_prove_a_bound),
        cmocka_unit_test(test_a_wide_link_does_not_hide_narrow_ones_from_the_bound),
        cmocka_unit_test(test_json_is_a_blink_plan),
        cmocka_unit_test(test_table_names_algorithm_and_trees),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
