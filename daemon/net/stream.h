/*
 * Frames over TLS over one TCP socket, on an event loop: a little-endian uint32 length, then that many bytes.
 * What frames mean is for the handler. Nothing blocks. What the peer can make long is bounded: a turn of the
 * loop takes in a number of buffers from all streams together, a frame's memory grows with what has come of
 * it, and what the peer does not read is limited.
 */
#ifndef BLINK_NET_STREAM_H
#define BLINK_NET_STREAM_H

#include "error.h"
#include "net/address.h"
#include "net/tls.h"
#include "wire.h"

#include <uv.h>

/* What may wait for a peer to read it. */
#define STREAM_UNSENT_MOST_BYTES (8u << 20)

/* What taking in one buffer of bytes counts, and going on with a handshake. */
#define STREAM_RECEIVE_STEPS   1u
#define STREAM_HANDSHAKE_STEPS 16u

typedef struct stream stream_t;

/* All are called from within the loop alone. Any function of the stream may be called in them. */
typedef struct stream_handler {
    /* The peer has proved to have the key: frames may be sent, and will come. */
    void (*secured)(void *context);
    void (*frame)(void *context, const uint8_t *bytes, size_t byte_count);
    /* The peer has dialled a data connection instead: its first bytes. stream_take_socket() and
     * stream_destroy() follow, within the call. */
    void (*hello)(void *context, const uint8_t bytes[WIRE_HELLO_BYTES]);
    /* Nothing comes any more: the code with this thread's error text, the peer not named. PEER_LOST: the
     * connection is gone; CONNECT, PERMISSION, PROTOCOL: it could not be made, or what came is not sound.
     * What is sent may still arrive. stream_destroy() or stream_finish() follows, now or later. */
    void (*ended)(void *context, blink_result_t code);
} stream_handler_t;

typedef struct stream_config {
    uv_loop_t *loop;
    tls_context_t *tls;
    int fd;          /* non-blocking; taken over, also on failure */
    bool dials;      /* connect() is under way; else the socket was accepted */
    uint32_t *steps; /* that all streams may still have in this turn of the loop */
    uint32_t frame_most_bytes;
    const stream_handler_t *handler;
    void *context;
    void (*closed)(void *context); /* after stream_destroy(): the socket is closed, and all memory freed */
} stream_config_t;

/* Errors: NO_MEMORY, SYSTEM. */
blink_result_t stream_create(const stream_config_t *config, stream_t **stream);

/* Send what is queued if that takes no waiting, and close the socket. The handler is not called any more;
 * `closed` is, later. */
void stream_destroy(stream_t *stream);

/* The socket is the caller's from now on, who destroys the stream before anybody else watches the socket. */
int stream_take_socket(stream_t *stream);

/* This side's address. Errors: SYSTEM. */
blink_result_t stream_own_address(const stream_t *stream, net_address_t *address);

/* Derive from the connection what the peer derives, too: tls_export(). */
blink_result_t stream_export(stream_t *stream, uint32_t number, uint8_t secret[TLS_SECRET_BYTES]);

/* Send what is queued, and no more: `ended` is called when the peer has closed the connection, too. What
 * comes until then is dropped. */
void stream_finish(stream_t *stream);

/* The longest frame that may come from now on. */
void stream_allow(stream_t *stream, uint32_t frame_most_bytes);

/* Queue a frame; the bytes are copied. Errors: QUOTA (the peer does not read), NO_MEMORY, PEER_LOST (the
 * connection is gone already). */
blink_result_t stream_send(stream_t *stream, const void *bytes, size_t byte_count);

#endif
