/* What tenants are charged for: limits, shares that shrink with the number of tenants, and what refusals say.
 */
#include "base/tenant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void init(tenants_t *tenants, uint64_t tenant, uint64_t node)
{
    budget_limit_t limits[BUDGET_KINDS] = {0};
    limits[BUDGET_REGIONS] = (budget_limit_t){tenant, node};
    tenants_init(tenants, limits);
}

static void test_a_tenant_is_refused_at_its_limit_and_changes_nothing(void **state)
{
    (void)state;
    tenants_t tenants;
    init(&tenants, 10, 1000);
    tenant_t *tenant = tenant_get(&tenants, 1000, "");
    assert_int_equal(account_charge(&tenant->account, BUDGET_REGIONS, 7), BLINK_OK);
    assert_int_equal(account_charge(&tenant->account, BUDGET_REGIONS, 4), BLINK_ERR_QUOTA);
    assert_string_equal(blink_error_text(),
                        "user 1000 uses 7 and asks for 4 more; the limit is 10, regions_per_tenant");
    assert_int_equal(account_used(&tenant->account, BUDGET_REGIONS), 7);
    assert_int_equal(account_charge(&tenant->account, BUDGET_REGIONS, 3), BLINK_OK);
    account_credit(&tenant->account, BUDGET_REGIONS, 10);
    assert_int_equal(tenants.budget.used[BUDGET_REGIONS], 0);
    tenant_put(tenant);
    assert_true(list_is_empty(&tenants.all));
}

static void test_no_number_of_tenants_uses_all_and_a_late_one_finds_something(void **state)
{
    (void)state;
    enum { TENANTS = 200 };
    tenants_t tenants;
    tenant_t *all[TENANTS];
    init(&tenants, 100000, 100000);
    for (uint32_t i = 0; i < TENANTS; i++) {
        all[i] = tenant_get(&tenants, i, "");
        uint64_t taken = 0;
        while (account_charge(&all[i]->account, BUDGET_REGIONS, 1) == BLINK_OK)
            taken++;
        assert_true(taken > 0);
        assert_int_equal(account_limit(&all[i]->account, BUDGET_REGIONS), taken);
    }
    assert_true(tenants.budget.used[BUDGET_REGIONS] < 100000);
    assert_non_null(strstr(blink_error_text(), "beside 199 tenants"));
    assert_non_null(strstr(blink_error_text(), "regions_per_node"));
    for (uint32_t i = 0; i < TENANTS; i++) {
        account_credit(&all[i]->account, BUDGET_REGIONS, account_used(&all[i]->account, BUDGET_REGIONS));
        tenant_put(all[i]);
    }
}

static void test_what_is_there_already_counts_beyond_the_limit(void **state)
{
    (void)state;
    tenants_t tenants;
    init(&tenants, 10, 1000);
    tenant_t *tenant = tenant_get(&tenants, 1000, "");
    account_add(&tenant->account, BUDGET_REGIONS, 15);
    assert_false(account_has_left(&tenant->account, BUDGET_REGIONS, 0));
    assert_int_equal(account_charge(&tenant->account, BUDGET_REGIONS, 1), BLINK_ERR_QUOTA);
    account_credit(&tenant->account, BUDGET_REGIONS, 15);
    assert_true(account_has_left(&tenant->account, BUDGET_REGIONS, 10));
    tenant_put(tenant);
}

static void test_texts_are_charged_while_they_last(void **state)
{
    (void)state;
    tenants_t tenants;
    init(&tenants, 10, 1000);
    tenant_t *tenant = tenant_get(&tenants, 1000, "");
    assert_null(account_copy_text(&tenant->account, BUDGET_REGIONS, "ten and one"));
    char *text = account_copy_text(&tenant->account, BUDGET_REGIONS, "ten bytes");
    assert_string_equal(text, "ten bytes");
    assert_int_equal(account_used(&tenant->account, BUDGET_REGIONS), 10);
    assert_null(account_copy_text(&tenant->account, BUDGET_REGIONS, ""));
    account_free_text(&tenant->account, BUDGET_REGIONS, text);
    account_free_text(&tenant->account, BUDGET_REGIONS, NULL);
    assert_int_equal(account_used(&tenant->account, BUDGET_REGIONS), 0);
    tenant_put(tenant);
}

static void test_amounts_and_limits_of_any_size_do_not_overflow(void **state)
{
    (void)state;
    tenants_t tenants;
    init(&tenants, UINT64_MAX, UINT64_MAX);
    tenant_t *tenant = tenant_get(&tenants, 1000, "");
    assert_int_equal(account_charge(&tenant->account, BUDGET_REGIONS, UINT64_MAX / 2), BLINK_OK);
    assert_false(account_has_left(&tenant->account, BUDGET_REGIONS, 1)); /* half is its share */
    assert_false(account_has_left(&tenant->account, BUDGET_REGIONS, UINT64_MAX));
    account_credit(&tenant->account, BUDGET_REGIONS, UINT64_MAX / 2);
    tenant_put(tenant);
}

static void test_amounts_that_belong_together_are_charged_together_or_not_at_all(void **state)
{
    (void)state;
    budget_limit_t limits[BUDGET_KINDS] = {0};
    limits[BUDGET_REGIONS] = limits[BUDGET_REPLY_BYTES] = (budget_limit_t){10, 1000};
    tenants_t tenants;
    tenants_init(&tenants, limits);
    tenant_t *tenant = tenant_get(&tenants, 1000, "");
    const charge_t few[] = {{BUDGET_REGIONS, 3}, {BUDGET_REPLY_BYTES, 7}};
    assert_int_equal(account_charge_all(&tenant->account, few, 2), BLINK_OK);
    assert_int_equal(account_charge_all(&tenant->account, few, 2), BLINK_ERR_QUOTA);
    assert_non_null(strstr(blink_error_text(), "reply_bytes_per_tenant"));
    assert_int_equal(account_used(&tenant->account, BUDGET_REGIONS), 3);
    assert_int_equal(account_used(&tenant->account, BUDGET_REPLY_BYTES), 7);
    account_credit_all(&tenant->account, few, 2);
    assert_int_equal(tenants.budget.used[BUDGET_REGIONS] + tenants.budget.used[BUDGET_REPLY_BYTES], 0);
    tenant_put(tenant);
}

static void test_users_in_two_cgroups_are_two_tenants(void **state)
{
    (void)state;
    tenants_t tenants;
    init(&tenants, 10, 1000);
    tenant_t *job = tenant_get(&tenants, 1000, "/job/1"), *other = tenant_get(&tenants, 1000, "/job/2");
    assert_ptr_not_equal(job, other);
    assert_ptr_equal(tenant_get(&tenants, 1000, "/job/1"), job);
    assert_string_equal(job->name, "user 1000 in /job/1");
    tenant_put(job);
    assert_int_equal(tenants.budget.account_count, 2); /* it is held still */
    tenant_put(job);
    tenant_put(other);
    assert_int_equal(tenants.budget.account_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tenant_is_refused_at_its_limit_and_changes_nothing),
        cmocka_unit_test(test_no_number_of_tenants_uses_all_and_a_late_one_finds_something),
        cmocka_unit_test(test_what_is_there_already_counts_beyond_the_limit),
        cmocka_unit_test(test_texts_are_charged_while_they_last),
        cmocka_unit_test(test_amounts_and_limits_of_any_size_do_not_overflow),
        cmocka_unit_test(test_amounts_that_belong_together_are_charged_together_or_not_at_all),
        cmocka_unit_test(test_users_in_two_cgroups_are_two_tenants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
