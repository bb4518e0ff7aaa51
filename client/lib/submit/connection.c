/* Requests, replies, and the end of both. */
#include "submit/connection.h"

#include "base/clock.h"
#include "environment/debug.h"
#include "frame.h"
#include "launch/launch.h"
#include "submit/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long connection_close() gives the daemon to close its end. */
#define CLOSE_MAX_NS UINT64_C(5000000000)
#define HELLO_FDS    3u /* ring, doorbell, completion */

void connection_answer_release(connection_answer_t *answer)
{
    if (answer->reply)
        blinkwire__reply__free_unpacked(answer->reply, NULL);
    if (answer->fd >= 0)
        close(answer->fd);
    *answer = (connection_answer_t){.fd = -1};
}

static blink_result_t send_request(connection_t *connection, const Blinkwire__Request *request,
                                   const int *fds, uint32_t fd_count)
{
    size_t bytes = blinkwire__request__get_packed_size(request);
    uint8_t *packed = malloc(bytes);
    if (!packed)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a request of %zu bytes", bytes);
    blinkwire__request__pack(request, packed);
    pthread_mutex_lock(&connection->send_lock);
    blink_result_t result = frame_send(connection->socket_fd, packed, bytes, fds, fd_count);
    pthread_mutex_unlock(&connection->send_lock);
    free(packed);
    if (result != BLINK_ERR_TIMEOUT)
        return result;
    shutdown(connection->socket_fd, SHUT_RDWR); /* half a request may be sent: the watcher sees the end */
    return BLINK_ERR_DAEMON_LOST;
}

static blink_result_t receive_reply(connection_t *connection, frame_t *frame, Blinkwire__Reply **reply)
{
    BLINK_TRY(frame_receive(connection->socket_fd, frame));
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
    bool known = code != BLINK_OK && code <= BLINK_ERR_INTERNAL;
    return BLINK_FAIL(known ? (blink_result_t)code : BLINK_ERR_INTERNAL, "%s", reply->error->text);
}

/* ---- requests ---- */

static void ask(connection_t *connection, Blinkwire__Request *request, const int *fds, uint32_t fd_count,
                connection_wait_t *wait)
{
    pthread_mutex_lock(&connection->lock);
    wait->id = ++connection->last_id;
    list_prepend(&connection->requests, &wait->of_requests);
    pthread_mutex_unlock(&connection->lock);
    request->id = wait->id;
    wait->sent = send_request(connection, request, fds, fd_count);
    if (wait->sent == BLINK_ERR_DAEMON_LOST)
        wait->sent = BLINK_OK; /* the watcher finds out as well, and ends the ops first */
}

/* Whether nothing is waited for any more: the answer is there, or all ops have ended without. Under the lock.
 */
static bool is_over(const connection_t *connection, const connection_wait_t *wait)
{
    return wait->sent != BLINK_OK || wait->answered || connection->ended;
}

static blink_result_t await_answer(connection_t *connection, connection_wait_t *wait)
{
    blink_result_t result = wait->sent;
    pthread_mutex_lock(&connection->lock);
    while (!is_over(connection, wait))
        pthread_cond_wait(&connection->changed, &connection->lock);
    list_remove(&wait->of_requests);
    if (result == BLINK_OK && !wait->answered)
        result = connection_lost_error(connection);
    pthread_mutex_unlock(&connection->lock);
    BLINK_TRY(result);
    return reply_result(wait->answer.reply);
}

void connection_ask(connection_t *connection, Blinkwire__Request *request, connection_wait_t *wait)
{
    connection_ask_in_order(connection, request, NULL, NULL, wait);
}

void connection_ask_in_order(connection_t *connection, Blinkwire__Request *request,
                             connection_accepted_t *accepted, void *owner, connection_wait_t *wait)
{
    *wait = (connection_wait_t){.accepted = accepted, .owner = owner, .answer = {.fd = -1}};
    ask(connection, request, NULL, 0, wait);
}

bool connection_is_answered(connection_t *connection, const connection_wait_t *wait)
{
    pthread_mutex_lock(&connection->lock);
    bool answered = is_over(connection, wait);
    pthread_mutex_unlock(&connection->lock);
    return answered;
}

