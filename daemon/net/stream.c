#include "net/stream.h"

#include "base/list.h"
#include "base/vec.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LENGTH_BYTES 4u

/* What a turn takes in, and what is decrypted at a time. */
#define PIECE_BYTES (16u << 10)

/* Of a peer that has not shown the key. A handshake with it takes less than one KiB. */
#define HANDSHAKE_MOST_BYTES (8u << 10)

/* Frames are encrypted until so much waits for the socket. */
#define CIPHER_ENOUGH_BYTES (64u << 10)

#define SENDS_PER_TURN 16u

typedef struct outgoing {
    list_t link;
    size_t byte_count, taken_bytes; /* taken: encrypted */
    uint8_t bytes[];
} outgoing_t;

/* What the first byte of a connection that the peer has dialled says it is. */
typedef enum first {
    FIRST_UNKNOWN,
    FIRST_TLS,
    FIRST_DATA,
} first_t;

struct stream {
    const stream_handler_t *handler;
    void *context;
    uv_poll_t poll;
    void (*closed)(void *context);
    int fd, watched;
    tls_t *tls;
    uint32_t *steps;
    bool connecting, secured;
    bool finishing; /* stream_finish() */
    bool shut;      /* the peer has been told that no more comes */
    bool ended;     /* the handler has been told */
    bool unsound;   /* nothing can be encrypted any more */
    bool gone;      /* neither can anything be sent */
    bool destroyed;
    first_t first;
    uint8_t hello[WIRE_HELLO_BYTES]; /* of a data connection */
    size_t hello_bytes;              /* that have come of it */
    size_t handshake_bytes;          /* that have come */
    VEC(uint8_t) input;              /* decrypted, and not a whole frame yet */
    uint32_t frame_most_bytes;
    list_t outgoing;
    size_t unsent_bytes;
};

static void on_events(uv_poll_t *poll, int status, int events);

static bool has_output(const stream_t *stream)
{
    const void *bytes;
    return !list_is_empty(&stream->outgoing) || tls_pending(stream->tls, &bytes) > 0;
}

static void watch(stream_t *stream)
{
    bool reads = !stream->connecting && (!stream->ended || stream->finishing);
    bool writes = stream->connecting || has_output(stream) || (stream->finishing && !stream->shut);
    int events = stream->gone ? 0 : (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0);
    if (stream->destroyed || events == stream->watched)
        return;
    stream->watched = events;
    if (events)
        uv_poll_start(&stream->poll, events, on_events);
    else
        uv_poll_stop(&stream->poll);
}

/* With this thread's error text. */
static void end(stream_t *stream, blink_result_t code)
{
    if (stream->ended && !stream->finishing)
        return;
    stream->ended = true;
    stream->finishing = false;
    stream->handler->ended(stream->context, code);
}

/* ---- sending ---- */

static void outgoing_free(stream_t *stream, outgoing_t *outgoing)
{
    list_remove(&outgoing->link);
    stream->unsent_bytes -= outgoing->byte_count;
    free(outgoing);
}

/* Encrypt the oldest frames until enough waits for the socket. */
static blink_result_t encrypt(stream_t *stream)
{
    const void *cipher;
    outgoing_t *outgoing;
    while (stream->secured && !stream->unsound && tls_pending(stream->tls, &cipher) < CIPHER_ENOUGH_BYTES &&
           (outgoing = LIST_FIRST(&stream->outgoing, outgoing_t, link))) {
        size_t byte_count = outgoing->byte_count - outgoing->taken_bytes;
        byte_count = byte_count < PIECE_BYTES ? byte_count : PIECE_BYTES;
        blink_result_t result = tls_write(stream->tls, outgoing->bytes + outgoing->taken_bytes, byte_count);
        stream->unsound = result != BLINK_OK;
        BLINK_TRY(result);
        outgoing->taken_bytes += byte_count;
        if (outgoing->taken_bytes == outgoing->byte_count)
            outgoing_free(stream, outgoing);
    }
    return BLINK_OK;
}

static blink_result_t lost(stream_t *stream)
{
    stream->gone = true;
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "the connection is gone: %s", strerror(errno));
}

/* As much as the socket takes, and a turn may send. */
static blink_result_t flush(stream_t *stream)
{
    for (uint32_t i = 0; i < SENDS_PER_TURN && has_output(stream); i++) {
        const void *cipher;
        BLINK_TRY(encrypt(stream));
        size_t byte_count = tls_pending(stream->tls, &cipher);
        if (byte_count == 0)
            break;
        ssize_t sent = send(stream->fd, cipher, byte_count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return BLINK_OK;
        if (sent < 0)
            return lost(stream);
        tls_sent(stream->tls, (size_t)sent);
    }
    if (stream->finishing && !stream->shut && !has_output(stream)) {
        stream->shut = true;
        shutdown(stream->fd, SHUT_WR);
    }
    return BLINK_OK;
}

blink_result_t stream_send(stream_t *stream, const void *bytes, size_t byte_count)
{
    size_t frame_bytes = LENGTH_BYTES + byte_count;
    if (stream->gone || stream->unsound || stream->destroyed)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "the connection is gone");
    if (stream->unsent_bytes + frame_bytes > STREAM_UNSENT_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "it does not read: %zu bytes wait for it, and at most %u may",
                          stream->unsent_bytes, STREAM_UNSENT_MOST_BYTES);
    outgoing_t *outgoing = malloc(sizeof(*outgoing) + frame_bytes);
    if (!outgoing)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a message of %zu bytes", byte_count);
    *outgoing = (outgoing_t){.byte_count = frame_bytes};
    memcpy(outgoing->bytes, &(uint32_t){htole32((uint32_t)byte_count)}, LENGTH_BYTES);
    memcpy(outgoing->bytes + LENGTH_BYTES, bytes, byte_count);
    list_append(&stream->outgoing, &outgoing->link);
    stream->unsent_bytes += frame_bytes;
    watch(stream);
    return BLINK_OK;
}

