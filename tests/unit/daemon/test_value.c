/* Values as people write them, the names that may have been meant, and other spellings of names. */
#include "base/near.h"
#include "base/value.h"
#include "names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_sizes_have_one_meaning_however_they_are_written(void **state)
{
    (void)state;
    static const char *const same[] = {"65536", "65536B", "64K", "64k", "64KB", "64kb", "64KiB", "64 KiB"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_true(value_parse_bytes(same[i], &bytes));
        assert_int_equal(bytes, 65536);
    }
    assert_true(value_parse_bytes("3T", &bytes));
    assert_int_equal(bytes, (uint64_t)3 << 40);
}

static void test_what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"",   "K",   "64 ", "64X",  "64KK", "64iB",    "64KiBs",
                                       "-1", "1.5", " 64", "0x40", "64Ki", "9000000T"};
    uint64_t bytes = 7;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_false(value_parse_bytes(none[i], &bytes));
    assert_int_equal(bytes, 7);
}

static void test_ranges_go_up_and_down(void **state)
{
    (void)state;
    uint32_t first, last;
    assert_true(value_parse_range("5", 9, &first, &last));
    assert_true(first == 5 && last == 5);
    assert_true(value_parse_range("0-3", 9, &first, &last));
    assert_true(first == 0 && last == 3);
    assert_true(value_parse_range("3-0", 9, &first, &last));
    assert_true(first == 3 && last == 0);
    static const char *const none[] = {"", "-", "-3", "3-", "0-10", "0-1-2", "a-b", "0--3"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_false(value_parse_range(none[i], 9, &first, &last));
}

static void test_a_list_ends_and_keeps_empty_items(void **state)
{
    (void)state;
    char item[VALUE_ITEM_BYTES];
    const char *list = "a,,b";
    assert_true(value_next_item(&list, item));
    assert_string_equal(item, "a");
    assert_true(value_next_item(&list, item));
    assert_string_equal(item, "");
    assert_true(value_next_item(&list, item));
    assert_string_equal(item, "b");
    assert_false(value_next_item(&list, item));
}

static void test_the_nearest_name_is_meant(void **state)
{
    (void)state;
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin("Allreduc");
    near_try_values(&near, blink_name_collective);
    assert_string_equal(near_hint(&near, hint), " (did you mean 'allreduce'?)");
    near = near_begin("transmogrify");
    near_try_values(&near, blink_name_collective);
    assert_string_equal(near_hint(&near, hint), "");
}

static void test_names_are_the_same_in_other_spellings(void **state)
{
    (void)state;
    blink_collective_t collective;
    blink_datatype_t datatype;
    assert_true(blink_parse_collective("all_reduce", &collective) && collective == BLINK_ALLREDUCE);
    assert_true(blink_parse_collective("Reduce-Scatter", &collective) && collective == BLINK_REDUCESCATTER);
    assert_true(blink_parse_datatype("half", &datatype) && datatype == BLINK_FLOAT16);
    assert_true(blink_parse_datatype("BF16", &datatype) && datatype == BLINK_BFLOAT16);
    assert_false(blink_parse_collective("all", &collective));
    assert_false(blink_parse_datatype("", &datatype));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_have_one_meaning_however_they_are_written),
        cmocka_unit_test(test_what_is_no_size_is_refused),
        cmocka_unit_test(test_ranges_go_up_and_down),
        cmocka_unit_test(test_a_list_ends_and_keeps_empty_items),
        cmocka_unit_test(test_the_nearest_name_is_meant),
        cmocka_unit_test(test_names_are_the_same_in_other_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
