/*
 * Optimal routes: gather, scatter, alltoall and sendrecv, against optima worked out by hand, against the
 * bound on random topologies whose bottlenecks lie six orders apart, and as lanes.
 */
#include "hand_hosts.h"
#include "plan_checks.h"

#include "plan/lane/lane.h"
#include "prove/verify.h"

static const blink_collective_t routed[] = {BLINK_GATHER, BLINK_SCATTER, BLINK_ALLTOALL, BLINK_SENDRECV};

#define ROUTED (sizeof(routed) / sizeof(routed[0]))

static void check_lanes(const topo_t *topo, const plan_t *plan)
{
    lane_program_t *program = NULL;
    lane_verify_options_t options = {.chunks = 3, .slots = 1};
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    if (lane_verify(program, &options) != BLINK_OK)
        fail_msg("%s on %s: %s", blink_name_collective(plan->collective), topo->name, blink_error_text());
    lane_program_destroy(program);
}

/* As the daemons of the hosts run it: with wire lanes, and small payloads in landings. */
static void check_lanes_of_hosts(const topo_t *topo, const plan_t *plan)
{
    uint32_t of_rank[PLAN_RANKS_MAX];
    lane_hosts_t hosts = {.of_rank = of_rank};
    lane_verify_options_t options = {.chunks = 2, .slots = 1};
    hand_number_hosts(topo, plan, of_rank);
    for (uint32_t in_slots = 0; in_slots < 2; in_slots++) {
        lane_program_t *program = NULL;
        hosts.lands_in_slots = in_slots == 1;
        options.chunks = hosts.lands_in_slots ? 1 : 2;
        assert_int_equal(lane_compile(topo, plan, &hosts, &program), BLINK_OK);
        assert_true(program->wire_count > 0);
        if (lane_verify(program, &options) != BLINK_OK)
            fail_msg("alltoall on %s: %s", topo->name, blink_error_text());
        lane_program_destroy(program);
    }
}

/* Over the first `count` gpus. */
static blink_result_t try_first(const topo_t *topo, blink_collective_t collective,
                                blink_algorithm_t algorithm, uint32_t count, uint32_t root, uint32_t peer,
                                plan_t **plan)
{
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = count,
                              .root = root,
                              .peer = peer};
    *plan = NULL;
    return plan_create(topo, &request, plan);
}

static plan_t *route_all(const topo_t *topo, blink_collective_t collective, uint32_t root, uint32_t peer)
{
    plan_t *plan = NULL;
    if (try_first(topo, collective, BLINK_ALGORITHM_TREES, topo->gpu_count, root, peer, &plan) != BLINK_OK)
        fail_msg("%s on %s: %s", blink_name_collective(collective), topo->name, blink_error_text());
    return plan;
}

static void assert_optimum(const topo_t *topo, blink_collective_t collective, uint32_t root, uint32_t peer,
                           double GBps)
{
    plan_t *plan = route_all(topo, collective, root, peer);
    check_plan(topo, plan);
    check_lanes(topo, plan);
    assert_close(plan->rate_GBps, GBps);
    assert_close(plan->bound_GBps, GBps);
    plan_destroy(plan);
}

/* ---- optima known by hand ---- */

/* All six NVLinks out of a gpu can be used: the direct ones, the rest by way of other ranks. */
static void test_sendrecv_uses_every_link_of_its_ends(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    assert_optimum(topo, BLINK_SENDRECV, 0, 1, 150.0);
    assert_optimum(topo, BLINK_SENDRECV, 0, 5, 150.0);
    topo_destroy(topo);
}

