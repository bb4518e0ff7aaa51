#include "control/gpus.h"

#include "base/clock.h"
#include "base/log.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A worker that ends is replaced after RESTART_MS, but not when FAILED_STARTS_MAX workers in a row have ended
 * before they said hello. */
#define RESTART_MS        500u
#define FAILED_STARTS_MAX 5u

/* A worker that has answered nothing for so many times run_timeout_s is killed: to lock hundreds of gigabytes
 * in memory takes minutes. It is asked so often in that time. */
#define SILENCE_FACTOR    5.0
#define BEATS_PER_SILENCE 4.0

/* A message to the worker. It waits to be sent, for the worker's socket may be full, and then to be answered:
 * answers come in the order of the messages. */
typedef struct message {
    list_t link;
    int fds[GPU_EXTENTS_MAX];
    uint32_t fd_count;
    int error; /* errno if the message could not be sent: it then waits for its turn to be answered */
    gpu_answer_t answer; /* call is NULL: nobody wants to know */
    gpu_request_t request;
} message_t;

struct gpus {
    control_t *control;
    gpus_handler_t handler;
    gpu_hello_t hello;
    gpu_worker_t worker;
    int wire_fd;
    uint32_t number;   /* of the worker: how many the engine has been told of */
    bool killed;       /* it did not answer, or did not end a run */
    bool ready;        /* the worker has said hello */
    uv_poll_t *socket; /* of the worker; freed when closed */
    uv_timer_t restart;
    uv_timer_t *beat;  /* freed when closed */
    uint64_t asked_ns; /* the oldest message without an answer was made, or the one before it answered */
    uint32_t restarts, failed_starts;
    list_t unsent, unanswered;
    list_t failed; /* messages to a worker that has ended, until those who wait have been told */
    work_t fail;
    uint64_t last_token, first_token;     /* first_token: the first of this worker */
    char trouble[BLINK_ERROR_TEXT_BYTES]; /* why there is no worker */
};

/* ---- messages ---- */

static void message_free(message_t *message)
{
    list_remove(&message->link);
    for (uint32_t i = 0; i < message->fd_count; i++)
        close(message->fds[i]);
    free(message);
}

static void message_answer(message_t *message, blink_result_t result, uint64_t address)
{
    gpu_answer_t answer = message->answer;
    message_free(message);
    if (answer.call)
        answer.call(answer.context, result, address);
}

static void watch(gpus_t *gpus);

/* Only as many extents as there are travel. */
static size_t request_bytes(const gpu_request_t *request)
{
    return offsetof(gpu_request_t, extents) + request->extent_count * sizeof(request->extents[0]);
}

/* False if the socket is full. */
static bool send_one(const gpus_t *gpus, message_t *message)
{
    struct iovec part = {(void *)(uintptr_t)&message->request, request_bytes(&message->request)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    frame_control_t control;
    if (message->fd_count > 0)
        frame_attach_fds(&header, &control, message->fds, message->fd_count);
    /* It fails with too many descriptors on their way, or when the worker has ended; the socket tells that.
     */
    if (sendmsg(gpus->worker.socket_fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        message->error = errno;
    if (message->error != EAGAIN)
        return true;
    message->error = 0;
    return false;
}

static void send_unsent(gpus_t *gpus)
{
    LIST_FOR_EACH (link, &gpus->unsent) {
        if (!send_one(gpus, CONTAINER_OF(link, message_t, link)))
            break;
        list_remove(link);
        list_append(&gpus->unanswered, link);
    }
    watch(gpus);
}

static blink_result_t message_make(const gpu_request_t *request, const int *fds, uint32_t fd_count,
                                   message_t **made)
{
    message_t *message = calloc(1, sizeof(*message));
    if (!message)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a message to the GPU worker");
    list_init(&message->link);
    memcpy(&message->request, request, request_bytes(request));
    for (uint32_t i = 0; i < fd_count; i++) {
        int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            blink_result_t result = BLINK_FAIL_ERRNO("duplicate a descriptor for the GPU worker");
            message_free(message);
            return result;
        }
        message->fds[message->fd_count++] = copy;
    }
    *made = message;
    return BLINK_OK;
}

static void message_send(gpus_t *gpus, message_t *message)
{
    if (list_is_empty(&gpus->unsent) && list_is_empty(&gpus->unanswered))
        gpus->asked_ns = clock_ns();
    list_append(&gpus->unsent, &message->link);
    send_unsent(gpus);
}

static blink_result_t ask(gpus_t *gpus, const gpu_request_t *request, const int *fds, uint32_t fd_count,
                          gpu_answer_t answer)
{
    message_t *message;
    BLINK_TRY(message_make(request, fds, fd_count, &message));
    message->answer = answer;
    message_send(gpus, message);
    return BLINK_OK;
}

blink_result_t gpus_import(gpus_t *gpus, gpu_request_t *request, const int *fds, uint32_t fd_count,
                           gpu_answer_t answer)
{
    BLINK_TRY(gpus_check(gpus));
    request->token = ++gpus->last_token;
    return ask(gpus, request, fds, fd_count, answer);
}

blink_result_t gpus_import_more(gpus_t *gpus, const gpu_request_t *request, const int *fds, uint32_t fd_count,
                                gpu_answer_t answer)
{
    BLINK_TRY(gpus_check(gpus));
    if (!gpus_has(gpus, request->token))
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "the GPU worker that had the memory's first extents has ended");
    return ask(gpus, request, fds, fd_count, answer);
}

bool gpus_has(const gpus_t *gpus, uint64_t token)
{
    return gpus->ready && token >= gpus->first_token;
}

blink_result_t gpus_release(gpus_t *gpus, uint64_t token, gpu_answer_t answer)
{
    const gpu_request_t request = {.kind = GPU_RELEASE, .token = token};
    if (!gpus_has(gpus, token))
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "the GPU worker has no such memory");
    blink_result_t result = ask(gpus, &request, NULL, 0, answer);
    if (result != BLINK_OK)
        LOG_ERROR("GPU memory stays imported: %s", blink_error_text());
    return result;
}

