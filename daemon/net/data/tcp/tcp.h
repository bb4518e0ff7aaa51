/*
 * The transport over TCP: stream 0 is for control, and small moves go there too; the others are for moves.
 * What comes is read straight to its place.
 */
#ifndef BLINK_DATA_TCP_H
#define BLINK_DATA_TCP_H

#include "net/data/intake.h"

extern const transport_calls_t tcp_transport;

/* ---- between the files of this transport ---- */

/* Moves that a stream sends by one call. */
#define TCP_BATCH_MOVES 16u

typedef struct tcp tcp_t;

/* Moves under way on one stream, in the order in which they are sent. */
typedef struct tcp_batch {
    uint32_t count, first; /* those before `first` have gone */
    uint64_t gone_bytes;   /* of the frame of move `first`, its header included */
    uint64_t bytes;        /* of all frames of the batch */
    bool careful;          /* a page of some source is not there: go piece by piece */
    bool whole;            /* no page of move `first` was missing so far */
    transport_move_t moves[TCP_BATCH_MOVES];
    uint8_t headers[TCP_BATCH_MOVES][WIRE_FRAME_BYTES];
} tcp_batch_t;

typedef struct tcp_stream {
    transport_source_t source;
    tcp_t *tcp;
    uint32_t number;
    int fd; /* -1: not there yet, or gone */
    bool connecting;
    bool elsewhere;   /* it was dialled over other NICs than the session's, and may go over these */
    uint32_t watched; /* what epoll is asked for */
    intake_t intake;
    uint8_t *buffer; /* for what is read at once and not to its place */
    uint32_t capacity;
    tcp_batch_t *batch; /* what goes; NULL on the control stream, where that is the outbox */
} tcp_stream_t;

struct tcp {
    transport_t transport;
    transport_config_t config;
    data_ends_t session_ends;                           /* if this side dials */
    uint32_t next_stream;                               /* that is asked first whether it can take moves */
    uint8_t hello[DATA_STREAMS_MOST][WIRE_HELLO_BYTES]; /* what is said first on a stream that was dialled */
    tcp_stream_t streams[DATA_STREAMS_MOST];
};

/* transport_calls_t.send */
bool tcp_send(transport_t *transport);

static inline tcp_t *tcp_of(transport_t *transport)
{
    return CONTAINER_OF(transport, tcp_t, transport);
}

/* Ask epoll for what the stream waits for. */
void tcp_watch(tcp_stream_t *stream);

/* Take in what has come, within a bound. */
blink_result_t tcp_receive(tcp_stream_t *stream);

/* Send what waits on a stream, as much as it takes. `full`: it did not take all. */
blink_result_t tcp_flush(tcp_stream_t *stream, bool *full);

/* Errors of a call on a socket. */
blink_result_t tcp_fail_errno(const tcp_stream_t *stream);

#endif
