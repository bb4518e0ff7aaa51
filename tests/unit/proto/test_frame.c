/* Frames over a socket pair: whole, in pieces, too long, with descriptors, and cut off. */
#include "frame.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define BIG_BYTES (1u << 20)

typedef struct ends {
    int here, there;
} ends_t;

static ends_t ends_open(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    return (ends_t){fds[0], fds[1]};
}

static void ends_close(ends_t *ends)
{
    close(ends->here);
    close(ends->there);
}

static uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void test_a_frame_arrives_whole(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    frame_t frame;
    assert_int_equal(frame_send(ends.here, "hello", 5, NULL, 0), BLINK_OK);
    assert_int_equal(frame_send(ends.here, "", 0, NULL, 0), BLINK_OK);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_int_equal(frame.byte_count, 5);
    assert_memory_equal(frame.bytes, "hello", 5);
    frame_release(&frame);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_int_equal(frame.byte_count, 0);
    frame_release(&frame);
    ends_close(&ends);
}

static void *send_byte_by_byte(void *argument)
{
    const int *fd = argument;
    static const char frame[] = "\x05\0\0\0hello\x02\0\0\0ok";
    for (size_t i = 0; i < sizeof(frame) - 1; i++) {
        if (write(*fd, &frame[i], 1) != 1)
            abort();
        usleep(500);
    }
    return NULL;
}

static void test_a_frame_may_come_in_pieces(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    pthread_t sender;
    frame_t frame;
    assert_int_equal(pthread_create(&sender, NULL, send_byte_by_byte, &ends.here), 0);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_memory_equal(frame.bytes, "hello", 5);
    frame_release(&frame);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_memory_equal(frame.bytes, "ok", 2);
    frame_release(&frame);
    pthread_join(sender, NULL);
    ends_close(&ends);
}

static void *send_big(void *argument)
{
    const int *fd = argument;
    uint8_t *bytes = malloc(BIG_BYTES);
    for (uint32_t i = 0; i < BIG_BYTES; i++)
        bytes[i] = (uint8_t)(i % 251);
    blink_result_t result = frame_send(*fd, bytes, BIG_BYTES, NULL, 0);
    free(bytes);
    return result == BLINK_OK ? NULL : argument;
}

static void test_a_frame_larger_than_the_socket_buffer_passes(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    pthread_t sender;
    void *failed;
    frame_t frame;
    assert_int_equal(pthread_create(&sender, NULL, send_big, &ends.here), 0);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    pthread_join(sender, &failed);
    assert_null(failed);
    assert_int_equal(frame.byte_count, BIG_BYTES);
    for (uint32_t i = 0; i < BIG_BYTES; i++) {
        if (frame.bytes[i] != i % 251)
            fail_msg("byte %u is %u", i, frame.bytes[i]);
    }
    frame_release(&frame);
    ends_close(&ends);
}