/* ---- whether the worker answers ---- */

static double silence_s(const gpus_t *gpus)
{
    return gpus->control->settings->run_timeout_s * SILENCE_FACTOR;
}

static void ping(gpus_t *gpus)
{
    message_t *message;
    const gpu_request_t request = {.kind = GPU_PING, .token = ++gpus->last_token};
    if (message_make(&request, NULL, 0, &message) == BLINK_OK)
        message_send(gpus, message);
}

/* Its socket tells of the end. */
static void kill_worker(gpus_t *gpus, const char *why, double seconds)
{
    event_log_host(EVENT_GPU_WORKER_LOST, "GPUs", LOG_LEVEL_ERROR,
                   "the GPU worker (pid %d) has not %s for %g s: it is killed", (int)gpus->worker.pid, why,
                   seconds);
    gpus->killed = true;
    kill(gpus->worker.pid, SIGKILL);
}

void gpus_worker_stuck(gpus_t *gpus, uint32_t worker)
{
    if (gpus->ready && !gpus->killed && worker == gpus->number)
        kill_worker(gpus, "ended a run that was aborted", gpus->control->settings->run_timeout_s);
}

static void on_beat(uv_timer_t *timer)
{
    gpus_t *gpus = timer->data;
    bool asked = !list_is_empty(&gpus->unsent) || !list_is_empty(&gpus->unanswered);
    if (!gpus->ready || gpus->killed)
        return;
    if (!asked)
        ping(gpus);
    else if ((double)(clock_ns() - gpus->asked_ns) > silence_s(gpus) * 1e9)
        kill_worker(gpus, "answered", silence_s(gpus));
}

/* ---- the worker's end ---- */

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

/* False: none is left. */
static bool fail_one(gpus_t *gpus)
{
    message_t *message = LIST_FIRST(&gpus->failed, message_t, link);
    if (message)
        message_answer(message, BLINK_FAIL(BLINK_ERR_SYSTEM, "%s", gpus->trouble), 0);
    return message;
}

static bool fail_slice(work_t *work)
{
    gpus_t *gpus = CONTAINER_OF(work, gpus_t, fail);
    turns_t *turns = &gpus->control->turns;
    while (!turns_slice_is_over(turns)) {
        if (!fail_one(gpus))
            return false;
        turns_count(turns, 1);
    }
    return true;
}

static void fail_messages(gpus_t *gpus)
{
    list_splice(&gpus->failed, &gpus->unanswered);
    list_splice(&gpus->failed, &gpus->unsent);
    turns_post(&gpus->control->turns, NULL, &gpus->fail);
}

static void drop_worker(gpus_t *gpus, char *how, size_t how_bytes)
{
    if (gpus->socket)
        uv_close((uv_handle_t *)gpus->socket, free_handle);
    gpus->socket = NULL;
    gpus->ready = false;
    gpu_worker_end(&gpus->worker, how, how_bytes);
}

static void on_restart(uv_timer_t *timer);

