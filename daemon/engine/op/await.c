#include "engine/op/await.h"

#include "base/guard.h"
#include "engine/client/client.h"
#include "engine/loop.h"
#include "engine/op/run.h"

/* Ops looked at in one visit to their client. */
#define LOOKS_PER_VISIT 16u

static bool entry_is_ready(const op_entry_t *entry, uint64_t piece)
{
    const staging_words_t *window = entry->window;
    if (entry->ticket && !stream_has_come(entry->ticket))
        return false;
    if (!window)
        return true;
    /* seq_cst: pairs with the client's stores, see ring.h; what it copied is seen, and has been read. */
    if (entry->input_staged && guard_load(&window->filled) <= piece)
        return false;
    return !entry->output_staged || guard_load(&window->drained) + STAGING_SLOTS > piece;
}

static uint32_t find_from(const comm_op_t *op, uint32_t entry)
{
    while (entry < op->entry_count && entry_is_ready(&op->entries[entry], op->piece))
        entry++;
    return entry;
}

uint32_t await_find(const comm_op_t *op)
{
    return op->has_windows || op->has_tickets ? find_from(op, 0) : op->entry_count;
}

/* True if the op has gone on, or has ended. */
static bool look(comm_op_t *op)
{
    if (comm_has_ended(op->comm)) {
        run_cancel(op);
        return true;
    }
    uint32_t missing = find_from(op, op->awaited);
    if (missing == op->entry_count) {
        run_proceed(op);
        return true;
    }
    op->awaited = missing;
    op_enter(op, OP_AWAITING); /* behind the others of its client */
    return false;
}

bool await_look(engine_client_t *client)
{
    uint32_t looks = client->awaited_count < LOOKS_PER_VISIT ? client->awaited_count : LOOKS_PER_VISIT;
    bool found = false;
    for (uint32_t i = 0; i < looks && !found; i++) {
        uint32_t owed = client->looks_owed;
        found = look(LIST_FIRST(&client->awaited, comm_op_t, of_state));
        client_set_looks_owed(client, owed > 0 ? owed - 1 : 0);
        engine_count(client->engine, 1);
    }
    return found;
}
