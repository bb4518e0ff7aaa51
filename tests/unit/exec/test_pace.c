/* Virtual finish times, with given times only: no test here looks at a clock. */
#include "exec/host/pace.h"

#include "error.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* gpu0 -> plx -> gpu1 and gpu2 -> plx: 1 GB/s into the switch, 2 GB/s out of it, 1 µs each. */
static topo_node_t nodes[] = {{.id = "gpu0", .kind = TOPO_DEVICE},
                              {.id = "plx", .kind = TOPO_SWITCH},
                              {.id = "gpu1", .kind = TOPO_DEVICE},
                              {.id = "gpu2", .kind = TOPO_DEVICE}};
static topo_link_t links[] = {{.from = 0, .to = 1, .GBps = 1.0, .unit_GBps = 1.0, .latency_us = 1.0},
                              {.from = 1, .to = 2, .GBps = 2.0, .unit_GBps = 2.0, .latency_us = 1.0},
                              {.from = 3, .to = 1, .GBps = 1.0, .unit_GBps = 1.0, .latency_us = 1.0}};
static const topo_t topo = {.node_count = 4, .link_count = 3, .gpu_count = 3, .nodes = nodes, .links = links};

static const uint32_t from_gpu0[] = {0, 1};
static const uint32_t from_gpu2[] = {2, 1};

static pace_t *make_pace(double scale)
{
    pace_t *pace = NULL;
    assert_int_equal(pace_create(&topo, scale, &pace), BLINK_OK);
    return pace;
}

static void test_transfer_lasts_as_long_as_the_slowest_link(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_slot_t slot = pace_book(pace, from_gpu0, 2, 1000, 5000);
    assert_int_equal(slot.sent_ns, 6000);
    assert_int_equal(slot.arrived_ns, 8000);
    pace_destroy(pace);
}

static void test_scale_slows_capacity_and_latency_alike(void **state)
{
    (void)state;
    pace_t *pace = make_pace(0.5);
    assert_true(pace_scale(pace) == 0.5);
    pace_slot_t slot = pace_book(pace, from_gpu0, 2, 1000, 5000);
    assert_int_equal(slot.sent_ns, 7000);
    assert_int_equal(slot.arrived_ns, 11000);
    pace_destroy(pace);
}

static void test_second_transfer_queues_behind_the_first(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_book(pace, from_gpu0, 2, 1000, 5000);
    assert_int_equal(pace_book(pace, from_gpu0, 2, 1000, 5000).sent_ns, 7000);
    assert_int_equal(pace_book(pace, from_gpu0, 2, 1000, 9000).sent_ns, 10000);
    pace_destroy(pace);
}

static void test_busy_link_holds_up_only_what_crosses_it(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_book(pace, from_gpu0, 2, 1000, 5000);
    /* gpu2 -> plx is idle, plx -> gpu1 is taken for 500 ns of the 1000 that gpu0 -> plx needs. */
    assert_int_equal(pace_book(pace, from_gpu2, 2, 1000, 5000).sent_ns, 6000);
    assert_int_equal(pace_book(pace, from_gpu2 + 1, 1, 1000, 5000).sent_ns, 6500);
    pace_destroy(pace);
}

static void test_late_booking_of_an_idle_link_costs_nothing(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_book(pace, from_gpu0, 2, 1000, 5000);
    pace_book(pace, from_gpu0, 2, 1000, 6000);
    assert_int_equal(pace_book(pace, from_gpu0, 2, 1000, 6000).sent_ns, 8000);
    pace_destroy(pace);
}

static void test_backplane_of_a_switch_is_shared(void **state)
{
    (void)state;
    topo_node_t limited[] = {nodes[0], nodes[1], nodes[2], nodes[3]};
    limited[1].total_GBps = 0.25;
    topo_t shared = topo;
    shared.nodes = limited;
    pace_t *pace = NULL;
    assert_int_equal(pace_create(&shared, 1.0, &pace), BLINK_OK);
    assert_int_equal(pace_book(pace, from_gpu0, 2, 1000, 5000).sent_ns, 9000);
    assert_int_equal(pace_book(pace, from_gpu2, 2, 1000, 5000).sent_ns, 13000);
    pace_destroy(pace);
}

static void test_empty_transfer_still_takes_the_latency(void **state)
{
    (void)state;
    pace_t *pace = make_pace(1.0);
    pace_slot_t slot = pace_book(pace, from_gpu0, 2, 0, 5000);
    assert_int_equal(slot.sent_ns, 5000);
    assert_int_equal(slot.arrived_ns, 7000);
    pace_destroy(pace);
}

static void test_scale_must_be_positive(void **state)
{
    (void)state;
    const double bad[] = {0.0, -1.0, NAN, INFINITY};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pace_t *pace = NULL;
        assert_int_equal(pace_create(&topo, bad[i], &pace), BLINK_ERR_INVALID_ARGUMENT);
        assert_null(pace);
        assert_non_null(strstr(blink_error_text(), "scale"));
    }
}

static void test_default_scale_has_one_significant_digit(void **state)
{
    (void)state;
    double scale = pace_default_scale(&topo, 1);
    assert_true(scale > 0.0);
    double digit = scale / pow(10.0, floor(log10(scale * 1.000001)));
    assert_true(fabs(digit - round(digit)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfer_lasts_as_long_as_the_slowest_link),
        cmocka_unit_test(test_scale_slows_capacity_and_latency_alike),
        cmocka_unit_test(test_second_transfer_queues_behind_the_first),
        cmocka_unit_test(test_busy_link_holds_up_only_what_crosses_it),
        cmocka_unit_test(test_late_booking_of_an_idle_link_costs_nothing),
        cmocka_unit_test(test_backplane_of_a_switch_is_shared),
        cmocka_unit_test(test_empty_transfer_still_takes_the_latency),
        cmocka_unit_test(test_scale_must_be_positive),
        cmocka_unit_test(test_default_scale_has_one_significant_digit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
