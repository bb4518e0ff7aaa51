#include "worker_harness.h"

#include "frame.h"
#include "limit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WORKER_ARGUMENT "--worker"

static int memory_file(size_t bytes)
{
    int fd = memfd_create("worker-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static void *map_file(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* ---- messages ---- */

static void send_with(int socket_fd, const void *data, size_t bytes, const int *fds, uint32_t fd_count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(GPU_EXTENTS_MAX * sizeof(int))] = {0};
    struct iovec place = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(part), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(socket_fd, &message, MSG_NOSIGNAL), bytes);
}

static void receive_hello(harness_t *harness)
{
    struct pollfd readable = {.fd = harness->socket_fd, .events = POLLIN};
    struct iovec place = {&harness->hello, sizeof(harness->hello)};
    frame_control_t control;
    struct msghdr message = {
        .msg_iov = &place, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    int fds[FRAME_FDS_MAX];
    uint32_t count = 0;
    assert_int_equal(poll(&readable, 1, (int)limit_ms()), 1);
    assert_int_equal(recvmsg(harness->socket_fd, &message, MSG_CMSG_CLOEXEC), sizeof(harness->hello));
    assert_int_equal(frame_take_fds(&message, fds, &count), BLINK_OK);
    assert_true(count <= GPU_MAX);
    memcpy(harness->exported_fds, fds, count * sizeof(fds[0]));
    harness->exported_count = count;
}

/* ---- the worker's process ---- */

void harness_become_worker(int argument_count, char **arguments)
{
    if (argument_count == 3 && strcmp(arguments[1], WORKER_ARGUMENT) == 0)
        exit(gpu_worker_main(atoi(arguments[2])));
}

static void enter_environment(const char *const *environment)
{
    for (; environment && *environment; environment++) {
        if (strchr(*environment, '='))
            putenv((char *)(uintptr_t)*environment);
        else
            unsetenv(*environment);
    }
}

/* A new program, since the loader reads its environment at its start only. */
static pid_t spawn(int socket_fd, const char *const *environment)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", socket_fd);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        enter_environment(environment);
        fcntl(socket_fd, F_SETFD, 0); /* this one it keeps */
        execl("/proc/self/exe", "worker", WORKER_ARGUMENT, number, (char *)NULL);
        _exit(127);
    }
    return child;
}

