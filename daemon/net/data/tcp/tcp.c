/* Connections: how they are made, watched and closed. */
#include "net/data/tcp/tcp.h"

#include "base/log.h"
#include "net/data/outbox.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that wait in the kernel for a stream of moves: a CREDIT never stands behind megabytes, and what has
 * not been handed over can still be told not to have been sent. */
#define NOTSENT_LOWAT_BYTES (256 << 10)

/* What is read at once and not to its place: many control frames, or a few headers of moves. */
#define CONTROL_BUFFER_BYTES (64u << 10)
#define MOVES_BUFFER_BYTES   (16u << 10)

/* Over other NICs than the session's a connection is tried for two fifths of the time that all of them may
 * take, and that is 5 s at least. A number of SYNs is no time: Linux 6.5 sends four more than it is told. */
#define ELSEWHERE_LEAST_MS 2000

static const char *what_stream(const tcp_stream_t *stream)
{
    return stream->number == 0 ? "control" : "data";
}

blink_result_t tcp_fail_errno(const tcp_stream_t *stream)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "the %s connection is gone: %s", what_stream(stream),
                      strerror(errno));
}

/* ---- connections ---- */

static bool has_output(const tcp_stream_t *stream)
{
    return stream->batch ? stream->batch->count > 0 : outbox_waiting(stream->tcp->config.outbox) > 0;
}

void tcp_watch(tcp_stream_t *stream)
{
    uint32_t wanted = stream->connecting ? EPOLLOUT : has_output(stream) ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (stream->fd < 0 || wanted == stream->watched)
        return;
    struct epoll_event event = {.events = wanted, .data.ptr = &stream->source};
    (void)epoll_ctl(stream->tcp->config.epoll_fd, EPOLL_CTL_MOD, stream->fd, &event);
    stream->watched = wanted;
}

static int peer_timeout_ms(const tcp_stream_t *stream)
{
    return (int)(stream->tcp->config.timeout_s * 1000);
}

/* How long what has been sent, a SYN too, may stay without an answer. */
static void set_patience(const tcp_stream_t *stream)
{
    int timeout_ms = peer_timeout_ms(stream);
    if (stream->connecting && stream->elsewhere)
        timeout_ms = timeout_ms * 2 / 5 > ELSEWHERE_LEAST_MS ? timeout_ms * 2 / 5 : ELSEWHERE_LEAST_MS;
    setsockopt(stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

/* Some of these do not concern sockets that are no TCP sockets. */
static void set_options(const tcp_stream_t *stream, int fd)
{
    int third_s = peer_timeout_ms(stream) / 3000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    set_patience(stream);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){third_s > 0 ? third_s : 1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){third_s > 0 ? third_s : 1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){3}, sizeof(int));
    if (stream->number > 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){NOTSENT_LOWAT_BYTES}, sizeof(int));
}

static blink_result_t allocate(tcp_stream_t *stream)
{
    stream->capacity = stream->number == 0 ? CONTROL_BUFFER_BYTES : MOVES_BUFFER_BYTES;
    stream->buffer = malloc(stream->capacity);
    stream->batch = stream->number > 0 ? calloc(1, sizeof(*stream->batch)) : NULL;
    if (!stream->buffer || (stream->number > 0 && !stream->batch))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a data connection");
    return BLINK_OK;
}

/* The socket is the stream's afterwards, also on failure. */
static blink_result_t attach(tcp_stream_t *stream, int fd, bool connecting)
{
    stream->fd = fd;
    stream->connecting = connecting;
    if (!stream->buffer)
        BLINK_TRY(allocate(stream));
    set_options(stream, fd);
    stream->watched = connecting ? EPOLLOUT : EPOLLIN;
    struct epoll_event event = {.events = stream->watched, .data.ptr = &stream->source};
    if (epoll_ctl(stream->tcp->config.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return BLINK_FAIL_ERRNO("watch a data connection");
    return BLINK_OK;
}

/* A process that was forked a moment ago may have it, too, and then epoll would still tell of it. */
static void end_socket(tcp_stream_t *stream)
{
    if (stream->fd < 0)
        return;
    (void)epoll_ctl(stream->tcp->config.epoll_fd, EPOLL_CTL_DEL, stream->fd, NULL);
    close(stream->fd);
    stream->fd = -1;
}

static void connected(tcp_t *tcp)
{
    if (++tcp->transport.connected == tcp->config.stream_count)
        tcp->config.events->connected(tcp->config.context);
}

static blink_result_t tcp_accept(transport_t *transport, uint32_t number, int fd)
{
    tcp_t *tcp = tcp_of(transport);
    tcp_stream_t *stream = &tcp->streams[number];
    if (stream->buffer) {
        close(fd);
        return BLINK_FAIL(BLINK_ERR_EXISTS, "data connection %u is there already", number);
    }
    BLINK_TRY(attach(stream, fd, false));
    connected(tcp);
    return BLINK_OK;
}

/* From the address that the peer knows; the port is chosen by connect(). */
static int connect_from(int fd, const data_ends_t *ends)
{
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int));
    if (bind(fd, &ends->own.any, address_bytes(&ends->own)) != 0)
        return -1;
    return connect(fd, &ends->peer.any, address_bytes(&ends->peer));
}

