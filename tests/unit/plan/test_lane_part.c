/*
 * What each of several hosts compiles: its part of the program to the last number, which it makes without the
 * lanes of all others, and one digest on all hosts.
 */
#include "collective.h"
#include "error.h"
#include "hand_hosts.h"
#include "names.h"
#include "plan/lane/lane.h"
#include "wire_programs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The ways to compile for several hosts, without of_rank. */
static const lane_hosts_t ways[] = {
    {.lands_in_slots = false}, {.lands_in_slots = true}, {.scales_inputs = true}, {.keeps_to_slots = true}};

enum { WAYS = sizeof(ways) / sizeof(*ways) };

static bool try_plan(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm, plan_t **plan)
{
    plan_request_t request = {.collective = (blink_collective_t)collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .root = topo->gpu_count - 1,
                              .peer = 0,
                              .plan_seconds = 1};
    return plan_create(topo, &request, plan) == BLINK_OK;
}

static plan_t *plan_of(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm)
{
    plan_t *plan = NULL;
    if (!try_plan(topo, collective, algorithm, &plan))
        fail_msg("%s", blink_error_text());
    return plan;
}

/* ---- the same program ---- */

#define ASSERT_SAME_LIST(one, other, list, count)                                                            \
    do {                                                                                                     \
        assert_int_equal((one)->count, (other)->count);                                                      \
        assert_memory_equal((one)->list, (other)->list, (one)->count * sizeof(*(one)->list));                \
    } while (0)

static void assert_same(const lane_program_t *one, const lane_program_t *other)
{
    ASSERT_SAME_LIST(one, other, lanes, lane_count);
    ASSERT_SAME_LIST(one, other, steps, step_count);
    ASSERT_SAME_LIST(one, other, operands, operand_count);
    ASSERT_SAME_LIST(one, other, waits, wait_count);
    ASSERT_SAME_LIST(one, other, signals, signal_count);
    ASSERT_SAME_LIST(one, other, paths, path_count);
    ASSERT_SAME_LIST(one, other, path_links, path_link_count);
    ASSERT_SAME_LIST(one, other, landings, landing_count);
    ASSERT_SAME_LIST(one, other, channels, channel_count);
    ASSERT_SAME_LIST(one, other, parts, part_count);
    ASSERT_SAME_LIST(one, other, rank_host, rank_count);
    assert_int_equal(one->edge_count, other->edge_count);
    assert_int_equal(one->landing_edge_count, other->landing_edge_count);
    assert_int_equal(one->semaphore_count, other->semaphore_count);
    assert_int_equal(one->wire_count, other->wire_count);
    assert_int_equal(one->independent, other->independent);
    assert_int_equal(one->host, other->host);
    assert_int_equal(one->depth, other->depth);
    assert_int_equal(one->bdp_bytes, other->bdp_bytes);
    assert_true(one->latency_us == other->latency_us && one->rate_GBps == other->rate_GBps);
    assert_true(one->digest == other->digest);
}

/* The part of every host is what that host would keep of the whole. */
static void check_parts(const topo_t *topo, const plan_t *plan, lane_hosts_t hosts)
{
    uint32_t of_rank[PLAN_RANKS_MAX], count = 0;
    hand_number_hosts(topo, plan, of_rank);
    hosts.of_rank = of_rank;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        count = of_rank[rank] >= count ? of_rank[rank] + 1 : count;
    for (uint32_t host = 0; host < count; host++) {
        lane_program_t *kept = whole_of(topo, plan, &hosts), *part = part_of(topo, plan, &hosts, host);
        assert_int_equal(lane_program_keep(kept, host), BLINK_OK);
        assert_same(part, kept);
        lane_program_destroy(kept);
        lane_program_destroy(part);
    }
}

static uint32_t check_algorithm(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm)
{
    plan_t *plan = NULL;
    if (!try_plan(topo, collective, algorithm, &plan))
        return 0;
    for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL; protocol++) {
        plan->protocol = (blink_protocol_t)protocol;
        for (size_t way = 0; way < WAYS; way++)
            check_parts(topo, plan, ways[way]);
    }
    plan_destroy(plan);
    return 1;
}

