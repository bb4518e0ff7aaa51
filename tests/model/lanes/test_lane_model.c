/*
 * The interpreter of lanes that GPUs run (kernels/lane.cuh, move.cuh), over a memory as weak as a GPU's: what
 * its threads and the host may see in small programs, all of it. And that the walk finds what goes wrong when
 * memory or barriers do less than kernels/platform.cuh asks of them. What goes wrong when a rule of the
 * interpreter is missing, lane_mutants.py asks.
 */
#include "lane_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *wrong_with(lane_world_t world)
{
    static views_result_t result;
    lane_world_walk(&world, &result);
    print_message("shape %d, protocol %d, %u ranks, %u chunks in %u slots%s: %llu states, %llu runs\n",
                  world.shape, world.protocol, world.ranks, world.chunks, world.slots,
                  world.may_abort ? ", abort" : "", (unsigned long long)result.states,
                  (unsigned long long)result.runs);
    if (result.wrong && world.robbery == VIEWS_WHOLE && (world.may_abort || !world.lacks_last))
        print_error("found: %s\n%s", result.wrong, result.trace);
    if (!result.wrong && !world.lacks_last)
        assert_true(result.states > 50); /* the threads have met */
    return result.wrong;
}

static void assert_all_well(const lane_world_t *worlds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_null(wrong_with(worlds[i]));
}

static void test_simple_is_right_whatever_is_seen_when(void **state)
{
    static const lane_world_t worlds[] = {
        {.shape = LANE_CHAIN, .ranks = 2, .chunks = 3, .slots = 2},
        {.shape = LANE_MEETING, .ranks = 2, .chunks = 3, .slots = 2},
        {.shape = LANE_EXCHANGE, .ranks = 2, .chunks = 3, .slots = 2},
        {.shape = LANE_CHAIN, .ranks = 2, .chunks = 3, .slots = 1},
        {.shape = LANE_CHAIN, .ranks = 3, .chunks = 2, .slots = 1},
        {.shape = LANE_MEETING, .ranks = 3, .chunks = 2, .slots = 1},
    };
    (void)state;
    assert_all_well(worlds, COUNT_OF(worlds));
}

static void test_ll_is_right_whatever_is_seen_when(void **state)
{
    static const lane_world_t worlds[] = {
        {.protocol = BLINK_PROTOCOL_LL, .shape = LANE_CHAIN, .ranks = 2, .chunks = 3, .slots = 2},
        {.protocol = BLINK_PROTOCOL_LL, .shape = LANE_CHAIN, .ranks = 3, .chunks = 1, .slots = 1},
        {.protocol = BLINK_PROTOCOL_LL, .shape = LANE_MEETING, .ranks = 2, .chunks = 2, .slots = 1},
        {.protocol = BLINK_PROTOCOL_LL, .shape = LANE_EXCHANGE, .ranks = 2, .chunks = 1, .slots = 1},
    };
    (void)state;
    assert_all_well(worlds, COUNT_OF(worlds));
}

static void test_ll128_is_right_whatever_is_seen_when(void **state)
{
    static const lane_world_t worlds[] = {
        {.protocol = BLINK_PROTOCOL_LL128, .shape = LANE_CHAIN, .ranks = 2, .chunks = 3, .slots = 2},
        {.protocol = BLINK_PROTOCOL_LL128, .shape = LANE_CHAIN, .ranks = 3, .chunks = 1, .slots = 1},
        {.protocol = BLINK_PROTOCOL_LL128, .shape = LANE_MEETING, .ranks = 3, .chunks = 1, .slots = 1},
        {.protocol = BLINK_PROTOCOL_LL128, .shape = LANE_EXCHANGE, .ranks = 2, .chunks = 1, .slots = 1},
    };
    (void)state;
    assert_all_well(worlds, COUNT_OF(worlds));
}

static void test_a_switch_is_right_whatever_is_seen_when(void **state)
{
    static const lane_world_t worlds[] = {
        {.shape = LANE_SWITCHED, .ranks = 2, .chunks = 2, .slots = 1},
        {.shape = LANE_SWITCHED, .ranks = 2, .chunks = 2, .slots = 2},
    };
    (void)state;
    assert_all_well(worlds, COUNT_OF(worlds));
}

