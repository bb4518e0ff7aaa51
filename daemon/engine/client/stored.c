#include "engine/client/stored.h"

#include "engine/loop.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>

/* Entries of a stored group. */
#define STORED_ENTRIES_MAX 65536u

/* Stored ops in one slice of forgetting a rank's or a client's. */
#define FORGOTTEN_AT_ONCE 64u

/* ---- keeping ---- */

static account_t *account_of(const stored_op_t *stored)
{
    return &stored->client->tenant->account;
}

static uint64_t entries_bytes(const stored_op_t *stored)
{
    return stored->entries.capacity * sizeof(stored->entries.items[0]);
}

static void stored_free(stored_op_t *stored)
{
    account_credit(account_of(stored), BUDGET_OP_BYTES, sizeof(*stored) + entries_bytes(stored));
    stored->client->engine->stored_ops--;
    stored->client->kept -= (uint32_t)stored->entries.count;
    list_remove(&stored->of_client);
    list_remove(&stored->of_rank);
    region_release(stored->region);
    vec_free(&stored->entries);
    free(stored);
}

static blink_result_t stored_create(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe)
{
    stored_op_t *stored = calloc(1, sizeof(*stored));
    if (!stored)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to store an op");
    list_init(&stored->of_client);
    list_init(&stored->of_rank);
    list_append(&rank->stored, &stored->of_rank);
    stored->client = client;
    stored->rank = rank;
    stored->region = client->windows;
    if (stored->region)
        stored->region->uses++;
    stored->window = sqe->window;
    /* Without budget left the first entry is refused, and the stored op goes with the last: a client has no
     * more than one that is not paid for. */
    account_add(account_of(stored), BUDGET_OP_BYTES, sizeof(*stored));
    client->engine->stored_ops++;
    client->storing = stored;
    return BLINK_OK;
}

/* Memory for another entry. Errors: QUOTA, NO_MEMORY. */
static blink_result_t reserve_entry(stored_op_t *stored)
{
    uint64_t before = entries_bytes(stored);
    uint64_t more = before ? before : sizeof(stored->entries.items[0]); /* it doubles */
    if (stored->entries.count < stored->entries.capacity)
        return BLINK_OK;
    BLINK_TRY(account_charge(account_of(stored), BUDGET_OP_BYTES, more));
    if (vec_reserve(&stored->entries, stored->entries.count + 1))
        return BLINK_OK;
    account_credit(account_of(stored), BUDGET_OP_BYTES, more);
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu entries of a stored group",
                      stored->entries.count + 1);
}

static blink_result_t stored_append(stored_op_t *stored, const ring_sqe_t *sqe)
{
    const uint32_t both = RING_SQE_STREAM | RING_SQE_STORED;
    ring_sqe_t entry = *sqe;
    if ((sqe->flags & both) != both)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "flags 0x%x: the entries of a stored op are all stored, and of a stream",
                          sqe->flags);
    BLINK_TRY(stream_check(stored->client, sqe));
    if (stored->window != sqe->window || stored->rank->member != sqe->member)
        return BLINK_FAIL(
            BLINK_ERR_INVALID_ARGUMENT,
            "a stored group with windows %u and %u, members %u and %u: all entries have the same",
            stored->window, sqe->window, stored->rank->member, sqe->member);
    if (stored->entries.count == STORED_ENTRIES_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "a stored group has at most %u entries", STORED_ENTRIES_MAX);
    entry.flags &= (uint8_t) ~(RING_SQE_STREAM | RING_SQE_STORED);
    entry.window = 0;
    BLINK_TRY(reserve_entry(stored));
    stored->entries.items[stored->entries.count++] = entry;
    stored->client->kept++;
    return BLINK_OK;
}