/* ---- receiving ---- */

static uint32_t read_length(const uint8_t *frame)
{
    uint32_t length;
    memcpy(&length, frame, LENGTH_BYTES);
    return le32toh(length);
}

/* Hand over the whole frames of the input, and keep the rest. */
static blink_result_t take_frames(stream_t *stream)
{
    size_t begin = 0;
    while (!stream->ended && !stream->finishing && stream->input.count - begin >= LENGTH_BYTES) {
        const uint8_t *frame = stream->input.items + begin;
        uint32_t byte_count = read_length(frame);
        if (byte_count > stream->frame_most_bytes)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a message of %u bytes; at most %u are allowed", byte_count,
                              stream->frame_most_bytes);
        if (stream->input.count - begin - LENGTH_BYTES < byte_count)
            break;
        stream->handler->frame(stream->context, frame + LENGTH_BYTES, byte_count);
        begin += LENGTH_BYTES + byte_count;
    }
    stream->input.count -= begin;
    if (stream->input.count > 0)
        memmove(stream->input.items, stream->input.items + begin, stream->input.count);
    else
        vec_free(&stream->input);
    return BLINK_OK;
}

/* Decrypt all that has come, which is not much more than one piece. */
static blink_result_t decrypt(stream_t *stream)
{
    while (!stream->ended && !stream->finishing) {
        size_t got;
        if (!vec_reserve(&stream->input, stream->input.count + PIECE_BYTES))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for what comes");
        blink_result_t result =
            tls_read(stream->tls, stream->input.items + stream->input.count, PIECE_BYTES, &got);
        stream->unsound = result != BLINK_OK;
        BLINK_TRY(result);
        stream->input.count += got;
        BLINK_TRY(take_frames(stream));
        if (got == 0)
            break;
    }
    return BLINK_OK;
}

/* Go on after more bytes have come. OpenSSL would keep a first message of 128 KiB. */
static blink_result_t shake_hands(stream_t *stream, size_t byte_count)
{
    stream->handshake_bytes += byte_count;
    if (stream->handshake_bytes > HANDSHAKE_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "more than %u bytes before it has shown the cluster key",
                          HANDSHAKE_MOST_BYTES);
    blink_result_t result = tls_handshake(stream->tls, &stream->secured);
    stream->unsound = result != BLINK_OK;
    BLINK_TRY(result);
    if (stream->secured)
        stream->handler->secured(stream->context);
    return BLINK_OK;
}

/* The peer has closed its side. */
static blink_result_t closed_by_peer(stream_t *stream)
{
    stream->gone = true;
    if (!stream->secured)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "it closed the connection during the handshake");
    if (stream->input.count >= LENGTH_BYTES)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "it closed the connection within a message: %zu bytes of %u came",
                          stream->input.count - LENGTH_BYTES, read_length(stream->input.items));
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "it closed the connection without saying why");
}

/* A connection is for data or for a session: nothing of a handshake is consumed to find out. */
static blink_result_t look_at_first(stream_t *stream)
{
    char first;
    ssize_t got = recv(stream->fd, &first, 1, MSG_DONTWAIT | MSG_PEEK);
    if (got == 1)
        stream->first = first == WIRE_HELLO_MAGIC[0] ? FIRST_DATA : FIRST_TLS;
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        return lost(stream);
    return got == 0 ? closed_by_peer(stream) : BLINK_OK;
}