/* No NVLink joins gpu0 and gpu5: every hop ends at a rank. */
static void test_sendrecv_relays_through_ranks(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    plan_t *plan = route_all(topo, BLINK_SENDRECV, 0, 5);
    for (uint32_t c = 0; c < plan->channel_count; c++)
        assert_in_range(plan->channels[c].parts[0].route.hop_count, 2, 7);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* The ranks other than the root hold (n-1)/n of the payload, and the root has 150 GB/s in (out). */
static void test_gather_and_scatter_fill_the_roots_links(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    for (uint32_t root = 0; root < 8; root++) {
        assert_optimum(topo, BLINK_GATHER, root, 0, 150.0 * 8 / 7);
        assert_optimum(topo, BLINK_SCATTER, root, 0, 150.0 * 8 / 7);
    }
    topo_destroy(topo);
}

/* Behind a non-blocking switch every gpu sends (n-1)/n² of the payload over its B GB/s. */
static void test_alltoall_behind_switches_fills_every_port(void **state)
{
    (void)state;
    topo_t *dgx2 = load("dgx2"), *h100 = load("dgx_h100");
    assert_optimum(dgx2, BLINK_ALLTOALL, 0, 0, 16.0 * 16 / 15 * 150.0);
    assert_optimum(h100, BLINK_ALLTOALL, 0, 0, 8.0 * 8 / 7 * 450.0);
    topo_destroy(dgx2);
    topo_destroy(h100);
}

/* A ring of 4: the six pairs of each direction travel 8 hops over 4 links of 10 GB/s, sixteenths each. */
static void test_alltoall_on_a_ring_splits_the_far_pairs(void **state)
{
    (void)state;
    topo_t *topo = parse(GPU("g0") "," GPU("g1") "," GPU("g2") "," GPU("g3"),
                         LINK("g0", "g1", "10") "," LINK("g1", "g2", "10") "," LINK(
                             "g2", "g3", "10") "," LINK("g3", "g0", "10"));
    assert_optimum(topo, BLINK_ALLTOALL, 0, 0, 80.0);
    topo_destroy(topo);
}

static void test_backplane_limits_routes(void **state)
{
    (void)state;
    topo_t *topo = parse(GPU("g0") "," GPU("g1") "," GPU("g2") ",{\"id\":\"s0\",\"kind\":\"switch\","
                                                               "\"GBps_total\":12}",
                         LINK("g0", "s0", "10") "," LINK("g1", "s0", "10") "," LINK("g2", "s0", "10"));
    assert_optimum(topo, BLINK_ALLTOALL, 0, 0, 12.0 * 9 / 6);
    assert_optimum(topo, BLINK_GATHER, 1, 0, 15.0);
    assert_optimum(topo, BLINK_SENDRECV, 0, 2, 10.0);
    topo_destroy(topo);
}

/* Switches of unlike widths are shared in proportion, so both are full. */
static void test_unequal_parallel_switches_are_both_filled(void **state)
{
    (void)state;
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2") "," SWITCH("s0") "," SWITCH("s1"),
              LINK("g0", "s0", "20") "," LINK("g1", "s0", "20") "," LINK("g2", "s0", "20") "," LINK(
                  "g0", "s1", "5") "," LINK("g1", "s1", "5") "," LINK("g2", "s1", "5"));
    assert_optimum(topo, BLINK_ALLTOALL, 0, 0, 25.0 * 9 / 2);
    assert_optimum(topo, BLINK_SCATTER, 2, 0, 25.0 * 3 / 2);
    topo_destroy(topo);
}

/* ---- who may carry what ---- */

/* Only gpu2 joins gpu0 to gpu1, and it is no rank. */
static void test_gpus_that_are_no_ranks_carry_nothing(void **state)
{
    (void)state;
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2"), LINK("g0", "g2", "10") "," LINK("g2", "g1", "10"));
    plan_t *plan = NULL;
    for (size_t i = 0; i < ROUTED; i++) {
        assert_int_equal(try_first(topo, routed[i], BLINK_ALGORITHM_TREES, 2, 0, 1, &plan),
                         BLINK_ERR_UNREACHABLE);
        assert_non_null(strstr(blink_error_text(), "(g0)"));
        assert_non_null(strstr(blink_error_text(), "(g1)"));
    }
    topo_destroy(topo);
}

