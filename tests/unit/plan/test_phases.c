/* The phases of plans of several hosts, in words. */
#include "plan_checks.h"

#include "hand_hosts.h"
#include "plan/show/phases.h"

static char *describe(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm)
{
    plan_t *plan = make(topo, collective, algorithm, (1u << topo->gpu_count) - 1);
    char *text = NULL;
    assert_int_equal(plan_phases_describe(topo, plan, &text), BLINK_OK);
    plan_destroy(plan);
    return text;
}

static void assert_phases(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm,
                          const char *expected)
{
    char *text = describe(topo, collective, algorithm);
    assert_string_equal(text, expected);
    free(text);
}

static void test_three_phases_of_generated_hosts(void **state)
{
    (void)state;
    topo_t *topo = load("2xdgx1v");
    assert_phases(
        topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES,
        "phases: reduce within hosts (nvlink), between hosts over nic0, nic1, nic2, nic3, nic4, nic5, nic6, "
        "nic7 (at most 25.0% of the payload each way), broadcast within hosts (nvlink)\n");
    topo_destroy(topo);
}

static void test_phases_of_plain_hosts_by_collective(void **state)
{
    (void)state;
    static const uint32_t devices[] = {2, 2};
    topo_t *topo = hand_hosts(devices, 2);
    const char *const between = "between hosts over nic0, nic1 (at most 100.0% of the payload each way)";
    char text[256];
    snprintf(text, sizeof(text), "phases: reduce within hosts (shm), %s, broadcast within hosts (shm)\n",
             between);
    assert_phases(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, text);
    snprintf(text, sizeof(text), "phases: %s, broadcast within hosts (shm)\n", between);
    assert_phases(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, text);
    snprintf(text, sizeof(text), "phases: reduce within hosts (shm), %s\n", between);
    assert_phases(topo, BLINK_REDUCE, BLINK_ALGORITHM_TREES, text);
    topo_destroy(topo);
}

static void test_hosts_of_one_rank_have_one_phase(void **state)
{
    (void)state;
    static const uint32_t devices[] = {1, 1, 1};
    topo_t *topo = hand_hosts(devices, 3);
    char *text = describe(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES);
    assert_non_null(strstr(text, "phases: between hosts over nic0, nic1, nic2 (at most "));
    assert_null(strstr(text, "within"));
    free(text);
    topo_destroy(topo);
}

static void test_who_has_no_phases(void **state)
{
    (void)state;
    static const uint32_t devices[] = {2, 2};
    topo_t *topo = hand_hosts(devices, 2), *one = load("dgx1v");
    assert_phases(one, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, "");
    assert_phases(topo, BLINK_ALLTOALL, BLINK_ALGORITHM_TREES, "");
    assert_phases(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, ""); /* enters a host twice */
    topo_destroy(one);
    topo_destroy(topo);
}

/* Of so many packed trees a few enter a host twice. */
static void test_most_of_a_payload_in_phases(void **state)
{
    (void)state;
    topo_t *topo = load("2xdgx_h100");
    char *text = describe(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    assert_non_null(strstr(text, "phases: reduce within hosts (nvswitch"));
    assert_non_null(strstr(text, "), between hosts over nic0, nic1, "));
    assert_non_null(strstr(text, "% of the payload, other trees enter hosts more than once\n"));
    free(text);
    topo_destroy(topo);
}

/* A plan of templates says the same as the plan of all their images. */
static void test_templates_stand_for_their_images(void **state)
{
    (void)state;
    topo_t *topo = load("4xpcie4");
    plan_t *plan = make(topo, BLINK_ALLGATHER, BLINK_ALGORITHM_TREES, 0xffff), *all = NULL;
    char *text = NULL, *text_of_all = NULL;
    assert_true(plan->symmetry_count > 0);
    assert_int_equal(plan_expand(topo, plan, &all), BLINK_OK);
    assert_int_equal(plan_phases_describe(topo, plan, &text), BLINK_OK);
    assert_int_equal(plan_phases_describe(topo, all, &text_of_all), BLINK_OK);
    assert_string_equal(text, text_of_all);
    assert_non_null(strstr(text, "between hosts over nic0, nic1, nic2, nic3 ("));
    free(text_of_all);
    free(text);
    plan_destroy(all);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_the_table_has_the_phases(void **state)
{
    (void)state;
    static const uint32_t devices[] = {2, 1};
    topo_t *topo = hand_hosts(devices, 2);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 7);
    char *text = NULL;
    assert_int_equal(plan_write_table(topo, plan, 0, &text), BLINK_OK);
    assert_non_null(strstr(text, "\nphases: reduce within hosts (shm), between hosts over nic0, nic1 "));
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_phases_of_generated_hosts),
        cmocka_unit_test(test_phases_of_plain_hosts_by_collective),
        cmocka_unit_test(test_hosts_of_one_rank_have_one_phase),
        cmocka_unit_test(test_who_has_no_phases),
        cmocka_unit_test(test_most_of_a_payload_in_phases),
        cmocka_unit_test(test_templates_stand_for_their_images),
        cmocka_unit_test(test_the_table_has_the_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