bool connection_await_until(connection_t *connection, const connection_wait_t *wait,
                            const struct timespec *deadline)
{
    int status = 0;
    pthread_mutex_lock(&connection->lock);
    while (!is_over(connection, wait) && status != ETIMEDOUT)
        status = deadline ? pthread_cond_timedwait(&connection->changed, &connection->lock, deadline)
                          : pthread_cond_wait(&connection->changed, &connection->lock);
    bool answered = is_over(connection, wait);
    pthread_mutex_unlock(&connection->lock);
    return answered;
}

blink_result_t connection_await(connection_t *connection, connection_wait_t *wait)
{
    blink_result_t result = await_answer(connection, wait);
    connection_answer_release(&wait->answer);
    return result;
}

blink_result_t connection_call(connection_t *connection, Blinkwire__Request *request, const int *fds,
                               uint32_t fd_count, connection_answer_t *answer)
{
    connection_wait_t wait = {.answer = {.fd = -1}};
    ask(connection, request, fds, fd_count, &wait);
    blink_result_t result = await_answer(connection, &wait);
    if (result == BLINK_OK && answer)
        *answer = wait.answer;
    else
        connection_answer_release(&wait.answer);
    return result;
}

blink_result_t connection_post(connection_t *connection, Blinkwire__Request *request, int fd)
{
    pthread_mutex_lock(&connection->lock);
    request->id = ++connection->last_id;
    pthread_mutex_unlock(&connection->lock);
    return send_request(connection, request, &fd, fd >= 0);
}

/* ---- the watcher's ---- */

blink_result_t connection_receive(connection_t *connection, connection_answer_t *answer)
{
    frame_t frame;
    *answer = (connection_answer_t){.fd = -1};
    BLINK_TRY(receive_reply(connection, &frame, &answer->reply));
    connection->received++;
    if (frame.fd_count > 0) {
        answer->fd = frame.fds[0];
        frame.fds[0] = -1;
    }
    frame_release(&frame);
    return BLINK_OK;
}

/* Under the lock. */
static connection_wait_t *find_request(connection_t *connection, uint64_t id)
{
    LIST_FOR_EACH (link, &connection->requests) {
        connection_wait_t *wait = CONTAINER_OF(link, connection_wait_t, of_requests);
        if (wait->id == id && !wait->answered)
            return wait;
    }
    return NULL;
}

bool connection_deliver(connection_t *connection, connection_answer_t *answer)
{
    const Blinkwire__Reply *reply = answer->reply;
    pthread_mutex_lock(&connection->lock);
    connection_wait_t *wait = find_request(connection, reply->id);
    if (wait) {
        answer->gpu_resets = atomic_load_explicit(&connection->gpu_resets, memory_order_relaxed);
        wait->answer = *answer;
        wait->answered = true;
        if (wait->accepted && !reply->error)
            wait->accepted(wait->owner, reply);
        pthread_cond_broadcast(&connection->changed);
    } else if (reply->id == 0 && reply->body_case == BLINKWIRE__REPLY__BODY_GPU_RESET) {
        /* Relaxed: imports_reset() takes the lock under which others compare it. */
        atomic_fetch_add_explicit(&connection->gpu_resets, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&connection->lock);
    return wait != NULL;
}

bool connection_is_awaited(connection_t *connection)
{
    pthread_mutex_lock(&connection->lock);
    bool awaited = !list_is_empty(&connection->requests);
    pthread_mutex_unlock(&connection->lock);
    return awaited;
}

blink_result_t connection_lost_error(const connection_t *connection)
{
    return BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "%s", connection->lost_text);
}

void connection_lose(connection_t *connection, const char *text)
{
    /* If it was nonsense that ended it, the daemon is to see the end, too. */
    shutdown(connection->socket_fd, SHUT_RDWR);
    pthread_mutex_lock(&connection->lock);
    connection->lost = true;
    snprintf(connection->lost_text, sizeof(connection->lost_text), "%s", text);
    if (!connection->closing && debug_informs())
        debug_line(NULL, "%s", text);
    pthread_mutex_unlock(&connection->lock);
}

void connection_end(connection_t *connection)
{
    pthread_mutex_lock(&connection->lock);
    connection->ended = true;
    pthread_cond_broadcast(&connection->changed);
    pthread_mutex_unlock(&connection->lock);
}

