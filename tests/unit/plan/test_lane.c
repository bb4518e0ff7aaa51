/*
 * Compiled lane programs: every plan of real topologies and plans made by hand for every collective are
 * proved right, and single random mutations of them are proved wrong.
 */
#include "error.h"
#include "hand_plan.h"
#include "mutants.h"
#include "names.h"
#include "plan/lane/lane.h"
#include "prove/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GPUS = 8, ALL = 0xff };

/* Plans that prove() makes with an algorithm. */
enum { BY_RING = 3, BY_TREES = 6 };

typedef struct request {
    const char *topology; /* for texts */
    uint32_t gpu_mask;
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root;
} request_t;

/* Plan and compile; NULL if these ranks cannot be joined in this way. */
static lane_program_t *compile(const topo_t *topo, const request_t *request)
{
    uint32_t nodes[GPUS], count = 0;
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        if (request->gpu_mask >> gpu & 1)
            nodes[count++] = topo->gpus[gpu];
    plan_request_t wanted = {.collective = request->collective,
                             .algorithm = request->algorithm,
                             .rank_node = nodes,
                             .rank_count = count,
                             .root = request->root};
    plan_t *plan;
    lane_program_t *program;
    blink_result_t result = plan_create(topo, &wanted, &plan);
    if (result == BLINK_ERR_UNREACHABLE)
        return NULL;
    if (result != BLINK_OK)
        fail_msg("%s, gpus %#x: %s", request->topology, request->gpu_mask, blink_error_text());
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    plan_destroy(plan);
    return program;
}

/* Prove at one and two slots, in place and not, with every slot used again. */
static void assert_right(const lane_program_t *program, const request_t *request)
{
    for (uint32_t bits = 0; bits < 4; bits++) {
        uint32_t slots = 1 + (bits & 1);
        lane_verify_options_t options = {2 * slots + 1, slots, bits & 2};
        if (lane_verify(program, &options) != BLINK_OK)
            fail_msg("%s, gpus %#x, collective %d, algorithm %d, root %u, %u slots%s: %s", request->topology,
                     request->gpu_mask, (int)request->collective, (int)request->algorithm, request->root,
                     slots, options.in_place ? ", in place" : "", blink_error_text());
    }
}

/* All collectives that the algorithm does over one set of gpus. Returns how many of them could be planned:
 * all or none. */
static uint32_t prove(const topo_t *topo, const char *topology, uint32_t gpu_mask,
                      blink_algorithm_t algorithm)
{
    uint32_t last = (uint32_t)__builtin_popcount(gpu_mask) - 1;
    const request_t requests[] = {
        {topology, gpu_mask, BLINK_ALLREDUCE, algorithm, 0},
        {topology, gpu_mask, BLINK_BROADCAST, algorithm, 0},
        {topology, gpu_mask, BLINK_BROADCAST, algorithm, last},
        {topology, gpu_mask, BLINK_REDUCE, algorithm, last},
        {topology, gpu_mask, BLINK_ALLGATHER, algorithm, 0},
        {topology, gpu_mask, BLINK_REDUCESCATTER, algorithm, 0},
    };
    uint32_t planned = 0;
    for (size_t i = 0; i < (algorithm == BLINK_ALGORITHM_RING ? BY_RING : BY_TREES); i++) {
        lane_program_t *program = compile(topo, &requests[i]);
        if (!program)
            continue;
        assert_right(program, &requests[i]);
        lane_program_destroy(program);
        planned++;
    }
    return planned;
}

