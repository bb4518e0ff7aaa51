#include "control/clients/connection.h"

#include "base/list.h"
#include "control/clients/error_reply.h"
#include "frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A peer that lets more than this pile up is dropped. */
#define OUTGOING_MAX_BYTES (32u << 20)

/* While more than this waits for the peer to read it, no request of the peer's is handled. */
#define UNREAD_MAX_BYTES (256u << 10)

/* Descriptors that have come over all connections of a tenant, for frames that have not come whole. */
#define UNCLAIMED_FDS_MAX 1024u

/* The least memory for input; a frame that is longer gets as much as it takes. */
#define INPUT_LEAST_BYTES 4096u

/* A reply that waits for the socket. */
typedef struct outgoing {
    list_t link;
    size_t byte_count, sent_bytes;
    int fds[FRAME_FDS_MAX]; /* closed with the frame */
    uint32_t fd_count;
    uint8_t bytes[];
} outgoing_t;

struct connection {
    const connection_handler_t *handler;
    void *context; /* the handler's */
    turns_t *turns;
    tenant_t *tenant;
    int fd;
    peer_t peer;
    uv_poll_t poll;
    int watched;    /* the events that `poll` waits for; 0: it is stopped */
    work_t serving; /* posted while a whole frame waits and may be handled */
    uint8_t *input; /* NULL: nothing has come that is not handled */
    size_t input_capacity, input_begin, input_end;
    uint32_t frame_max_bytes;
    int fds[FRAME_FDS_MAX]; /* received and not yet claimed by a request */
    uint32_t fd_count;
    bool fds_lost; /* until all frames that have come are handled */
    list_t outgoing;
    size_t outgoing_bytes;
    bool held;     /* connection_hold() */
    bool draining; /* say what is queued, then close; hear nothing more */
    bool closing;
};

static void on_events(uv_poll_t *poll, int status, int events);

/* ---- the frame that comes next ---- */

/* False: not even its length has come. */
static bool read_length(const connection_t *connection, uint32_t *byte_count)
{
    if (connection->input_end - connection->input_begin < FRAME_HEADER_BYTES)
        return false;
    const uint8_t *frame = connection->input + connection->input_begin;
    *byte_count =
        (uint32_t)frame[0] | (uint32_t)frame[1] << 8 | (uint32_t)frame[2] << 16 | (uint32_t)frame[3] << 24;
    return true;
}

/* Whether a frame has come whole, or so much of one that it can be refused. */
static bool has_frame(const connection_t *connection)
{
    uint32_t byte_count;
    return read_length(connection, &byte_count) &&
           (byte_count > connection->frame_max_bytes ||
            connection->input_end - connection->input_begin - FRAME_HEADER_BYTES >= byte_count);
}

static bool may_serve(const connection_t *connection)
{
    return !connection->closing && !connection->draining && !connection->held &&
           connection->outgoing_bytes <= UNREAD_MAX_BYTES;
}

/* ---- waiting for the socket ---- */

static void watch(connection_t *connection)
{
    bool reads = may_serve(connection) && !has_frame(connection);
    int read = reads ? UV_READABLE : 0;
    int write = list_is_empty(&connection->outgoing) ? 0 : UV_WRITABLE;
    int end = reads || connection->draining ? UV_DISCONNECT : 0;
    int events = read | write | end;
    if (connection->closing || events == connection->watched)
        return;
    connection->watched = events;
    if (events)
        uv_poll_start(&connection->poll, events, on_events);
    else
        uv_poll_stop(&connection->poll);
}

/* Something has changed that says whether frames are handled, or read. */
static void go_on(connection_t *connection)
{
    if (may_serve(connection) && has_frame(connection))
        turns_post(connection->turns, connection->tenant, &connection->serving);
    watch(connection);
}

void connection_hold(connection_t *connection)
{
    connection->held = true;
}

void connection_release(connection_t *connection)
{
    if (!connection->held)
        return;
    connection->held = false;
    go_on(connection);
}

void connection_allow(connection_t *connection, uint32_t frame_max_bytes)
{
    connection->frame_max_bytes = frame_max_bytes;
}

/* ---- ending ---- */

static uint64_t charged_bytes(size_t byte_count)
{
    return sizeof(outgoing_t) + byte_count;
}

