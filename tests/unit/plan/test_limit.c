/* What limits a plan, in words: groups, links, arithmetic and loads of topologies that people know. */
#include "plan_checks.h"

#include "plan/show/limit.h"

/* The description of the packed trees; every one of the NULL-terminated texts must stand in it. */
static void assert_says(const topo_t *topo, blink_collective_t collective, uint32_t mask,
                        const char *const *expected)
{
    plan_t *plan = make(topo, collective, BLINK_ALGORITHM_TREES, mask);
    char *text = NULL;
    assert_int_equal(plan_limit_describe(topo, plan, &text), BLINK_OK);
    for (; *expected != NULL; expected++)
        if (strstr(text, *expected) == NULL)
            fail_msg("no \"%s\" in:\n%s", *expected, text);
    free(text);
    plan_destroy(plan);
}

static void assert_builtin_says(const char *name, blink_collective_t collective, uint32_t mask,
                                const char *const *expected)
{
    topo_t *topo = load(name);
    assert_says(topo, collective, mask, expected);
    topo_destroy(topo);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_a_single_link_is_named(void **state)
{
    (void)state;
    assert_builtin_says("dgx1v", BLINK_ALLREDUCE, 0x13,
                        SAYS("No plan exceeds 25.000 GB/s: these links part the ranks",
                             "{gpu0, gpu4} | {gpu1}\n", "at least 1 time each way: 25 / 1 = 25 GB/s",
                             "gpu1's single 25 GB/s link to gpu0, both ways: 100.0% of the price",
                             "fills 2 of 4 links to 99% or more"));
}

static void test_a_partition_gives_the_bound(void **state)
{
    (void)state;
    assert_builtin_says("dgx1v", BLINK_ALLREDUCE, 0xff,
                        SAYS("{gpu0} | {gpu1} | {gpu2} | {gpu3} | {gpu4} | {gpu5} | {gpu6} | {gpu7}\n",
                             "at least 7 times each way: 600 / 7 = 85.7143 GB/s",
                             "8 x gpu<->gpu links of 50 GB/s: 66.7% of the price",
                             "8 x gpu<->gpu links of 25 GB/s: 33.3% of the price",
                             "of 32 links to 99% or more"));
}

static void test_a_broadcast_is_cut_off_at_its_root(void **state)
{
    (void)state;
    assert_builtin_says("dgx1v", BLINK_BROADCAST, 0xff,
                        SAYS("No plan exceeds 150.000 GB/s",
                             "{gpu0} | {gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7}\n", "150 / 1 = 150 GB/s",
                             "gpu0's double 50 GB/s link to gpu3: 33.3% of the price",
                             "gpu0's single 25 GB/s link to gpu1: 16.7% of the price"));
}

static void test_ways_through_switches_cross_twice(void **state)
{
    (void)state;
    assert_builtin_says("dgx_h100", BLINK_ALLREDUCE, 0xff,
                        SAYS("at least 14 times each way: 3600 / 14 = 257.143 GB/s",
                             "16 x gpu<->switch links of 125 GB/s: 55.6% of the price",
                             "fills 64 of 64 links to 99% or more\n"));
    assert_builtin_says("pcie8", BLINK_ALLREDUCE, 0xff,
                        SAYS("at least 14 times each way: 88 / 14 = 6.28571 GB/s",
                             "8 x gpu<->switch links of 11 GB/s: 100.0% of the price"));
}

static void test_hosts_are_groups_by_name(void **state)
{
    (void)state;
    assert_builtin_says("2x_dgx1v_100g", BLINK_ALLREDUCE, 0xffff,
                        SAYS("{8 gpus of n0} | {8 gpus of n1}\n", "12.5 / 1 = 12.5 GB/s",
                             "'s single 12.5 GB/s link to net, both ways: 100.0% of the price", "50 idle"));
}

/* Only the blocks of the two others come to the third: two thirds of the payload. */
static void test_an_allgather_crosses_in_part(void **state)
{
    topo_t *topo = parse(GPU("a") "," GPU("b") "," GPU("c"),
                         LINK("a", "b", "50") "," ONE_WAY("b", "c", "6") "," ONE_WAY("c", "a", "50"));
    (void)state;
    assert_says(topo, BLINK_ALLGATHER, 7,
                SAYS("{a, b} | {c}\n", "at least 0.666667 times: 6 / 0.666667 = 9 GB/s",
                     "b's single 6 GB/s link to c: 100.0% of the price"));
    topo_destroy(topo);
}

static void test_a_backplane_is_named(void **state)
{
    topo_t *topo = parse(GPU("a") "," GPU("b") ",{\"id\":\"s\",\"kind\":\"switch\",\"GBps_total\":12}",
                         LINK("a", "s", "50") "," LINK("b", "s", "50"));
    (void)state;
    assert_says(topo, BLINK_BROADCAST, 3,
                SAYS("{a} | {b}\n", "s's backplane of 12 GB/s: 100.0% of the price",
                     "fills 0 of 4 links to 99% or more and leaves 2 idle", "carries 24.0%"));
    topo_destroy(topo);
}

static void test_long_lists_are_cut_short(void **state)
{
    char links[2048] = "";
    size_t used = 0;
    for (uint32_t i = 1; i < 12; i++)
        used += (size_t)snprintf(links + used, sizeof(links) - used, "%s" LINK("g%u", "s", "%u"),
                                 i > 1 ? "," : "", i, 10 + i);
    topo_t *topo =
        parse(GPU("g1") "," GPU("g2") "," GPU("g3") "," GPU("g4") "," GPU("g5") "," GPU("g6") "," GPU(
                  "g7") "," GPU("g8") "," GPU("g9") "," GPU("g10") "," GPU("g11") "," SWITCH("s"),
              links);
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0x7ff);
    char *text = NULL;
    (void)state;
    for (uint32_t link = 0; link < topo->link_count; link++)
        plan->prices[link] = 1.0;
    assert_int_equal(plan_limit_describe(topo, plan, &text), BLINK_OK);
    assert_non_null(strstr(text, "{g8} | and 3 more\n"));
    assert_non_null(strstr(text, "g11's single 21 GB/s link to s, both ways: 11.9% of the price"));
    assert_non_null(strstr(text, "  and 3 more\n"));
    assert_null(strstr(text, "g3's"));
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_without_prices_or_ranks_nothing_is_blamed(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0xff);
    char *text = NULL;
    (void)state;
    memset(plan->prices, 0, topo->link_count * sizeof(*plan->prices));
    assert_int_equal(plan_limit_describe(topo, plan, &text), BLINK_OK);
    assert_non_null(strstr(text, "no link has a price\n"));
    free(text);
    plan_destroy(plan);
    assert_says(topo, BLINK_ALLREDUCE, 1, SAYS("Nothing moves, so nothing limits\n"));
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_single_link_is_named),
        cmocka_unit_test(test_a_partition_gives_the_bound),
        cmocka_unit_test(test_a_broadcast_is_cut_off_at_its_root),
        cmocka_unit_test(test_ways_through_switches_cross_twice),
        cmocka_unit_test(test_hosts_are_groups_by_name),
        cmocka_unit_test(test_an_allgather_crosses_in_part),
        cmocka_unit_test(test_a_backplane_is_named),
        cmocka_unit_test(test_long_lists_are_cut_short),
        cmocka_unit_test(test_without_prices_or_ranks_nothing_is_blamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
