/* Requests, replies, events and the watcher thread. */
#include "submit/connection.h"

#include "context/comm.h"
#include "context/context.h"
#include "frame.h"
#include "gpu/gpu.h"
#include "stream/stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PUMP_PERIOD_MS 1
#define CLOSE_MAX_S    5  /* how long control_stop() gives the daemon to close its end */
#define HELLO_FDS      3u /* ring, doorbell, completion */

struct control_request {
    control_request_t *next;
    uint64_t id;
    blink_comm_t *joining;
    control_answer_t answer; /* reply is NULL until it is there */
};

void control_answer_release(control_answer_t *answer)
{
    if (answer->reply)
        blinkwire__reply__free_unpacked(answer->reply, NULL);
    if (answer->fd >= 0)
        close(answer->fd);
    *answer = (control_answer_t){.fd = -1};
}

static blink_result_t send_request(control_t *control, const Blinkwire__Request *request, const int *fds,
                                   uint32_t fd_count)
{
    size_t bytes = blinkwire__request__get_packed_size(request);
    uint8_t *packed = malloc(bytes);
    if (!packed)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a request of %zu bytes", bytes);
    blinkwire__request__pack(request, packed);
    pthread_mutex_lock(&control->send_lock);
    blink_result_t result = frame_send(control->socket_fd, packed, bytes, fds, fd_count);
    pthread_mutex_unlock(&control->send_lock);
    free(packed);
    return result;
}

static blink_result_t receive_reply(control_t *control, frame_t *frame, Blinkwire__Reply **reply)
{
    BLINK_TRY(frame_receive(control->socket_fd, frame));
    *reply = blinkwire__reply__unpack(NULL, frame->byte_count, frame->bytes);
    if (*reply)
        return BLINK_OK;
    blink_result_t result =
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon sent %u bytes that are no reply", frame->byte_count);
    frame_release(frame);
    return result;
}

static blink_result_t reply_result(const Blinkwire__Reply *reply)
{
    if (!reply->error)
        return BLINK_OK;
    uint32_t code = reply->error->code;
    return BLINK_FAIL(code != BLINK_OK && code <= BLINK_ERR_INTERNAL ? (blink_result_t)code
                                                                     : BLINK_ERR_INTERNAL,
                      "%s", reply->error->text);
}

/* ---- requests ---- */

static void unlink_request(control_t *control, const control_request_t *request)
{
    control_request_t **link = &control->requests;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
}

blink_result_t control_call(blink_context_t *context, Blinkwire__Request *request, const int *fds,
                            uint32_t fd_count, blink_comm_t *joining, control_answer_t *answer)
{
    control_t *control = &context->control;
    control_request_t waiting = {.joining = joining, .answer = {.fd = -1}};
    pthread_mutex_lock(&control->lock);
    waiting.id = ++control->last_id;
    waiting.next = control->requests;
    control->requests = &waiting;
    pthread_mutex_unlock(&control->lock);

    request->id = waiting.id;
    blink_result_t result = send_request(control, request, fds, fd_count);
    if (result == BLINK_ERR_DAEMON_LOST)
        result = BLINK_OK; /* the watcher finds out as well, and ends the ops first */
    pthread_mutex_lock(&control->lock);
    while (result == BLINK_OK && !waiting.answer.reply && !control->ended)
        pthread_cond_wait(&control->changed, &control->lock);
    unlink_request(control, &waiting);
    pthread_mutex_unlock(&control->lock);

    if (result == BLINK_OK)
        result = waiting.answer.reply
                     ? reply_result(waiting.answer.reply)
                     : BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "the connection to the daemon is closed");
    if (result == BLINK_OK && answer)
        *answer = waiting.answer;
    else
        control_answer_release(&waiting.answer);
    return result;
}

blink_result_t control_post(blink_context_t *context, Blinkwire__Request *request)
{
    control_t *control = &context->control;
    pthread_mutex_lock(&control->lock);
    request->id = ++control->last_id;
    pthread_mutex_unlock(&control->lock);
    return send_request(control, request, NULL, 0);
}

/* ---- the watcher ---- */