static void test_all_lanes_end_after_an_abort_at_any_moment(void **state)
{
    static const lane_world_t worlds[] = {
        {.shape = LANE_CHAIN, .ranks = 3, .chunks = 2, .slots = 1},
        {.shape = LANE_EXCHANGE, .ranks = 2, .chunks = 3, .slots = 2},
        {.shape = LANE_SWITCHED, .ranks = 2, .chunks = 1, .slots = 1},
        {.protocol = BLINK_PROTOCOL_LL, .shape = LANE_CHAIN, .ranks = 2, .chunks = 2, .slots = 1},
        {.protocol = BLINK_PROTOCOL_LL128, .shape = LANE_CHAIN, .ranks = 2, .chunks = 2, .slots = 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(worlds); i++) {
        lane_world_t world = worlds[i];
        world.may_abort = true;
        assert_null(wrong_with(world));
    }
}

static void test_lanes_that_wait_for_one_that_is_lost_end_after_an_abort(void **state)
{
    (void)state;
    for (blink_protocol_t protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        lane_world_t world = {.protocol = protocol, .ranks = 2, .chunks = 2, .slots = 1, .lacks_last = true};
        for (world.shape = LANE_CHAIN; world.shape <= LANE_EXCHANGE; world.shape++) {
            world.may_abort = true;
            assert_null(wrong_with(world));
            world.may_abort = false;
            assert_non_null(wrong_with(world));
        }
    }
}

/* ---- the walk finds what it is for ---- */

static lane_world_t robbed(blink_protocol_t protocol, views_robbery_t robbery, const char *words)
{
    return (lane_world_t){.protocol = protocol,
                          .shape = LANE_CHAIN,
                          .ranks = 2,
                          .chunks = 2,
                          .slots = 1,
                          .may_abort = robbery == VIEWS_VOTES_ALONE,
                          .robbery = robbery,
                          .robbed = words};
}

static void test_simple_needs_all_that_orders_it(void **state)
{
    const blink_protocol_t simple = BLINK_PROTOCOL_SIMPLE;
    (void)state;
    assert_non_null(wrong_with(robbed(simple, VIEWS_RELEASES_NOTHING, "full")));
    assert_non_null(wrong_with(robbed(simple, VIEWS_RELEASES_NOTHING, "free")));
    assert_non_null(wrong_with(robbed(simple, VIEWS_RELEASES_NOTHING, "finished")));
    assert_non_null(wrong_with(robbed(simple, VIEWS_ACQUIRES_NOTHING, NULL)));
    assert_non_null(wrong_with(robbed(simple, VIEWS_COUNTS_UNFENCED, NULL)));
    assert_non_null(wrong_with(robbed(simple, VIEWS_BARRIERS_UNORDERED, NULL)));
    assert_non_null(wrong_with(robbed(simple, VIEWS_VOTES_ALONE, NULL)));
}

static void test_formats_with_flags_need_the_way_back(void **state)
{
    (void)state;
    for (blink_protocol_t protocol = BLINK_PROTOCOL_LL; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        assert_non_null(wrong_with(robbed(protocol, VIEWS_RELEASES_NOTHING, "free")));
        assert_non_null(wrong_with(robbed(protocol, VIEWS_ACQUIRES_NOTHING, NULL)));
        assert_non_null(wrong_with(robbed(protocol, VIEWS_BARRIERS_UNORDERED, NULL)));
        assert_non_null(wrong_with(robbed(protocol, VIEWS_VOTES_ALONE, NULL)));
        assert_null(wrong_with(robbed(protocol, VIEWS_RELEASES_NOTHING, "full"))); /* is not sent */
    }
}

/* Why LL128 is only for links that keep lines whole. */
static void test_ll128_needs_whole_lines_and_votes(void **state)
{
    (void)state;
    assert_non_null(wrong_with(robbed(BLINK_PROTOCOL_LL128, VIEWS_LINES_TORN, NULL)));
    assert_non_null(wrong_with(robbed(BLINK_PROTOCOL_LL128, VIEWS_WARP_VOTES_ALONE, NULL)));
}

static void test_a_switch_needs_its_fences(void **state)
{
    lane_world_t world = robbed(BLINK_PROTOCOL_SIMPLE, VIEWS_ALIASES_UNFENCED, NULL);
    (void)state;
    assert_null(wrong_with(world)); /* has one address for each place */
    world.shape = LANE_SWITCHED;
    assert_non_null(wrong_with(world));
    world.robbery = VIEWS_RELEASES_NOTHING;
    world.robbed = "full";
    assert_non_null(wrong_with(world));
    world.robbed = "free";
    assert_non_null(wrong_with(world));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple_is_right_whatever_is_seen_when),
        cmocka_unit_test(test_ll_is_right_whatever_is_seen_when),
        cmocka_unit_test(test_ll128_is_right_whatever_is_seen_when),
        cmocka_unit_test(test_a_switch_is_right_whatever_is_seen_when),
        cmocka_unit_test(test_all_lanes_end_after_an_abort_at_any_moment),
        cmocka_unit_test(test_lanes_that_wait_for_one_that_is_lost_end_after_an_abort),
        cmocka_unit_test(test_simple_needs_all_that_orders_it),
        cmocka_unit_test(test_formats_with_flags_need_the_way_back),
        cmocka_unit_test(test_ll128_needs_whole_lines_and_votes),
        cmocka_unit_test(test_a_switch_needs_its_fences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