static void test_descriptors_travel_and_are_closed(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    uint32_t before = open_descriptors();
    int pipe_fds[2];
    char byte = 0;
    frame_t frame;
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(frame_send(ends.here, "fds", 3, pipe_fds, 2), BLINK_OK);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_int_equal(frame.fd_count, 2);
    assert_true(fcntl(frame.fds[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(frame.fds[1], "x", 1), 1);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');

    int taken = frame.fds[0];
    frame.fds[0] = -1; /* taken: frame_release() leaves it alone */
    frame_release(&frame);
    assert_int_equal(open_descriptors(), before + 3);
    close(taken);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    ends_close(&ends);
}

static void test_descriptors_do_not_stray_into_the_next_frame(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    frame_t frame;
    assert_int_equal(frame_send(ends.here, "plain", 5, NULL, 0), BLINK_OK);
    assert_int_equal(frame_send(ends.here, "with", 4, &ends.here, 1), BLINK_OK);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_int_equal(frame.fd_count, 0);
    frame_release(&frame);
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_OK);
    assert_int_equal(frame.fd_count, 1);
    frame_release(&frame);
    ends_close(&ends);
}

/* A frame of one byte with `count` descriptors, whatever the limit. */
static void send_with_descriptors(int socket_fd, uint32_t count)
{
    char control[CMSG_SPACE(2 * FRAME_FDS_MAX * sizeof(int))] __attribute__((aligned(16))) = {0};
    struct iovec part = {(char[]){"\x01\0\0\0x"}, 5};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (uint32_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(header) + i * sizeof(int), &socket_fd, sizeof(int));
    assert_int_equal(sendmsg(socket_fd, &message, 0), 5);
}

static void test_too_many_descriptors_are_refused_and_closed(void **state)
{
    (void)state;
    for (uint32_t count = FRAME_FDS_MAX + 1; count <= FRAME_FDS_MAX + 4; count++) {
        ends_t ends = ends_open();
        uint32_t before = open_descriptors();
        frame_t frame;
        send_with_descriptors(ends.here, count);
        assert_int_equal(frame_receive(ends.there, &frame), BLINK_ERR_PROTOCOL);
        assert_int_equal(open_descriptors(), before);
        ends_close(&ends);
    }
}

static void test_oversize_frames_are_refused_on_both_sides(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    uint32_t length = htole32(FRAME_MAX_BYTES + 1);
    frame_t frame;
    assert_int_equal(frame_send(ends.here, "", FRAME_MAX_BYTES + 1, NULL, 0), BLINK_ERR_INVALID_ARGUMENT);
    assert_int_equal(write(ends.here, &length, sizeof(length)), sizeof(length));
    assert_int_equal(frame_receive(ends.there, &frame), BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "16777217"));
    ends_close(&ends);
}

static void test_the_end_of_the_stream_is_daemon_lost(void **state)
{
    (void)state;
    static const char *const cuts[] = {"", "\x05", "\x05\0\0\0hel"};
    static const size_t cut_bytes[] = {0, 1, 7};
    for (size_t i = 0; i < 3; i++) {
        ends_t ends = ends_open();
        frame_t frame;
        assert_int_equal(write(ends.here, cuts[i], cut_bytes[i]), cut_bytes[i]);
        shutdown(ends.here, SHUT_WR);
        assert_int_equal(frame_receive(ends.there, &frame), BLINK_ERR_DAEMON_LOST);
        ends_close(&ends);
    }
}

static void test_sending_to_a_closed_peer_is_daemon_lost(void **state)
{
    (void)state;
    ends_t ends = ends_open();
    close(ends.there);
    assert_int_equal(frame_send(ends.here, "hello", 5, NULL, 0), BLINK_ERR_DAEMON_LOST); /* and no SIGPIPE */
    close(ends.here);
}

static void test_connect_names_the_path(void **state)
{
    (void)state;
    int fd;
    char longest[200];
    memset(longest, 'p', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(frame_connect("/nowhere/blinkd.sock", 0, &fd), BLINK_ERR_CONNECT);
    assert_non_null(strstr(blink_error_text(), "/nowhere/blinkd.sock"));
    assert_int_equal(frame_connect(longest, 0, &fd), BLINK_ERR_INVALID_ARGUMENT);
    assert_int_equal(frame_connect("", 0, &fd), BLINK_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frame_arrives_whole),
        cmocka_unit_test(test_a_frame_may_come_in_pieces),
        cmocka_unit_test(test_a_frame_larger_than_the_socket_buffer_passes),
        cmocka_unit_test(test_descriptors_travel_and_are_closed),
        cmocka_unit_test(test_descriptors_do_not_stray_into_the_next_frame),
        cmocka_unit_test(test_too_many_descriptors_are_refused_and_closed),
        cmocka_unit_test(test_oversize_frames_are_refused_on_both_sides),
        cmocka_unit_test(test_the_end_of_the_stream_is_daemon_lost),
        cmocka_unit_test(test_sending_to_a_closed_peer_is_daemon_lost),
        cmocka_unit_test(test_connect_names_the_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
