/*
 * Tickets: ops wait for a client's stream, and a stream for its ops (windows.h, "Streams"). A stream says by
 * a word of a window that it has come to an op, and waits for another word until it may go on. The launch of
 * a run is the gate: nothing of an op is given to a GPU before the engine has seen all its streams come, so
 * nothing of the daemon's on a GPU ever waits for a word that a client can write.
 *
 * `ended` counts the ops of a window that have ended, in their order: an op that is refused while those
 * before it still run must not let the stream go on past them. So every op takes a ticket, in the order of
 * submission, and keeps it until it and all before it have ended.
 */
#ifndef BLINK_ENGINE_STREAM_H
#define BLINK_ENGINE_STREAM_H

#include "base/guard.h"
#include "engine/client/region.h"

typedef struct stream_ticket {
    list_t of_window;
    engine_region_t *region; /* the client's windows region, held */
    uint32_t window;
    uint64_t number; /* the op may start when the window's `reached` is at least this */
    bool ended;
} stream_ticket_t;

/* The engine's side of a window of a windows region. */
typedef struct stream_window {
    list_t tickets; /* whose ops have not ended, oldest first, and ended ones behind those */
    uint64_t submitted, ended;
} stream_window_t;

/* Most tickets and stored entries that are kept for one client. Both need a limit of their own: a ticket is
 * kept after its op has ended while an older ticket of its window has not, and a stored op until it is
 * forgotten. */
#define CLIENT_KEPT_MAX 131072u

/* The engine's side of a windows region; NULL: no memory. */
stream_window_t *stream_windows_create(uint64_t count);

/* Whether a submission with RING_SQE_STREAM is one that can have a ticket. Errors: INVALID_ARGUMENT, QUOTA.
 */
blink_result_t stream_check(const engine_client_t *client, const ring_sqe_t *sqe);

/* Give the submission its ticket, which is charged to the tenant. Errors: those of stream_check(), NO_MEMORY.
 */
blink_result_t stream_begin(engine_client_t *client, const ring_sqe_t *sqe, stream_ticket_t **ticket);

/* The op has ended, or there never was one. */
void stream_end(stream_ticket_t *ticket);

/* Whether the stream has come to the op. */
static inline bool stream_has_come(const stream_ticket_t *ticket)
{
    /* seq_cst: the second look before sleeping; and what the stream did before it wrote is seen by whoever is
     * launched. Pairs with the stream's write of `reached` (windows.h). */
    return guard_load(&region_window(ticket->region, ticket->window)->stream.reached) >= ticket->number;
}

#endif
