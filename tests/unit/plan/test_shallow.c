/*
 * Trees for small payloads: they are whole, as shallow as can be, and make AUTO at least as fast as NCCL's
 * and Blink's plans, which therefore need not contend.
 */
#include "bench/rivals.h"
#include "plan/lane/lane.h"
#include "plan_checks.h"
#include "prove/verify.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST, BLINK_REDUCE,
                                                 BLINK_ALLGATHER, BLINK_REDUCESCATTER};
#define COLLECTIVE_COUNT (sizeof(collectives) / sizeof(collectives[0]))

/* ---- plans ---- */

static plan_t *make_shallow_within(const topo_t *topo, blink_collective_t collective, uint32_t devices,
                                   uint64_t bytes, double plan_seconds)
{
    uint32_t ranks[RANKS_MAX];
    plan_t *plan = NULL;
    plan_request_t request = {.collective = collective,
                              .algorithm = BLINK_ALGORITHM_SHALLOW_TREES,
                              .rank_node = ranks,
                              .rank_count = rival_set_ranks(topo, devices, ranks),
                              .bytes = bytes,
                              .plan_seconds = plan_seconds};
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    return plan;
}

static plan_t *make_shallow(const topo_t *topo, blink_collective_t collective, uint32_t devices,
                            uint64_t bytes)
{
    return make_shallow_within(topo, collective, devices, bytes, 0.0);
}

static void verify_lanes(const topo_t *topo, const plan_t *plan)
{
    lane_program_t *program = NULL;
    lane_verify_options_t options = {.chunks = 3, .slots = 1};
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    if (lane_verify(program, &options) != BLINK_OK)
        fail_msg("%s: %s", blink_name_collective(plan->collective), blink_error_text());
    lane_program_destroy(program);
}

static void test_shallow_trees_are_whole_however_late_it_is(void **state)
{
    (void)state;
    for (const char *const *name = topo_builtin_names(); *name; name++) {
        topo_t *topo = load(*name);
        for (size_t i = 0; i < COLLECTIVE_COUNT; i++) {
            plan_t *plan =
                make_shallow_within(topo, collectives[i], (1u << topo->gpu_count) - 1u, 64 * KIB, 1e-9);
            assert_true(plan->channel_count > 0);
            check_plan(topo, plan);
            plan_destroy(plan);
        }
        topo_destroy(topo);
    }
}

static void test_shallow_trees_are_whole_on_every_built_in(void **state)
{
    static const uint64_t bytes[] = {64, 64 * KIB, 4 * MIB};
    (void)state;
    for (const char *const *name = topo_builtin_names(); *name; name++) {
        topo_t *topo = load(*name);
        for (size_t i = 0; i < COLLECTIVE_COUNT * sizeof(bytes) / sizeof(bytes[0]); i++) {
            plan_t *plan = make_shallow(topo, collectives[i % COLLECTIVE_COUNT], (1u << topo->gpu_count) - 1u,
                                        bytes[i / COLLECTIVE_COUNT]);
            check_plan(topo, plan);
            verify_lanes(topo, plan);
            plan_destroy(plan);
        }
        topo_destroy(topo);
    }
}

static void test_a_small_payload_takes_the_fewest_hops_over_nvlink(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *chain = make_shallow(topo, BLINK_ALLREDUCE, 1u << 1 | 1u << 2 | 1u << 6, 64); /* 1 - 2 - 6 */
    plan_t *all = make_shallow(topo, BLINK_BROADCAST, 0xff, 64);
    (void)state;
    assert_int_equal(plan_depth(chain), 2);
    assert_int_equal(chain->channels[0].parts[0].root, 1);
    assert_int_equal(plan_depth(all), 2);
    for (uint32_t i = 0; i < all->path_count; i++)
        assert_int_equal(all->paths[i].link_count, 1);
    plan_destroy(chain);
    plan_destroy(all);
    topo_destroy(topo);
}

static void test_ranks_that_nvlink_does_not_join_use_every_link(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = make_shallow(topo, BLINK_ALLREDUCE, 1u << 0 | 1u << 1 | 1u << 7, 64); /* 0 - 1, and 7 */
    (void)state;
    check_plan(topo, plan);
    verify_lanes(topo, plan);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_larger_payloads_get_deeper_trees_and_higher_rates(void **state)
{
    static const uint64_t bytes[] = {64, 256 * KIB, 64 * MIB};
    topo_t *topo = load("dgx1v");
    double rate_GBps = 0.0;
    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        plan_t *plan = make_shallow(topo, BLINK_BROADCAST, 0xff, bytes[i]);
        assert_true(plan->rate_GBps > rate_GBps);
        rate_GBps = plan->rate_GBps;
        plan_destroy(plan);
    }
    assert_true(rate_GBps > 0.95 * 150.0);
    topo_destroy(topo);
}

