/* blinkd.conf: what it accepts, and that every refusal names file, line, key and what would be right. */
#include "config.h"

#include "base/ini_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static blink_result_t read_text(const char *text, settings_t *settings)
{
    char path[] = "/tmp/blinkd.conf.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    config_set_defaults(settings);
    blink_result_t result = config_read_file(path, settings);
    unlink(path);
    return result;
}

static void test_every_key_is_read(void **state)
{
    settings_t settings;
    (void)state;
    assert_int_equal(
        read_text("# a comment\n[daemon]\nsocket = /tmp/x.sock\nsocket_mode = 0660\n"
                  "[devices]\ndevices = host:4\ntopology = dgx1v\n[pace]\nscale = 0.004\n"
                  "[workers]\ncount = 3\n[limits]\nclients_per_tenant = 5\ncommunicators_per_tenant = 6\n"
                  "registered_bytes_per_tenant = 2G\ninit_timeout_s = 1.5\nop_timeout_s = 7\n"
                  "run_timeout_s = 8\nrun_timeout_factor = 1e3\n[network]\nadaptive_routing = "
                  "yes\ngpu_direct = yes\n"
                  "[gpu]\nnvswitch_reduces = all\n"
                  "[log]\nlevel = debug\n",
                  &settings),
        BLINK_OK);
    assert_string_equal(settings.socket, "/tmp/x.sock");
    assert_int_equal(settings.socket_mode, 0660);
    assert_int_equal(settings.devices.host_count, 4);
    assert_string_equal(settings.topology, "dgx1v");
    assert_true(settings.pace_scale == 0.004);
    assert_int_equal(settings.workers, 3);
    assert_int_equal(settings.limits[BUDGET_CLIENTS].tenant, 5);
    assert_int_equal(settings.limits[BUDGET_COMMUNICATORS].tenant, 6);
    assert_true(settings.limits[BUDGET_REGISTERED_BYTES].tenant == (uint64_t)2 << 30);
    assert_true(settings.init_timeout_s == 1.5);
    assert_true(settings.op_timeout_s == 7);
    assert_true(settings.run_timeout_s == 8 && settings.run_timeout_factor == 1000);
    assert_true(settings.network_adaptive_routing);
    assert_true(settings.network_gpu_direct);
    assert_int_equal(settings.gpu_nvswitch, SETTINGS_NVSWITCH_ALL);
    assert_int_equal(settings.log_level, LOG_LEVEL_DEBUG);
}

static void test_keys_not_given_keep_their_defaults(void **state)
{
    settings_t settings, defaults;
    (void)state;
    config_set_defaults(&defaults);
    assert_int_equal(read_text("[workers]\ncount = 1\n", &settings), BLINK_OK);
    defaults.workers = 1;
    assert_memory_equal(&settings, &defaults, sizeof(settings));
}

