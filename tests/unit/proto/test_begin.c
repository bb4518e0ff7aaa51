/* What BEGIN and FAIL carry, and what is refused of it. */
#include "begin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static op_name_t some_op(void)
{
    return (op_name_t){
        .home = 7, .comm = 3, .host = 1, .number = 5, .root = OP_NAME_NONE, .peer = OP_NAME_NONE};
}

enum { ALL_KEYS = BEGIN_KEYS + BEGIN_MORE_KEYS };

static blink_result_t parse(const begin_t *begin)
{
    begin_t read;
    return begin_parse(begin, begin_bytes(begin, BEGIN_KEYS), BEGIN_KEYS, &read);
}

/* One that tells of no round of data connections, and has no more keys, is as short as it was before. */
static void test_a_begin_is_read_as_it_was_written(void **state)
{
    begin_t written = {.op = some_op(), .count = 9, .opcode = 2, .digest = 11, .slots = 4}, read;
    (void)state;
    assert_int_equal(begin_bytes(&written, BEGIN_KEYS), 96);
    assert_int_equal(begin_parse(&written, 96, BEGIN_KEYS, &read), BLINK_OK);
    assert_memory_equal(&written, &read, sizeof(read));
    written.flow_count = 1;
    written.address = 4096;
    written.round = 3;
    assert_int_equal(begin_parse(&written, sizeof(written), ALL_KEYS, &read), BLINK_OK);
    assert_memory_equal(&written, &read, sizeof(read));
}

static void test_a_begin_has_a_key_for_each_connection(void **state)
{
    begin_t begin = {.op = some_op(), .opcode = 2, .address = 4096, .flow_count = 1}, read;
    (void)state;
    begin.more_keys[0] = 5;
    begin.more_keys[1] = 6;
    assert_int_equal(begin_bytes(&begin, BEGIN_KEYS), 96); /* as daemons have it that know no more */
    assert_int_equal(begin_bytes(&begin, 3), 108);
    assert_int_equal(begin_parse(&begin, 108, 3, &read), BLINK_OK);
    assert_int_equal(read.more_keys[0], 5);
    assert_int_equal(read.more_keys[1], 0);
    assert_int_equal(begin_parse(&begin, 108, 4, &read), BLINK_ERR_PROTOCOL);
    assert_int_equal(begin_parse(&begin, 108, 2, &read), BLINK_ERR_PROTOCOL);
}

static void test_a_begin_that_is_cut_off_or_of_nobody_is_refused(void **state)
{
    begin_t begin = {.op = some_op(), .opcode = 2}, read;
    (void)state;
    assert_int_equal(parse(&begin), BLINK_OK);
    assert_int_equal(begin_parse(&begin, 95, BEGIN_KEYS, &read), BLINK_ERR_PROTOCOL);
    assert_int_equal(begin_parse(&begin, offsetof(begin_t, more_keys), BEGIN_KEYS, &read),
                     BLINK_ERR_PROTOCOL); /* of round 0 */
    begin.op.home = 0;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.op = some_op();
    begin.op.root = 1; /* and no peer */
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.op = some_op();
    begin.opcode = 200; /* no collective */
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
}

static void test_a_begin_with_keys_to_nothing_is_refused(void **state)
{
    begin_t begin = {.op = some_op(), .opcode = 2, .stands = 2}, read;
    (void)state;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.stands = 0;
    begin.keys[1] = 1;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.keys[1] = 0;
    begin.round = 1;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.address = 4096;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.flow_count = 1;
    assert_int_equal(parse(&begin), BLINK_OK);
    assert_int_equal(begin_parse(&begin, offsetof(begin_t, more_keys) - 4, BEGIN_KEYS, &read),
                     BLINK_ERR_PROTOCOL);
    begin.reserved = 1;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
    begin.reserved = 0;
    begin.stands = 1;
    assert_int_equal(parse(&begin), BLINK_ERR_PROTOCOL);
}