static void test_routes_are_no_trees(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_request_t request = {.collective = BLINK_GATHER,
                              .algorithm = BLINK_ALGORITHM_SHALLOW_TREES,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count};
    plan_t *plan = NULL;
    (void)state;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_ERR_UNSUPPORTED);
    assert_non_null(strstr(blink_error_text(), "gather has no trees"));
    topo_destroy(topo);
}

/* ---- against what others would do ---- */

static void check_point(const topo_t *topo, plan_request_t request, const plan_choice_t *choice,
                        uint64_t bytes, double slack)
{
    rival_t ours = rival_of_choice(choice, bytes), theirs;
    request.bytes = bytes;
    assert_int_equal(rival_of_baselines(topo, &request, &theirs), BLINK_OK);
    if (ours.us > (1.0 + slack) * theirs.us)
        fail_msg("%s, %u ranks from %s, %s of %llu: %.2f us (%s), but %s takes %.2f", topo->name,
                 request.rank_count, topo->nodes[request.rank_node[0]].id,
                 blink_name_collective(request.collective), (unsigned long long)bytes, ours.us,
                 blink_name_algorithm(ours.algorithm), blink_name_algorithm(theirs.algorithm), theirs.us);
}

static void check_set(const topo_t *topo, uint32_t devices, const uint64_t *bytes, size_t sizes, double slack)
{
    uint32_t ranks[RANKS_MAX];
    plan_request_t request = {
        .rank_node = ranks, .rank_count = rival_set_ranks(topo, devices, ranks), .bytes = KIB};
    for (size_t i = 0; i < COLLECTIVE_COUNT; i++) {
        plan_choice_t choice;
        request.collective = collectives[i];
        assert_int_equal(plan_choose(topo, &request, &choice), BLINK_OK);
        for (size_t s = 0; s < sizes; s++)
            check_point(topo, request, &choice, bytes[s], slack);
        plan_choice_fini(&choice);
    }
}

static void test_nobody_beats_auto_on_connected_sets_of_a_dgx1(void **state)
{
    static const char *const names[] = {"dgx1p", "dgx1v", "dgx1v_hybrid"};
    static const uint64_t bytes[] = {256, 16 * KIB, 256 * KIB, 16 * MIB};
    (void)state;
    for (size_t t = 0; t < sizeof(names) / sizeof(names[0]); t++) {
        topo_t *topo = load(names[t]);
        /* Every seventh set, another seventh on each machine, and one that was 2.8 times slower once. */
        for (uint32_t devices = 3 + (uint32_t)t; devices < 256; devices += 7)
            if ((devices & (devices - 1)) && rival_set_connected(topo, devices))
                check_set(topo, devices, bytes, sizeof(bytes) / sizeof(bytes[0]), 2e-3);
        check_set(topo, 1u << 1 | 1u << 2 | 1u << 6, bytes, sizeof(bytes) / sizeof(bytes[0]), 2e-3);
        topo_destroy(topo);
    }
}

static void test_nobody_beats_auto_on_a_whole_machine(void **state)
{
    static const char *const names[] = {"dgx2",  "dgx_a100",    "dgx_h100", "pcie4",
                                        "pcie8", "p3.16xlarge", "gh200x4"};
    static const uint64_t bytes[] = {256, 16 * KIB, 1 * MIB, 256 * MIB};
    (void)state;
    for (size_t t = 0; t < sizeof(names) / sizeof(names[0]); t++) {
        topo_t *topo = load(names[t]);
        check_set(topo, (1u << topo->gpu_count) - 1u, bytes, sizeof(bytes) / sizeof(bytes[0]), 2e-3);
        topo_destroy(topo);
    }
}

static void test_auto_plans_no_baseline_but_rings(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .bytes = 4 * KIB};
    plan_choice_t choice;
    (void)state;
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_OK);
    for (uint32_t i = 0; i < choice.count; i++) {
        assert_int_not_equal(choice.candidates[i].algorithm, BLINK_ALGORITHM_BLINK);
        assert_int_not_equal(choice.candidates[i].algorithm, BLINK_ALGORITHM_DOUBLE_BINARY_TREE);
    }
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shallow_trees_are_whole_on_every_built_in),
        cmocka_unit_test(test_shallow_trees_are_whole_however_late_it_is),
        cmocka_unit_test(test_a_small_payload_takes_the_fewest_hops_over_nvlink),
        cmocka_unit_test(test_ranks_that_nvlink_does_not_join_use_every_link),
        cmocka_unit_test(test_larger_payloads_get_deeper_trees_and_higher_rates),
        cmocka_unit_test(test_routes_are_no_trees),
        cmocka_unit_test(test_nobody_beats_auto_on_connected_sets_of_a_dgx1),
        cmocka_unit_test(test_nobody_beats_auto_on_a_whole_machine),
        cmocka_unit_test(test_auto_plans_no_baseline_but_rings),
    };
    return cmocka_run_group_tests_name("shallow", tests, NULL, NULL);
}
