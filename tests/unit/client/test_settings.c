/* What the environment asks of a process, and where a program's own choice comes first. */
#include "environment/settings.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int clear_environment(void **state)
{
    (void)state;
    unsetenv("BLINK_DEBUG");
    unsetenv("BLINK_ALGORITHM");
    unsetenv("BLINK_TIMEOUT");
    return 0;
}

static void test_nothing_is_said(void **state)
{
    settings_t settings;
    (void)state;
    setenv("BLINK_DEBUG", "", 1);
    assert_int_equal(settings_parse(&settings), BLINK_OK);
    assert_int_equal(settings.debug, DEBUG_NOTHING);
    assert_int_equal(settings.algorithm, BLINK_ALGORITHM_AUTO);
    assert_int_equal(settings.op_timeout_ms, 0);
}

static void test_all_is_said(void **state)
{
    settings_t settings;
    (void)state;
    setenv("BLINK_DEBUG", "trace", 1);
    setenv("BLINK_ALGORITHM", "double-binary-tree", 1);
    setenv("BLINK_TIMEOUT", "0.29", 1);
    assert_int_equal(settings_parse(&settings), BLINK_OK);
    assert_int_equal(settings.debug, DEBUG_TRACE);
    assert_int_equal(settings.algorithm, BLINK_ALGORITHM_DOUBLE_BINARY_TREE);
    assert_int_equal(settings.op_timeout_ms, 290);
}

static void check_refused(const char *name, const char *value, const char *sentence)
{
    settings_t settings;
    clear_environment(NULL);
    setenv(name, value, 1);
    assert_int_equal(settings_parse(&settings), BLINK_ERR_INVALID_ARGUMENT);
    assert_string_equal(blink_error_text(), sentence);
}

static void test_values_that_are_refused(void **state)
{
    (void)state;
    check_refused("BLINK_DEBUG", "INFO", "BLINK_DEBUG is \"INFO\", not info or trace");
    check_refused("BLINK_ALGORITHM", "rings",
                  "BLINK_ALGORITHM is \"rings\", not one of auto, trees, ring, double-binary-tree, blink, "
                  "one-hop, binomial, recursive-doubling, shallow-trees, multicast");
    const char *const times[] = {"0", "-1", "4000001", "5s", "nan", "inf"};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        char sentence[96];
        snprintf(sentence, sizeof(sentence), "BLINK_TIMEOUT is \"%s\", not seconds from 0.001 to 4000000",
                 times[i]);
        check_refused("BLINK_TIMEOUT", times[i], sentence);
    }
}

static void test_the_decimal_point_is_one_in_any_locale(void **state)
{
    settings_t settings;
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        skip();
    setenv("BLINK_TIMEOUT", "7.5", 1);
    blink_result_t result = settings_parse(&settings);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(result, BLINK_OK);
    assert_int_equal(settings.op_timeout_ms, 7500);
}

/* In one process there can be no other reading after this one. */
static void test_they_are_read_once_and_fill_in_what_is_open(void **state)
{
    blink_comm_config_t open = BLINK_COMM_CONFIG_INIT, chosen = BLINK_COMM_CONFIG_INIT;
    (void)state;
    setenv("BLINK_ALGORITHM", "ring", 1);
    setenv("BLINK_TIMEOUT", "20", 1);
    assert_int_equal(settings_read(NULL), BLINK_OK);
    setenv("BLINK_ALGORITHM", "no such thing", 1);
    assert_int_equal(settings_read(NULL), BLINK_OK);
    settings_fill_in(&open);
    assert_int_equal(open.algorithm, BLINK_ALGORITHM_RING);
    assert_int_equal(open.op_timeout_ms, 20000);
    assert_int_equal(open.init_timeout_ms, 0);
    chosen.algorithm = BLINK_ALGORITHM_TREES;
    chosen.op_timeout_ms = 7;
    settings_fill_in(&chosen);
    assert_int_equal(chosen.algorithm, BLINK_ALGORITHM_TREES);
    assert_int_equal(chosen.op_timeout_ms, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_said, clear_environment),
        cmocka_unit_test_setup(test_all_is_said, clear_environment),
        cmocka_unit_test_setup(test_values_that_are_refused, clear_environment),
        cmocka_unit_test_setup(test_the_decimal_point_is_one_in_any_locale, clear_environment),
        cmocka_unit_test_setup(test_they_are_read_once_and_fill_in_what_is_open, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
