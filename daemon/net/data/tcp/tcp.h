/*
 * The transport over TCP: a control stream, on which small moves go too, and streams for moves. What comes is
 * read straight to its place. Whoever calls has the proxy's turn; nothing blocks.
 */
#ifndef BLINK_DATA_TCP_H
#define BLINK_DATA_TCP_H

#include "base/vec.h"
#include "net/address.h"
#include "net/data/transport.h"

/* Stream 0 is for control, the others for moves. */
#define TCP_STREAMS 3u

/* Moves up to this size go on the control stream: with the BEGIN before them they leave in one call. */
#define TCP_SMALL_BYTES 1024u

/* Moves that a stream sends by one call. */
#define TCP_BATCH_MOVES 16u

#define TCP_TRASH_BYTES (64u << 10)

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
    tcp_t *tcp;
    uint32_t number;
    int fd; /* -1: not there yet, or gone */
    bool connecting;
    uint32_t watched; /* what epoll is asked for */
    /* What comes. */
    uint8_t *buffer; /* bytes that have come and were not looked at */
    uint32_t capacity, begin, end;
    wire_frame_t frame; /* DATA whose payload is being taken in, if left_bytes > 0 */
    landing_move_t move;
    uint32_t left_bytes;
    bool whole;
    /* What goes: bytes on the control stream, moves on the others. */
    VEC(uint8_t) bytes;
    size_t gone_bytes;
    tcp_batch_t *batch;
} tcp_stream_t;

typedef struct tcp_config {
    int epoll_fd;   /* events come with the stream's address as their data */
    uint8_t *trash; /* TCP_TRASH_BYTES that nobody reads: where what has no place goes */
    double timeout_s;
    const transport_events_t *events;
    void *context;
} tcp_config_t;

struct tcp {
    tcp_config_t config;
    uint32_t connected;   /* streams */
    uint32_t next_stream; /* that is asked first whether it can take moves */
    bool closed;
    uint8_t hello[TCP_STREAMS][WIRE_HELLO_BYTES]; /* what is said first on a stream that was dialled */
    tcp_stream_t streams[TCP_STREAMS];
};

void tcp_init(tcp_t *tcp, const tcp_config_t *config);

/* Close all connections: what was under way is forgotten, and nobody is told. Again does nothing. */
void tcp_close(tcp_t *tcp);

/* Closed before. */
void tcp_fini(tcp_t *tcp);

/* Begin to connect all streams. Errors: CONNECT, SYSTEM, NO_MEMORY; the caller closes it. */
blink_result_t tcp_dial(tcp_t *tcp, const net_address_t *address, const wire_hello_t hellos[TCP_STREAMS]);

/* A stream has its connection. The socket is taken over, also on failure. Errors: EXISTS, NO_MEMORY,
 * SYSTEM. */
blink_result_t tcp_accept(tcp_t *tcp, uint32_t stream, int fd);

/* Queue a control frame; it leaves with tcp_send(). Errors: QUOTA, NO_MEMORY; the caller closes it. */
blink_result_t tcp_queue(tcp_t *tcp, wire_type_t type, const void *payload, uint32_t bytes);

/* Send what is queued, and moves as long as there are some and streams take them, within a bound. Returns
 * whether it stopped at the bound. */
bool tcp_send(tcp_t *tcp);

/* epoll has told of events at a stream. */
void tcp_serve(tcp_stream_t *stream, uint32_t events);

/* ---- between the files of this transport ---- */

/* With this thread's error text: close, and tell the endpoint. */
void tcp_lose(tcp_t *tcp, blink_result_t code);

/* Ask epoll for what the stream waits for. */
void tcp_watch(tcp_stream_t *stream);

/* Take in what has come, within a bound. */
blink_result_t tcp_receive(tcp_stream_t *stream);

/* Send what waits on a stream, as much as it takes. `full`: it did not take all. */
blink_result_t tcp_flush(tcp_stream_t *stream, bool *full);

/* Errors of a call on a socket. */
blink_result_t tcp_fail_errno(const tcp_stream_t *stream);

#endif