/* What comes behind the hello is left to who takes the socket. */
static blink_result_t receive_hello(stream_t *stream)
{
    ssize_t got = recv(stream->fd, stream->hello + stream->hello_bytes,
                       sizeof(stream->hello) - stream->hello_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return BLINK_OK;
    if (got < 0)
        return lost(stream);
    if (got == 0)
        return closed_by_peer(stream);
    stream->hello_bytes += (size_t)got;
    if (stream->hello_bytes == sizeof(stream->hello))
        stream->handler->hello(stream->context, stream->hello);
    return BLINK_OK;
}

static blink_result_t receive(stream_t *stream)
{
    uint8_t bytes[PIECE_BYTES];
    if (stream->first == FIRST_UNKNOWN)
        BLINK_TRY(look_at_first(stream));
    if (stream->first != FIRST_TLS)
        return stream->first == FIRST_DATA ? receive_hello(stream) : BLINK_OK;
    uint32_t steps = stream->secured ? STREAM_RECEIVE_STEPS : STREAM_HANDSHAKE_STEPS;
    if (*stream->steps < steps)
        return BLINK_OK; /* the loop tells again */
    *stream->steps -= steps;
    ssize_t got = recv(stream->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return BLINK_OK;
    if (got < 0)
        return lost(stream);
    if (got == 0)
        return closed_by_peer(stream);
    if (stream->finishing)
        return BLINK_OK;
    BLINK_TRY(tls_feed(stream->tls, bytes, (size_t)got));
    if (!stream->secured)
        BLINK_TRY(shake_hands(stream, (size_t)got));
    return stream->secured ? decrypt(stream) : BLINK_OK;
}

/* ---- the socket ---- */

/* What the kernel has found wrong with it since that was last asked, an errno; 0: nothing. */
static int take_error(const stream_t *stream)
{
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    return error;
}

/* connect() has ended. */
static blink_result_t connected(stream_t *stream)
{
    int error = take_error(stream);
    stream->connecting = false;
    stream->gone = error != 0;
    if (error)
        return BLINK_FAIL(BLINK_ERR_CONNECT, "no connection: %s", strerror(error));
    return shake_hands(stream, 0);
}

/* The kernel has an error for the socket, and no more events. What came before it is heard first: the peer
 * may have said why it ends. */
static blink_result_t failed(stream_t *stream)
{
    BLINK_TRY(receive(stream));
    int error = take_error(stream);
    errno = error ? error : ECONNRESET;
    return lost(stream);
}

static blink_result_t serve(stream_t *stream, int status, int events)
{
    if (stream->connecting)
        return connected(stream);
    if (status < 0)
        return failed(stream);
    if (events & UV_WRITABLE)
        BLINK_TRY(flush(stream));
    if (events & UV_READABLE)
        BLINK_TRY(receive(stream));
    return BLINK_OK;
}

static void on_events(uv_poll_t *poll, int status, int events)
{
    stream_t *stream = poll->data;
    blink_result_t result = serve(stream, status, events);
    if (result != BLINK_OK && !stream->destroyed)
        end(stream, result);
    watch(stream);
}

blink_result_t stream_create(const stream_config_t *config, stream_t **created)
{
    stream_t *stream = calloc(1, sizeof(*stream));
    blink_result_t result = stream ? tls_create(config->tls, config->dials, &stream->tls)
                                   : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a connection");
    if (result == BLINK_OK && uv_poll_init(config->loop, &stream->poll, config->fd) != 0)
        result = BLINK_FAIL(BLINK_ERR_SYSTEM, "watch a connection");
    if (result != BLINK_OK) {
        tls_destroy(stream ? stream->tls : NULL);
        free(stream);
        close(config->fd);
        return result;
    }
    setsockopt(config->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    stream->handler = config->handler;
    stream->context = config->context;
    stream->closed = config->closed;
    stream->fd = config->fd;
    stream->steps = config->steps;
    stream->connecting = config->dials;
    stream->first = config->dials ? FIRST_TLS : FIRST_UNKNOWN;
    stream->frame_most_bytes = config->frame_most_bytes;
    stream->poll.data = stream;
    list_init(&stream->outgoing);
    watch(stream);
    *created = stream;
    return BLINK_OK;
}

static void on_closed(uv_handle_t *handle)
{
    stream_t *stream = handle->data;
    void (*closed)(void *context) = stream->closed;
    void *context = stream->context;
    if (stream->fd >= 0)
        close(stream->fd);
    tls_destroy(stream->tls);
    vec_free(&stream->input);
    free(stream);
    closed(context);
}

void stream_destroy(stream_t *stream)
{
    stream->ended = stream->destroyed = true;
    stream->finishing = false;
    if (!stream->gone && !stream->connecting)
        flush(stream);
    LIST_FOR_EACH (link, &stream->outgoing)
        outgoing_free(stream, CONTAINER_OF(link, outgoing_t, link));
    uv_close((uv_handle_t *)&stream->poll, on_closed);
}

void stream_finish(stream_t *stream)
{
    stream->finishing = true;
    watch(stream);
}

void stream_allow(stream_t *stream, uint32_t frame_most_bytes)
{
    stream->frame_most_bytes = frame_most_bytes;
}

int stream_take_socket(stream_t *stream)
{
    int fd = stream->fd;
    uv_poll_stop(&stream->poll);
    stream->watched = 0;
    stream->gone = stream->ended = true;
    stream->fd = -1;
    return fd;
}

blink_result_t stream_export(stream_t *stream, uint32_t number, uint8_t secret[TLS_SECRET_BYTES])
{
    return tls_export(stream->tls, number, secret);
}

blink_result_t stream_own_address(const stream_t *stream, net_address_t *address)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof(own);
    if (getsockname(stream->fd, (struct sockaddr *)&own, &bytes) != 0)
        return BLINK_FAIL_ERRNO("the address of a connection");
    if (!address_take((const struct sockaddr *)&own, address))
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "a connection of address family %d", own.ss_family);
    return BLINK_OK;
}