static void outgoing_free(connection_t *connection, outgoing_t *outgoing)
{
    list_remove(&outgoing->link);
    for (uint32_t i = 0; i < outgoing->fd_count; i++)
        close(outgoing->fds[i]);
    account_credit(&connection->tenant->account, BUDGET_REPLY_BYTES, charged_bytes(outgoing->byte_count));
    free(outgoing);
}

static void on_peer_closed(void *context)
{
    connection_t *connection = context;
    close(connection->fd);
    free(connection->input);
    free(connection);
}

static void on_poll_closed(uv_handle_t *handle)
{
    connection_t *connection = handle->data;
    peer_close(&connection->peer, on_peer_closed);
}

static void close_unclaimed_fds(connection_t *connection)
{
    connection->tenant->unclaimed_fds -= connection->fd_count;
    while (connection->fd_count > 0)
        close(connection->fds[--connection->fd_count]);
}

void connection_destroy(connection_t *connection)
{
    LIST_FOR_EACH (link, &connection->outgoing)
        outgoing_free(connection, CONTAINER_OF(link, outgoing_t, link));
    close_unclaimed_fds(connection);
    work_cancel(&connection->serving);
    uv_close((uv_handle_t *)&connection->poll, on_poll_closed);
}

void connection_close(connection_t *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    work_cancel(&connection->serving);
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
        outgoing_free(connection, outgoing);
    }
    if (connection->draining)
        connection_close(connection);
    return !connection->draining;
}

static void write_length(uint8_t header[FRAME_HEADER_BYTES], size_t byte_count)
{
    for (uint32_t i = 0; i < FRAME_HEADER_BYTES; i++)
        header[i] = (uint8_t)(byte_count >> (8 * i));
}

/* Memory for a reply, charged to the tenant. Errors: QUOTA, NO_MEMORY. */
static blink_result_t outgoing_alloc(const connection_t *connection, size_t byte_count,
                                     outgoing_t **allocated)
{
    account_t *account = &connection->tenant->account;
    uint64_t bytes = charged_bytes(byte_count);
    if (connection->outgoing_bytes + byte_count > OUTGOING_MAX_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "more than %u bytes are unread", OUTGOING_MAX_BYTES);
    BLINK_TRY(account_charge(account, BUDGET_REPLY_BYTES, bytes));
    *allocated = calloc(1, bytes);
    if (*allocated)
        return BLINK_OK;
    account_credit(account, BUDGET_REPLY_BYTES, bytes);
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu bytes", byte_count);
}

/* The descriptors are the frame's, or with an error still the caller's. Errors: QUOTA, NO_MEMORY. */
static blink_result_t pack(connection_t *connection, const Blinkwire__Reply *reply, const int *fds,
                           uint32_t fd_count)
{
    outgoing_t *outgoing;
    size_t byte_count = blinkwire__reply__get_packed_size(reply);
    BLINK_TRY(outgoing_alloc(connection, FRAME_HEADER_BYTES + byte_count, &outgoing));
    write_length(outgoing->bytes, byte_count);
    list_init(&outgoing->link);
    blinkwire__reply__pack(reply, outgoing->bytes + FRAME_HEADER_BYTES);
    outgoing->byte_count = FRAME_HEADER_BYTES + byte_count;
    for (; outgoing->fd_count < fd_count; outgoing->fd_count++)
        outgoing->fds[outgoing->fd_count] = fds[outgoing->fd_count];
    list_append(&connection->outgoing, &outgoing->link);
    connection->outgoing_bytes += outgoing->byte_count;
    return BLINK_OK;
}

/* The connection is not closed here, for the caller may still use it. The peer sees the end of the stream;
 * what else the peer has asked is not answered any more. */
static void drop(connection_t *connection)
{
    tenant_log(connection->tenant, LOG_LEVEL_WARNING, "pid %d: dropped, its replies cannot be kept: %s",
               connection->peer.pid, blink_error_text());
    connection->draining = true;
    shutdown(connection->fd, SHUT_RDWR);
}

void connection_send(connection_t *connection, const Blinkwire__Reply *reply, const int *fds,
                     uint32_t fd_count)
{
    bool packed = !connection->closing && pack(connection, reply, fds, fd_count) == BLINK_OK;
    for (uint32_t i = 0; i < fd_count && !packed; i++)
        close(fds[i]);
    if (packed)
        watch(connection);
    else if (!connection->closing)
        drop(connection);
}

