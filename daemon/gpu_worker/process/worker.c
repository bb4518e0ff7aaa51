/* The GPU worker process: its start, and the main thread, which answers the service's requests about memory
 * until the socket ends. */
#include "gpu_worker/process/worker.h"

#include "base/log.h"
#include "frame.h"
#include "gpu_worker/process/memory.h"
#include "gpu_worker/process/open.h"
#include "gpu_worker/process/run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define NO_MPS_DIRECTORY "/nonexistent/blinkd-without-mps"

/* ---- messages ---- */

typedef struct message {
    size_t bytes; /* 0: the service is gone */
    uint32_t fd_count;
    int fds[GPU_EXTENTS_MAX];
} message_t;

static void take_descriptors(struct msghdr *header, message_t *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        message->fd_count = (uint32_t)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(message->fds, CMSG_DATA(part), message->fd_count * sizeof(int));
    }
}

static void close_descriptors(message_t *message)
{
    for (uint32_t i = 0; i < message->fd_count; i++)
        close(message->fds[i]);
    message->fd_count = 0;
}

static blink_result_t receive(int fd, void *data, size_t bytes, message_t *message)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(message->fds))];
    struct iovec place = {.iov_base = data, .iov_len = bytes};
    struct msghdr header = {
        .msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t got;
    *message = (message_t){0};
    do {
        got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != ECONNRESET)
        return BLINK_FAIL_ERRNO("receive from the service");
    if (got <= 0)
        return BLINK_OK;
    take_descriptors(&header, message);
    if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        close_descriptors(message);
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a message of the service is too long");
    }
    message->bytes = (size_t)got;
    return BLINK_OK;
}

/* A service that is gone shows at the next receive(). */
static void reply_with(int fd, void *data, size_t bytes, const int *fds, uint32_t fd_count)
{
    struct iovec part = {data, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    frame_control_t control;
    if (fd_count > 0)
        frame_attach_fds(&header, &control, fds, fd_count);
    if (sendmsg(fd, &header, MSG_NOSIGNAL) < 0)
        LOG_DEBUG("GPU worker: send: %s", strerror(errno));
}

static void reply(int fd, void *data, size_t bytes)
{
    reply_with(fd, data, bytes, NULL, 0);
}

/* ---- the start ---- */

/* Before the driver is loaded, which reads it. */
static void set_environment(const gpu_start_t *start)
{
    if (!start->is_mps)
        setenv("CUDA_MPS_PIPE_DIRECTORY", NO_MPS_DIRECTORY, 1);
    /* A kernel loaded at its first launch would wait for all that runs. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    /* Streams that share a queue would wait for one another. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    /* The first kernel of a run on several GPUs would be waited for before the others are launched. */
    unsetenv("CUDA_LAUNCH_BLOCKING");
}

static blink_result_t map_arena(worker_t *worker, int fd)
{
    worker->arena = mmap(NULL, worker->start.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (worker->arena == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map the arena");
    /* For kernels, and for copies in stream order, which do not wait for the calling thread then. */
    CUDA_DRIVER_TRY(worker->cu, cuMemHostRegister, worker->arena, worker->start.arena_bytes,
                    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        CUdeviceptr address = 0;
        BLINK_TRY(worker_select(worker, &worker->gpus[i]));
        CUDA_DRIVER_TRY(worker->cu, cuMemHostGetDevicePointer, &address, worker->arena, 0);
        if (i > 0 && address != worker->arena_address)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "GPU %u finds host memory elsewhere than GPU 0", i);
        worker->arena_address = address;
    }
    return BLINK_OK;
}

/* Nothing of it is pinned yet. */
static blink_result_t map_wires(worker_t *worker, int fd)
{
    worker->wires = mmap(NULL, GPU_WIRE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return worker->wires == MAP_FAILED ? BLINK_FAIL_ERRNO("map what GPUs and the network share") : BLINK_OK;
}

static blink_result_t watch_doorbell(worker_t *worker)
{
    struct epoll_event edge = {.events = EPOLLIN | EPOLLET};
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (worker->epoll_fd < 0 || epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->doorbell_fd, &edge) != 0)
        return BLINK_FAIL_ERRNO("watch the doorbell");
    return BLINK_OK;
}

static blink_result_t start_run_thread(worker_t *worker)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, worker_run_main, worker);
    if (error != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "start the run thread: %s", strerror(error));
    pthread_detach(thread);
    return BLINK_OK;
}

static blink_result_t worker_start(worker_t *worker)
{
    message_t message;
    BLINK_TRY(receive(worker->socket_fd, &worker->start, sizeof(worker->start), &message));
    if (message.bytes != sizeof(worker->start) || message.fd_count != GPU_START_FDS) {
        close_descriptors(&message);
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the service's first message is not a start");
    }
    worker->doorbell_fd = message.fds[1];
    worker->completion_fd = message.fds[2];
    set_environment(&worker->start);
    blink_result_t result = ring_adopt(message.fds[0], &worker->ring);
    if (result == BLINK_OK)
        result = watch_doorbell(worker);
    if (result == BLINK_OK)
        result = worker_open_gpus(worker);
    if (result == BLINK_OK)
        result = map_arena(worker, message.fds[3]);
    if (result == BLINK_OK)
        result = map_wires(worker, message.fds[4]);
    close(message.fds[0]);
    close(message.fds[3]);
    close(message.fds[4]);
    if (result == BLINK_OK)
        result = worker_launchers_start(worker);
    if (result == BLINK_OK)
        result = start_run_thread(worker);
    return result;
}

