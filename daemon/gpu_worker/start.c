#include "gpu_worker/start.h"

#include "base/cores.h"
#include "frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The worker's number of its socket. */
#define WORKER_FD 3

#define END_WAIT_MS 100u

extern char **environ;

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Start this binary once more; the new process gets nothing of this one but the socket. */
static blink_result_t spawn(int socket_fd, pid_t *pid)
{
    char number[16];
    char *arguments[] = {"blinkd", GPU_WORKER_FLAG, number, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    snprintf(number, sizeof(number), "%d", WORKER_FD);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_adddup2(&actions, socket_fd, WORKER_FD);
    int error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? BLINK_OK : BLINK_FAIL(BLINK_ERR_SYSTEM, "start the GPU worker: %s", strerror(error));
}

static blink_result_t send_start(const gpu_worker_t *worker, const settings_t *settings, int arena_fd,
                                 int wire_fd)
{
    const int fds[GPU_START_FDS] = {worker->channel.ring_fd, worker->channel.doorbell_fd,
                                    worker->channel.event_fd, arena_fd, wire_fd};
    gpu_start_t start = {.arena_bytes = worker->channel.arena_bytes,
                         .legacy_ipc = settings->gpu_legacy_ipc,
                         .is_mps = settings->gpu_mps,
                         .processors = cores_allowed(),
                         .exports =
                             settings->network_gpu_direct && settings->network_transport != SETTINGS_TCP};
    struct iovec part = {&start, sizeof(start)};
    frame_control_t control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    frame_attach_fds(&message, &control, fds, GPU_START_FDS);
    if (sendmsg(worker->socket_fd, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(start))
        return BLINK_FAIL_ERRNO("tell the GPU worker to begin");
    return BLINK_OK;
}

blink_result_t gpu_worker_start(const settings_t *settings, int wire_fd, gpu_worker_t *worker)
{
    int sockets[2], arena_fd;
    *worker = (gpu_worker_t){.socket_fd = -1, .channel = GPU_CHANNEL_NONE};
#ifndef BLINK_HAVE_CUDA
    (void)wire_fd;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "this blinkd was built without CUDA");
#endif
    blink_result_t result = gpu_channel_open(&worker->channel, &arena_fd);
    if (result == BLINK_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        result = BLINK_FAIL_ERRNO("socketpair");
    if (result == BLINK_OK) {
        worker->socket_fd = sockets[0];
        result = spawn(sockets[1], &worker->pid);
        close(sockets[1]);
    }
    if (result == BLINK_OK)
        result = send_start(worker, settings, arena_fd, wire_fd);
    close_if_open(&arena_fd);
    if (result != BLINK_OK)
        gpu_worker_end(worker, NULL, 0);
    return result;
}

/* A hello with the dma-bufs that come with it. Returns the bytes received. */
static ssize_t receive_hello(int socket_fd, gpu_hello_t *hello, int fds[FRAME_FDS_MAX], uint32_t *fd_count)
{
    struct iovec part = {hello, sizeof(*hello)};
    frame_control_t control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t bytes = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    *fd_count = 0;
    return bytes >= 0 && frame_take_fds(&message, fds, fd_count) != BLINK_OK ? -1 : bytes;
}

/* The channel gets them, and closes them; returns how many it has got. */
static uint32_t take_exports(gpu_channel_t *channel, const gpu_hello_t *hello, const int *fds,
                             uint32_t fd_count)
{
    uint32_t taken = 0;
    for (uint32_t gpu = 0; gpu < hello->gpu_count && taken < fd_count; gpu++) {
        if (!hello->gpus[gpu].exported_address)
            continue;
        channel->exported_address[gpu] = hello->gpus[gpu].exported_address;
        channel->exported_fd[gpu] = fds[taken++];
    }
    return taken;
}

static blink_result_t check_hello(gpu_hello_t *hello)
{
    hello->text[sizeof(hello->text) - 1] = '\0';
    if (hello->result != BLINK_OK)
        return BLINK_FAIL(hello->result <= BLINK_ERR_INTERNAL ? (blink_result_t)hello->result
                                                              : BLINK_ERR_INTERNAL,
                          "%s", hello->text);
    if (!hello->is_opening && (hello->gpu_count == 0 || hello->gpu_count > GPU_MAX))
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "the GPU worker found %u GPUs; 1 to %u can be served",
                          hello->gpu_count, GPU_MAX);
    return BLINK_OK;
}

blink_result_t gpu_worker_receive_hello(gpu_worker_t *worker, int timeout_ms, gpu_hello_t *hello)
{
    struct pollfd ready = {.fd = worker->socket_fd, .events = POLLIN};
    int fds[FRAME_FDS_MAX];
    uint32_t fd_count = 0;
    int status = poll(&ready, 1, timeout_ms);
    if (status == 0)
        return BLINK_FAIL(BLINK_ERR_TIMEOUT, "the GPU worker (pid %d) said nothing for %d ms",
                          (int)worker->pid, timeout_ms);
    ssize_t bytes = status < 0 ? -1 : receive_hello(worker->socket_fd, hello, fds, &fd_count);
    blink_result_t result =
        bytes == (ssize_t)sizeof(*hello)
            ? check_hello(hello)
            : BLINK_FAIL(BLINK_ERR_SYSTEM, "the GPU worker (pid %d) ended before it had begun",
                         (int)worker->pid);
    uint32_t taken = 0;
    if (result == BLINK_OK && !hello->is_opening) {
        worker->channel.wire_address = hello->wire_address;
        taken = take_exports(&worker->channel, hello, fds, fd_count);
    }
    if (result == BLINK_OK && taken < fd_count)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the GPU worker exports %u memories of %u GPUs", fd_count,
                            hello->gpu_count);
    while (taken < fd_count)
        close(fds[taken++]);
    return result;
}

gpu_channel_t gpu_worker_take_channel(gpu_worker_t *worker)
{
    gpu_channel_t channel = worker->channel;
    worker->channel = GPU_CHANNEL_NONE;
    return channel;
}

/* Whether it is gone, then with its status. */
static bool reap(pid_t pid, int *status)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (uint32_t ms = 0; ms < END_WAIT_MS; ms++) {
        if (waitpid(pid, status, WNOHANG) != 0)
            return true;
        nanosleep(&nap, NULL);
    }
    return false;
}

void gpu_worker_end(gpu_worker_t *worker, char *text, size_t text_bytes)
{
    int status = 0;
    close_if_open(&worker->socket_fd);
    gpu_channel_close(&worker->channel);
    if (worker->pid <= 0)
        return;
    bool gone = reap(worker->pid, &status);
    if (!gone) {
        kill(worker->pid, SIGKILL);
        /* If it is not gone now, a driver holds the process, which stays a zombie until this one ends. */
        gone = reap(worker->pid, &status);
    }
    if (text && gone && WIFSIGNALED(status))
        snprintf(text, text_bytes, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (text && gone)
        snprintf(text, text_bytes, "ended with status %d", WEXITSTATUS(status));
    else if (text)
        snprintf(text, text_bytes, "hangs and cannot be ended");
    worker->pid = 0;
}
