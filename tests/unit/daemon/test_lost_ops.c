/* Whose ops are kept of communicators that were lost, and whose go for them. */
#include "control/comms/lost_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ALL = 16, OF_USER = 4 };

/* In place of the engine's: every communicator was lost, with one op. */
history_t engine_comm_take_lost_ops(engine_comm_t *comm)
{
    (void)comm;
    return (history_t){.records = malloc(1), .total = 1};
}

static lost_ops_t *lost_ops;

static int start(void **state)
{
    (void)state;
    return lost_ops_create(&lost_ops) == BLINK_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    lost_ops_destroy(lost_ops);
    return 0;
}

static void lose(uid_t uid, uint32_t number)
{
    tenant_t tenant = {.uid = uid};
    const roster_t roster = {.tenant = &tenant, .number = number};
    lost_ops_keep(lost_ops, &roster);
}

/* A user loses the communicators with these numbers, one after the other. */
static void lose_all(uid_t uid, uint32_t first, uint32_t last)
{
    for (uint32_t number = first; number <= last; number++)
        lose(uid, number);
}

static bool is_kept(uid_t uid, uint32_t number)
{
    const tenant_t tenant = {.uid = uid};
    const view_t view = {.tenant = &tenant};
    return lost_ops_find(lost_ops, &view, number);
}

static uint32_t count_kept(uid_t uid, uint32_t first, uint32_t last)
{
    uint32_t count = 0;
    for (uint32_t number = first; number <= last; number++)
        count += is_kept(uid, number);
    return count;
}

static void test_a_user_s_newest_take_the_place_of_its_oldest(void **state)
{
    (void)state;
    lose_all(1000, 1, OF_USER + 2);
    assert_false(is_kept(1000, 2));
    assert_int_equal(count_kept(1000, 3, OF_USER + 2), OF_USER);
    assert_false(is_kept(1001, 3)); /* which is another user's */
}

static void test_who_has_the_most_makes_room(void **state)
{
    (void)state;
    lose(1000, 1);
    for (uid_t uid = 1001; uid <= 1001 + ALL / OF_USER; uid++)
        lose_all(uid, 100, 99 + OF_USER);
    assert_true(is_kept(1000, 1));
    for (uid_t uid = 1001; uid <= 1001 + ALL / OF_USER; uid++)
        assert_true(count_kept(uid, 100, 99 + OF_USER) >= ALL / (2 + ALL / OF_USER));
}

static void test_one_more_of_a_user_is_in_the_place_of_no_other_user_s_only_one(void **state)
{
    (void)state;
    for (uid_t uid = 1000; uid < 1000 + ALL; uid++)
        lose(uid, 1);
    lose(1007, 2);
    assert_true(is_kept(1007, 2));
    assert_false(is_kept(1007, 1));
    assert_true(is_kept(1000, 1));
}

static void test_of_more_users_than_places_the_oldest_goes(void **state)
{
    (void)state;
    for (uid_t uid = 1000; uid <= 1000 + ALL; uid++)
        lose(uid, 1);
    assert_false(is_kept(1000, 1));
    for (uid_t uid = 1001; uid <= 1000 + ALL; uid++)
        assert_true(is_kept(uid, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_user_s_newest_take_the_place_of_its_oldest),
        TEST(test_who_has_the_most_makes_room),
        TEST(test_one_more_of_a_user_is_in_the_place_of_no_other_user_s_only_one),
        TEST(test_of_more_users_than_places_the_oldest_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
