/*
 * What carries the frames and moves of one endpoint. A transport pulls moves from the endpoint when it has
 * room for them, and takes in what the peer sends; it knows frames, and neither flows nor runs. Whoever calls
 * has the proxy's turn, in both directions.
 */
#ifndef BLINK_DATA_TRANSPORT_H
#define BLINK_DATA_TRANSPORT_H

#include "net/flow/landing.h"
#include "wire.h"

#include <stdbool.h>

/* A move to be made. */
typedef struct transport_move {
    wire_frame_t frame; /* its header: where it goes */
    const void *source; /* frame.bytes of it, not written to until the transport has told that it was sent */
    void *owner;        /* the endpoint's, and the next two */
    uint32_t flow, sequence;
} transport_move_t;

/* What a transport tells its endpoint. An error closes the endpoint for that reason. */
typedef struct transport_events {
    /* All connections are there. */
    void (*connected)(void *context);
    /* A frame other than DATA has come; the payload is valid during the call. */
    blink_result_t (*control)(void *context, const wire_frame_t *frame, const uint8_t *payload);
    /* The header of a DATA frame has come: where does its payload go? landing_claim(). */
    blink_result_t (*claim)(void *context, const wire_frame_t *frame, landing_move_t *move);
    /* The payload is there; not `whole`: pages of its place are not, and it was dropped. Not called for moves
     * that nobody waits for. */
    blink_result_t (*arrived)(void *context, const landing_move_t *move, const wire_frame_t *frame,
                              bool whole);
    /* The next move, if there is one. */
    bool (*next)(void *context, transport_move_t *move);
    /* Its source may be used for something else; not `whole`: pages of it are not there, and zeros went in
     * their stead. */
    void (*sent)(void *context, const transport_move_t *move, bool whole);
    /* The connections are gone; with this thread's error text. The transport calls nothing afterwards. */
    void (*lost)(void *context, blink_result_t code);
    /* The endpoint is to be served again although nothing has come for it. */
    void (*busy)(void *context);
} transport_events_t;

#endif
