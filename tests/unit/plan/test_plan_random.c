/*
 * Properties of plans on random topologies: gpus, relays and links at random, one way or both, capacities
 * over six orders of magnitude. Every plan is whole, verified as lanes, and near a bound that other code
 * proves.
 */
#include "plan_checks.h"

#include "plan/lane/lane.h"
#include "prove/verify.h"

#define TOPOLOGIES 150u

/* Mostly round numbers, as hardware has; else anything over six orders. */
static double roll_GBps(dice_t *dice)
{
    static const double usual[] = {5.0, 10.0, 12.0, 12.5, 20.0, 25.0, 50.0};
    if (roll(dice, 3) != 0)
        return usual[roll(dice, sizeof(usual) / sizeof(usual[0]))];
    return pow(10.0, (double)roll(dice, 6001) / 1000.0 - 3.0);
}

static topo_t *roll_topology(dice_t *dice)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    uint32_t gpus = 2 + roll(dice, 6), relays = roll(dice, 4), nodes = gpus + relays;
    uint32_t sparse = 1 + roll(dice, 4);
    char id[2][16];
    assert_int_equal(topo_build_create("random", "dice", &builder), BLINK_OK);
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(id[0], sizeof(id[0]), "n%u", i);
        topo_node_t node = {.id = id[0],
                            .kind = i < gpus ? TOPO_DEVICE : TOPO_SWITCH,
                            .total_GBps = i >= gpus && roll(dice, 3) == 0 ? roll_GBps(dice) : 0.0};
        assert_int_equal(topo_build_node(builder, &node), BLINK_OK);
    }
    for (uint32_t i = 0; i < nodes; i++)
        for (uint32_t j = 0; j < i; j++) {
            if (roll(dice, sparse + 1) == 0)
                continue;
            bool back = roll(dice, 2) == 0;
            snprintf(id[back], sizeof(id[0]), "n%u", i);
            snprintf(id[!back], sizeof(id[0]), "n%u", j);
            assert_int_equal(topo_build_link(builder, id[0], id[1], TOPO_NVLINK, roll_GBps(dice),
                                             1 + roll(dice, 2), 1.0, roll(dice, 4) != 0),
                             BLINK_OK);
        }
    if (topo_build_finish(builder, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    topo_build_destroy(builder);
    return topo;
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

/* Plan on a random subset; returns whether its ranks could be joined. */
static bool plan_at_random(dice_t *dice, const topo_t *topo, blink_collective_t collective)
{
    uint32_t nodes[RANKS_MAX], count;
    do {
        count = choose(topo, roll(dice, 1u << topo->gpu_count), nodes);
    } while (count < 2);
    plan_request_t request = {
        .collective = collective, .rank_node = nodes, .rank_count = count, .root = roll(dice, count)};
    request.peer = (request.root + 1 + roll(dice, count - 1)) % count;
    plan_t *plan = NULL;
    blink_result_t result = plan_create(topo, &request, &plan);
    if (result == BLINK_ERR_UNREACHABLE)
        return false;
    if (result != BLINK_OK)
        fail_msg("%s: %s", blink_name_collective(collective), blink_error_text());
    check_plan(topo, plan);
    if (plan->rate_GBps < 0.99 * plan->bound_GBps)
        fail_msg("%s: %f of %f", blink_name_collective(collective), plan->rate_GBps, plan->bound_GBps);
    verify_lanes(topo, plan);
    plan_destroy(plan);
    return true;
}

static void try_collective(blink_collective_t collective)
{
    dice_t dice = {collective + 1u};
    uint32_t planned = 0;
    for (uint32_t i = 0; i < TOPOLOGIES; i++) {
        topo_t *topo = roll_topology(&dice);
        planned += plan_at_random(&dice, topo, collective);
        topo_destroy(topo);
    }
    assert_in_range(planned, TOPOLOGIES / 3, TOPOLOGIES);
}

/* Shallow trees promise no rate, only to be whole. */
static void test_random_shallow_trees_are_whole(void **state)
{
    dice_t dice = {99};
    uint32_t nodes[RANKS_MAX], planned = 0;
    (void)state;
    for (uint32_t i = 0; i < TOPOLOGIES; i++) {
        topo_t *topo = roll_topology(&dice);
        plan_request_t request = {.collective = BLINK_ALLREDUCE + roll(&dice, BLINK_REDUCESCATTER + 1u),
                                  .algorithm = BLINK_ALGORITHM_SHALLOW_TREES,
                                  .rank_node = nodes,
                                  .rank_count = choose(topo, (1u << topo->gpu_count) - 1u, nodes),
                                  .bytes = 1u << roll(&dice, 30)};
        plan_t *plan = NULL;
        blink_result_t result = plan_create(topo, &request, &plan);
        if (result == BLINK_OK) {
            check_plan(topo, plan);
            verify_lanes(topo, plan);
            plan_destroy(plan);
            planned++;
        } else {
            assert_int_equal(result, BLINK_ERR_UNREACHABLE);
        }
        topo_destroy(topo);
    }
    assert_in_range(planned, TOPOLOGIES / 3, TOPOLOGIES);
}

static void test_random_allreduce_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_ALLREDUCE);
}

