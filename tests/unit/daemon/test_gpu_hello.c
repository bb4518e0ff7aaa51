/* What the GPU worker says first, and the descriptors that come with it: kept as a whole, or closed. */
#include "gpu_worker/start.h"

#include "frame.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define EXPORTS 2u

/* Of two GPUs with a memory each. */
static gpu_hello_t hello;

static int begin(void **state)
{
    (void)state;
    hello = (gpu_hello_t){.gpu_count = EXPORTS};
    for (uint32_t i = 0; i < EXPORTS; i++)
        hello.gpus[i].exported_address = 0x1000 * (1 + i);
    return 0;
}

static uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

static void say(int socket_fd, size_t bytes)
{
    int fds[EXPORTS];
    frame_control_t control;
    struct iovec part = {&hello, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    for (uint32_t i = 0; i < EXPORTS; i++)
        assert_true((fds[i] = eventfd(0, EFD_CLOEXEC)) >= 0);
    frame_attach_fds(&message, &control, fds, EXPORTS);
    assert_int_equal(sendmsg(socket_fd, &message, 0), bytes);
    for (uint32_t i = 0; i < EXPORTS; i++)
        close(fds[i]);
}

/* A worker says the first bytes of the hello with the descriptors, and ends. */
static blink_result_t hear(size_t bytes)
{
    static gpu_hello_t heard;
    int sockets[2];
    const uint32_t open_before = open_descriptors();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    gpu_worker_t worker = {.socket_fd = sockets[0], .channel = GPU_CHANNEL_NONE};
    say(sockets[1], bytes);
    close(sockets[1]);
    blink_result_t result = gpu_worker_receive_hello(&worker, 0, &heard);
    for (uint32_t i = 0; i < EXPORTS && result == BLINK_OK && !heard.is_opening; i++) {
        assert_int_equal(worker.channel.exported_address[i], hello.gpus[i].exported_address);
        assert_true(eventfd_write(worker.channel.exported_fd[i], 1) == 0);
    }
    gpu_worker_end(&worker, NULL, 0);
    assert_int_equal(open_descriptors(), open_before);
    return result;
}

static void test_memory_that_is_exported_is_the_channels(void **state)
{
    (void)state;
    assert_int_equal(hear(sizeof(hello)), BLINK_OK);
}

static void test_signs_of_life_bring_nothing(void **state)
{
    (void)state;
    hello.is_opening = true;
    assert_int_equal(hear(sizeof(hello)), BLINK_ERR_PROTOCOL);
}

static void test_hellos_that_are_not_taken_leave_nothing_open(void **state)
{
    (void)state;
    assert_int_equal(hear(sizeof(hello) - 1), BLINK_ERR_SYSTEM);
    hello.gpus[1].exported_address = 0;
    assert_int_equal(hear(sizeof(hello)), BLINK_ERR_PROTOCOL);
    hello.gpu_count = GPU_MAX + 1;
    assert_int_equal(hear(sizeof(hello)), BLINK_ERR_NOT_FOUND);
    hello.result = BLINK_ERR_UNSUPPORTED;
    assert_int_equal(hear(sizeof(hello)), BLINK_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memory_that_is_exported_is_the_channels, begin),
        cmocka_unit_test_setup(test_signs_of_life_bring_nothing, begin),
        cmocka_unit_test_setup(test_hellos_that_are_not_taken_leave_nothing_open, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
