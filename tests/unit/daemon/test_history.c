/* What is remembered of a communicator's ops: as much as there may be, and on whose account. */
#include "engine/comm/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct world {
    budget_t budget;
    account_t account;
    history_t history;
} world_t;

static void open_world(world_t *world, uint64_t limit, uint32_t members)
{
    budget_limit_t limits[BUDGET_KINDS] = {[BUDGET_OP_BYTES] = {limit, UINT64_MAX}};
    budget_init(&world->budget, limits);
    account_open(&world->account, &world->budget, "somebody");
    history_init(&world->history, &world->account, members);
}

static void close_world(world_t *world)
{
    history_credit(&world->history);
    assert_int_equal(account_used(&world->account, BUDGET_OP_BYTES), 0);
    history_free(&world->history);
    account_close(&world->account);
}

/* How many of them there was a place for. */
static uint32_t add(history_t *history, uint32_t count)
{
    uint32_t added = 0;
    for (uint32_t i = 0; i < count; i++) {
        op_record_t *record = history_add(history);
        if (record)
            *record = (op_record_t){.sequence = history->total - 1};
        added += record != NULL;
    }
    return added;
}

static void test_the_last_ops_are_there_in_order(void **state)
{
    (void)state;
    world_t world;
    open_world(&world, 1 << 30, 8);
    assert_int_equal(add(&world.history, 3 * HISTORY_OPS + 7), 3 * HISTORY_OPS + 7);
    assert_null(history_get(&world.history, world.history.total));
    assert_null(history_get(&world.history, world.history.total - HISTORY_OPS - 1));
    for (uint64_t i = world.history.total - HISTORY_OPS; i < world.history.total; i++)
        assert_int_equal(history_get(&world.history, i)->sequence, i);
    assert_int_equal(account_used(&world.account, BUDGET_OP_BYTES), HISTORY_OPS * record_bytes(8));
    close_world(&world);
}

static void test_memory_grows_with_the_ops(void **state)
{
    (void)state;
    world_t world;
    open_world(&world, 1 << 30, 1000);
    assert_int_equal(account_used(&world.account, BUDGET_OP_BYTES), 0);
    add(&world.history, 1);
    assert_true(account_used(&world.account, BUDGET_OP_BYTES) <= 64 * record_bytes(HISTORY_RANKS));
    close_world(&world);
}

static void test_half_of_the_budget_is_left_to_ops(void **state)
{
    (void)state;
    world_t world;
    open_world(&world, 300 * record_bytes(8), 8);
    assert_int_equal(add(&world.history, 1000), 1000);
    assert_true(account_used(&world.account, BUDGET_OP_BYTES) <= 150 * record_bytes(8));
    assert_int_equal(history_get(&world.history, 999)->sequence, 999);
    assert_non_null(history_get(&world.history, 1000 - 64));
    assert_null(history_get(&world.history, 0));
    close_world(&world);
}

static void test_without_budget_nothing_is_remembered(void **state)
{
    (void)state;
    world_t world;
    open_world(&world, record_bytes(8), 8);
    assert_int_equal(add(&world.history, 10), 0);
    assert_null(history_get(&world.history, 0));
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_ops_are_there_in_order),
        cmocka_unit_test(test_memory_grows_with_the_ops),
        cmocka_unit_test(test_half_of_the_budget_is_left_to_ops),
        cmocka_unit_test(test_without_budget_nothing_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