/* The event without a request that an answer is. Under control.lock. */
static void take_event(blink_context_t *context, const Blinkwire__Reply *reply)
{
    if (reply->id != 0)
        return; /* of control_post() */
    if (reply->body_case == BLINKWIRE__REPLY__BODY_COMM_LOST) {
        comm_lost(context->control.comms, reply->comm_lost);
        pthread_cond_broadcast(&context->control.changed);
    }
    /* Relaxed: gpus_reset() takes the lock under which others compare it. */
    if (reply->body_case == BLINKWIRE__REPLY__BODY_GPU_RESET)
        atomic_fetch_add_explicit(&context->control.gpu_resets, 1, memory_order_relaxed);
}

/* Takes over what the answer holds. */
static void take_answer(blink_context_t *context, control_answer_t *answer)
{
    control_t *control = &context->control;
    Blinkwire__Reply *reply = answer->reply;
    bool reset = reply->id == 0 && reply->body_case == BLINKWIRE__REPLY__BODY_GPU_RESET;
    pthread_mutex_lock(&control->lock);
    control_request_t *request = control->requests;
    while (request && (request->id != reply->id || request->answer.reply))
        request = request->next;
    if (request) {
        answer->gpu_resets = atomic_load_explicit(&control->gpu_resets, memory_order_relaxed);
        request->answer = *answer;
        if (request->joining && !reply->error && reply->body_case == BLINKWIRE__REPLY__BODY_COMM_INIT)
            comm_joined(request->joining, reply->comm_init);
        pthread_cond_broadcast(&control->changed);
    } else {
        take_event(context, reply);
    }
    pthread_mutex_unlock(&control->lock);
    if (reset)
        gpus_reset(context);
    if (!request)
        control_answer_release(answer);
}

static blink_result_t watch_socket(blink_context_t *context)
{
    frame_t frame;
    control_answer_t answer = {.fd = -1};
    BLINK_TRY(receive_reply(&context->control, &frame, &answer.reply));
    if (frame.fd_count > 0) {
        answer.fd = frame.fds[0];
        frame.fds[0] = -1;
    }
    frame_release(&frame);
    take_answer(context, &answer);
    return BLINK_OK;
}

/* What goes on without the application's calls; whether it is to be looked at again soon. */
static bool pump(blink_context_t *context)
{
    streams_pump(context);
    return ops_pump(&context->ops);
}

/* Until the connection ends. */
static void serve(blink_context_t *context)
{
    bool pumping = false;
    struct pollfd fds[2] = {{.fd = context->control.socket_fd, .events = POLLIN},
                            {.fd = context->ops.pump_fd, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, pumping ? PUMP_PERIOD_MS : -1);
        if (ready < 0 && errno != EINTR && errno != ENOMEM)
            break;
        uint64_t count;
        if (ready > 0 && fds[1].revents != 0)
            pumping = read(context->ops.pump_fd, &count, sizeof(count)) > 0 || pumping;
        pumping = pumping && pump(context);
        if (ready > 0 && fds[0].revents != 0 && watch_socket(context) != BLINK_OK)
            break;
    }
}

/* The daemon is lost. What streams wait for has to be stored again and again: graphs are replayed, and a
 * daemon that has only closed the connection may still be storing. */
static void stand_in(blink_context_t *context)
{
    struct pollfd rung = {.fd = context->ops.pump_fd, .events = POLLIN};
    uint64_t count;
    /* Acquire: pairs with the store in control_stop(). */
    while (!atomic_load_explicit(&context->control.stopping, memory_order_acquire)) {
        bool needed = streams_let_go(context);
        if (needed)
            (void)ops_pump(&context->ops);
        (void)poll(&rung, 1, needed ? PUMP_PERIOD_MS : -1);
        (void)!read(rung.fd, &count, sizeof(count));
    }
}

static void *watch(void *argument)
{
    blink_context_t *context = argument;
    control_t *control = &context->control;
    serve(context);
    shutdown(control->socket_fd,
             SHUT_RDWR); /* if it was nonsense that ended it, the daemon is to see the end, too */
    pthread_mutex_lock(&control->lock);
    control->lost = true; /* first: whoever sees an op end with DAEMON_LOST is to see this as well */
    pthread_mutex_unlock(&control->lock);
    ops_lose(&context->ops);
    pthread_mutex_lock(&control->lock);
    control->ended = true;
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
    stand_in(context);
    return NULL;
}

