/*
 * Tickets: ops wait for a client's stream (windows.h, "Streams"), and a stream for its ops. Engine thread.
 */
#ifndef BLINK_ENGINE_STREAM_H
#define BLINK_ENGINE_STREAM_H

#include "engine/region.h"

/* The turn of an op on a stream (windows.h, "Streams"). In the order of submission, until it and all before
 * it have ended. */
typedef struct stream_ticket {
    struct stream_ticket *next; /* of the window */
    struct engine_region *region;
    uint32_t window;
    uint64_t number; /* what `reached` must come to */
    bool ended;
} stream_ticket_t;

/* The engine's side of a window of a windows region. */
typedef struct stream_window {
    stream_ticket_t *first, *last; /* that have not ended */
    uint64_t submitted, ended;
} stream_window_t;

/* Whether such a submission can have a turn. Errors: INVALID_ARGUMENT, QUOTA. */
blink_result_t stream_check(const engine_client_t *client, const ring_sqe_t *sqe);

/* Give a submission with RING_SQE_STREAM its turn. Errors: those of stream_check(), NO_MEMORY; it is then
 * refused where its op is found, so that all ranks hear. */
blink_result_t stream_begin(engine_client_t *client, const ring_sqe_t *sqe, stream_ticket_t **ticket);

/* Whether the stream has come to it; true for NULL. */
bool stream_has_come(const stream_ticket_t *ticket);

/* The op has ended, or there never was one; NULL is ignored. */
void stream_end(stream_ticket_t *ticket);

#endif