void connection_close(connection_t *connection)
{
    struct timespec deadline = clock_in_ns(CLOSE_MAX_NS);
    pthread_mutex_lock(&connection->lock);
    connection->closing = true;
    shutdown(connection->socket_fd, SHUT_WR);
    while (!connection->ended &&
           pthread_cond_timedwait(&connection->changed, &connection->lock, &deadline) != ETIMEDOUT)
        continue;
    shutdown(connection->socket_fd, SHUT_RDWR);
    while (!connection->ended)
        pthread_cond_wait(&connection->changed, &connection->lock);
    pthread_mutex_unlock(&connection->lock);
}

/* ---- beginning and end ---- */

/* Check the answer to Hello and take its descriptors. */
static blink_result_t accept_hello(connection_t *connection, const Blinkwire__Reply *reply, frame_t *frame,
                                   connection_hello_t *hello)
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
    connection->watches_threads = reply->hello->watches_threads;
    connection->daemon_pid = daemon_pid(connection->socket_fd, (pid_t)reply->hello->pid);
    const ProtobufCBinaryData *home = &reply->hello->home;
    if (home->len != UNIQUE_ID_HOME_BYTES)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon says in %zu bytes where ranks gather, not in %u",
                          home->len, UNIQUE_ID_HOME_BYTES);
    *hello = (connection_hello_t){.device_count = reply->hello->device_count,
                                  .ring_fd = frame->fds[0],
                                  .doorbell_fd = frame->fds[1],
                                  .completion_fd = frame->fds[2]};
    memcpy(&hello->home, home->data, home->len);
    snprintf(hello->daemon_version, sizeof(hello->daemon_version), "%s", reply->hello->daemon_version);
    frame->fds[0] = frame->fds[1] = frame->fds[2] = -1;
    return BLINK_OK;
}

static blink_result_t say_hello(connection_t *connection, connection_hello_t *given)
{
    Blinkwire__Hello hello = BLINKWIRE__HELLO__INIT;
    char job[LAUNCH_TEXT_BYTES];
    launch_name_job(job);
    hello.job = job;
    hello.version_min = BLINK_WIRE_VERSION_MIN;
    hello.version_max = BLINK_WIRE_VERSION_MAX;
    hello.program = program_invocation_short_name;
    hello.want_ring = true;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.id = ++connection->last_id;
    request.body_case = BLINKWIRE__REQUEST__BODY_HELLO;
    request.hello = &hello;
    frame_t frame;
    Blinkwire__Reply *reply;
    /* A daemon that serves no more connections says so before it reads, and closes. */
    blink_result_t result = send_request(connection, &request, NULL, 0);
    if (result != BLINK_OK && result != BLINK_ERR_DAEMON_LOST)
        return result;
    BLINK_TRY(receive_reply(connection, &frame, &reply));
    result = accept_hello(connection, reply, &frame, given);
    blinkwire__reply__free_unpacked(reply, NULL);
    frame_release(&frame);
    return result;
}

/* While the daemon is silent during the first words it is nobody's but this thread's business. */
static blink_result_t given_up(const connection_t *connection)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    daemon_loss(daemon_pid(connection->socket_fd, 0), connection->daemon_timeout_s, text);
    return BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "%s", text);
}

static blink_result_t open_socket(connection_t *connection, const char *path)
{
    BLINK_TRY(frame_daemon_timeout(&connection->daemon_timeout_s));
    blink_result_t result = frame_connect(path, connection->daemon_timeout_s, &connection->socket_fd);
    return result == BLINK_ERR_TIMEOUT ? given_up(connection) : result;
}

blink_result_t connection_init(connection_t *connection, const char *socket_path, connection_hello_t *hello)
{
    pthread_condattr_t attributes;
    *connection = (connection_t){.socket_fd = -1};
    BLINK_TRY(open_socket(connection, socket_path));
    list_init(&connection->requests);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&connection->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&connection->lock, NULL);
    pthread_mutex_init(&connection->send_lock, NULL);
    blink_result_t result = say_hello(connection, hello);
    if (result == BLINK_ERR_TIMEOUT)
        result = given_up(connection);
    if (result != BLINK_OK)
        connection_fini(connection);
    return result;
}

void connection_fini(connection_t *connection)
{
    pthread_mutex_destroy(&connection->send_lock);
    pthread_mutex_destroy(&connection->lock);
    pthread_cond_destroy(&connection->changed);
    close(connection->socket_fd);
}