/* ---- beginning and end ---- */

/* Check the answer to Hello and take its descriptors. */
static blink_result_t accept_hello(blink_context_t *context, const Blinkwire__Reply *reply, frame_t *frame)
{
    BLINK_TRY(reply_result(reply));
    if (reply->body_case != BLINKWIRE__REPLY__BODY_HELLO || frame->fd_count != HELLO_FDS)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's answer to hello has %u descriptors and body %d",
                          frame->fd_count, (int)reply->body_case);
    uint32_t version = reply->hello->version;
    if (version < BLINK_WIRE_VERSION_MIN || version > BLINK_WIRE_VERSION_MAX)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "the daemon chose protocol version %u, this library speaks %u to %u", version,
                          BLINK_WIRE_VERSION_MIN, BLINK_WIRE_VERSION_MAX);
    ring_t ring;
    BLINK_TRY(ring_attach(frame->fds[0], &ring));
    context->device_count = reply->hello->device_count;
    int doorbell_fd = frame->fds[1], completion_fd = frame->fds[2];
    frame->fds[1] = frame->fds[2] = -1;
    return ops_init(&context->ops, &ring, doorbell_fd, completion_fd);
}

blink_result_t control_hello(blink_context_t *context, int socket_fd)
{
    control_t *control = &context->control;
    control->socket_fd = socket_fd;
    Blinkwire__Hello hello = BLINKWIRE__HELLO__INIT;
    hello.version_min = BLINK_WIRE_VERSION_MIN;
    hello.version_max = BLINK_WIRE_VERSION_MAX;
    hello.program = program_invocation_short_name;
    hello.want_ring = true;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.id = ++control->last_id;
    request.body_case = BLINKWIRE__REQUEST__BODY_HELLO;
    request.hello = &hello;
    pthread_mutex_init(&control->send_lock, NULL);
    blink_result_t result = send_request(control, &request, NULL, 0);
    frame_t frame;
    Blinkwire__Reply *reply;
    if (result == BLINK_OK)
        result = receive_reply(control, &frame, &reply);
    if (result == BLINK_OK) {
        result = accept_hello(context, reply, &frame);
        blinkwire__reply__free_unpacked(reply, NULL);
        frame_release(&frame);
    }
    if (result != BLINK_OK) {
        pthread_mutex_destroy(&control->send_lock);
        close(socket_fd);
    }
    return result;
}

blink_result_t control_start(blink_context_t *context)
{
    control_t *control = &context->control;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&control->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&control->lock, NULL);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the application's signals are not the watcher's */
    int status = pthread_create(&control->watcher, NULL, watch, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0)
        return BLINK_OK;
    blink_result_t result = BLINK_FAIL(BLINK_ERR_SYSTEM, "start a thread: %s", strerror(status));
    pthread_mutex_destroy(&control->lock);
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->send_lock);
    close(control->socket_fd);
    return result;
}

void control_stop(blink_context_t *context)
{
    control_t *control = &context->control;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += CLOSE_MAX_S;
    shutdown(control->socket_fd, SHUT_WR);
    pthread_mutex_lock(&control->lock);
    while (!control->ended &&
           pthread_cond_timedwait(&control->changed, &control->lock, &deadline) != ETIMEDOUT)
        continue;
    shutdown(control->socket_fd, SHUT_RDWR);
    while (!control->ended)
        pthread_cond_wait(&control->changed, &control->lock);
    pthread_mutex_unlock(&control->lock);
    streams_settle(context);
    uint64_t one = 1;
    /* Release: pairs with the load in stand_in(). */
    atomic_store_explicit(&control->stopping, true, memory_order_release);
    (void)!write(context->ops.pump_fd, &one, sizeof(one)); /* fails only if it is readable already */
    pthread_join(control->watcher, NULL);
    pthread_mutex_destroy(&control->lock);
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->send_lock);
    close(control->socket_fd);
}
