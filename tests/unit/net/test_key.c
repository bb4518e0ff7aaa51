/*
 * The file with the cluster key.
 */
#include "net/key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ZEROS "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define ONES  "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

typedef struct folder {
    char path[64], key[96];
} folder_t;

static int make_folder(void **state)
{
    static folder_t folder;
    strcpy(folder.path, "/tmp/blink-key-XXXXXX");
    assert_non_null(mkdtemp(folder.path));
    snprintf(folder.key, sizeof(folder.key), "%s/%s", folder.path, CLUSTER_KEY_CREDENTIAL);
    *state = &folder;
    return 0;
}

static int remove_folder(void **state)
{
    folder_t *folder = *state;
    unlink(folder->key);
    return rmdir(folder->path);
}

static void write_key(const folder_t *folder, const char *text, mode_t mode)
{
    FILE *file = fopen(folder->key, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
    assert_int_equal(chmod(folder->key, mode), 0);
}

static void test_new_key_can_be_read_by_its_owner_alone(void **state)
{
    folder_t *folder = *state;
    cluster_keys_t keys;
    struct stat status;
    assert_int_equal(cluster_key_create(folder->key), BLINK_OK);
    assert_int_equal(stat(folder->key, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(cluster_keys_read(folder->key, &keys), BLINK_OK);
    assert_int_equal(keys.count, 1);
}

static void test_key_is_never_overwritten(void **state)
{
    folder_t *folder = *state;
    assert_int_equal(cluster_key_create(folder->key), BLINK_OK);
    assert_int_equal(cluster_key_create(folder->key), BLINK_ERR_EXISTS);
}

static void test_second_line_is_the_second_key(void **state)
{
    folder_t *folder = *state;
    cluster_keys_t keys;
    const uint8_t ones[CLUSTER_KEY_BYTES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    write_key(folder, "# new since Monday\n" ONES "\n\n" ZEROS, 0600);
    assert_int_equal(cluster_keys_read(folder->key, &keys), BLINK_OK);
    assert_int_equal(keys.count, 2);
    assert_memory_equal(keys.keys[0], ones, CLUSTER_KEY_BYTES);
    cluster_keys_wipe(&keys);
    assert_int_equal(keys.count, 0);
}

static void test_file_that_others_may_read_is_refused(void **state)
{
    folder_t *folder = *state;
    cluster_keys_t keys;
    write_key(folder, ZEROS "\n", 0640);
    assert_int_equal(cluster_keys_read(folder->key, &keys), BLINK_ERR_PERMISSION);
    assert_non_null(strstr(blink_error_text(), "0640"));
}

static void test_file_of_another_user_is_refused(void **state)
{
    folder_t *folder = *state;
    cluster_keys_t keys;
    if (geteuid() != 0)
        skip();
    write_key(folder, ZEROS "\n", 0600);
    assert_int_equal(chown(folder->key, 4711, 4711), 0);
    assert_int_equal(cluster_keys_read(folder->key, &keys), BLINK_ERR_PERMISSION);
    assert_non_null(strstr(blink_error_text(), "4711"));
}

/* systemd hands it over, with an access list or a mode of its own. */
static void test_credential_is_taken_as_it_is(void **state)
{
    folder_t *folder = *state;
    cluster_keys_t keys;
    write_key(folder, ZEROS "\n", 0440);
    setenv("CREDENTIALS_DIRECTORY", folder->path, 1);
    blink_result_t result = cluster_keys_read("", &keys);
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_int_equal(result, BLINK_OK);
    assert_int_equal(keys.count, 1);
}

static void test_bad_lines_are_named(void **state)
{
    static const struct {
        const char *text, *named;
    } bad[] = {{"", "no key"},
               {"# nothing\n\n", "no key"},
               {ZEROS "\nsecret\n", ":2: 6 characters"},
               {"AAAA" ZEROS "\n", ":1: 48 characters"},
               {"AAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAA=\n", ":1:"},
               {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n", ":1:"},
               {"AAAAAAAAAAAAAAAAAAAA-AAAAAAAAAAAAAAAAAAAAAA=\n", ":1:"},
               {ZEROS "\n" ZEROS "\n" ZEROS "\n", "third"}};
    folder_t *folder = *state;
    cluster_keys_t keys;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_key(folder, bad[i].text, 0600);
        assert_int_equal(cluster_keys_read(folder->key, &keys), BLINK_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(blink_error_text(), bad[i].named));
        assert_null(strstr(blink_error_text(), "secret"));
        assert_int_equal(keys.count, 0);
    }
}

static void test_endless_file_is_refused(void **state)
{
    cluster_keys_t keys;
    (void)state;
    assert_int_equal(cluster_keys_read("/dev/zero", &keys), BLINK_ERR_INVALID_ARGUMENT);
    assert_int_equal(cluster_keys_read("/tmp", &keys), BLINK_ERR_INVALID_ARGUMENT);
}

static void test_missing_file_says_how_to_make_one(void **state)
{
    folder_t *folder = *state;
    cluster_keys_t keys;
    assert_int_equal(cluster_keys_read(folder->key, &keys), BLINK_ERR_NOT_FOUND);
    assert_non_null(strstr(blink_error_text(), "blinkctl key new"));
}

#define KEY_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEY_TEST(test_new_key_can_be_read_by_its_owner_alone),
        KEY_TEST(test_key_is_never_overwritten),
        KEY_TEST(test_second_line_is_the_second_key),
        KEY_TEST(test_file_that_others_may_read_is_refused),
        KEY_TEST(test_file_of_another_user_is_refused),
        KEY_TEST(test_credential_is_taken_as_it_is),
        KEY_TEST(test_bad_lines_are_named),
        KEY_TEST(test_endless_file_is_refused),
        KEY_TEST(test_missing_file_says_how_to_make_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
