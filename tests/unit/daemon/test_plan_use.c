/* What a communicator's ops have run by: counted by kind, plan and size class. */
#include "engine/plans/plan_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Whose limit for op bytes is this. */
static void open_account(account_t *account, budget_t *budget, uint64_t limit)
{
    budget_limit_t limits[BUDGET_KINDS] = {[BUDGET_OP_BYTES] = {limit, UINT64_MAX}};
    budget_init(budget, limits);
    account_open(account, budget, "somebody");
}

static plan_ran_t ran(uint64_t bytes, uint64_t measured_ns)
{
    return (plan_ran_t){.opcode = 1,
                        .algorithm = BLINK_ALGORITHM_TREES,
                        .transport = "local",
                        .bytes = bytes,
                        .measured_ns = measured_ns,
                        .predicted_us = 2.0};
}

static void test_size_classes_are_powers_of_four(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        uint32_t class;
    } expected[] = {{0, 1},          {1, 1},  {4, 1},         {5, 2},
                    {16, 2},         {17, 3}, {1u << 20, 10}, {(1u << 20) + 1, 11},
                    {UINT64_MAX, 32}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(plan_size_class(expected[i].bytes), expected[i].class);
}

static void test_ops_of_one_size_class_are_counted_together(void **state)
{
    (void)state;
    budget_t budget;
    account_t account;
    plan_uses_t uses = {.account = &account};
    open_account(&account, &budget, 1 << 20);
    plan_ran_t ops[] = {ran(1024, 700), ran(300, 500), ran(1025, 4000), ran(512, 0)};
    for (size_t i = 0; i < 4; i++)
        plan_uses_note(&uses, &ops[i]);
    const plan_use_t *large = plan_uses_first(&uses), *small = large->next;
    assert_null(small->next);
    assert_int_equal(large->op_count, 1);
    assert_int_equal(large->measured_ns_least, 4000);
    assert_int_equal(small->op_count, 3);
    assert_int_equal(small->measured_count, 2);
    assert_int_equal(small->bytes_least, 300);
    assert_int_equal(small->bytes_most, 1024);
    assert_int_equal(small->measured_ns, 1200);
    assert_int_equal(small->measured_ns_least, 500);
    assert_int_equal(small->predicted_ns, 4000);
    plan_uses_credit(&uses);
    plan_uses_free(&uses);
}

static void test_kinds_plans_and_transports_are_told_apart(void **state)
{
    (void)state;
    budget_t budget;
    account_t account;
    plan_uses_t uses = {.account = &account};
    open_account(&account, &budget, 1 << 20);
    plan_ran_t ops[5];
    for (size_t i = 0; i < 5; i++)
        ops[i] = ran(64, 1);
    ops[1].opcode = 2;
    ops[2].algorithm = BLINK_ALGORITHM_RING;
    ops[3].protocol = BLINK_PROTOCOL_LL;
    ops[4].transport = "copy engine";
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < 5; i++)
            plan_uses_note(&uses, &ops[i]);
    uint32_t count = 0;
    for (const plan_use_t *use = plan_uses_first(&uses); use; use = use->next, count++)
        assert_int_equal(use->op_count, 3);
    assert_int_equal(count, 5);
    plan_uses_credit(&uses);
    plan_uses_free(&uses);
}

static void test_entries_are_charged_and_none_is_added_without_budget(void **state)
{
    (void)state;
    budget_t budget;
    account_t account;
    plan_uses_t uses = {.account = &account};
    open_account(&account, &budget, sizeof(plan_use_t) + 1);
    plan_ran_t small = ran(64, 1), large = ran(1 << 20, 1);
    plan_uses_note(&uses, &small);
    plan_uses_note(&uses, &large);
    plan_uses_note(&uses, &small);
    assert_int_equal(account_used(&account, BUDGET_OP_BYTES), sizeof(plan_use_t));
    assert_int_equal(plan_uses_first(&uses)->op_count, 2);
    assert_null(plan_uses_first(&uses)->next);
    plan_uses_credit(&uses);
    assert_int_equal(account_used(&account, BUDGET_OP_BYTES), 0);
    plan_uses_free(&uses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_classes_are_powers_of_four),
        cmocka_unit_test(test_ops_of_one_size_class_are_counted_together),
        cmocka_unit_test(test_kinds_plans_and_transports_are_told_apart),
        cmocka_unit_test(test_entries_are_charged_and_none_is_added_without_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
