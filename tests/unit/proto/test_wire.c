/* Frames of data connections: their bytes, what the parser refuses, and immediates. */
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const wire_frame_t DATA = {.bytes = 0x00012345,
                                  .type = WIRE_DATA,
                                  .place = 0x0203,
                                  .flow = 0x000abcde,
                                  .sequence = 0x11223344,
                                  .offset = 0x0102030405060708};

static blink_result_t parse(wire_frame_t frame, wire_frame_t *parsed)
{
    uint8_t packed[WIRE_FRAME_BYTES];
    wire_frame_pack(&frame, packed);
    return wire_frame_parse(packed, parsed);
}

static void assert_refused(wire_frame_t frame, const char *text)
{
    wire_frame_t parsed;
    assert_int_equal(parse(frame, &parsed), BLINK_ERR_PROTOCOL);
    if (!strstr(blink_error_text(), text))
        fail_msg("\"%s\" does not say \"%s\"", blink_error_text(), text);
}

static void assert_accepted(wire_frame_t frame)
{
    wire_frame_t parsed;
    assert_int_equal(parse(frame, &parsed), BLINK_OK);
    assert_memory_equal(&parsed, &frame, sizeof(frame));
}

static void test_a_header_is_24_little_endian_bytes(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0x45, 0x23, 0x01, 0x00, 2,    0,    0x03, 0x02,
                                       0xde, 0xbc, 0x0a, 0x00, 0x44, 0x33, 0x22, 0x11,
                                       0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01};
    uint8_t packed[WIRE_FRAME_BYTES];
    wire_frame_pack(&DATA, packed);
    assert_memory_equal(packed, expected, sizeof(expected));
    assert_accepted(DATA);
}

static void test_types_and_flags_that_are_not_defined_are_refused(void **state)
{
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        wire_frame_t frame = {.bytes = 16, .type = (uint8_t)type};
        if (type >= WIRE_BEGIN && type <= WIRE_ARRIVED)
            assert_accepted(frame);
        else
            assert_refused(frame, "none of BEGIN, DATA, CREDIT, FAIL, LEFT, ARRIVED");
        frame.flags = 0x80;
        assert_refused(frame, "flags 0x80");
    }
}

static void test_data_stays_within_its_limits(void **state)
{
    (void)state;
    wire_frame_t frame = DATA;
    frame.bytes = 0; /* an empty part of a chunk is a move like others */
    assert_accepted(frame);
    frame.bytes = WIRE_MOVE_MAX_BYTES;
    frame.flow = WIRE_FLOWS - 1;
    frame.offset = UINT64_MAX - WIRE_MOVE_MAX_BYTES;
    assert_accepted(frame);
    frame.offset++;
    assert_refused(frame, "ends nowhere");
    frame = DATA;
    frame.bytes = WIRE_MOVE_MAX_BYTES + 1;
    assert_refused(frame, "a DATA frame of 1048577 bytes is over the limit of 1048576");
    frame = DATA;
    frame.flow = WIRE_FLOWS;
    assert_refused(frame, "flow 1048576");
}

static void test_other_frames_have_a_payload_and_nothing_else(void **state)
{
    (void)state;
    static const uint8_t types[] = {WIRE_BEGIN, WIRE_CREDIT, WIRE_FAIL, WIRE_LEFT};
    for (size_t i = 0; i < sizeof(types); i++) {
        wire_frame_t good = {.bytes = WIRE_CONTROL_MAX_BYTES, .type = types[i]}, bad;
        assert_accepted(good);
        bad = good;
        bad.bytes++;
        assert_refused(bad, "frame of 65537 bytes, not ");
        bad.bytes = 0;
        assert_refused(bad, "frame of 0 bytes, not ");
        bad = good;
        bad.place = 1;
        assert_refused(bad, "place 1");
        bad = good;
        bad.flow = 2;
        assert_refused(bad, "flow 2");
        bad = good;
        bad.sequence = 3;
        assert_refused(bad, "sequence 3");
        bad = good;
        bad.offset = 4;
        assert_refused(bad, "offset 4");
    }
    assert_refused((wire_frame_t){.bytes = 12, .type = WIRE_CREDIT}, "in steps of 8");
}