void worker_say_opening(const worker_t *worker)
{
    gpu_hello_t hello = {.is_opening = true};
    reply(worker->socket_fd, &hello, sizeof(hello));
}

static void say_hello(const worker_t *worker, blink_result_t result)
{
    gpu_hello_t hello = {.result = (uint32_t)result};
    int fds[GPU_MAX];
    uint32_t fd_count = 0;
    if (result == BLINK_OK) {
        hello.gpu_count = worker->gpu_count;
        hello.is_mps = worker->is_mps;
        hello.wire_address = (uint64_t)(uintptr_t)worker->wires;
        for (uint32_t i = 0; i < worker->gpu_count; i++) {
            hello.gpus[i] = worker->gpus[i].facts;
            if (worker->gpus[i].facts.exported_address)
                fds[fd_count++] = worker->gpus[i].exported_fd;
        }
    } else {
        snprintf(hello.text, sizeof(hello.text), "%s", blink_error_text());
    }
    reply_with(worker->socket_fd, &hello, sizeof(hello), fds, fd_count);
}

/* ---- requests ---- */

static blink_result_t serve_memory(worker_t *worker, const gpu_request_t *request, const message_t *message,
                                   uint64_t *address)
{
    const size_t head = offsetof(gpu_request_t, extents);
    if (message->bytes < head ||
        ((request->kind == GPU_IMPORT || request->kind == GPU_IMPORT_MORE) &&
         (message->bytes - head) / sizeof(request->extents[0]) < request->extent_count))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a request of %zu bytes is cut off", message->bytes);
    switch (request->kind) {
    case GPU_IMPORT:
        return worker_import(worker, request, message->fds, message->fd_count, address);
    case GPU_IMPORT_MORE:
        return worker_import_more(worker, request, message->fds, message->fd_count, address);
    case GPU_MAP_HOST:
        return worker_map_host(worker, request, message->fds, message->fd_count, address);
    case GPU_RELEASE:
        return worker_release(worker, request->token);
    default:
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "request kind %u is none", request->kind);
    }
}

/* Asked with every request. A context that is lost refuses whatever is offered to it, in the words of any
 * call, and that must not be taken for a word on the memory: only its streams tell the one from the other. */
static blink_result_t check_contexts(worker_t *worker)
{
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        const CUresult result = worker->cu->cuStreamQuery(worker->gpus[i].object_stream.handle);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
            return worker_fail(worker, "cuStreamQuery", result);
    }
    return BLINK_OK;
}

/* What is asked about memory may wait for GPUs. */
static blink_result_t answer(worker_t *worker, const gpu_request_t *request, const message_t *message,
                             uint64_t *address)
{
    if (request->kind == GPU_PING)
        return BLINK_OK;
    worker_turn_await(&worker->turns);
    blink_result_t result = serve_memory(worker, request, message, address);
    worker_turn_end(&worker->turns);
    return result;
}

/* It ends a worker that is lost. */
static void wake_run_thread(const worker_t *worker)
{
    const uint64_t one = 1;
    if (write(worker->doorbell_fd, &one, sizeof(one)) < 0) /* so often rung that it is awake */
        LOG_DEBUG("GPU worker: ring the doorbell: %s", strerror(errno));
}

static void serve(worker_t *worker)
{
    static gpu_request_t request;
    message_t message;
    for (;;) {
        if (receive(worker->socket_fd, &request, sizeof(request), &message) != BLINK_OK) {
            LOG_ERROR("GPU worker ends: %s", blink_error_text());
            return;
        }
        if (message.bytes == 0)
            return;
        gpu_reply_t result = {.token = request.token};
        uint64_t address = 0;
        blink_result_t answered = answer(worker, &request, &message, &address);
        close_descriptors(&message);
        blink_result_t health = check_contexts(worker);
        result.result = (uint32_t)(health == BLINK_OK ? answered : health);
        if (result.result == BLINK_OK)
            result.address = address;
        else
            snprintf(result.text, sizeof(result.text), "%s", blink_error_text());
        reply(worker->socket_fd, &result, sizeof(result));
        if (worker_is_lost(worker))
            wake_run_thread(worker);
    }
}

int gpu_worker_main(int socket_fd)
{
    static worker_t worker; /* of a size that is not for a stack */
    worker.socket_fd = socket_fd;
    list_init(&worker.jobs);
    list_init(&worker.free_jobs);
    prctl(PR_SET_NAME, "blinkd-gpu");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A signal to the whole group is for the service: when it ends, so does the socket. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    blink_result_t result = worker_start(&worker);
    if (result != BLINK_OK)
        LOG_INFO("GPU worker: %s", blink_error_text());
    say_hello(&worker, result);
    if (result != BLINK_OK)
        return 1;
    serve(&worker);
    _exit(0); /* without cleaning up: the run thread still works */
}