static topo_t *load(const char *name)
{
    topo_t *topo;
    if (topo_load(name, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

/* The link's image if gpus 0, 1 and 2 change places in a circle. */
static uint32_t turned_link(const topo_t *topo, uint32_t link)
{
    uint32_t ends[2] = {topo->links[link].from, topo->links[link].to};
    for (uint32_t end = 0; end < 2; end++) {
        for (uint32_t gpu = 0; gpu < 3; gpu++) {
            if (ends[end] == topo->gpus[gpu]) {
                ends[end] = topo->gpus[(gpu + 1) % 3];
                break;
            }
        }
    }
    return topo_find_link(topo, ends[0], ends[1]);
}

/* Whether links from gpu to gpu alone join the set. */
static bool is_connected(const topo_t *topo, uint32_t gpu_mask)
{
    uint32_t seen = gpu_mask & (~gpu_mask + 1), before = 0;
    while (seen != before) {
        before = seen;
        for (uint32_t from = 0; from < GPUS; from++)
            for (uint32_t to = 0; to < GPUS; to++)
                if ((seen >> from & 1) && (gpu_mask >> to & 1) &&
                    topo_find_link(topo, topo->gpus[from], topo->gpus[to]) != TOPO_NONE)
                    seen |= 1u << to;
    }
    return seen == gpu_mask;
}

/* ---- what is compiled is right ---- */

static void test_plans_of_demo_allocations_are_right(void **state)
{
    (void)state;
    /* {0…7}, {0,1,2,3,4,5}, {1,4,5,6}, {0,1,4}, {0,1} and one gpu */
    static const uint32_t masks[] = {ALL, 0x3f, 0x72, 0x13, 0x03, 0x08};
    topo_t *hybrid = load("dgx1v_hybrid");
    topo_t *nvlink = load("dgx1v");
    for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
        assert_int_equal(prove(hybrid, "dgx1v_hybrid", masks[i], BLINK_ALGORITHM_TREES), BY_TREES);
        assert_int_equal(prove(hybrid, "dgx1v_hybrid", masks[i], BLINK_ALGORITHM_RING), BY_RING);
        assert_int_equal(prove(nvlink, "dgx1v", masks[i], BLINK_ALGORITHM_TREES), BY_TREES);
    }
    assert_int_equal(prove(nvlink, "dgx1v", ALL, BLINK_ALGORITHM_RING), BY_RING);
    topo_destroy(hybrid);
    topo_destroy(nvlink);
}

static void test_plans_of_every_connected_allocation_are_right(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    uint32_t rings = 0;
    for (uint32_t mask = 0; mask <= ALL; mask++) {
        if (__builtin_popcount(mask) < 3)
            continue;
        assert_int_equal(prove(topo, "dgx1v", mask, BLINK_ALGORITHM_TREES),
                         is_connected(topo, mask) ? BY_TREES : 0);
        rings += prove(topo, "dgx1v", mask, BLINK_ALGORITHM_RING) > 0;
    }
    assert_true(rings > 0);
    topo_destroy(topo);
}

/* At one slot and at several, with every slot used again. */
static void assert_hand_plan_is_right(const topo_t *topo, uint32_t ranks, blink_collective_t collective,
                                      hand_shape_t shape)
{
    lane_program_t *program = hand_compile(topo, ranks, collective, shape, BLINK_PROTOCOL_SIMPLE);
    for (uint32_t slots = 1; slots <= 3; slots++) {
        for (int in_place = 0; in_place <= has_in_place(collective); in_place++) {
            lane_verify_options_t options = {2 * slots + 1, slots, in_place == 1};
            if (lane_verify(program, &options) != BLINK_OK)
                fail_msg("%s of %u ranks, shape %d, %u slots, in place %d: %s",
                         blink_name_collective(collective), ranks, (int)shape, slots, in_place,
                         blink_error_text());
        }
    }
    lane_program_destroy(program);
}

static void test_every_collective_is_right(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        for (uint32_t ranks = 1; ranks <= GPUS; ranks++) {
            assert_hand_plan_is_right(topo, ranks, hand_collectives[i], APART);
            assert_hand_plan_is_right(topo, ranks, hand_collectives[i], TOGETHER);
        }
    }
    topo_destroy(topo);
}

static bool sends_before_it_relays(const lane_program_t *program, const lane_t *lane)
{
    bool relayed = false;
    for (uint32_t i = lane->step_first; i < lane->step_first + lane->step_count; i++) {
        bool relays = program->operands[program->steps[i].src_first].buffer == LANE_SCRATCH;
        if (relayed && !relays)
            return false;
        relayed = relays;
    }
    return true;
}

static void test_parts_of_a_channel_share_one_lane_per_rank(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    lane_program_t *allgather = hand_compile(topo, GPUS, BLINK_ALLGATHER, TOGETHER, BLINK_PROTOCOL_SIMPLE);
    lane_program_t *alltoall = hand_compile(topo, GPUS, BLINK_ALLTOALL, TOGETHER, BLINK_PROTOCOL_SIMPLE);
    assert_int_equal(allgather->lane_count, GPUS);
    assert_int_equal(alltoall->lane_count, GPUS);
    assert_int_equal(alltoall->part_count, 2 * GPUS * GPUS);
    assert_int_equal(alltoall->depth, 3);
    for (uint32_t i = 0; i < alltoall->lane_count; i++)
        assert_true(sends_before_it_relays(alltoall, &alltoall->lanes[i]));
    lane_program_destroy(allgather);
    lane_program_destroy(alltoall);
    topo_destroy(topo);
}

/* Where the first step of a rank's lane towards the roots writes to. */
static uint32_t first_destination(const lane_program_t *program, uint32_t channel, uint32_t rank)
{
    for (uint32_t i = 0; i < program->lane_count; i++) {
        const lane_t *lane = &program->lanes[i];
        if (lane->channel == channel && lane->rank == rank && lane->phase == LANE_UP)
            return program->operands[program->steps[lane->step_first].dst_first].rank;
    }
    fail_msg("rank %u has no lane in channel %u", rank, channel);
    return PLAN_NONE;
}

/* Else links to one rank wait while those to another one are full. */
static void test_lanes_of_a_rank_begin_with_different_ranks(void **state)
{
    (void)state;
    topo_t *topo = load("gh200x4");
    plan_request_t request = {.collective = BLINK_REDUCESCATTER,
                              .algorithm = BLINK_ALGORITHM_ONE_HOP,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .block_GBps = 10.0};
    plan_t *plan;
    lane_program_t *program;
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    assert_true(program->channel_count >= topo->gpu_count);
    for (uint32_t rank = 0; rank < topo->gpu_count; rank++) {
        uint32_t begun = 0;
        for (uint32_t channel = 0; channel < topo->gpu_count; channel++)
            begun |= UINT32_C(1) << first_destination(program, channel, rank);
        assert_int_equal(__builtin_popcount(begun), topo->gpu_count - 1);
    }
    const lane_verify_options_t options = {5, 2, false};
    if (lane_verify(program, &options) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_what_has_no_form_in_place_is_refused(void **state)
{
    (void)state;
    const lane_verify_options_t in_place = {2, 1, true};
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        lane_program_t *program = hand_compile(topo, 3, hand_collectives[i], APART, BLINK_PROTOCOL_SIMPLE);
        assert_int_equal(lane_verify(program, &in_place),
                         has_in_place(hand_collectives[i]) ? BLINK_OK : BLINK_ERR_INVALID_ARGUMENT);
        lane_program_destroy(program);
    }
    topo_destroy(topo);
}

/* A symmetry of three ranks stands for the channels of all three roots. */
static void test_plan_with_symmetries_compiles_to_all_its_images(void **state)
{
    (void)state;
    topo_t *topo = load("dgx_a100");
    plan_t *plan = hand_plan(topo, 3, BLINK_ALLGATHER, TOGETHER);
    lane_program_t *program = NULL;
    plan->channels[0].part_count = WAYS; /* those of root 0 */
    plan->symmetries = calloc(1, sizeof(*plan->symmetries));
    plan->symmetry_count = 1;
    plan->symmetries[0] =
        (plan_symmetry_t){3, malloc(3 * sizeof(uint32_t)), malloc(topo->link_count * sizeof(uint32_t))};
    for (uint32_t rank = 0; rank < 3; rank++)
        plan->symmetries[0].rank_image[rank] = (rank + 1) % 3;
    for (uint32_t i = 0; i < topo->link_count; i++)
        plan->symmetries[0].link_image[i] = turned_link(topo, i);
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    assert_int_equal(program->channel_count, 3);
    assert_int_equal(lane_verify(program, &(lane_verify_options_t){3, 1, false}), BLINK_OK);
    plan->channels[0].part_count = 3 * WAYS;
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_plan_that_leaves_a_block_behind_is_refused(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = hand_plan(topo, 3, BLINK_GATHER, TOGETHER);
    lane_program_t *program = NULL;
    plan->channels[0].part_count -= WAYS;
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_ERR_INTERNAL);
    assert_string_equal(blink_error_text(), "no channel carries block 2 of 3");
    plan->channels[0].part_count += WAYS;
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- what is mutated is wrong ---- */

static void test_every_mutation_that_matters_is_caught(void **state)
{
    (void)state;
    static const request_t requests[] = {
        {"dgx1v_hybrid", ALL, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
        {"dgx1v_hybrid", ALL, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0},
        {"dgx1v_hybrid", ALL, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 3},
        {"dgx1v_hybrid", 0x72, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
    };
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        lane_program_t *original = compile(topo, &requests[i]);
        mutate(original, requests[i].topology, 20);
        lane_program_destroy(original);
    }
    topo_destroy(topo);
}

static void test_every_mutation_of_every_collective_is_caught(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        for (hand_shape_t shape = APART; shape <= TOGETHER; shape++) {
            lane_program_t *original =
                hand_compile(topo, 5, hand_collectives[i], shape, BLINK_PROTOCOL_SIMPLE);
            mutate(original, blink_name_collective(hand_collectives[i]), 20);
            lane_program_destroy(original);
        }
    }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_of_demo_allocations_are_right),
        cmocka_unit_test(test_plans_of_every_connected_allocation_are_right),
        cmocka_unit_test(test_every_collective_is_right),
        cmocka_unit_test(test_parts_of_a_channel_share_one_lane_per_rank),
        cmocka_unit_test(test_lanes_of_a_rank_begin_with_different_ranks),
        cmocka_unit_test(test_what_has_no_form_in_place_is_refused),
        cmocka_unit_test(test_plan_with_symmetries_compiles_to_all_its_images),
        cmocka_unit_test(test_plan_that_leaves_a_block_behind_is_refused),
        cmocka_unit_test(test_every_mutation_that_matters_is_caught),
        cmocka_unit_test(test_every_mutation_of_every_collective_is_caught),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