/* One-way links: scatter needs ways from the root only, gather ways to it. */
static void test_only_the_collectives_own_pairs_must_be_joined(void **state)
{
    (void)state;
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," GPU("g2"), ONE_WAY("g0", "g1", "10") "," ONE_WAY("g1", "g2", "4"));
    plan_t *plan = NULL;
    assert_optimum(topo, BLINK_SCATTER, 0, 0, 12.0);
    assert_optimum(topo, BLINK_GATHER, 2, 0, 6.0);
    assert_optimum(topo, BLINK_SENDRECV, 0, 2, 4.0);
    assert_int_equal(try_first(topo, BLINK_GATHER, BLINK_ALGORITHM_TREES, 3, 0, 0, &plan),
                     BLINK_ERR_UNREACHABLE);
    assert_non_null(strstr(blink_error_text(), "rank 1 (g1) to rank 0 (g0)"));
    topo_destroy(topo);
}

static void test_sendrecv_to_oneself_moves_nothing(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_AUTO, BLINK_ALGORITHM_TREES,
                                                   BLINK_ALGORITHM_ONE_HOP};
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        plan_t *plan = NULL;
        assert_int_equal(try_first(topo, BLINK_SENDRECV, algorithms[i], 8, 3, 3, &plan), BLINK_OK);
        assert_true(plan->rate_GBps <= 0.0 && plan->bound_GBps <= 0.0);
        assert_int_equal(plan_tree_count(plan), 0);
        check_lanes(topo, plan);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_one_rank_moves_nothing(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    for (size_t i = 0; i < ROUTED; i++) {
        plan_t *plan = NULL;
        assert_int_equal(try_first(topo, routed[i], BLINK_ALGORITHM_TREES, 1, 0, 0, &plan), BLINK_OK);
        assert_int_equal(plan->channel_count, 0);
        check_lanes(topo, plan);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* ---- how it is stored ---- */

static void test_switched_boxes_get_a_channel_per_switch(void **state)
{
    (void)state;
    topo_t *topo = load("dgx2");
    for (size_t i = 0; i + 1 < ROUTED; i++) {
        plan_t *stored = route_all(topo, routed[i], 0, 0), *plan = NULL;
        assert_int_equal(plan_expand(topo, stored, &plan), BLINK_OK);
        assert_int_equal(plan->channel_count, 6);
        for (uint32_t c = 0; c < plan->channel_count; c++)
            assert_int_equal(plan->channels[c].part_count, routed[i] == BLINK_ALLTOALL ? 256 : 16);
        plan_destroy(plan);
        plan_destroy(stored);
    }
    topo_destroy(topo);
}

/* Every other rank's block comes to gpu0 of the DGX-1V: seven blocks, six links, and few routes more. */
static void test_routes_are_few_and_short(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    plan_t *gather = route_all(topo, BLINK_GATHER, 0, 0), *alltoall = route_all(topo, BLINK_ALLTOALL, 0, 0);
    assert_in_range(plan_tree_count(gather), 7, 10);
    assert_in_range(plan_depth(gather), 2, 3);
    assert_in_range(plan_tree_count(alltoall), 56, 64);
    assert_in_range(plan_depth(alltoall), 2, 3);
    plan_destroy(gather);
    plan_destroy(alltoall);
    topo_destroy(topo);
}

static void test_repeated_hosts_are_planned_as_templates(void **state)
{
    (void)state;
    topo_t *topo = load("4xdgx1v");
    for (size_t i = 0; i < ROUTED; i++) {
        plan_t *plan = route_all(topo, routed[i], 0, 9);
        check_plan(topo, plan);
        assert_true(plan->rate_GBps >= 0.99 * plan->bound_GBps);
        if (routed[i] == BLINK_ALLTOALL)
            assert_true(plan->symmetry_count > 0);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* PCIe adds 11 GB/s to NVLink's 150, over many equal ways: the optimum as the program finds it has twelve. */
static void test_routes_that_others_can_stand_in_for_are_dropped(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = route_all(topo, BLINK_SENDRECV, 0, 1);
    check_plan(topo, plan);
    assert_in_range(plan_tree_count(plan), 7, 10);
    assert_true(plan->rate_GBps >= 0.998 * plan->bound_GBps);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* 23 ranks on 2 whole hosts and one less a gpu: the two may be swapped, the 13 idle hosts count for nothing.
 */
static void test_idle_hosts_make_no_templates(void **state)
{
    (void)state;
    topo_t *topo = load("16xdgx1v");
    plan_t *plan = NULL;
    assert_int_equal(try_first(topo, BLINK_ALLTOALL, BLINK_ALGORITHM_TREES, 23, 0, 0, &plan), BLINK_OK);
    check_plan(topo, plan);
    assert_true(plan->rate_GBps >= 0.99 * plan->bound_GBps);
    assert_int_equal(plan_image_count(plan), 2);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- many ranks ---- */

/* 16 hosts of 16 have 256 ranks: 240 of 256 blocks of each leave its host by a NIC of 1 GB/s. One route for
 * each pair, of one hop, and all of them in few channels. */
static void test_alltoall_of_many_ranks_is_scheduled_and_fills_every_nic(void **state)
{
    (void)state;
    const uint32_t devices[16] = {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16};
    topo_t *topo = hand_hosts(devices, 16);
    plan_t *plan = route_all(topo, BLINK_ALLTOALL, 0, 0);
    assert_close(plan->rate_GBps, 256.0 * 256 / (16 * 240));
    assert_close(plan->bound_GBps, plan->rate_GBps);
    assert_int_equal(plan_tree_count(plan), 256 * 255);
    assert_int_equal(plan_depth(plan), 1);
    assert_true(plan_image_count(plan) * plan->channel_count <= 256);
    check_lanes_of_hosts(topo, plan);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Hosts of unequal size have no symmetry as a whole, or small ones. The largest host's NIC limits. */
static void test_alltoall_of_many_unequal_hosts_is_scheduled(void **state)
{
    (void)state;
    const uint32_t devices[7] = {48, 16, 16, 16, 16, 16, 5};
    topo_t *topo = hand_hosts(devices, 7);
    plan_t *plan = route_all(topo, BLINK_ALLTOALL, 0, 0);
    assert_close(plan->rate_GBps, 133.0 * 133 / (48 * 85));
    assert_close(plan->bound_GBps, plan->rate_GBps);
    check_lanes_of_hosts(topo, plan);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Within a DGX-1 not all gpus are joined by NVLink: some routes have two hops. */
static void test_alltoall_of_many_ranks_relays_within_hosts(void **state)
{
    (void)state;
    topo_t *topo = load("17xdgx1v");
    plan_t *plan = route_all(topo, BLINK_ALLTOALL, 0, 0);
    assert_int_equal(plan_depth(plan), 2);
    assert_true(plan->rate_GBps >= 0.99 * plan->bound_GBps);
    assert_true(plan_image_count(plan) * plan->channel_count <= 136);
    check_lanes_of_hosts(topo, plan);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* A ring, and six links more from every gpu to gpus at random, or a link from every gpu to every other; each
 * of a capacity of its own, over `orders` of ten. */
static topo_t *roll_unequal(uint32_t gpus, bool complete, double orders)
{
    dice_t dice = {gpus};
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    bool joined[128][128] = {{false}};
    char id[2][16];
    assert_int_equal(topo_build_create("unequal", "dice", &builder), BLINK_OK);
    for (uint32_t i = 0; i < gpus; i++) {
        snprintf(id[0], sizeof(id[0]), "n%u", i);
        assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = id[0], .kind = TOPO_DEVICE}),
                         BLINK_OK);
    }
    for (uint32_t i = 0; i < (complete ? gpus : 7) * gpus; i++) {
        uint32_t from = i % gpus,
                 to = (from + 1 + (complete || i < gpus ? i / gpus : roll(&dice, gpus))) % gpus;
        if (from == to || joined[from][to])
            continue;
        joined[from][to] = joined[to][from] = true;
        snprintf(id[0], sizeof(id[0]), "n%u", from);
        snprintf(id[1], sizeof(id[1]), "n%u", to);
        assert_int_equal(topo_build_link(builder, id[0], id[1], TOPO_NVLINK,
                                         pow(10.0, orders * roll(&dice, 1001) / 1000.0), 1, 1.0, true),
                         BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static void check_unequal(uint32_t gpus, bool complete, double orders, blink_collective_t collective)
{
    topo_t *topo = roll_unequal(gpus, complete, orders);
    plan_t *plan = route_all(topo, collective, 0, 1);
    check_plan(topo, plan);
    if (plan->rate_GBps < 0.99 * plan->bound_GBps)
        fail_msg("%s, %u gpus, %g orders: %g of %g", blink_name_collective(collective), gpus, orders,
                 plan->rate_GBps, plan->bound_GBps);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_unequal_links_are_filled_near_the_bound(void **state)
{
    (void)state;
    check_unequal(16, true, 3.0, BLINK_SENDRECV);
    check_unequal(33, false, 6.0, BLINK_ALLTOALL);
    check_unequal(34, true, 9.0, BLINK_ALLTOALL); /* the program goes on from what balancing has */
    check_unequal(52, true, 2.0, BLINK_ALLTOALL); /* here and below there are too many pairs for one */
    check_unequal(97, false, 1.0, BLINK_ALLTOALL);
}

/* ---- other algorithms' routes ---- */

static void test_routes_of_few_hops_have_the_same_bound(void **state)
{
    (void)state;
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_ONE_HOP, BLINK_ALGORITHM_BINOMIAL};
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < 2 * ROUTED; i++) {
        plan_t *plan = NULL, *optimal = route_all(topo, routed[i / 2], 2, 5);
        blink_result_t result = try_first(topo, routed[i / 2], algorithms[i % 2], 8, 2, 5, &plan);
        bool does = i % 2 == 0 || routed[i / 2] == BLINK_GATHER || routed[i / 2] == BLINK_SCATTER;
        assert_int_equal(result, does ? BLINK_OK : BLINK_ERR_UNSUPPORTED);
        if (does) {
            check_plan(topo, plan);
            assert_close(plan->bound_GBps, optimal->bound_GBps);
        }
        plan_destroy(plan);
        plan_destroy(optimal);
    }
    topo_destroy(topo);
}

/* ---- capacities six orders apart ---- */

/* A wide and a narrow rank: the narrow one decides, though the wide one is seen first. */
static void test_narrow_ranks_are_not_lost_beside_wide_ones(void **state)
{
    (void)state;
    topo_t *topo = parse(GPU("g0") "," GPU("g1") "," GPU("g2") "," GPU("g3"),
                         LINK("g0", "g1", "1000") "," LINK("g0", "g2", "0.001") "," LINK(
                             "g1", "g2", "0.0015") "," LINK("g1", "g3", "1000"));
    assert_optimum(topo, BLINK_GATHER, 0, 0, 0.01);
    assert_optimum(topo, BLINK_SCATTER, 0, 0, 0.01);
    assert_optimum(topo, BLINK_ALLTOALL, 0, 0, 16.0 * 0.0025 / 3);
    assert_optimum(topo, BLINK_SENDRECV, 3, 2, 0.0025);
    topo_destroy(topo);
}

/* Every capacity anything over six orders; one-way links, backplanes, a gpu or two that are no ranks. */
static topo_t *roll_wild_topology(dice_t *dice)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    uint32_t gpus = 3 + roll(dice, 6), nodes = gpus + roll(dice, 4), sparse = 1 + roll(dice, 3);
    char id[2][16];
    assert_int_equal(topo_build_create("wild", "dice", &builder), BLINK_OK);
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(id[0], sizeof(id[0]), "n%u", i);
        double total_GBps =
            i >= gpus && roll(dice, 3) == 0 ? pow(10.0, (double)roll(dice, 6001) / 1000.0 - 3.0) : 0.0;
        topo_node_t node = {
            .id = id[0], .kind = i < gpus ? TOPO_DEVICE : TOPO_SWITCH, .total_GBps = total_GBps};
        assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
    }
    for (uint32_t i = 0; i < nodes * nodes; i++) {
        uint32_t from = i / nodes, to = i % nodes;
        if (to >= from || roll(dice, sparse + 1) == 0)
            continue;
        snprintf(id[0], sizeof(id[0]), "n%u", from);
        snprintf(id[1], sizeof(id[1]), "n%u", to);
        assert_int_equal(topo_build_link(builder, id[0], id[1], TOPO_NVLINK,
                                         pow(10.0, (double)roll(dice, 6001) / 1000.0 - 3.0), 1, 1.0,
                                         roll(dice, 5) != 0),
                         BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static bool route_at_random(dice_t *dice, const topo_t *topo, blink_collective_t collective)
{
    uint32_t count = topo->gpu_count - roll(dice, 2), root = roll(dice, count);
    plan_t *plan = NULL;
    blink_result_t result = try_first(topo, collective, BLINK_ALGORITHM_TREES, count, root,
                                      (root + 1 + roll(dice, count - 1)) % count, &plan);
    if (result == BLINK_ERR_UNREACHABLE)
        return false;
    if (result != BLINK_OK)
        fail_msg("%s: %s", blink_name_collective(collective), blink_error_text());
    check_plan(topo, plan);
    if (plan->rate_GBps < 0.99 * plan->bound_GBps)
        fail_msg("%s: %g of %g", blink_name_collective(collective), plan->rate_GBps, plan->bound_GBps);
    check_lanes(topo, plan);
    plan_destroy(plan);
    return true;
}

static void test_bottlenecks_six_orders_apart_are_routed_near_the_bound(void **state)
{
    (void)state;
    dice_t dice = {5}; /* its topologies include one on which an ill-scaled program does not end */
    uint32_t routes = 0, topologies = 200;
    for (uint32_t i = 0; i < topologies; i++) {
        topo_t *topo = roll_wild_topology(&dice);
        for (size_t j = 0; j < ROUTED; j++)
            routes += route_at_random(&dice, topo, routed[j]);
        topo_destroy(topo);
    }
    assert_in_range(routes, 2 * topologies, 4 * topologies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sendrecv_uses_every_link_of_its_ends),
        cmocka_unit_test(test_sendrecv_relays_through_ranks),
        cmocka_unit_test(test_gather_and_scatter_fill_the_roots_links),
        cmocka_unit_test(test_alltoall_behind_switches_fills_every_port),
        cmocka_unit_test(test_alltoall_on_a_ring_splits_the_far_pairs),
        cmocka_unit_test(test_backplane_limits_routes),
        cmocka_unit_test(test_unequal_parallel_switches_are_both_filled),
        cmocka_unit_test(test_gpus_that_are_no_ranks_carry_nothing),
        cmocka_unit_test(test_only_the_collectives_own_pairs_must_be_joined),
        cmocka_unit_test(test_sendrecv_to_oneself_moves_nothing),
        cmocka_unit_test(test_one_rank_moves_nothing),
        cmocka_unit_test(test_switched_boxes_get_a_channel_per_switch),
        cmocka_unit_test(test_routes_are_few_and_short),
        cmocka_unit_test(test_repeated_hosts_are_planned_as_templates),
        cmocka_unit_test(test_routes_that_others_can_stand_in_for_are_dropped),
        cmocka_unit_test(test_idle_hosts_make_no_templates),
        cmocka_unit_test(test_alltoall_of_many_ranks_is_scheduled_and_fills_every_nic),
        cmocka_unit_test(test_alltoall_of_many_unequal_hosts_is_scheduled),
        cmocka_unit_test(test_alltoall_of_many_ranks_relays_within_hosts),
        cmocka_unit_test(test_unequal_links_are_filled_near_the_bound),
        cmocka_unit_test(test_routes_of_few_hops_have_the_same_bound),
        cmocka_unit_test(test_narrow_ranks_are_not_lost_beside_wide_ones),
        cmocka_unit_test(test_bottlenecks_six_orders_apart_are_routed_near_the_bound),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
