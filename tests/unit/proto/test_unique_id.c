/* Ids as bytes and as text. */
#include "unique_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NONCE "00112233445566778899aabbccddeeff"

static void assert_refused(blink_result_t result, const char *said)
{
    assert_int_equal(result, BLINK_ERR_INVALID_ARGUMENT);
    if (!strstr(blink_error_text(), said))
        fail_msg("\"%s\" does not say \"%s\"", blink_error_text(), said);
}

static void test_an_id_survives_as_text(void **state)
{
    (void)state;
    unique_id_t id = {.version = UNIQUE_ID_VERSION,
                      .port = 0x1234,
                      .instance = 7,
                      .addresses = {{0x20, 0x01, 0x0d, 0xb8}, {0xff}},
                      .nonce = {1, 2, 3}},
                back;
    char text[UNIQUE_ID_TEXT_BYTES + 1];
    unique_id_write(&id, text);
    assert_int_equal(strlen(text), 128);
    assert_int_equal(strncmp(text,
                             "01003412"
                             "00000000"
                             "0700000000000000"
                             "20010db8",
                             40),
                     0);
    assert_int_equal(unique_id_parse(text, "here", &back), BLINK_OK);
    assert_memory_equal(&id, &back, sizeof(id));
    strcat(text, "\n");
    assert_int_equal(unique_id_parse(text, "here", &back), BLINK_OK);
    assert_memory_equal(&id, &back, sizeof(id));
}

static void test_a_nonce_alone_makes_an_id_without_a_home(void **state)
{
    (void)state;
    const unique_id_t expected = {.version = UNIQUE_ID_VERSION,
                                  .nonce = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
                                            0xbb, 0xcc, 0xdd, 0xee, 0xff}};
    unique_id_t id;
    assert_int_equal(unique_id_parse(NONCE, "here", &id), BLINK_OK);
    assert_memory_equal(&id, &expected, sizeof(id));
}

static void test_other_text_is_refused_by_the_name_of_its_source(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "x",       "00",        NONCE "0", NONCE " ",
                                      NONCE "\n\n", NONCE "g", NONCE NONCE, "-" NONCE};
    unique_id_t id;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(unique_id_parse(bad[i], "BLINK_UNIQUE_ID", &id), "BLINK_UNIQUE_ID: neither the 128");
    assert_refused(unique_id_parse(NONCE NONCE NONCE NONCE, "here", &id), "version 0");
}

static void test_bytes_of_another_length_or_form_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[UNIQUE_ID_BYTES + 1] = {UNIQUE_ID_VERSION};
    unique_id_t id;
    assert_int_equal(unique_id_read(bytes, UNIQUE_ID_BYTES, &id), BLINK_OK);
    assert_refused(unique_id_read(bytes, UNIQUE_ID_BYTES - 1, &id), "63 bytes, not 64");
    assert_refused(unique_id_read(bytes, UNIQUE_ID_BYTES + 1, &id), "65 bytes, not 64");
    assert_refused(unique_id_read(NULL, 0, &id), "0 bytes, not 64");
    bytes[0] = 2;
    assert_refused(unique_id_read(bytes, UNIQUE_ID_BYTES, &id), "version 2, not 1");
    bytes[0] = UNIQUE_ID_VERSION;
    bytes[1] = 3;
    assert_refused(unique_id_read(bytes, UNIQUE_ID_BYTES, &id), "flags 0x3");
    bytes[1] = 0;
    bytes[7] = 1;
    assert_refused(unique_id_read(bytes, UNIQUE_ID_BYTES, &id), "0x1000000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_survives_as_text),
        cmocka_unit_test(test_a_nonce_alone_makes_an_id_without_a_home),
        cmocka_unit_test(test_other_text_is_refused_by_the_name_of_its_source),
        cmocka_unit_test(test_bytes_of_another_length_or_form_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