static void worker_ended(gpus_t *gpus)
{
    char how[64] = "ended";
    pid_t pid = gpus->worker.pid;
    bool was_ready = gpus->ready;
    drop_worker(gpus, how, sizeof(how));
    snprintf(gpus->trouble, sizeof(gpus->trouble), "the GPU worker (pid %d) %s", (int)pid, how);
    event_log_host(EVENT_GPU_WORKER_LOST, "GPUs", LOG_LEVEL_ERROR, "%s", gpus->trouble);
    fail_messages(gpus);
    if (was_ready) {
        gpus->handler.lost(gpus->control);
        engine_gpu_detach(gpus->control->engine, gpus->trouble);
        gpus->failed_starts = 0;
    } else if (++gpus->failed_starts == FAILED_STARTS_MAX) {
        event_log_host(EVENT_GPU_WORKER_LOST, "GPUs", LOG_LEVEL_ERROR,
                       "the GPU worker failed to start %u times: the GPUs are given up", FAILED_STARTS_MAX);
        return;
    }
    uv_timer_start(&gpus->restart, on_restart, RESTART_MS, 0);
}

/* ---- the worker's beginning ---- */

static void worker_is_ready(gpus_t *gpus)
{
    gpu_channel_t channel = gpu_worker_take_channel(&gpus->worker);
    gpus->ready = true;
    gpus->killed = false;
    gpus->number++;
    gpus->first_token = gpus->last_token + 1;
    engine_gpu_attach(gpus->control->engine, &channel);
}

/* The GPUs must be the ones that the topology was made of. */
static blink_result_t check_same_gpus(const gpus_t *gpus, const gpu_hello_t *hello)
{
    bool same = hello->gpu_count == gpus->hello.gpu_count;
    for (uint32_t i = 0; i < hello->gpu_count && same; i++)
        same = memcmp(hello->gpus[i].uuid, gpus->hello.gpus[i].uuid, GPU_UUID_BYTES) == 0;
    return same ? BLINK_OK
                : BLINK_FAIL(BLINK_ERR_SYSTEM,
                             "there are other GPUs than when the daemon started: restart it");
}

static void on_hello(gpus_t *gpus)
{
    gpu_hello_t *hello = malloc(sizeof(*hello));
    blink_result_t result = hello ? gpu_worker_receive_hello(&gpus->worker, 0, hello) : BLINK_ERR_NO_MEMORY;
    const bool is_opening = result == BLINK_OK && hello->is_opening;
    if (result == BLINK_OK && !is_opening)
        result = check_same_gpus(gpus, hello);
    free(hello);
    if (is_opening)
        return;
    if (result != BLINK_OK) {
        LOG_ERROR("%s", blink_error_text());
        worker_ended(gpus);
        return;
    }
    event_log_host(EVENT_GPU_WORKER_STARTED, "GPUs", LOG_LEVEL_INFO,
                   "the GPU worker has started again (pid %d)", (int)gpus->worker.pid);
    worker_is_ready(gpus);
    gpus->handler.back(gpus->control);
}

static message_t *first_unanswered(const gpus_t *gpus)
{
    return LIST_FIRST(&gpus->unanswered, message_t, link);
}

static bool was_not_sent(const message_t *message)
{
    return message && message->error != 0;
}

static void answer_not_sent(gpus_t *gpus)
{
    for (message_t *message; was_not_sent(message = first_unanswered(gpus));)
        message_answer(message,
                       BLINK_FAIL(BLINK_ERR_SYSTEM, "tell the GPU worker: %s", strerror(message->error)), 0);
    watch(gpus);
}

static void on_reply(gpus_t *gpus)
{
    gpu_reply_t reply;
    ssize_t bytes = recv(gpus->worker.socket_fd, &reply, sizeof(reply), MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    answer_not_sent(gpus);
    message_t *message = first_unanswered(gpus);
    if (bytes != (ssize_t)sizeof(reply) || !message || message->request.token != reply.token) {
        worker_ended(gpus);
        return;
    }
    gpus->asked_ns = clock_ns();
    reply.text[sizeof(reply.text) - 1] = '\0';
    blink_result_t result = (blink_result_t)reply.result;
    if (result != BLINK_OK)
        result = BLINK_FAIL(result, "%s", reply.text);
    message_answer(message, result, reply.address);
    watch(gpus);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    gpus_t *gpus = poll->data;
    if (status < 0) {
        worker_ended(gpus);
        return;
    }
    answer_not_sent(gpus);
    if (events & UV_WRITABLE)
        send_unsent(gpus);
    if (!(events & (UV_READABLE | UV_DISCONNECT)))
        return;
    if (gpus->ready)
        on_reply(gpus);
    else
        on_hello(gpus);
}

static void watch(gpus_t *gpus)
{
    bool write = !list_is_empty(&gpus->unsent) || was_not_sent(first_unanswered(gpus));
    int events = UV_READABLE | (write ? UV_WRITABLE : 0);
    if (gpus->socket)
        uv_poll_start(gpus->socket, events, on_socket);
}

static blink_result_t open_socket(gpus_t *gpus)
{
    gpus->socket = calloc(1, sizeof(*gpus->socket));
    if (!gpus->socket)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to watch the GPU worker");
    if (uv_poll_init(&gpus->control->loop, gpus->socket, gpus->worker.socket_fd) != 0) {
        free(gpus->socket);
        gpus->socket = NULL;
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "watch the GPU worker");
    }
    gpus->socket->data = gpus;
    watch(gpus);
    return BLINK_OK;
}