static void test_random_broadcast_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_BROADCAST);
}

static void test_random_reduce_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_REDUCE);
}

static void test_random_allgather_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_ALLGATHER);
}

static void test_random_reducescatter_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_REDUCESCATTER);
}

static void test_random_gather_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_GATHER);
}

static void test_random_scatter_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_SCATTER);
}

static void test_random_alltoall_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_ALLTOALL);
}

static void test_random_sendrecv_is_near_its_bound(void **state)
{
    (void)state;
    try_collective(BLINK_SENDRECV);
}

/* Every two of 24 devices joined, each way by a link of its own: hard to plan well. */
static topo_t *make_complete(void)
{
    dice_t dice = {24};
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    char id[24][8];
    assert_int_equal(topo_build_create("complete", "dice", &builder), BLINK_OK);
    for (uint32_t i = 0; i < 24; i++) {
        snprintf(id[i], sizeof(id[i]), "g%u", i);
        assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = id[i], .kind = TOPO_DEVICE}),
                         BLINK_OK);
    }
    for (uint32_t i = 0; i < 24; i++)
        for (uint32_t j = 0; j < 24; j++)
            if (i != j)
                assert_int_equal(topo_build_link(builder, id[i], id[j], TOPO_NVLINK, 1.0 + roll(&dice, 1000),
                                                 1, 1.0, false),
                                 BLINK_OK);
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static void test_a_plan_is_whole_whenever_time_is_over(void **state)
{
    (void)state;
    topo_t *topo = make_complete();
    for (blink_collective_t collective = BLINK_ALLREDUCE; collective <= BLINK_SENDRECV; collective++)
        for (double seconds = 1e-9; seconds < 0.1; seconds *= 1e3) {
            plan_t *plan = NULL;
            plan_request_t request = {.collective = collective,
                                      .rank_node = topo->gpus,
                                      .rank_count = topo->gpu_count,
                                      .peer = 1,
                                      .plan_seconds = seconds};
            if (plan_create(topo, &request, &plan) != BLINK_OK)
                fail_msg("%s: %s", blink_name_collective(collective), blink_error_text());
            check_plan(topo, plan);
            if (seconds < 1e-6)
                verify_lanes(topo, plan);
            plan_destroy(plan);
        }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_allreduce_is_near_its_bound),
        cmocka_unit_test(test_random_shallow_trees_are_whole),
        cmocka_unit_test(test_random_broadcast_is_near_its_bound),
        cmocka_unit_test(test_random_reduce_is_near_its_bound),
        cmocka_unit_test(test_random_allgather_is_near_its_bound),
        cmocka_unit_test(test_random_reducescatter_is_near_its_bound),
        cmocka_unit_test(test_random_gather_is_near_its_bound),
        cmocka_unit_test(test_random_scatter_is_near_its_bound),
        cmocka_unit_test(test_random_alltoall_is_near_its_bound),
        cmocka_unit_test(test_random_sendrecv_is_near_its_bound),
        cmocka_unit_test(test_a_plan_is_whole_whenever_time_is_over),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