void connection_reply_ok(connection_t *connection, uint64_t id)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    reply.id = id;
    connection_send(connection, &reply, NULL, 0);
}

static void send_error(connection_t *connection, uint64_t id, blink_result_t code)
{
    error_reply_t made;
    error_reply_make(&made, id, code);
    connection_send(connection, &made.reply, NULL, 0);
}

void connection_reply_error(connection_t *connection, uint64_t id, blink_result_t code)
{
    char subject[PEER_SUBJECT_BYTES];
    if (code == BLINK_ERR_QUOTA)
        tenant_refused(connection->tenant, peer_subject(&connection->peer, subject));
    send_error(connection, id, code);
}

/* If that takes no waiting. */
static void tell_refusal(int fd, blink_result_t code)
{
    error_reply_t made;
    uint8_t frame[FRAME_HEADER_BYTES + BLINK_ERROR_TEXT_BYTES + 32];
    error_reply_make(&made, 0, code);
    size_t byte_count = blinkwire__reply__get_packed_size(&made.reply);
    write_length(frame, byte_count);
    blinkwire__reply__pack(&made.reply, frame + FRAME_HEADER_BYTES);
    ssize_t sent = send(fd, frame, FRAME_HEADER_BYTES + byte_count, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* who does not hear why sees the end all the same */
}

void connection_refuse(int fd, blink_result_t code)
{
    tell_refusal(fd, code);
    close(fd);
}

void connection_fail(connection_t *connection, uint64_t id, blink_result_t code)
{
    char subject[PEER_SUBJECT_BYTES];
    tenant_event(connection->tenant, EVENT_CLIENT_REFUSED, 0, peer_subject(&connection->peer, subject),
                 LOG_LEVEL_INFO, "%s", blink_error_text());
    connection->draining = true;
    send_error(connection, id, code);
}

void connection_end(connection_t *connection)
{
    if (!connection->closing && send_outgoing(connection))
        connection_close(connection);
}

void connection_expire(connection_t *connection, blink_result_t code)
{
    if (connection->draining) {
        connection_close(connection);
        return;
    }
    connection_fail(connection, 0, code);
    connection_end(connection);
}

/* ---- receiving ---- */

bool connection_lost_fds(const connection_t *connection)
{
    return connection->fds_lost;
}

int connection_take_fd(connection_t *connection)
{
    if (connection->fd_count == 0)
        return -1;
    int fd = connection->fds[0];
    connection->fd_count--;
    connection->tenant->unclaimed_fds--;
    memmove(connection->fds, connection->fds + 1, connection->fd_count * sizeof(connection->fds[0]));
    return fd;
}

/* The handler may end the connection, which is freed later, from within the loop. */
static void handle_frame(connection_t *connection)
{
    const uint8_t *frame = connection->input + connection->input_begin;
    uint32_t byte_count = 0;
    read_length(connection, &byte_count);
    turns_count(connection->turns, 1);
    if (byte_count > connection->frame_max_bytes) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a request of %u bytes; at most %u are allowed", byte_count,
                   connection->frame_max_bytes);
        connection_fail(connection, 0, BLINK_ERR_PROTOCOL);
        return;
    }
    connection->handler->frame(connection->context, frame + FRAME_HEADER_BYTES, byte_count);
    connection->input_begin += FRAME_HEADER_BYTES + byte_count;
}

/* Keep only what is not handled, at the beginning of the memory, and no memory for nothing. */
static void tidy_input(connection_t *connection)
{
    size_t left_bytes = connection->input_end - connection->input_begin;
    if (left_bytes > 0) {
        memmove(connection->input, connection->input + connection->input_begin, left_bytes);
    } else {
        free(connection->input);
        connection->input = NULL;
        connection->input_capacity = 0;
        /* Descriptors come with the first byte of their frame: without a frame begun, nobody will claim
         * these. */
        close_unclaimed_fds(connection);
        connection->fds_lost = false;
    }
    connection->input_begin = 0;
    connection->input_end = left_bytes;
}