static void on_restart(uv_timer_t *timer)
{
    gpus_t *gpus = timer->data;
    if (gpus->control->stopping)
        return;
    gpus->restarts++;
    blink_result_t result = gpu_worker_start(gpus->control->settings, gpus->wire_fd, &gpus->worker);
    if (result == BLINK_OK)
        result = open_socket(gpus);
    if (result == BLINK_OK)
        return;
    LOG_ERROR("%s", blink_error_text());
    worker_ended(gpus);
}

static blink_result_t start_beat(gpus_t *gpus)
{
    uint64_t period_ms = (uint64_t)(silence_s(gpus) * 1e3 / BEATS_PER_SILENCE) + 1;
    gpus->beat = calloc(1, sizeof(*gpus->beat));
    if (!gpus->beat)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to watch the GPU worker");
    uv_timer_init(&gpus->control->loop, gpus->beat);
    gpus->beat->data = gpus;
    uv_timer_start(gpus->beat, on_beat, period_ms, period_ms);
    return BLINK_OK;
}

blink_result_t gpus_create(control_t *control, gpu_worker_t *worker, const gpu_hello_t *hello, int wire_fd,
                           gpus_handler_t handler, gpus_t **created)
{
    gpus_t *gpus = calloc(1, sizeof(*gpus));
    if (!gpus)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the GPUs");
    gpus->control = control;
    gpus->handler = handler;
    gpus->wire_fd = wire_fd;
    gpus->hello = *hello;
    gpus->worker = *worker;
    *worker = (gpu_worker_t){.socket_fd = -1};
    list_init(&gpus->unsent);
    list_init(&gpus->unanswered);
    list_init(&gpus->failed);
    work_init(&gpus->fail, fail_slice);
    gpus->restart.data = gpus;
    *created = gpus;
    if (uv_timer_init(&control->loop, &gpus->restart) != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "event loop");
    BLINK_TRY(start_beat(gpus));
    BLINK_TRY(open_socket(gpus));
    worker_is_ready(gpus);
    return BLINK_OK;
}

static void free_gpus(uv_handle_t *timer)
{
    free(timer->data);
}

void gpus_destroy(gpus_t *gpus)
{
    if (!gpus)
        return;
    snprintf(gpus->trouble, sizeof(gpus->trouble), "the daemon ends");
    drop_worker(gpus, NULL, 0);
    fail_messages(gpus);
    work_cancel(&gpus->fail);
    while (fail_one(gpus))
        ;
    if (gpus->beat)
        uv_close((uv_handle_t *)gpus->beat, free_handle);
    uv_close((uv_handle_t *)&gpus->restart, free_gpus);
}

/* ---- what is known ---- */

const gpu_hello_t *gpus_facts(const gpus_t *gpus)
{
    return &gpus->hello;
}

pid_t gpus_worker_pid(const gpus_t *gpus)
{
    return gpus->ready ? gpus->worker.pid : 0;
}

uint32_t gpus_restarts(const gpus_t *gpus)
{
    return gpus->restarts;
}

blink_result_t gpus_check(const gpus_t *gpus)
{
    return gpus->ready
               ? BLINK_OK
               : BLINK_FAIL(BLINK_ERR_SYSTEM, "the GPUs cannot be used at the moment: %s", gpus->trouble);
}

blink_result_t gpus_find(const gpus_t *gpus, const uint8_t *uuid, size_t uuid_bytes, uint32_t *gpu)
{
    if (uuid_bytes != GPU_UUID_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a GPU's UUID of %zu bytes, not %u", uuid_bytes,
                          GPU_UUID_BYTES);
    for (uint32_t i = 0; i < gpus->hello.gpu_count; i++) {
        if (memcmp(gpus->hello.gpus[i].uuid, uuid, GPU_UUID_BYTES) == 0) {
            *gpu = i;
            return BLINK_OK;
        }
    }
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                      "this daemon does not serve the GPU with the UUID that begins with %02x%02x%02x%02x",
                      uuid[0], uuid[1], uuid[2], uuid[3]);
}
