/* The chunk-size controller against throughput curves whose best chunk is known. */
#include "engine/chunk_control.h"
#include "error.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024u

/* Throughput against the chunk: rises while the cost of a step is spread over more bytes, falls as filling
 * the pipeline takes longer. Concave around one optimum. */
static double curve_GBps(uint64_t chunk_bytes, double best_bytes)
{
    double x = (double)chunk_bytes / best_bytes;
    return 100.0 * 2.0 / (x + 1.0 / x);
}

static chunk_control_t start(uint64_t start_bytes, uint64_t min_bytes, uint64_t max_bytes)
{
    chunk_control_t control;
    assert_int_equal(chunk_control_init(&control, start_bytes, min_bytes, max_bytes), BLINK_OK);
    return control;
}

/* Measure on the curve until the controller holds; how many measurements that took. */
static uint32_t run(chunk_control_t *control, double best_bytes)
{
    for (uint32_t count = 1; count < 1000; count++) {
        uint64_t chunk_bytes = chunk_control_next(control, curve_GBps(control->chunk_bytes, best_bytes));
        assert_in_range(chunk_bytes, control->min_bytes, control->max_bytes);
        assert_int_equal(chunk_bytes % CHUNK_CONTROL_UNIT_BYTES, 0);
        if (control->phase == CHUNK_HOLD)
            return count;
    }
    fail_msg("still looking at %u bytes", (unsigned)control->chunk_bytes);
    return 0;
}

static void assert_near_best(const chunk_control_t *control, double best_bytes)
{
    if (curve_GBps(control->chunk_bytes, best_bytes) < 97.0)
        fail_msg("%u bytes give %.1f GB/s of 100", (unsigned)control->chunk_bytes,
                 curve_GBps(control->chunk_bytes, best_bytes));
}

static void test_finds_the_best_chunk_within_a_few_tries(void **state)
{
    static const double best_bytes[] = {9e3, 40e3, 64e3, 100e3, 200e3};
    (void)state;
    for (size_t i = 0; i < sizeof(best_bytes) / sizeof(best_bytes[0]); i++) {
        chunk_control_t control = start(4 * KIB, 1 * KIB, 1024 * KIB);
        assert_in_range(run(&control, best_bytes[i]), 4, 40);
        assert_near_best(&control, best_bytes[i]);
    }
}

static void test_increases_by_doubling_and_decreases_by_equal_steps(void **state)
{
    chunk_control_t control = start(4 * KIB, 1 * KIB, 1024 * KIB);
    uint64_t chunk_bytes[64] = {0};
    uint32_t count = 0, peak = 0;
    (void)state;
    for (chunk_bytes[count++] = control.chunk_bytes; control.phase != CHUNK_SETTLE && count < 64; count++)
        chunk_bytes[count] = chunk_control_next(&control, curve_GBps(control.chunk_bytes, 48.0 * KIB));
    while (chunk_bytes[peak + 1] > chunk_bytes[peak]) {
        assert_int_equal(chunk_bytes[peak + 1], 2 * chunk_bytes[peak]);
        peak++;
    }
    assert_int_equal(chunk_bytes[peak], 128 * KIB);
    for (uint32_t i = peak; i + 2 < count; i++) /* the last move undoes a step */
        assert_int_equal(chunk_bytes[i] - chunk_bytes[i + 1], 8 * KIB);
    assert_int_equal(chunk_bytes[count - 1], chunk_bytes[count - 3]);
}

static void test_follows_a_best_chunk_that_moves(void **state)
{
    static const double best_bytes[] = {32e3, 150e3, 20e3, 60e3};
    chunk_control_t control = start(8 * KIB, 1 * KIB, 512 * KIB);
    (void)state;
    for (size_t i = 0; i < sizeof(best_bytes) / sizeof(best_bytes[0]); i++) {
        run(&control, best_bytes[i]);
        assert_near_best(&control, best_bytes[i]);
    }
}

static void test_holds_while_throughput_does_not_change(void **state)
{
    chunk_control_t control = start(8 * KIB, 1 * KIB, 512 * KIB);
    (void)state;
    run(&control, 64e3);
    uint64_t held_bytes = control.chunk_bytes;
    double held_GBps = curve_GBps(held_bytes, 64e3);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(chunk_control_next(&control, held_GBps * (i % 2 ? 1.05 : 0.95)), held_bytes);
    assert_int_not_equal(chunk_control_next(&control, 0.8 * held_GBps), held_bytes);
}

static void test_stays_within_its_limits(void **state)
{
    (void)state;
    chunk_control_t high = start(1u << 30, 100, 99999);
    assert_int_equal(high.min_bytes, 112);
    assert_int_equal(high.max_bytes, 99984);
    assert_int_equal(high.chunk_bytes, 99984);
    run(&high, 1e9);
    assert_int_equal(high.chunk_bytes, high.max_bytes);
    chunk_control_t low = start(0, 100, 99999);
    assert_int_equal(low.chunk_bytes, 112);
    run(&low, 1.0);
    assert_int_equal(low.chunk_bytes, low.min_bytes);
    chunk_control_t only = start(64, 64, 64);
    run(&only, 1e3);
    assert_int_equal(only.chunk_bytes, 64);
}

static void test_a_measurement_that_is_none_changes_nothing(void **state)
{
    static const double none[] = {0.0, -1.0, NAN, INFINITY};
    chunk_control_t control = start(8 * KIB, 1 * KIB, 512 * KIB);
    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(chunk_control_next(&control, none[i]), 8 * KIB);
    assert_int_equal(chunk_control_next(&control, 1.0), 16 * KIB);
}

static void test_limits_without_a_unit_between_them_are_refused(void **state)
{
    static const uint64_t limits[][2] = {{17, 31}, {64, 48}, {0, 15}, {UINT64_MAX, UINT64_MAX}};
    chunk_control_t control;
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        assert_int_equal(chunk_control_init(&control, 32, limits[i][0], limits[i][1]),
                         BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(blink_error_text(), "18446744073709551615"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_best_chunk_within_a_few_tries),
        cmocka_unit_test(test_increases_by_doubling_and_decreases_by_equal_steps),
        cmocka_unit_test(test_follows_a_best_chunk_that_moves),
        cmocka_unit_test(test_holds_while_throughput_does_not_change),
        cmocka_unit_test(test_stays_within_its_limits),
        cmocka_unit_test(test_a_measurement_that_is_none_changes_nothing),
        cmocka_unit_test(test_limits_without_a_unit_between_them_are_refused),
    };
    return cmocka_run_group_tests_name("chunk_control", tests, NULL, NULL);
}