static void test_mistakes_are_named(void **state)
{
    static const struct {
        const char *text, *line, *named;
    } cases[] = {
        {"[daemon]\nsokcet = /x\n",
         ":2: ", "unknown key 'sokcet' in [daemon] (did you mean 'socket'?), which has socket, socket_mode"},
        {"[deamon]\nsocket = /x\n", ":2: ", "unknown section [deamon]"},
        {"\n[workers]\ncount = many\n", ":3: ", "'many' is not a count"},
        {"[workers]\ncount = -1\n", ":2: ", "'-1' is not a count"},
        {"[pace]\nscale = 0\n", ":2: ", "pace scale '0': a number above 0"},
        {"[pace]\nscale = nan\n", ":2: ", "pace scale 'nan'"},
        {"[devices]\ndevices = cuda:\n", ":2: ", "cuda:0x8"},
        {"[devices]\ndevices = cuda:all+cuda:1\n", ":2: ", "cuda:0x8"},
        {"[devices]\ndevices = cuda:0x0\n", ":2: ", "cuda:0x8"},
        {"[devices]\ndevices = cuda:32\n", ":2: ", "cuda:0x8"},
        {"[devices]\ndevices = gpu:1\n", ":2: ", "cuda:0x8"},
        {"[devices]\ndevices = host:0\n", ":2: ", "host:8"},
        {"[gpu]\nsharing = both\n", ":2: ", "isolated or mps"},
        {"[gpu]\nlegacy_ipc = maybe\n", ":2: ", "yes or no"},
        {"[gpu]\nnvswitch_reduces = yes\n", ":2: ", "nvswitch_reduces 'yes': exact, all or no"},
        {"[network]\nadaptive_routing = 1\n", ":2: ", "'1' is not yes or no"},
        {"[limits]\nop_timeout_s = soon\n", ":2: ", "'soon' is not a number of seconds"},
        {"[limits]\nregistered_bytes_per_tenant = 5X\n", ":2: ", "'5X' is not a size"},
        {"[limits]\nregistered_bytes_per_tenant = 99999999T\n", ":2: ", "is not a size"},
        {"[weights]\nnobody-of-this-name = 1\n", ":2: ", "no user of this name"},
        {"[weights]\nroot = 0\n", ":2: ", "a number from 1 to 1000"},
        {"[log]\nlevel = loud\n", ":2: ", "log level 'loud': error, warning, info or debug"},
        {"[daemon]\nsocket_mode = 999\n", ":2: ", "'999' is not an octal file mode"},
        {"[network]\n\npeers = n2, [10.0.0.1\n", ":3: peers = ", "address '[10.0.0.1'"},
        {"[network]\npeers = n2:0\n", ":2: ", "the port '0' is no number"},
        {"[network]\nlisten\n", ":2: ", "neither [section], key = value, nor a # comment"},
        {"[daemon\n", ":1: ", "neither [section], key = value, nor a # comment"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        settings_t settings;
        assert_int_equal(read_text(cases[i].text, &settings), BLINK_ERR_INVALID_ARGUMENT);
        if (!strstr(blink_error_text(), cases[i].line) || !strstr(blink_error_text(), cases[i].named))
            fail_msg("case %zu: '%s' does not say '%s' and '%s'", i, blink_error_text(), cases[i].line,
                     cases[i].named);
    }
}

#define HOSTS 1000

static void test_a_thousand_peers_are_one_line(void **state)
{
    static char text[2 * INI_LINE_BYTES];
    settings_t settings;
    uint32_t count = 0;
    size_t used = (size_t)snprintf(text, sizeof(text), "[network]\npeers = ");
    (void)state;
    for (uint32_t host = 0; host < HOSTS; host++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "node%04u.rack%u.cluster.example, ", host,
                                 host / 16);
    snprintf(text + used, sizeof(text) - used, "\n[workers]\ncount = 3\n");
    assert_int_equal(read_text(text, &settings), BLINK_OK);
    assert_int_equal(settings.workers, 3);
    char *rest = settings.network_peers;
    while (settings_next_item(&rest))
        count++;
    assert_int_equal(count, HOSTS);
}

static void test_line_that_is_too_long_is_named(void **state)
{
    static char text[2 * INI_LINE_BYTES] = "[network]\npeers = ";
    settings_t settings;
    size_t used = strlen(text);
    (void)state;
    memset(text + used, 'h', INI_LINE_BYTES);
    assert_int_equal(read_text(text, &settings), BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(blink_error_text(), ":2: the line is longer than 65534 characters"));
}

static void test_comments_and_blanks(void **state)
{
    settings_t settings;
    (void)state;
    assert_int_equal(read_text("; one\n# two\n\n  [workers] ; three\r\n\tcount=3 ; four\n[daemon]\n"
                               "socket = /a;b # c",
                               &settings),
                     BLINK_OK);
    assert_int_equal(settings.workers, 3);
    assert_string_equal(settings.socket, "/a;b # c");
}

static void test_weights_are_by_user(void **state)
{
    settings_t settings;
    (void)state;
    assert_int_equal(read_text("[weights]\nroot = 3\n4711 = 5\n0 = 2\n", &settings), BLINK_OK);
    assert_int_equal(settings.weight_count, 2);
    assert_int_equal(settings.weights[0].uid, 0);
    assert_int_equal(settings.weights[0].weight, 2);
    assert_int_equal(settings.weights[1].uid, 4711);
    assert_int_equal(settings.weights[1].weight, 5);
}

static void test_missing_file_is_named(void **state)
{
    settings_t settings;
    (void)state;
    config_set_defaults(&settings);
    assert_int_equal(config_read_file("/nonexistent/blinkd.conf", &settings), BLINK_ERR_NOT_FOUND);
    assert_non_null(strstr(blink_error_text(), "/nonexistent/blinkd.conf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key_is_read),
        cmocka_unit_test(test_keys_not_given_keep_their_defaults),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_a_thousand_peers_are_one_line),
        cmocka_unit_test(test_line_that_is_too_long_is_named),
        cmocka_unit_test(test_comments_and_blanks),
        cmocka_unit_test(test_weights_are_by_user),
        cmocka_unit_test(test_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
