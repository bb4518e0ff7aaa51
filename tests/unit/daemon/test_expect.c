/* How long ops should take (engine/op/expect.h): on host devices by the machine's memory, on GPUs by the
 * plan.
 */
#include "engine/loop.h"
#include "engine/op/expect.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RANKS = 8 };

typedef struct fixture {
    settings_t settings;
    engine_t engine;
    engine_comm_t comm;
    cached_program_t program;
    comm_op_t op;
} fixture_t;

/* A megabyte and a bit on 8 ranks, by a plan that moves 100 GB/s and takes 20 µs besides. */
static void set_up(fixture_t *fixture, bool on_gpus)
{
    *fixture = (fixture_t){.comm = {.on_gpus = on_gpus, .engine = &fixture->engine},
                           .op = {.comm = &fixture->comm,
                                  .program = &fixture->program,
                                  .pieces = 1,
                                  .entry_count = RANKS,
                                  .shape = {.payload_bytes = 1 << 20}}};
    fixture->engine.config.settings = &fixture->settings;
    for (uint32_t class = 0; class < PLAN_CLASSES; class ++)
        fixture->program.predicted_us[class] = 20 + (double)plan_class_bytes(class) / 100e3;
}

static void test_on_gpus_the_plan_says_how_long(void **state)
{
    static fixture_t f;
    (void)state;
    set_up(&f, true);
    assert_int_equal(lround(expect_us(&f.op)), lround(20 + (1 << 20) / 100e3));
    assert_true(expect_us(&f.op) < EXPECT_LONG_US); /* memory of a host would take 210 µs */
    f.op.shape.payload_bytes = 64 << 20;
    assert_true(expect_us(&f.op) > EXPECT_LONG_US);
}

/* As where many wait for their turns. */
static void test_an_op_is_long_if_one_like_it_was(void **state)
{
    static fixture_t f;
    (void)state;
    set_up(&f, true);
    f.op.predicted_us = expect_us(&f.op);
    assert_false(expect_long(&f.op));
    f.program.took_us = 5000;
    f.program.took_bytes = 1 << 20;
    assert_true(expect_long(&f.op));
    f.program.took_bytes = 2 << 20; /* that was another one */
    assert_false(expect_long(&f.op));
    f.program.took_bytes = 1 << 20;
    f.comm.on_gpus = false;
    assert_false(expect_long(&f.op));
}

static void test_pieces_are_runs_of_their_own(void **state)
{
    static fixture_t f;
    (void)state;
    set_up(&f, true);
    f.op.pieces = 16;
    assert_int_equal(lround(expect_us(&f.op)), lround(16 * 20 + (1 << 20) / 100e3));
    assert_true(expect_us(&f.op) > EXPECT_LONG_US);
}

static void test_on_host_devices_memory_says_how_long(void **state)
{
    static fixture_t f;
    (void)state;
    set_up(&f, false);
    assert_true(expect_us(&f.op) > EXPECT_LONG_US);
    f.op.shape.payload_bytes = 64 << 10;
    assert_true(expect_us(&f.op) < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_gpus_the_plan_says_how_long),
        cmocka_unit_test(test_an_op_is_long_if_one_like_it_was),
        cmocka_unit_test(test_pieces_are_runs_of_their_own),
        cmocka_unit_test(test_on_host_devices_memory_says_how_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