static void test_credit_entries(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0xff, 0xff, 0x0f, 0x00, 0x04, 0x03, 0x02, 0x01};
    wire_credit_t credit = {.flow = WIRE_FLOWS - 1, .credit = 0x01020304}, parsed;
    uint8_t packed[sizeof(credit)];
    wire_credit_pack(&credit, packed);
    assert_memory_equal(packed, expected, sizeof(expected));
    assert_int_equal(wire_credit_parse(packed, &parsed), BLINK_OK);
    assert_memory_equal(&parsed, &credit, sizeof(credit));
    credit.flow++;
    wire_credit_pack(&credit, packed);
    assert_int_equal(wire_credit_parse(packed, &parsed), BLINK_ERR_PROTOCOL);
}

static void test_arrived_entries(void **state)
{
    (void)state;
    uint8_t packed[sizeof(wire_arrived_t)];
    static const uint8_t expected[] = {7, 0, 1, 0, 2, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0x80};
    wire_arrived_t entry = {65536 + 7, 258, UINT64_C(1) << 63 | 5}, parsed;
    wire_arrived_pack(&entry, packed);
    assert_memory_equal(packed, expected, sizeof(packed));
    assert_int_equal(wire_arrived_parse(packed, &parsed), BLINK_OK);
    assert_memory_equal(&parsed, &entry, sizeof(parsed));
    packed[3] = 0xff;
    assert_int_equal(wire_arrived_parse(packed, &parsed), BLINK_ERR_PROTOCOL);
    assert_accepted((wire_frame_t){.type = WIRE_ARRIVED, .sequence = 3, .offset = UINT64_MAX});
    assert_refused((wire_frame_t){.type = WIRE_ARRIVED, .bytes = 8}, "an ARRIVED frame of 8 bytes");
    assert_refused((wire_frame_t){.type = WIRE_ARRIVED, .bytes = 16, .flow = 1}, "flow 1, which must be 0");
}

static void test_an_immediate_finds_its_sequence_again(void **state)
{
    (void)state;
    static const uint32_t firsts[] = {0, 1, 4000, 4095, 4096, 0x7ffffff0, UINT32_MAX - 70};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        for (uint32_t ahead = 0; ahead < 64; ahead++) {
            uint32_t immediate = wire_immediate(0xfedcb, firsts[i] + ahead);
            assert_int_equal(wire_immediate_flow(immediate), 0xfedcb);
            assert_int_equal(wire_immediate_sequence(immediate, firsts[i]), firsts[i] + ahead);
        }
    }
    /* What has come already is known as such. */
    assert_int_equal(wire_immediate_sequence(wire_immediate(0, 99), 100), 99);
    assert_int_equal(wire_immediate_sequence(wire_immediate(0, 4095), 4096), 4095);
}

static void test_a_standing_sequence_keeps_the_round(void **state)
{
    (void)state;
    assert_int_equal(wire_standing_sequence(0, 63), 63);
    assert_int_equal(wire_standing_sequence(5, 7), 5 * 64 + 7);
    assert_int_equal(wire_standing_sequence(1ull << 26, 7), 7);
    /* An immediate tells 64 rounds apart. */
    uint32_t from = wire_standing_sequence(70, 3);
    uint32_t same = wire_immediate(1, wire_standing_sequence(70, 5));
    uint32_t next = wire_immediate(1, wire_standing_sequence(71, 5));
    uint32_t past = wire_immediate(1, wire_standing_sequence(69, 5));
    assert_int_equal(wire_immediate_sequence(same, from), wire_standing_sequence(70, 5));
    assert_int_equal(wire_immediate_sequence(next, from), wire_standing_sequence(71, 5));
    assert_int_equal(wire_immediate_sequence(past, from), wire_standing_sequence(69, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_header_is_24_little_endian_bytes),
        cmocka_unit_test(test_types_and_flags_that_are_not_defined_are_refused),
        cmocka_unit_test(test_data_stays_within_its_limits),
        cmocka_unit_test(test_other_frames_have_a_payload_and_nothing_else),
        cmocka_unit_test(test_credit_entries),
        cmocka_unit_test(test_arrived_entries),
        cmocka_unit_test(test_an_immediate_finds_its_sequence_again),
        cmocka_unit_test(test_a_standing_sequence_keeps_the_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
