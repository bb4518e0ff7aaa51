#include "control/clients/connection.h"

#include "base/list.h"
#include "base/log.h"
#include "control/clients/peer.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A peer that lets more than this pile up is dropped. */
#define OUTGOING_MAX_BYTES (32u << 20)

/* A reply that waits for the socket. */
typedef struct outgoing {
    list_t link;
    size_t byte_count, sent_bytes;
    int fds[FRAME_FDS_MAX]; /* duplicates, closed with the frame */
    uint32_t fd_count;
    uint8_t bytes[];
} outgoing_t;

struct connection {
    const connection_handler_t *handler;
    void *context; /* the handler's */
    int fd;
    peer_t peer;
    uv_poll_t poll;
    uint8_t input[FRAME_HEADER_BYTES + FRAME_REQUEST_MAX_BYTES];
    size_t input_bytes;
    int fds[FRAME_FDS_MAX]; /* received and not yet claimed by a request */
    uint32_t fd_count;
    list_t outgoing;
    size_t outgoing_bytes;
    bool draining; /* say what is queued, then close; hear nothing more */
    bool closing;
};

static void on_events(uv_poll_t *poll, int status, int events);

static void watch(connection_t *connection)
{
    int read = connection->draining ? 0 : UV_READABLE;
    int write = list_is_empty(&connection->outgoing) ? 0 : UV_WRITABLE;
    int events = read | write | UV_DISCONNECT;
    uv_poll_start(&connection->poll, events, on_events);
}

/* ---- ending ---- */

static void outgoing_free(outgoing_t *outgoing)
{
    list_remove(&outgoing->link);
    for (uint32_t i = 0; i < outgoing->fd_count; i++)
        close(outgoing->fds[i]);
    free(outgoing);
}

static void on_peer_closed(void *context)
{
    connection_t *connection = context;
    close(connection->fd);
    free(connection);
}

static void on_poll_closed(uv_handle_t *handle)
{
    connection_t *connection = handle->data;
    peer_close(&connection->peer, on_peer_closed);
}

static void close_unclaimed_fds(connection_t *connection)
{
    while (connection->fd_count > 0)
        close(connection->fds[--connection->fd_count]);
}

void connection_destroy(connection_t *connection)
{
    LIST_FOR_EACH (link, &connection->outgoing)
        outgoing_free(CONTAINER_OF(link, outgoing_t, link));
    close_unclaimed_fds(connection);
    uv_close((uv_handle_t *)&connection->poll, on_poll_closed);
}

void connection_close(connection_t *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    uv_poll_stop(&connection->poll);
    peer_ignore(&connection->peer);
    connection->handler->ended(connection->context);
}

/* ---- sending ---- */

/* False if the connection ended. */
static bool send_outgoing(connection_t *connection)
{
    LIST_FOR_EACH (link, &connection->outgoing) {
        outgoing_t *outgoing = CONTAINER_OF(link, outgoing_t, link);
        struct iovec bytes = {outgoing->bytes + outgoing->sent_bytes,
                              outgoing->byte_count - outgoing->sent_bytes};
        struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
        frame_control_t control;
        if (outgoing->sent_bytes == 0 && outgoing->fd_count > 0)
            frame_attach_fds(&message, &control, outgoing->fds, outgoing->fd_count);
        ssize_t sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (sent < 0) {
            connection_close(connection);
            return false;
        }
        outgoing->sent_bytes += (size_t)sent;
        if (outgoing->sent_bytes < outgoing->byte_count)
            return true; /* the socket is full: the loop tells when the rest may follow */
        connection->outgoing_bytes -= outgoing->byte_count;
        outgoing_free(outgoing);
    }
    if (connection->draining)
        connection_close(connection);
    return !connection->draining;
}

static outgoing_t *pack(const Blinkwire__Reply *reply, const int *fds, uint32_t fd_count)
{
    size_t byte_count = blinkwire__reply__get_packed_size(reply);
    outgoing_t *outgoing = calloc(1, sizeof(*outgoing) + FRAME_HEADER_BYTES + byte_count);
    if (!outgoing)
        return NULL;
    for (uint32_t i = 0; i < FRAME_HEADER_BYTES; i++)
        outgoing->bytes[i] = (uint8_t)(byte_count >> (8 * i));
    list_init(&outgoing->link);
    blinkwire__reply__pack(reply, outgoing->bytes + FRAME_HEADER_BYTES);
    outgoing->byte_count = FRAME_HEADER_BYTES + byte_count;
    for (uint32_t i = 0; i < fd_count; i++) {
        int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            outgoing_free(outgoing);
            return NULL;
        }
        outgoing->fds[outgoing->fd_count++] = copy;
    }
    return outgoing;
}

void connection_send(connection_t *connection, const Blinkwire__Reply *reply, const int *fds,
                     uint32_t fd_count)
{
    if (connection->closing)
        return;
    outgoing_t *outgoing = pack(reply, fds, fd_count);
    if (!outgoing || connection->outgoing_bytes + outgoing->byte_count > OUTGOING_MAX_BYTES) {
        LOG_WARNING("pid %d: dropped, its replies cannot be kept", connection->peer.pid);
        if (outgoing)
            outgoing_free(outgoing);
        /* The connection is not closed here, for the caller may still use it. The peer sees the end of the
         * stream; what else the peer has asked is not answered any more. */
        connection->draining = true;
        shutdown(connection->fd, SHUT_RDWR);
        return;
    }
    list_append(&connection->outgoing, &outgoing->link);
    connection->outgoing_bytes += outgoing->byte_count;
    watch(connection);
}

