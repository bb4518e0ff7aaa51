/* What comes over a stream; the payloads of moves are read straight to their places. */
#include "net/data/tcp/tcp.h"

#include <errno.h>
#include <sys/uio.h>

/* A stream takes in so much before others have their turn. */
#define RECEIVE_MOST_BYTES (128u << 10)

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Read the rest of a payload to its place, *payload bytes, and what is behind it to the buffer: *most bytes.
 */
static ssize_t read_socket(tcp_stream_t *stream, uint32_t *payload, uint32_t *most)
{
    uint8_t *place;
    uint32_t left = intake_left(&stream->intake, &place), room = stream->capacity;
    struct iovec places[2];
    int count = 0;
    *payload = place ? left : least(left, TRANSPORT_TRASH_BYTES);
    if (*payload > 0)
        places[count++] = (struct iovec){place ? place : stream->tcp->config.trash, *payload};
    if (*payload < left)
        room = 0;
    else
        places[count++] = (struct iovec){stream->buffer, room};
    *most = *payload + room;
    return readv(stream->fd, places, count);
}

static blink_result_t count_read(tcp_stream_t *stream, uint32_t payload, uint32_t bytes)
{
    uint32_t placed = least(bytes, payload);
    if (placed > 0)
        BLINK_TRY(intake_placed(&stream->intake, placed));
    return intake_take(&stream->intake, stream->buffer, bytes - placed);
}

/* The peer has closed its side. */
static blink_result_t closed_by_peer(void)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "it closed a data connection");
}

blink_result_t tcp_receive(tcp_stream_t *stream)
{
    for (uint32_t taken = 0; taken < RECEIVE_MOST_BYTES && !stream->tcp->transport.closed;) {
        uint32_t payload, most;
        ssize_t got = read_socket(stream, &payload, &most);
        if (got == 0)
            return closed_by_peer();
        if (got < 0 && errno == EAGAIN)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EFAULT && payload > 0 && stream->intake.whole) {
            intake_drop(&stream->intake); /* from now on into the trash */
            continue;
        }
        if (got < 0)
            return tcp_fail_errno(stream);
        taken += (uint32_t)got;
        BLINK_TRY(count_read(stream, payload, (uint32_t)got));
        if ((uint32_t)got < most)
            break; /* the socket is empty; epoll tells when it is not */
    }
    return BLINK_OK;
}
