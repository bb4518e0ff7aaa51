/*
 * Ops in the order of a client's streams (windows.h, "Streams"). A stream says by a word of a
 * window that it has come to an op, and waits for another word until it may go on. The launch of a run is the
 * gate: nothing of an op is given to a GPU before the engine has seen all its streams come, so nothing of the
 * daemon's on a GPU ever waits for a word that a client can write.
 *
 * `ended` counts the ops of a window that have ended, in their order: one that is refused while those before
 * it still run must not let the stream go on past them. Hence the tickets.
 */
#include "engine/stream.h"

#include "engine/client.h"
#include "engine/region.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Turns and stored entries that are kept for one client: turns that ended lie behind one that does not, and
 * no stored op is in anybody's way. */
#define CLIENT_KEPT_MAX 131072u

blink_result_t stream_check(const engine_client_t *client, const ring_sqe_t *sqe)
{
    if (sqe->flags & (RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a staged op takes no turn on a stream (flags 0x%x)",
                          sqe->flags);
    if (!client->windows || client->windows->removing)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "an op on a stream, but this client has no windows for streams");
    uint64_t count = client->windows->bytes / sizeof(window_t);
    if (sqe->window >= count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "window %u of %lu for streams", sqe->window,
                          (unsigned long)count);
    if (client->kept >= CLIENT_KEPT_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA,
                          "this client has %u ops on streams and in graphs, the most there may be",
                          client->kept);
    return BLINK_OK;
}

blink_result_t stream_begin(engine_client_t *client, const ring_sqe_t *sqe, stream_ticket_t **taken)
{
    if (!(sqe->flags & RING_SQE_STREAM) || sqe->flags & RING_SQE_STORED)
        return BLINK_OK;
    BLINK_TRY(stream_check(client, sqe));
    uint32_t number = sqe->window;
    engine_region_t *region = client->windows;
    stream_window_t *window = &region->windows[number];
    stream_ticket_t *ticket = calloc(1, sizeof(*ticket));
    if (!ticket)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an op on a stream");
    *ticket = (stream_ticket_t){.region = region, .window = number, .number = ++window->submitted};
    if (window->last)
        window->last->next = ticket;
    else
        window->first = ticket;
    window->last = ticket;
    region->uses++;
    client->kept++;
    *taken = ticket;
    return BLINK_OK;
}

bool stream_has_come(const stream_ticket_t *ticket)
{
    /* seq_cst: the second look before sleeping; and what the stream did before it wrote is seen by whoever is
     * launched. */
    return !ticket || atomic_load_explicit(&region_window(ticket->region, ticket->window)->stream.reached,
                                           memory_order_seq_cst) >= ticket->number;
}

void stream_end(stream_ticket_t *ticket)
{
    if (!ticket)
        return;
    engine_region_t *region = ticket->region;
    uint32_t number = ticket->window, popped = 0;
    stream_window_t *window = &region->windows[number];
    ticket->ended = true;
    while (window->first && window->first->ended) {
        stream_ticket_t *first = window->first;
        window->first = first->next;
        if (!window->first)
            window->last = NULL;
        free(first);
        popped++;
    }
    if (popped == 0)
        return;
    window->ended += popped;
    region->client->kept -= popped;
    /* Release: what the run wrote comes before. */
    atomic_store_explicit(&region_window(region, number)->stream.ended, window->ended, memory_order_release);
    for (; popped > 0; popped--)
        region_release(region);
}
