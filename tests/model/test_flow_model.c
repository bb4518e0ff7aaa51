/*
 * Flows, landings and settling, searched exhaustively: whatever hosts and streams do, every granted move
 * arrives in its own op's memory, no memory is used again too early, and every op ends on all its hosts. That
 * the search finds what it is for shows mutants.py.
 */
#include "hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Moves from host 0 to host 1: into slots, or into an output if there are none. */
#define MOVES(count, slot_count)                                                                             \
    {                                                                                                        \
        .from = 0, .to = 1, .moves = (count), .slots = (slot_count)                                          \
    }

/* Ops of one such flow. */
#define SLOTS(count, slot_count)                                                                             \
    {                                                                                                        \
        .flow_count = 1, .flows = { MOVES(count, slot_count) }                                               \
    }
#define OUTPUT(count) SLOTS(count, 0)
#define STANDS(count, ...)                                                                                   \
    {                                                                                                        \
        .standing = true, .flow_count = 1, .flows = {MOVES(count, 0)}, __VA_ARGS__                           \
    }

/* What has come to host 1 goes back, move for move. */
#define ROUND_TRIP(communicator, count)                                                                      \
    {                                                                                                        \
        .comm = (communicator), .flow_count = 2, .flows = {                                                  \
            MOVES(count, 1),                                                                                 \
            {.from = 1, .to = 0, .moves = (count), .slots = 1, .after = 1}                                   \
        }                                                                                                    \
    }

/* Up a chain of three hosts and down again. */
#define CHAIN(communicator)                                                                                  \
    {                                                                                                        \
        .comm = (communicator), .flow_count = 4, .flows = {                                                  \
            MOVES(1, 1),                                                                                     \
            {.from = 1, .to = 2, .moves = 1, .slots = 1, .after = 1},                                        \
            {.from = 2, .to = 1, .moves = 1, .slots = 1, .after = 2},                                        \
            {.from = 1, .to = 0, .moves = 1, .slots = 1, .after = 3}                                         \
        }                                                                                                    \
    }

static void assert_all_is_well(const char *name, hosts_plan_t plan)
{
    static search_result_t result;
    hosts_search(&plan, &result);
    print_message("%-36s %7llu states, %4llu ends, depth %u\n", name, (unsigned long long)result.states,
                  (unsigned long long)result.ends, result.depth);
    if (result.wrong) {
        print_error("found: %s:\n%s", result.wrong, result.story);
        if (getenv("FLOW_MODEL_STOP"))
            exit(1); /* for mutants.py */
    }
    assert_null(result.wrong);
    assert_true(result.states > 20 && result.ends > 0);
}

static void test_moves_overtake_one_another(void **state)
{
    (void)state;
    for (uint8_t moves = 0; moves <= 5; moves++) {
        assert_all_is_well("into one slot", (hosts_plan_t){2, 1, .ops = {SLOTS(moves, 1)}});
        assert_all_is_well("into two slots", (hosts_plan_t){2, 1, .ops = {SLOTS(moves, 2)}});
        assert_all_is_well("into an output", (hosts_plan_t){2, 1, .late = true, .ops = {OUTPUT(moves)}});
    }
}

static void test_peers_that_disagree_lose_one_op(void **state)
{
    (void)state;
    op_plan_t fewer = {.other = 2, .flow_count = 1, .flows = {MOVES(3, 1)}};
    op_plan_t never = {.never = true, .flow_count = 1, .flows = {MOVES(2, 0)}};
    assert_all_is_well("a peer never comes", (hosts_plan_t){2, 2, .ops = {never, SLOTS(1, 1)}});
    assert_all_is_well("one expects fewer moves", (hosts_plan_t){2, 2, .ops = {fewer, SLOTS(2, 2)}});
    assert_all_is_well("the same, standing",
                       (hosts_plan_t){2, 3, .ops = {STANDS(2, .other = 1), STANDS(1), STANDS(1)}});
    assert_all_is_well("one expects more moves, standing",
                       (hosts_plan_t){2, 3, .ops = {STANDS(1, .other = 3), STANDS(1), STANDS(1)}});
    assert_all_is_well("one expects nothing, standing",
                       (hosts_plan_t){2, 3, .ops = {STANDS(1, .stranger = true), STANDS(1), STANDS(1)}});
    assert_all_is_well("one lends, the other one stands",
                       (hosts_plan_t){2, 3, .ops = {STANDS(2, .lends = true), STANDS(1), STANDS(1)}});
    assert_all_is_well("the same of a later op",
                       (hosts_plan_t){2, 2, .ops = {STANDS(1), STANDS(1, .stranger = true)}});
}

static void test_connections_are_cut_at_every_point(void **state)
{
    (void)state;
    assert_all_is_well("slots", (hosts_plan_t){2, 1, .fails = 1, .cuts = true, .ops = {SLOTS(3, 2)}});
    assert_all_is_well("an output, then slots",
                       (hosts_plan_t){2, 2, .cuts = true, .ops = {OUTPUT(2), SLOTS(1, 1)}});
    assert_all_is_well("standing", (hosts_plan_t){2, 2, .cuts = true, .ops = {STANDS(1), STANDS(1)}});
}

