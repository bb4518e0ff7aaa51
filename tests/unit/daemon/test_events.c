/* The memory of events has a bound, and one user's do not push out others'. */
#include "base/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void happen_as(event_kind_t kind, int64_t uid, uint32_t count, const char *text)
{
    const event_of_t of = {.kind = kind, .uid = uid, .subject = "client 1"};
    for (uint32_t i = 0; i < count; i++)
        event_log(&of, LOG_LEVEL_DEBUG, "%s", text);
}

static void happen(int64_t uid, uint32_t count, const char *text)
{
    happen_as(EVENT_CLIENT_CAME, uid, count, text);
}

static uint32_t count_of(int64_t uid)
{
    static event_t events[EVENTS_MOST];
    uint32_t all = events_copy(0, events, EVENTS_MOST), count = 0;
    for (uint32_t i = 0; i < all; i++)
        count += events[i].uid == uid;
    return count;
}

static void test_a_user_has_a_part_and_the_host_all_that_is_left(void **state)
{
    (void)state;
    happen(EVENT_OF_NOBODY, 1, "begins");
    happen(1000, 2 * EVENTS_MOST, "comes");
    assert_int_equal(count_of(1000), EVENTS_OF_USER);
    assert_int_equal(count_of(EVENT_OF_NOBODY), 1);
    happen(1001, EVENTS_OF_USER, "comes");
    assert_int_equal(count_of(1000), EVENTS_OF_USER);
    happen(EVENT_OF_NOBODY, 2 * EVENTS_MOST, "goes on");
    assert_int_equal(count_of(EVENT_OF_NOBODY), EVENTS_MOST - 2 * EVENTS_OF_USER);
    assert_int_equal(count_of(1000), EVENTS_OF_USER);
}

static void test_users_together_push_out_no_user_s_latest(void **state)
{
    (void)state;
    happen(EVENT_OF_NOBODY, EVENTS_MOST, "happens");
    happen(2000, 1, "comes");
    for (int64_t uid = 2001; uid <= 2001 + EVENTS_MOST / EVENTS_OF_USER; uid++)
        happen(uid, EVENTS_OF_USER, "comes");
    assert_int_equal(count_of(2000), 1);
    assert_true(count_of(EVENT_OF_NOBODY) > 1);
}

static void test_strangers_push_out_nobody_else(void **state)
{
    (void)state;
    happen(EVENT_OF_NOBODY, EVENTS_MOST - EVENTS_OF_USER, "happens");
    happen(1002, 1, "comes");
    happen_as(EVENT_HOST_REFUSED, EVENT_OF_NOBODY, 2 * EVENTS_MOST, "is refused");
    assert_int_equal(count_of(1002), 1);
}

static void test_pages_adjoin_from_the_newest_to_the_oldest(void **state)
{
    (void)state;
    static event_t all[EVENTS_MOST], page[3];
    happen(EVENT_OF_NOBODY, EVENTS_MOST, "happens");
    assert_int_equal(events_copy(0, all, EVENTS_MOST), EVENTS_MOST);
    uint64_t before = 0;
    uint32_t total = 0, count;
    while ((count = events_copy(before, page, 3)) > 0) {
        for (uint32_t i = 0; i < count; i++, total++) {
            assert_int_equal(page[i].number, all[total].number);
            assert_true(total == 0 || page[i].number < all[total - 1].number);
        }
        before = page[count - 1].number;
    }
    assert_int_equal(total, EVENTS_MOST);
}

static void test_what_is_too_long_is_cut(void **state)
{
    (void)state;
    char text[2 * EVENT_TEXT_BYTES];
    event_t event;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    const event_of_t of = {.kind = EVENT_COMM_LOST, .uid = 1003, .comm = 7, .subject = text};
    event_log(&of, LOG_LEVEL_DEBUG, "%s", text);
    assert_int_equal(events_copy(0, &event, 1), 1);
    assert_int_equal(strlen(event.subject), EVENT_SUBJECT_BYTES - 1);
    assert_int_equal(strlen(event.text), EVENT_TEXT_BYTES - 1);
    assert_int_equal(event.comm, 7);
    assert_string_equal(event_kind_name(event.kind), "comm-lost");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_user_has_a_part_and_the_host_all_that_is_left),
        cmocka_unit_test(test_users_together_push_out_no_user_s_latest),
        cmocka_unit_test(test_strangers_push_out_nobody_else),
        cmocka_unit_test(test_pages_adjoin_from_the_newest_to_the_oldest),
        cmocka_unit_test(test_what_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
