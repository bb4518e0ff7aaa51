#include "engine/client/stream.h"

#include "engine/client/client.h"
#include "error.h"

#include <stdlib.h>

stream_window_t *stream_windows_create(uint64_t count)
{
    stream_window_t *windows = calloc(count, sizeof(*windows));
    for (uint64_t i = 0; windows && i < count; i++)
        list_init(&windows[i].tickets);
    return windows;
}

static account_t *account_of(const engine_client_t *client)
{
    return &client->tenant->account;
}

blink_result_t stream_check(const engine_client_t *client, const ring_sqe_t *sqe)
{
    if (sqe->flags & (RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a staged op takes no ticket of a stream (flags 0x%x)",
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
    return account_check(account_of(client), BUDGET_OP_BYTES, sizeof(stream_ticket_t));
}

blink_result_t stream_begin(engine_client_t *client, const ring_sqe_t *sqe, stream_ticket_t **taken)
{
    BLINK_TRY(stream_check(client, sqe));
    engine_region_t *region = client->windows;
    stream_window_t *window = &region->windows[sqe->window];
    stream_ticket_t *ticket = calloc(1, sizeof(*ticket));
    if (!ticket)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an op on a stream");
    account_add(account_of(client), BUDGET_OP_BYTES, sizeof(*ticket));
    *ticket = (stream_ticket_t){.region = region, .window = sqe->window, .number = ++window->submitted};
    list_append(&window->tickets, &ticket->of_window);
    region->uses++;
    client->kept++;
    *taken = ticket;
    return BLINK_OK;
}

void stream_end(stream_ticket_t *ticket)
{
    engine_region_t *region = ticket->region;
    uint32_t number = ticket->window, popped = 0;
    stream_window_t *window = &region->windows[number];
    ticket->ended = true;
    LIST_FOR_EACH (link, &window->tickets) {
        stream_ticket_t *first = CONTAINER_OF(link, stream_ticket_t, of_window);
        if (!first->ended)
            break;
        list_remove(link);
        free(first);
        account_credit(account_of(region->client), BUDGET_OP_BYTES, sizeof(*first));
        popped++;
    }
    if (popped == 0)
        return;
    window->ended += popped;
    region->client->kept -= popped;
    /* What the run wrote comes before. Pairs with the stream's wait for `ended` (windows.h). */
    guard_store(&region_window(region, number)->stream.ended, window->ended);
    for (; popped > 0; popped--)
        region_release(region);
}
