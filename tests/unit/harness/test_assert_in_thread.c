/* What CTest tells the programs of cmocka: an assertion that fails in a thread of the test's own ends the
 * program, and with a word. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void *assert_what_is_false(void *unused)
{
    assert_int_equal(1, 2);
    return unused;
}

/* In a process of its own, which says what it says to `fd`. */
static void fail_in_a_thread(int fd)
{
    pthread_t thread;
    dup2(fd, STDERR_FILENO);
    close(fd);
    if (pthread_create(&thread, NULL, assert_what_is_false, NULL) == 0)
        pthread_join(thread, NULL);
    _exit(0);
}

static void test_an_assertion_in_a_thread_says_what_failed(void **state)
{
    (void)state;
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0)
        fail_in_a_thread(fds[1]);
    close(fds[1]);
    char said[4096];
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length < sizeof(said) - 1; length += (size_t)got) {
        got = read(fds[0], said + length, sizeof(said) - 1 - length);
        assert_true(got >= 0);
    }
    said[length] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(said, "0x1 != 0x2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_assertion_in_a_thread_says_what_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