static void check_topology(topo_t *topo)
{
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        uint32_t plans = 0;
        for (size_t i = 0; i < ALGORITHMS; i++)
            plans += check_algorithm(topo, collective, algorithms[i]);
        assert_true(plans > 0);
    }
    topo_destroy(topo);
}

static void test_parts_on_hosts_of_plain_memory(void **state)
{
    (void)state;
    check_topology(hand_hosts((uint32_t[]){1, 1}, 2));
    check_topology(hand_hosts((uint32_t[]){2, 2, 2, 2}, 4));
    check_topology(hand_hosts((uint32_t[]){3, 1, 2}, 3));
    check_topology(hand_hosts((uint32_t[]){4}, 1));
}

static void test_parts_on_hosts_of_a_named_machine(void **state)
{
    (void)state;
    topo_t *topo = NULL;
    assert_int_equal(topo_load("3xdgx1v_hybrid@5", &topo), BLINK_OK);
    check_topology(topo);
}

/* Chains between hosts: whoever is next but one is nobody that a host knows of. */
static void test_parts_of_rings_over_many_hosts(void **state)
{
    (void)state;
    topo_t *topo = hand_hosts((uint32_t[]){1, 2, 1, 1, 2, 1, 1, 1}, 8);
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        (void)check_algorithm(topo, collective, BLINK_ALGORITHM_BINOMIAL);
        (void)check_algorithm(topo, collective, BLINK_ALGORITHM_TREES);
    }
    assert_int_equal(check_algorithm(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE), 1);
    topo_destroy(topo);
}

/* ---- what hosts compare ---- */

static uint64_t digest_of(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts, uint32_t host)
{
    lane_program_t *part = part_of(topo, plan, hosts, host);
    uint64_t digest = part->digest;
    lane_program_destroy(part);
    return digest;
}

static void test_all_hosts_have_one_digest(void **state)
{
    (void)state;
    uint32_t of_rank[PLAN_RANKS_MAX];
    topo_t *topo = NULL;
    plan_t *expanded = NULL;
    assert_int_equal(topo_load("4xdgx1v", &topo), BLINK_OK);
    plan_t *plan = plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    hand_number_hosts(topo, plan, of_rank);
    lane_hosts_t hosts = {.of_rank = of_rank};
    uint64_t digest = digest_of(topo, plan, &hosts, 0);
    for (uint32_t host = 1; host < 4; host++)
        assert_true(digest_of(topo, plan, &hosts, host) == digest);
    assert_true(plan->symmetry_count > 0);
    assert_int_equal(plan_expand(topo, plan, &expanded), BLINK_OK);
    assert_true(digest_of(topo, expanded, &hosts, 2) == digest);
    plan_destroy(expanded);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_digests_are_of_all_that_programs_are_made_from(void **state)
{
    (void)state;
    uint32_t of_rank[PLAN_RANKS_MAX];
    topo_t *topo = hand_hosts((uint32_t[]){2, 2}, 2);
    plan_t *plan = plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    hand_number_hosts(topo, plan, of_rank);
    lane_hosts_t hosts = {.of_rank = of_rank}, other = hosts;
    uint64_t digest = digest_of(topo, plan, &hosts, 0);
    for (size_t way = 1; way < WAYS; way++) {
        other = ways[way];
        other.of_rank = of_rank;
        assert_true(digest_of(topo, plan, &other, 0) != digest);
    }
    plan->protocol = BLINK_PROTOCOL_LL;
    assert_true(digest_of(topo, plan, &hosts, 0) != digest);
    plan->protocol = BLINK_PROTOCOL_SIMPLE;
    plan->rate_GBps *= 1 + 1e-15;
    assert_true(digest_of(topo, plan, &hosts, 0) != digest);
    plan_destroy(plan);
    plan = plan_of(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_DOUBLE_BINARY_TREE);
    assert_true(digest_of(topo, plan, &hosts, 0) != digest);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_on_hosts_of_plain_memory),
        cmocka_unit_test(test_parts_on_hosts_of_a_named_machine),
        cmocka_unit_test(test_parts_of_rings_over_many_hosts),
        cmocka_unit_test(test_all_hosts_have_one_digest),
        cmocka_unit_test(test_digests_are_of_all_that_programs_are_made_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