void harness_start(harness_t *harness, gpu_start_t start, const char *const *environment)
{
    int sockets[2], ring_fd;
    *harness = (harness_t){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    harness->socket_fd = sockets[0];
    harness->worker = spawn(sockets[1], environment);
    close(sockets[1]);
    assert_int_equal(ring_create(64, 64, &harness->ring, &ring_fd), BLINK_OK);
    ring_want_event(&harness->ring);
    const int arena_fd = memory_file(HARNESS_ARENA_BYTES);
    const int wire_fd = memory_file(GPU_WIRE_BYTES);
    harness->arena = map_file(arena_fd, HARNESS_ARENA_BYTES);
    harness->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    harness->completion_fd = ring_create_event();
    start.arena_bytes = HARNESS_ARENA_BYTES;
    const int fds[GPU_START_FDS] = {ring_fd, harness->doorbell_fd, harness->completion_fd, arena_fd, wire_fd};
    send_with(harness->socket_fd, &start, sizeof(start), fds, GPU_START_FDS);
    close(ring_fd);
    close(arena_fd);
    close(wire_fd);
    do {
        receive_hello(harness);
        harness->opening_count += harness->hello.is_opening;
    } while (harness->hello.is_opening);
}

int harness_await_end(harness_t *harness)
{
    int status;
    for (unsigned ms = 0; waitpid(harness->worker, &status, WNOHANG) == 0; ms++) {
        assert_true(ms < limit_ms());
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (harness->socket_fd >= 0)
        close(harness->socket_fd);
    for (uint32_t i = 0; i < harness->exported_count; i++)
        close(harness->exported_fds[i]);
    close(harness->doorbell_fd);
    close(harness->completion_fd);
    ring_unmap(&harness->ring);
    munmap(harness->arena, HARNESS_ARENA_BYTES);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int harness_stop(harness_t *harness)
{
    close(harness->socket_fd);
    harness->socket_fd = -1;
    return harness_await_end(harness);
}

void harness_send(harness_t *harness, gpu_request_t *request, const int *fds, uint32_t fd_count)
{
    if (request->token == 0)
        request->token = ++harness->last_token;
    const size_t bytes =
        offsetof(gpu_request_t, extents) + request->extent_count * sizeof(request->extents[0]);
    send_with(harness->socket_fd, request, bytes, fds, fd_count);
}

bool harness_hear(harness_t *harness, gpu_reply_t *reply)
{
    struct pollfd readable = {.fd = harness->socket_fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, (int)limit_ms()), 1);
    const ssize_t got = recv(harness->socket_fd, reply, sizeof(*reply), 0);
    if (got > 0)
        assert_int_equal(got, sizeof(*reply));
    return got > 0;
}

gpu_reply_t harness_ask(harness_t *harness, gpu_request_t *request, const int *fds, uint32_t fd_count)
{
    gpu_reply_t reply;
    harness_send(harness, request, fds, fd_count);
    assert_true(harness_hear(harness, &reply));
    assert_int_equal(reply.token, request->token);
    return reply;
}

/* ---- submissions ---- */

void *harness_place(harness_t *harness, size_t bytes)
{
    void *place = harness->arena + harness->arena_used;
    harness->arena_used += (bytes + 63) / 64 * 64;
    assert_true(harness->arena_used <= HARNESS_ARENA_BYTES);
    return place;
}

uint64_t harness_submit(harness_t *harness, ring_sqe_t sqe, const void *place)
{
    const uint64_t one = 1;
    if (place)
        sqe.in_offset_bytes = (uint64_t)((const char *)place - harness->arena);
    sqe.user_data = ++harness->last_user_data;
    assert_true(ring_submit(&harness->ring, &sqe));
    if (ring_needs_doorbell(&harness->ring))
        assert_int_equal(write(harness->doorbell_fd, &one, sizeof(one)), sizeof(one));
    return sqe.user_data;
}

ring_cqe_t harness_completion(harness_t *harness)
{
    ring_cqe_t cqe;
    struct pollfd raised = {.fd = harness->completion_fd, .events = POLLIN};
    while (!ring_reap(&harness->ring, &cqe)) {
        uint64_t count;
        assert_int_equal(poll(&raised, 1, (int)limit_ms()), 1);
        /* Raised again in between, it is not readable for a moment. */
        if (read(harness->completion_fd, &count, sizeof(count)) < 0)
            assert_int_equal(errno, EAGAIN);
    }
    return cqe;
}

blink_result_t harness_do(harness_t *harness, ring_sqe_t sqe, const void *place)
{
    const uint64_t user_data = harness_submit(harness, sqe, place);
    const ring_cqe_t cqe = harness_completion(harness);
    assert_int_equal(cqe.user_data, user_data);
    return BLINK_FAIL((blink_result_t)cqe.result, "%s", cqe.text);
}

void harness_assert_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

uint32_t harness_object(harness_t *harness, const void *bytes, size_t count, uint32_t gpus)
{
    void *place = NULL;
    ring_sqe_t sqe = {.opcode = GPU_ALLOC, .member = ++harness->last_object, .root = gpus, .count = count};
    if (bytes) {
        sqe.opcode = GPU_LOAD;
        place = harness_place(harness, count);
        memcpy(place, bytes, count);
    }
    assert_int_equal(harness_do(harness, sqe, place), BLINK_OK);
    return sqe.member;
}

void *harness_map_host(harness_t *harness, size_t bytes, uint64_t *address, uint64_t *token)
{
    const int fd = memory_file(bytes);
    void *memory = map_file(fd, bytes);
    gpu_request_t request = {.kind = GPU_MAP_HOST, .bytes = bytes};
    const gpu_reply_t reply = harness_ask(harness, &request, &fd, 1);
    assert_string_equal(reply.text, "");
    assert_int_equal(reply.result, BLINK_OK);
    close(fd);
    *address = reply.address;
    *token = reply.token;
    return memory;
}