/* A slice of the frames that have come. */
static bool serve(work_t *work)
{
    connection_t *connection = CONTAINER_OF(work, connection_t, serving);
    while (may_serve(connection) && has_frame(connection) && !turns_slice_is_over(connection->turns))
        handle_frame(connection);
    if (connection->closing)
        return false;
    if (!has_frame(connection))
        tidy_input(connection);
    if (!list_is_empty(&connection->outgoing) && !send_outgoing(connection))
        return false;
    watch(connection);
    return may_serve(connection) && has_frame(connection);
}

/* False without memory for what the next frame still lacks. */
static bool reserve_input(connection_t *connection)
{
    uint32_t frame_bytes;
    size_t wanted_bytes = INPUT_LEAST_BYTES;
    if (read_length(connection, &frame_bytes) && FRAME_HEADER_BYTES + frame_bytes > wanted_bytes)
        wanted_bytes = FRAME_HEADER_BYTES + frame_bytes;
    if (wanted_bytes <= connection->input_capacity)
        return true;
    uint8_t *input = realloc(connection->input, wanted_bytes);
    if (!input)
        return false;
    connection->input = input;
    connection->input_capacity = wanted_bytes;
    return true;
}

/* Keep the descriptors that have come, unless the process has none left for them, or the tenant has its share
 * of those that nobody has claimed yet. Errors: PROTOCOL. */
static blink_result_t take_fds(connection_t *connection, struct msghdr *message)
{
    uint32_t before = connection->fd_count;
    blink_result_t result = frame_take_fds(message, connection->fds, &connection->fd_count);
    connection->tenant->unclaimed_fds += connection->fd_count - before;
    if (result == BLINK_ERR_NO_MEMORY || connection->tenant->unclaimed_fds > UNCLAIMED_FDS_MAX)
        connection->fds_lost = true;
    if (connection->fds_lost)
        close_unclaimed_fds(connection);
    return result == BLINK_ERR_NO_MEMORY ? BLINK_OK : result;
}

/* Read once. What is there already is the beginning of a frame, if anything. */
static void receive(connection_t *connection)
{
    if (!reserve_input(connection)) {
        BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a request");
        connection_fail(connection, 0, BLINK_ERR_NO_MEMORY);
        return;
    }
    struct iovec bytes = {connection->input + connection->input_end,
                          connection->input_capacity - connection->input_end};
    frame_control_t control;
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(connection->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        tidy_input(connection);
        return;
    }
    if (got <= 0) {
        connection_close(connection);
        return;
    }
    blink_result_t result = take_fds(connection, &message);
    if (result != BLINK_OK) {
        connection_fail(connection, 0, result);
        return;
    }
    connection->input_end += (size_t)got;
    go_on(connection);
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
    if (connection->draining && events & UV_DISCONNECT)
        connection_close(connection);
    else if (events & (UV_READABLE | UV_DISCONNECT) && may_serve(connection) && !has_frame(connection))
        receive(connection);
    if (!connection->closing)
        go_on(connection);
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

blink_result_t connection_watch_thread(connection_t *connection, int thread_fd)
{
    return peer_watch_thread(&connection->peer, thread_fd);
}

blink_result_t connection_create(const connection_config_t *config, connection_t **created)
{
    connection_t *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        close(config->fd);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a connection");
    }
    connection->handler = config->handler;
    connection->context = config->context;
    connection->turns = config->turns;
    connection->tenant = config->tenant;
    connection->fd = config->fd;
    connection->peer = config->peer;
    connection->frame_max_bytes = CONNECTION_HELLO_MAX_BYTES;
    list_init(&connection->outgoing);
    work_init(&connection->serving, serve);
    if (uv_poll_init(config->loop, &connection->poll, config->fd) != 0) {
        close(config->fd);
        free(connection);
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "watch a connection");
    }
    connection->poll.data = connection;
    blink_result_t result =
        peer_watch(&connection->peer, config->loop, config->fd, on_peer_ended, connection);
    if (result != BLINK_OK) {
        tell_refusal(config->fd, result);
        uv_close((uv_handle_t *)&connection->poll, on_poll_closed);
        return result;
    }
    *created = connection;
    return BLINK_OK;
}

void connection_begin(connection_t *connection)
{
    receive(connection);
    watch(connection);
}
