/*
 * Messages of two daemons, and which refusals may be logged.
 */
#include "net/message.h"
#include "net/refusals.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static hello_t some_hello(uint32_t nic_count)
{
    hello_t hello = {.version_min = 1,
                     .version_max = 3,
                     .daemon_version = "1.2.3",
                     .host = "n1.example.org",
                     .instance = UINT64_C(0x123456789abcdef0),
                     .nic_count = nic_count};
    for (uint32_t i = 0; i < nic_count; i++) {
        snprintf(hello.nics[i].name, INTERFACE_NAME_BYTES, "interface-%c", (char)('a' + i % 26));
        assert_int_equal(address_parse(i % 2 ? "2001:db8::1" : "192.0.2.1", 1, &hello.nics[i].address),
                         BLINK_OK);
        hello.nics[i].address.v4.sin_port = 0;
        hello.nics[i].place = i / 2;
    }
    return hello;
}

static void test_hello_comes_back_as_it_was(void **state)
{
    uint8_t bytes[GREETING_MOST_BYTES], again[GREETING_MOST_BYTES];
    const hello_t told = some_hello(HELLO_NICS_MAX);
    hello_t heard;
    arena_t arena = {0};
    const Blinkpeer__Message *message;
    (void)state;
    size_t byte_count = hello_pack(&told, bytes);
    assert_int_equal(message_parse(bytes, byte_count, &arena, &message), BLINK_OK);
    assert_int_equal(message->body_case, BLINKPEER__MESSAGE__BODY_HELLO);
    assert_int_equal(hello_read(message->hello, &heard), BLINK_OK);
    assert_string_equal(heard.host, "n1.example.org");
    assert_int_equal(heard.nic_count, HELLO_NICS_MAX);
    assert_int_equal(hello_pack(&heard, again), byte_count);
    assert_memory_equal(again, bytes, byte_count);
    arena_free(&arena);
}

/* A NIC of two bytes becomes a struct of 64: parsing takes no more than the bytes allow. */
static void test_small_message_does_not_become_large(void **state)
{
    enum { BYTES = 60000 };
    static uint8_t bytes[4 + BYTES] = {0x0a, (BYTES & 0x7f) | 0x80, (BYTES >> 7 & 0x7f) | 0x80, BYTES >> 14};
    arena_t arena = {0};
    const Blinkpeer__Message *message;
    (void)state;
    for (size_t i = 4; i < sizeof(bytes); i += 2)
        bytes[i] = 0x32; /* nics, of 0 bytes */
    assert_int_equal(message_parse(bytes, sizeof(bytes), &arena, &message), BLINK_ERR_PROTOCOL);
    assert_true(arena.bytes <= 2u * 17u * sizeof(bytes));
    arena_free(&arena);
}

static void test_too_many_nics_are_refused(void **state)
{
    Blinkpeer__Hello hello = BLINKPEER__HELLO__INIT;
    Blinkpeer__Nic nic = BLINKPEER__NIC__INIT, *nics[HELLO_NICS_MAX + 1];
    uint8_t address[4] = {192, 0, 2, 1};
    hello_t heard;
    (void)state;
    nic.name = "eth0";
    nic.address = (ProtobufCBinaryData){sizeof(address), address};
    for (uint32_t i = 0; i <= HELLO_NICS_MAX; i++)
        nics[i] = &nic;
    hello.version_min = hello.version_max = 1;
    hello.instance = 1;
    hello.host = "n1";
    hello.daemon_version = "1";
    hello.nics = nics;
    hello.n_nics = HELLO_NICS_MAX;
    assert_int_equal(hello_read(&hello, &heard), BLINK_OK);
    hello.n_nics = HELLO_NICS_MAX + 1;
    assert_int_equal(hello_read(&hello, &heard), BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "33 NICs"));
    hello.n_nics = 1;
    nic.address.len = 3;
    assert_int_equal(hello_read(&hello, &heard), BLINK_ERR_PROTOCOL);
    nic.address.len = 4;
    nic.name = "eth0\n";
    assert_int_equal(hello_read(&hello, &heard), BLINK_ERR_PROTOCOL);
}

static void test_highest_common_version(void **state)
{
    static const uint32_t cases[][5] = {
        {1, 3, 1, 3, 3}, {1, 3, 2, 7, 3}, {2, 7, 1, 3, 3}, {1, 3, 4, 5, 0}, {4, 5, 1, 3, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hello_t own = some_hello(0), peer = some_hello(0);
        uint32_t version;
        own.version_min = cases[i][0], own.version_max = cases[i][1];
        peer.version_min = cases[i][2], peer.version_max = cases[i][3];
        blink_result_t result = hello_choose_version(&own, &peer, &version);
        assert_int_equal(result, cases[i][4] ? BLINK_OK : BLINK_ERR_PROTOCOL);
        if (cases[i][4])
            assert_int_equal(version, cases[i][4]);
    }
}

/* ---- refusals ---- */

#define SECOND UINT64_C(1000000000)

static net_address_t numbered(uint32_t number)
{
    return (net_address_t){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000u + number)}};
}

static void test_address_has_one_line_a_second(void **state)
{
    refusals_t refusals = {0};
    net_address_t one = numbered(1), two = numbered(2);
    uint32_t withheld_count;
    (void)state;
    assert_true(refusals_may_log(&refusals, &one, 5 * SECOND, &withheld_count));
    assert_int_equal(withheld_count, 0);
    for (uint32_t i = 1; i < 100; i++)
        assert_false(refusals_may_log(&refusals, &one, 5 * SECOND + i, &withheld_count));
    assert_true(refusals_may_log(&refusals, &two, 5 * SECOND, &withheld_count));
    assert_int_equal(withheld_count, 0);
    assert_true(refusals_may_log(&refusals, &one, 6 * SECOND, &withheld_count));
    assert_int_equal(withheld_count, 99);
}

static void test_many_addresses_share_a_budget_of_lines(void **state)
{
    refusals_t refusals = {0};
    uint32_t line_count = 0, withheld_count;
    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        net_address_t address = numbered(i);
        line_count += refusals_may_log(&refusals, &address, 5 * SECOND + i * 10000, &withheld_count);
    }
    assert_in_range(line_count, 1, 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_comes_back_as_it_was),
        cmocka_unit_test(test_small_message_does_not_become_large),
        cmocka_unit_test(test_too_many_nics_are_refused),
        cmocka_unit_test(test_highest_common_version),
        cmocka_unit_test(test_address_has_one_line_a_second),
        cmocka_unit_test(test_many_addresses_share_a_budget_of_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