void connection_reply_ok(connection_t *connection, uint64_t id)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    reply.id = id;
    connection_send(connection, &reply, NULL, 0);
}

void connection_reply_error(connection_t *connection, uint64_t id, blink_result_t code)
{
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    error.code = (uint32_t)code;
    error.text = text;
    reply.id = id;
    reply.error = &error;
    connection_send(connection, &reply, NULL, 0);
}

void connection_fail(connection_t *connection, uint64_t id, blink_result_t code)
{
    LOG_INFO("pid %d: %s", connection->peer.pid, blink_error_text());
    connection->draining = true;
    connection_reply_error(connection, id, code);
}

/* ---- receiving ---- */

int connection_take_fd(connection_t *connection)
{
    if (connection->fd_count == 0)
        return -1;
    int fd = connection->fds[0];
    connection->fd_count--;
    memmove(connection->fds, connection->fds + 1, connection->fd_count * sizeof(connection->fds[0]));
    return fd;
}

/* Handle the whole frames in the input; keep the rest. */
static void handle_input(connection_t *connection)
{
    size_t used = 0;
    while (!connection->closing && !connection->draining &&
           connection->input_bytes - used >= FRAME_HEADER_BYTES) {
        const uint8_t *frame = connection->input + used;
        uint32_t byte_count = (uint32_t)frame[0] | (uint32_t)frame[1] << 8 | (uint32_t)frame[2] << 16 |
                              (uint32_t)frame[3] << 24;
        if (byte_count > FRAME_REQUEST_MAX_BYTES) {
            BLINK_FAIL(BLINK_ERR_PROTOCOL, "a request of %u bytes; at most %u are allowed", byte_count,
                       FRAME_REQUEST_MAX_BYTES);
            connection_fail(connection, 0, BLINK_ERR_PROTOCOL);
            return;
        }
        if (connection->input_bytes - used - FRAME_HEADER_BYTES < byte_count)
            break;
        connection->handler->frame(connection->context, frame + FRAME_HEADER_BYTES, byte_count);
        used += FRAME_HEADER_BYTES + byte_count;
    }
    connection->input_bytes -= used;
    memmove(connection->input, connection->input + used, connection->input_bytes);
    /* Descriptors come with the first byte of their frame: without a frame begun, nobody will claim these. */
    if (connection->input_bytes == 0)
        close_unclaimed_fds(connection);
}

static void receive(connection_t *connection)
{
    struct iovec bytes = {connection->input + connection->input_bytes,
                          sizeof(connection->input) - connection->input_bytes};
    frame_control_t control;
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(connection->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        connection_close(connection);
        return;
    }
    blink_result_t result = frame_take_fds(&message, connection->fds, &connection->fd_count);
    if (result != BLINK_OK) {
        connection_fail(connection, 0, result);
        return;
    }
    connection->input_bytes += (size_t)got;
    handle_input(connection);
}

static void on_events(uv_poll_t *poll, int status, int events)
{
    connection_t *connection = poll->data;
    if (status < 0) {
        connection_close(connection);
        return;
    }
    if (events & UV_WRITABLE && !send_outgoing(connection))
        return;
    if (events & (UV_READABLE | UV_DISCONNECT) && !connection->draining)
        receive(connection);
    else if (events & UV_DISCONNECT)
        connection_close(connection);
    if (!connection->closing)
        watch(connection);
}

/* ---- beginning ---- */

/* What the process had sent before it ended is not answered any more. */
static void on_peer_ended(void *context)
{
    connection_t *connection = context;
    LOG_DEBUG("pid %d: has ended", connection->peer.pid);
    connection_close(connection);
}

pid_t connection_pid(const connection_t *connection)
{
    return connection->peer.pid;
}

uid_t connection_uid(const connection_t *connection)
{
    return connection->peer.uid;
}

blink_result_t connection_create(uv_loop_t *loop, int fd, const connection_handler_t *handler, void *context,
                                 connection_t **created)
{
    blink_result_t result;
    connection_t *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a connection");
        goto fail;
    }
    connection->handler = handler;
    connection->context = context;
    connection->fd = fd;
    list_init(&connection->outgoing);
    result = peer_identify(&connection->peer, fd);
    if (result != BLINK_OK)
        goto fail;
    if (uv_poll_init(loop, &connection->poll, fd) != 0) {
        result = BLINK_FAIL(BLINK_ERR_SYSTEM, "watch a connection");
        goto fail;
    }
    connection->poll.data = connection;
    result = peer_watch(&connection->peer, loop, fd, on_peer_ended, connection);
    if (result != BLINK_OK) {
        uv_close((uv_handle_t *)&connection->poll, on_poll_closed);
        return result;
    }
    watch(connection);
    *created = connection;
    return BLINK_OK;
fail:
    close(fd);
    free(connection);
    return result;
}
