/* What comes over a stream: control frames, and moves, which are read straight to their places. */
#include "net/data/tcp/tcp.h"

#include "base/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* A stream takes in so much before others have their turn. */
#define RECEIVE_MOST_BYTES (128u << 10)

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t available(const tcp_stream_t *stream)
{
    return stream->end - stream->begin;
}

/* Bytes of the move's payload have been taken in. */
static blink_result_t count_payload(tcp_stream_t *stream, uint32_t bytes)
{
    const transport_config_t *config = &stream->tcp->config;
    stream->left_bytes -= bytes;
    if (stream->left_bytes > 0 || !stream->move.landing)
        return BLINK_OK;
    return config->events->arrived(config->context, &stream->move, &stream->frame, stream->whole);
}

static uint8_t *payload_place(const tcp_stream_t *stream)
{
    return (uint8_t *)stream->move.address + (stream->frame.bytes - stream->left_bytes);
}

/* Move what has come of the payload from the buffer to its place. */
static blink_result_t take_buffered_payload(tcp_stream_t *stream)
{
    uint32_t bytes = least(available(stream), stream->left_bytes);
    if (stream->whole && bytes > 0)
        stream->whole = guard_copy(payload_place(stream), stream->buffer + stream->begin, bytes);
    stream->begin += bytes;
    return count_payload(stream, bytes);
}

static blink_result_t begin_move(tcp_stream_t *stream)
{
    const transport_config_t *config = &stream->tcp->config;
    BLINK_TRY(config->events->claim(config->context, &stream->frame, &stream->move));
    stream->left_bytes = stream->frame.bytes;
    stream->whole = stream->move.landing;
    return take_buffered_payload(stream);
}

/* Look at the frame that begins in the buffer. *more: there may be another one behind it. */
static blink_result_t take_frame(tcp_stream_t *stream, bool *more)
{
    const transport_config_t *config = &stream->tcp->config;
    *more = false;
    if (available(stream) < WIRE_FRAME_BYTES)
        return BLINK_OK;
    BLINK_TRY(wire_frame_parse(stream->buffer + stream->begin, &stream->frame));
    if (stream->frame.type == WIRE_DATA) {
        stream->begin += WIRE_FRAME_BYTES;
        *more = true;
        return begin_move(stream);
    }
    if (stream->number > 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of type %u on a connection for moves",
                          stream->frame.type);
    if (available(stream) - WIRE_FRAME_BYTES < stream->frame.bytes)
        return BLINK_OK;
    const uint8_t *payload = stream->buffer + stream->begin + WIRE_FRAME_BYTES;
    stream->begin += WIRE_FRAME_BYTES + stream->frame.bytes;
    *more = true;
    return config->events->control(config->context, &stream->frame, payload);
}

static blink_result_t take_frames(tcp_stream_t *stream)
{
    bool more = true;
    while (more && stream->left_bytes == 0 && !stream->tcp->closed)
        BLINK_TRY(take_frame(stream, &more));
    /* What is left is part of a frame: it goes to the front, so that the rest fits behind it. */
    if (stream->begin > 0 && available(stream) > 0)
        memmove(stream->buffer, stream->buffer + stream->begin, available(stream));
    stream->end -= stream->begin;
    stream->begin = 0;
    return BLINK_OK;
}

/* Read the rest of a payload to its place, and what is behind it to the buffer: `most` bytes. */
static ssize_t read_socket(tcp_stream_t *stream, uint32_t *most)
{
    uint32_t payload = stream->left_bytes, room = stream->capacity - stream->end;
    struct iovec places[2];
    int count = 0;
    if (payload > 0 && stream->whole)
        places[count++] = (struct iovec){payload_place(stream), payload};
    else if (payload > 0)
        places[count++] =
            (struct iovec){stream->tcp->config.trash, payload = least(payload, TRANSPORT_TRASH_BYTES)};
    if (payload < stream->left_bytes)
        room = 0;
    else
        places[count++] = (struct iovec){stream->buffer + stream->end, room};
    *most = payload + room;
    return readv(stream->fd, places, count);
}

static blink_result_t count_read(tcp_stream_t *stream, uint32_t bytes)
{
    uint32_t payload = least(bytes, stream->left_bytes);
    stream->end += bytes - payload;
    if (payload > 0)
        BLINK_TRY(count_payload(stream, payload));
    return stream->left_bytes == 0 ? take_frames(stream) : BLINK_OK;
}

/* The peer has closed its side. */
static blink_result_t closed_by_peer(void)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "it closed a data connection");
}

blink_result_t tcp_receive(tcp_stream_t *stream)
{
    for (uint32_t taken = 0; taken < RECEIVE_MOST_BYTES && !stream->tcp->closed;) {
        uint32_t most;
        ssize_t got = read_socket(stream, &most);
        if (got == 0)
            return closed_by_peer();
        if (got < 0 && errno == EAGAIN)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EFAULT && stream->left_bytes > 0 && stream->whole) {
            stream->whole = false; /* from now on into the trash */
            continue;
        }
        if (got < 0)
            return tcp_fail_errno(stream);
        taken += (uint32_t)got;
        BLINK_TRY(count_read(stream, (uint32_t)got));
        if ((uint32_t)got < most)
            break; /* the socket is empty; epoll tells when it is not */
    }
    return BLINK_OK;
}