/* A group of which an entry was at fault is kept to its end, and then refused. */
blink_result_t stored_keep(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe)
{
    if (!client->storing)
        BLINK_TRY(stored_create(client, rank, sqe));
    stored_op_t *stored = client->storing;
    if (stored->failed == BLINK_OK) {
        stored->failed = stored_append(stored, sqe);
        if (stored->failed != BLINK_OK)
            snprintf(stored->failed_text, sizeof(stored->failed_text), "%s", blink_error_text());
    }
    if (sqe->flags & RING_SQE_MORE)
        return BLINK_OK;
    client->storing = NULL;
    if (stored->failed != BLINK_OK) {
        blink_result_t result = BLINK_FAIL(stored->failed, "%s", stored->failed_text);
        stored_free(stored);
        return result;
    }
    list_prepend(&client->stored, &stored->of_client);
    return BLINK_OK;
}

/* ---- forgetting ---- */

static stored_op_t *find_stored(const engine_client_t *client, uint32_t window)
{
    LIST_FOR_EACH (link, &client->stored) {
        stored_op_t *stored = CONTAINER_OF(link, stored_op_t, of_client);
        if (stored->window == window && !stored->forgotten)
            return stored;
    }
    return NULL;
}

blink_result_t stored_forget(engine_client_t *client, const ring_sqe_t *sqe, bool *later)
{
    stored_op_t *stored = find_stored(client, sqe->window);
    *later = stored && stored->running;
    if (!stored)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "no op is stored with window %u", sqe->window);
    if (stored->running) {
        stored->forgotten = true;
        stored->forget_owed = !(sqe->flags & RING_SQE_MORE);
        stored->forget_user_data = sqe->user_data;
        return BLINK_OK;
    }
    stored_free(stored);
    return BLINK_OK;
}

bool stored_forget_some(comm_rank_t *rank)
{
    engine_client_t *client = rank->client;
    list_t *link;
    uint32_t forgotten = 0;
    if (client->storing && client->storing->rank == rank) {
        stored_free(client->storing);
        client->storing = NULL;
    }
    for (; forgotten < FORGOTTEN_AT_ONCE && (link = list_take_first(&rank->stored)); forgotten++)
        CONTAINER_OF(link, stored_op_t, of_rank)->rank = NULL;
    engine_count(client->engine, forgotten);
    return forgotten < FORGOTTEN_AT_ONCE;
}

bool stored_forget_client_some(engine_client_t *client)
{
    list_t *link;
    uint32_t forgotten = 0;
    for (; forgotten < FORGOTTEN_AT_ONCE && (link = list_take_first(&client->stored)); forgotten++) {
        stored_op_t *stored = CONTAINER_OF(link, stored_op_t, of_client);
        if (stored->running)
            stored->forgotten = true; /* freed when the replay ends */
        else
            stored_free(stored);
    }
    if (client->storing)
        stored_free(client->storing);
    client->storing = NULL;
    engine_count(client->engine, forgotten);
    return forgotten < FORGOTTEN_AT_ONCE;
}

/* ---- the end of a replay ---- */

void stored_replay_done(const stored_op_t *stored, blink_result_t result)
{
    graph_words_t *words = &region_window(stored->region, stored->window)->graph;
    /* The failure is told first: who has synchronised with the stream finds it. */
    if (result != BLINK_OK)
        guard_store(&words->failure, result);
    /* What the run wrote comes before. Pairs with the stream's wait for `ended` (windows.h). */
    guard_store(&words->ended, 1);
}

void stored_replay_ended(stored_op_t *stored, blink_result_t result, const char *text)
{
    engine_client_t *client = stored->client;
    bool owed = stored->forget_owed;
    uint64_t user_data = stored->forget_user_data;
    stored->running = false;
    stored_replay_done(stored, result);
    /* The communicator is not ended here: the op that ends is still being served. */
    stored->failed = result;
    snprintf(stored->failed_text, sizeof(stored->failed_text), "%s", text ? text : "a replayed op failed");
    if (stored->forgotten) {
        stored_free(stored);
        if (owed)
            client_complete(client, user_data, BLINK_OK, NULL);
    }
    client_release(client);
}