static void test_flows_resume_after_a_fence_at_every_point(void **state)
{
    (void)state;
    assert_all_is_well("slots, two fences",
                       (hosts_plan_t){2, 1, .fences = 2, .late = true, .ops = {SLOTS(3, 2)}});
    assert_all_is_well("an output, one side fails",
                       (hosts_plan_t){2, 1, .fails = 1, .fences = 1, .late = true, .ops = {OUTPUT(4)}});
    assert_all_is_well(
        "two ops with slots, one fails",
        (hosts_plan_t){2, 2, .fails = 1, .fences = 1, .late = true, .ops = {SLOTS(1, 1), SLOTS(1, 1)}});
    assert_all_is_well("standing, one fails", (hosts_plan_t){2, 2, .fails = 1, .fences = 1, .late = true,
                                                             .ops = {STANDS(1), STANDS(1)}});
}

static void test_standing_landings_are_used_again(void **state)
{
    (void)state;
    assert_all_is_well("four ops", (hosts_plan_t){2, 4, .ops = {STANDS(1), STANDS(1), STANDS(1), STANDS(1)}});
    assert_all_is_well("of two moves each", (hosts_plan_t){2, 3, .ops = {STANDS(2), STANDS(2), STANDS(2)}});
    assert_all_is_well("beside ops that borrow",
                       (hosts_plan_t){2, 3, .ops = {STANDS(1), SLOTS(1, 1), STANDS(1)}});
}

static void test_ops_fail_at_every_point(void **state)
{
    (void)state;
    assert_all_is_well("slots", (hosts_plan_t){2, 1, .fails = 2, .late = true, .ops = {SLOTS(5, 2)}});
    assert_all_is_well("an output, then slots",
                       (hosts_plan_t){2, 2, .fails = 1, .ops = {OUTPUT(2), SLOTS(1, 1)}});
    assert_all_is_well("standing, then slots",
                       (hosts_plan_t){2, 2, .fails = 1, .ops = {STANDS(2), SLOTS(1, 1)}});
    assert_all_is_well("slots, two ops, both sides",
                       (hosts_plan_t){2, 2, .fails = 2, .ops = {SLOTS(2, 1), SLOTS(1, 1)}});
    assert_all_is_well("standing",
                       (hosts_plan_t){2, 3, .fails = 1, .ops = {STANDS(1), STANDS(1), STANDS(1)}});
}

static void test_nics_write_where_they_were_told(void **state)
{
    (void)state;
    const hosts_plan_t verbs = {2, 1, .fails = 1, .late = true, .verbs = true};
    hosts_plan_t plan = verbs;
    plan.ops[0] = (op_plan_t)SLOTS(4, 2);
    plan.fences = 1;
    assert_all_is_well("slots, one fence", plan);
    plan.ops[0] = (op_plan_t)OUTPUT(3);
    assert_all_is_well("an output, one fence", plan);
    plan = verbs;
    plan.op_count = 2;
    plan.ops[0] = (op_plan_t)SLOTS(2, 1);
    plan.ops[1] = (op_plan_t)SLOTS(1, 1);
    assert_all_is_well("slots, two ops", plan);
    plan.cuts = true;
    plan.ops[0] = (op_plan_t)STANDS(1);
    assert_all_is_well("standing, then slots, cut", plan);
    plan = verbs;
    plan.fails = 0;
    plan.op_count = 3;
    plan.ops[0] = (op_plan_t)STANDS(1, .stranger = true);
    plan.ops[1] = plan.ops[2] = (op_plan_t)STANDS(1);
    assert_all_is_well("one expects nothing, standing", plan);
    plan.ops[0] = (op_plan_t)STANDS(2, .other = 1);
    assert_all_is_well("one expects fewer moves, standing", plan);
}

static void test_communicators_begin_in_opposite_orders(void **state)
{
    (void)state;
    assert_all_is_well("one round trip", (hosts_plan_t){2, 1, .fails = 2, .ops = {ROUND_TRIP(0, 2)}});
    assert_all_is_well("two communicators",
                       (hosts_plan_t){2, 2, .ops = {ROUND_TRIP(0, 1), ROUND_TRIP(1, 1)}});
    assert_all_is_well("a chain of three hosts", (hosts_plan_t){3, 1, .fails = 1, .ops = {CHAIN(0)}});
    assert_all_is_well("two communicators, one op fails",
                       (hosts_plan_t){2, 2, .fails = 1, .ops = {ROUND_TRIP(0, 1), ROUND_TRIP(1, 1)}});
    assert_all_is_well("two chains", (hosts_plan_t){3, 2, .ops = {CHAIN(0), CHAIN(1)}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_overtake_one_another),
        cmocka_unit_test(test_peers_that_disagree_lose_one_op),
        cmocka_unit_test(test_connections_are_cut_at_every_point),
        cmocka_unit_test(test_flows_resume_after_a_fence_at_every_point),
        cmocka_unit_test(test_standing_landings_are_used_again),
        cmocka_unit_test(test_ops_fail_at_every_point),
        cmocka_unit_test(test_nics_write_where_they_were_told),
        cmocka_unit_test(test_communicators_begin_in_opposite_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