static void test_a_left_names_a_communicator(void **state)
{
    left_t left = {.home = 7, .comm = 3}, read;
    (void)state;
    assert_int_equal(left_parse(&left, sizeof(left), &read), BLINK_OK);
    assert_memory_equal(&left, &read, sizeof(read));
    assert_int_equal(left_parse(&left, sizeof(left) - 1, &read), BLINK_ERR_PROTOCOL);
    left.flags = LEFT_ASKS;
    assert_int_equal(left_parse(&left, sizeof(left), &read), BLINK_OK);
    left.flags = 2;
    assert_int_equal(left_parse(&left, sizeof(left), &read), BLINK_ERR_PROTOCOL);
    left = (left_t){.home = 7};
    assert_int_equal(left_parse(&left, sizeof(left), &read), BLINK_ERR_PROTOCOL);
    left = (left_t){.comm = 3};
    assert_int_equal(left_parse(&left, sizeof(left), &read), BLINK_ERR_PROTOCOL);
}

static void test_a_fail_tells_how_far_was_sent_and_why(void **state)
{
    uint32_t payload[FAIL_MOST_BYTES / sizeof(uint32_t) + 1];
    const uint32_t sent[] = {3, 0, 8}, *read_sent;
    fail_t written = {.op = some_op(), .code = BLINK_ERR_MISMATCH, .sent_count = 3}, read;
    char text[BLINK_ERROR_TEXT_BYTES];
    (void)state;
    uint32_t bytes = fail_write(&written, sent, "rank 0 gave count 1", payload);
    assert_int_equal(fail_parse(payload, bytes, &read, &read_sent, text), BLINK_OK);
    assert_memory_equal(&written, &read, sizeof(read));
    assert_memory_equal(sent, read_sent, sizeof(sent));
    assert_string_equal(text, "rank 0 gave count 1");
}

static void test_a_fail_that_lies_about_its_lengths_is_refused(void **state)
{
    uint32_t payload[FAIL_MOST_BYTES / sizeof(uint32_t) + 1];
    const uint32_t sent[] = {3}, *read_sent;
    fail_t fail = {.op = some_op(), .code = BLINK_ERR_MISMATCH, .sent_count = 1}, read;
    char text[BLINK_ERROR_TEXT_BYTES];
    (void)state;
    uint32_t bytes = fail_write(&fail, sent, "", payload);
    assert_int_equal(fail_parse(payload, bytes, &read, &read_sent, text), BLINK_OK);
    assert_int_equal(fail_parse(payload, bytes - 1, &read, &read_sent, text), BLINK_ERR_PROTOCOL);
    assert_int_equal(fail_parse(payload, sizeof(fail) - 1, &read, &read_sent, text), BLINK_ERR_PROTOCOL);
    assert_int_equal(fail_parse(payload, bytes + BLINK_ERROR_TEXT_BYTES, &read, &read_sent, text),
                     BLINK_ERR_PROTOCOL);
    fail.sent_count = UINT32_MAX;
    memcpy(payload, &fail, sizeof(fail));
    assert_int_equal(fail_parse(payload, bytes, &read, &read_sent, text), BLINK_ERR_PROTOCOL);
    fail.sent_count = 1;
    for (uint32_t i = 0; i < 2; i++) {
        fail.code = i == 0 ? BLINK_OK : 999; /* what is no failure, and what is no result */
        memcpy(payload, &fail, sizeof(fail));
        assert_int_equal(fail_parse(payload, bytes, &read, &read_sent, text), BLINK_ERR_PROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_begin_is_read_as_it_was_written),
        cmocka_unit_test(test_a_begin_has_a_key_for_each_connection),
        cmocka_unit_test(test_a_begin_that_is_cut_off_or_of_nobody_is_refused),
        cmocka_unit_test(test_a_begin_with_keys_to_nothing_is_refused),
        cmocka_unit_test(test_a_left_names_a_communicator),
        cmocka_unit_test(test_a_fail_tells_how_far_was_sent_and_why),
        cmocka_unit_test(test_a_fail_that_lies_about_its_lengths_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