static blink_result_t dial_stream(tcp_stream_t *stream, const data_ends_t *ends)
{
    int fd = socket(ends->peer.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("socket");
    if (connect_from(fd, ends) != 0 && errno != EINPROGRESS) {
        blink_result_t result = BLINK_FAIL(BLINK_ERR_PEER_LOST, "no data connection: %s", strerror(errno));
        close(fd);
        return result;
    }
    return attach(stream, fd, true);
}

/* It cannot be made over other NICs than the session's, says this thread's error text. */
static blink_result_t dial_session_ends(tcp_stream_t *stream)
{
    LOG_INFO("a data connection goes over the session's NIC, and not over another one: %s",
             blink_error_text());
    stream->elsewhere = false;
    end_socket(stream);
    return dial_stream(stream, &stream->tcp->session_ends);
}

static blink_result_t dial_moves(tcp_stream_t *stream, const data_ends_t *ends)
{
    stream->elsewhere = ends->peer.any.sa_family != AF_UNSPEC;
    if (!stream->elsewhere)
        return dial_stream(stream, &stream->tcp->session_ends);
    return dial_stream(stream, ends) == BLINK_OK ? BLINK_OK : dial_session_ends(stream);
}

static blink_result_t tcp_dial(transport_t *transport, const transport_path_t *path,
                               const wire_hello_t hellos[DATA_STREAMS_MOST])
{
    tcp_t *tcp = tcp_of(transport);
    tcp->session_ends = (data_ends_t){path->own, path->peer};
    for (uint32_t i = 0; i < tcp->config.stream_count; i++)
        wire_hello_pack(&hellos[i], tcp->hello[i]);
    BLINK_TRY(dial_stream(&tcp->streams[0], &tcp->session_ends));
    for (uint32_t i = 1; i < tcp->config.stream_count; i++)
        BLINK_TRY(dial_moves(&tcp->streams[i], &path->moves[i - 1]));
    return BLINK_OK;
}

/* connect() has ended. The hello is the first that goes into the socket, which has room for it. */
static blink_result_t say_hello(tcp_stream_t *stream)
{
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error && stream->elsewhere) {
        blink_error_set(BLINK_ERR_PEER_LOST, "no data connection: %s", strerror(error));
        return dial_session_ends(stream);
    }
    if (error)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "no data connection: %s; %u of %u were made", strerror(error),
                          stream->tcp->transport.connected, stream->tcp->config.stream_count);
    const uint8_t *hello = stream->tcp->hello[stream->number];
    if (send(stream->fd, hello, WIRE_HELLO_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) != WIRE_HELLO_BYTES)
        return tcp_fail_errno(stream);
    stream->connecting = false;
    set_patience(stream);
    connected(stream->tcp);
    stream->tcp->config.events->busy(stream->tcp->config.context);
    return BLINK_OK;
}

/* ---- events ---- */

static blink_result_t serve(tcp_stream_t *stream, uint32_t events)
{
    if (stream->connecting)
        return say_hello(stream);
    if (events & EPOLLOUT)
        stream->tcp->config.events->busy(stream->tcp->config.context);
    /* What came before an error is heard first. */
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        return tcp_receive(stream);
    return BLINK_OK;
}

static void on_events(transport_source_t *source, uint32_t events)
{
    tcp_stream_t *stream = CONTAINER_OF(source, tcp_stream_t, source);
    const transport_config_t *config = &stream->tcp->config;
    if (stream->fd < 0)
        return;
    blink_result_t result = serve(stream, events);
    if (result != BLINK_OK)
        config->events->lost(config->context, result);
    else
        tcp_watch(stream);
}

/* ---- beginning and end ---- */

static blink_result_t tcp_create(const transport_config_t *config, transport_t **created)
{
    tcp_t *tcp = calloc(1, sizeof(*tcp));
    if (!tcp)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for data connections");
    tcp->transport.calls = &tcp_transport;
    tcp->config = *config;
    for (uint32_t i = 0; i < config->stream_count; i++) {
        tcp->streams[i] = (tcp_stream_t){.source = {on_events}, .tcp = tcp, .number = i, .fd = -1};
        intake_init(&tcp->streams[i].intake, &tcp->transport, &tcp->config, i == 0);
    }
    *created = &tcp->transport;
    return BLINK_OK;
}

static void tcp_drop(transport_t *transport, const landing_t *landing)
{
    tcp_t *tcp = tcp_of(transport);
    for (uint32_t i = 0; i < tcp->config.stream_count; i++)
        intake_forget(&tcp->streams[i].intake, landing);
}

static void tcp_close(transport_t *transport)
{
    tcp_t *tcp = tcp_of(transport);
    transport->closed = true;
    for (uint32_t i = 0; i < tcp->config.stream_count; i++) {
        tcp_stream_t *stream = &tcp->streams[i];
        end_socket(stream);
        if (stream->batch)
            stream->batch->count = stream->batch->first = 0;
    }
}

static void tcp_destroy(transport_t *transport)
{
    tcp_t *tcp = tcp_of(transport);
    for (uint32_t i = 0; i < tcp->config.stream_count; i++) {
        intake_free(&tcp->streams[i].intake);
        free(tcp->streams[i].buffer);
        free(tcp->streams[i].batch);
    }
    free(tcp);
}

const transport_calls_t tcp_transport = {.by = DATA_BY_TCP,
                                         .create = tcp_create,
                                         .dial = tcp_dial,
                                         .accept = tcp_accept,
                                         .send = tcp_send,
                                         .drop = tcp_drop,
                                         .close = tcp_close,
                                         .destroy = tcp_destroy};
