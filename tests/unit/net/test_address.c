/*
 * Addresses as text and as the kernel has them, and the names of hosts.
 */
#include "net/address.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_addresses_are_read_and_written(void **state)
{
    static const char *const same[][2] = {
        {"192.0.2.1:7", "192.0.2.1:7"},
        {"192.0.2.1", "192.0.2.1:24655"},
        {"[2001:db8::1]:65535", "[2001:db8::1]:65535"},
        {"[2001:db8::1]", "[2001:db8::1]:24655"},
        {"2001:db8::1", "[2001:db8::1]:24655"},
        {"::1", "[::1]:24655"},
        {"[fe80::1%lo]:7", "[fe80::1%lo]:7"},
        {"*", "[::]:24655"},
        {"*:7", "[::]:7"},
        {"[::ffff:192.0.2.1]:7", "192.0.2.1:7"},
    };
    net_address_t address;
    char text[ADDRESS_TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_int_equal(address_parse(same[i][0], NET_PORT_DEFAULT, &address), BLINK_OK);
        address_write(&address, text);
        assert_string_equal(text, same[i][1]);
    }
}

static void test_bad_addresses_are_named(void **state)
{
    static const char *const bad[] = {"",
                                      ":7",
                                      "192.0.2.1:",
                                      "192.0.2.1:0",
                                      "192.0.2:7",
                                      "192.0.2.1:65536",
                                      "192.0.2.1:7x",
                                      "192.0.2.1:-7",
                                      "[::1",
                                      "[::1]7",
                                      "[::1]:",
                                      "[]:7",
                                      "::1::2",
                                      "n1:7",
                                      "[fe80::1%none]:7",
                                      "[192.0.2.1:7"};
    net_address_t address;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(address_parse(bad[i], NET_PORT_DEFAULT, &address), BLINK_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(blink_error_text(), bad[i]));
    }
}

static net_address_t parsed(const char *text)
{
    net_address_t address;
    assert_int_equal(address_parse(text, NET_PORT_DEFAULT, &address), BLINK_OK);
    return address;
}

static void test_strangers_are_judged_by_network(void **state)
{
    net_address_t one = parsed("[2001:db8::1]:7"), two = parsed("[2001:db8::2]:7");
    net_address_t far = parsed("[2001:db8:0:1::1]:7"), v4 = parsed("192.0.2.1:7"),
                  v4_other = parsed("192.0.2.2:7");
    (void)state;
    assert_true(address_same_network(&one, &two));
    assert_false(address_same_network(&one, &far));
    assert_false(address_same_network(&v4, &v4_other));
    assert_false(address_same_network(&one, &v4));
}

static void test_neighbours_are_in_a_network_of_this_machines(void **state)
{
    net_address_t own = parsed("[::1]:7"), neighbour = parsed("[::5]:7"), far = parsed("[2001:db8::1]:7"),
                  v4 = parsed("127.0.0.1:7");
    (void)state;
    if (!address_is_neighbour(&own))
        skip(); /* no IPv6 */
    assert_true(address_is_neighbour(&neighbour));
    assert_false(address_is_neighbour(&far));
    assert_false(address_is_neighbour(&v4));
}

/* ---- names ---- */

typedef struct answer {
    uint32_t calls, count;
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
    net_address_t first;
} answer_t;

static void on_found(void *context, blink_result_t code, const net_address_t *addresses, uint32_t count)
{
    answer_t *answer = context;
    answer->calls++;
    answer->code = code;
    answer->count = count;
    if (count > 0)
        answer->first = addresses[0];
    strcpy(answer->text, blink_error_text());
}

static answer_t find(const char *text)
{
    uv_loop_t loop;
    address_lookup_t *lookup;
    answer_t answer = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(address_find(&loop, text, NET_PORT_DEFAULT, on_found, &answer, &lookup), BLINK_OK);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(answer.calls, 1);
    return answer;
}

static void test_names_are_found(void **state)
{
    answer_t answer = find("localhost:7");
    (void)state;
    assert_int_equal(answer.code, BLINK_OK);
    assert_in_range(answer.count, 1, ADDRESSES_MAX);
    assert_int_equal(ntohs(answer.first.v4.sin_port), 7);
    answer = find("[::1]");
    assert_int_equal(answer.code, BLINK_OK);
    assert_int_equal(answer.first.any.sa_family, AF_INET6);
}

static void test_unknown_name_is_named(void **state)
{
    answer_t answer = find("no-such-host.invalid:7");
    (void)state;
    assert_int_equal(answer.code, BLINK_ERR_NOT_FOUND);
    assert_int_equal(answer.count, 0);
    assert_non_null(strstr(answer.text, "no-such-host.invalid"));
}

static void test_cancelled_look_up_says_nothing(void **state)
{
    uv_loop_t loop;
    address_lookup_t *lookup;
    answer_t answer = {0};
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(address_find(&loop, "localhost", NET_PORT_DEFAULT, on_found, &answer, &lookup),
                     BLINK_OK);
    address_cancel(lookup);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(answer.calls, 0);
}

static void test_interfaces_are_no_loopback(void **state)
{
    net_interface_t interfaces[16];
    uint32_t count;
    (void)state;
    assert_int_equal(address_interfaces(interfaces, 16, &count), BLINK_OK);
    assert_in_range(count, 0, 16);
    for (uint32_t i = 0; i < count; i++)
        assert_string_not_equal(interfaces[i].name, "lo");
    assert_int_equal(address_interfaces(interfaces, 0, &count), BLINK_OK);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_read_and_written),
        cmocka_unit_test(test_bad_addresses_are_named),
        cmocka_unit_test(test_strangers_are_judged_by_network),
        cmocka_unit_test(test_neighbours_are_in_a_network_of_this_machines),
        cmocka_unit_test(test_names_are_found),
        cmocka_unit_test(test_unknown_name_is_named),
        cmocka_unit_test(test_cancelled_look_up_says_nothing),
        cmocka_unit_test(test_interfaces_are_no_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
