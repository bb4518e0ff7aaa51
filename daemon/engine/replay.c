/*
 * Stored ops: what a client's graph replays.
 */
#include "engine/replay.h"

#include "engine/comm.h"
#include "engine/loop.h"
#include "engine/run.h"
#include "engine/stream.h"
#include "engine/submit.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries of a stored group. */
#define STORED_ENTRIES_MAX 65536u

struct stored_op {
    stored_op_t *next; /* of the client */
    engine_client_t *client;
    comm_rank_t *rank; /* NULL: it has left, replays do nothing */
    engine_region_t *region;
    uint32_t window;
    ring_sqe_t *entries;
    uint32_t entry_count, entry_capacity;
    bool running;
    bool forgotten, forget_owed; /* as soon as it runs no more; and the client then hears of it */
    uint64_t forget_user_data;
    blink_result_t failed; /* of a replay; the communicator is to be given up for it */
    char failed_text[BLINK_ERROR_TEXT_BYTES];
};

/* ---- storing ---- */

static void stored_free(stored_op_t *stored)
{
    stored->client->engine->watched--;
    stored->client->kept -= stored->entry_count;
    region_release(stored->region);
    free(stored->entries);
    free(stored);
}

static blink_result_t stored_make(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe)
{
    stored_op_t *stored = calloc(1, sizeof(*stored));
    if (!stored)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to store an op");
    stored->client = client;
    stored->rank = rank;
    stored->region = client->windows;
    if (stored->region)
        stored->region->uses++;
    stored->window = sqe->window;
    client->engine->watched++;
    client->storing = stored;
    return BLINK_OK;
}

static blink_result_t stored_append(stored_op_t *stored, const ring_sqe_t *sqe)
{
    const uint32_t both = RING_SQE_STREAM | RING_SQE_STORED;
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
    if (stored->entry_count == STORED_ENTRIES_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "a stored group has at most %u entries", STORED_ENTRIES_MAX);
    if (stored->entry_count == stored->entry_capacity) {
        uint32_t capacity = stored->entry_capacity > 0 ? 2 * stored->entry_capacity : 1;
        ring_sqe_t *entries = realloc(stored->entries, capacity * sizeof(*entries));
        if (!entries)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u entries of a stored group", capacity);
        stored->entries = entries;
        stored->entry_capacity = capacity;
    }
    ring_sqe_t *entry = &stored->entries[stored->entry_count++];
    stored->client->kept++;
    *entry = *sqe;
    entry->flags &= (uint8_t) ~(RING_SQE_STREAM | RING_SQE_STORED);
    entry->window = 0;
    return BLINK_OK;
}

bool stream_stores(const engine_client_t *client, const comm_rank_t *rank, const ring_sqe_t *sqe)
{
    if (client->storing && client->storing->rank == rank)
        return true;
    return (sqe->flags & RING_SQE_STORED) && !rank_in_group(rank);
}

/* A group of which an entry was at fault is stored to its end, and then refused. */
blink_result_t stream_store(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe)
{
    if (!client->storing)
        BLINK_TRY(stored_make(client, rank, sqe));
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
    stored->next = client->stored;
    client->stored = stored;
    return BLINK_OK;
}

static void stored_unlink(stored_op_t *stored)
{
    stored_op_t **link = &stored->client->stored;
    while (*link != stored)
        link = &(*link)->next;
    *link = stored->next;
}

blink_result_t stream_forget(engine_client_t *client, const ring_sqe_t *sqe, bool *later)
{
    stored_op_t *stored = client->stored;
    while (stored && (stored->window != sqe->window || stored->forgotten))
        stored = stored->next;
    *later = stored && stored->running;
    if (!stored)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "no op is stored with window %u", sqe->window);
    if (stored->running) {
        stored->forgotten = true;
        stored->forget_owed = !(sqe->flags & RING_SQE_MORE);
        stored->forget_user_data = sqe->user_data;
        return BLINK_OK;
    }
    stored_unlink(stored);
    stored_free(stored);
    return BLINK_OK;
}

/* It runs no more: keep the promise of stream_forget(). */
static void stored_forget(stored_op_t *stored)
{
    engine_client_t *client = stored->client;
    bool owed = stored->forget_owed;
    uint64_t user_data = stored->forget_user_data;
    stored_unlink(stored);
    stored_free(stored);
    if (owed)
        client_complete(client, user_data, BLINK_OK, NULL);
}

void stream_forget_rank(const comm_rank_t *rank)
{
    engine_client_t *client = rank->client;
    for (stored_op_t *stored = client->stored; stored; stored = stored->next) {
        if (stored->rank == rank)
            stored->rank = NULL;
    }
    if (client->storing && client->storing->rank == rank) {
        stored_free(client->storing);
        client->storing = NULL;
    }
}

void stream_forget_client(engine_client_t *client)
{
    stored_op_t **link = &client->stored;
    while (*link) {
        stored_op_t *stored = *link;
        stored->forgotten = stored->running; /* freed when the replay ends */
        if (stored->running) {
            link = &stored->next;
            continue;
        }
        *link = stored->next;
        stored_free(stored);
    }
    if (client->storing)
        stored_free(client->storing);
    client->storing = NULL;
}

/* ---- replays ---- */

/* A failure is told first: who has synchronised with the stream finds it. */
static void replay_done(const stored_op_t *stored, blink_result_t result)
{
    graph_words_t *words = &region_window(stored->region, stored->window)->graph;
    if (result != BLINK_OK)
        atomic_store_explicit(&words->failure, result, memory_order_relaxed); /* published with `ended` */
    /* Release: what the run wrote comes before. */
    atomic_store_explicit(&words->ended, 1, memory_order_release);
}

static void replay(stored_op_t *stored)
{
    engine_client_t *client = stored->client;
    if (!stored->rank || stored->rank->leaving) {
        replay_done(stored, BLINK_OK);
        return;
    }
    stored->running = true;
    if (client->outstanding++ == 0)
        client->engine->clients_waiting++;
    for (uint32_t i = 0; i < stored->entry_count; i++) {
        submission_t how = {.replayed = stored};
        comm_submit(stored->rank, &stored->entries[i], &how);
    }
}

/* Nobody waits for a replay who could be told: the communicator is no longer what its graphs take it for. */
static void give_up_for(stored_op_t *stored)
{
    blink_result_t failed = stored->failed;
    engine_comm_t *comm = stored->rank ? stored->rank->comm : NULL;
    stored->failed = BLINK_OK;
    if (!comm || comm->lost != BLINK_OK)
        return;
    comm_lose(comm, failed, stored->failed_text);
    comm_advance(comm);
}

/* The first of a client's that failed, or that its stream has come to. */
static bool replay_one(engine_client_t *client)
{
    for (stored_op_t *stored = client->stored; stored; stored = stored->next) {
        if (stored->failed != BLINK_OK) {
            give_up_for(stored);
            return true;
        }
        graph_words_t *words = &region_window(stored->region, stored->window)->graph;
        bool waits = stored->running || (stored->rank && rank_in_group(stored->rank));
        /* Acquire: what the stream did before comes first. */
        if (waits || atomic_load_explicit(&words->requested, memory_order_acquire) != 1)
            continue;
        /* Relaxed: the stream writes it again only after it has seen `ended`. */
        atomic_store_explicit(&words->requested, 0, memory_order_relaxed);
        replay(stored); /* which may have changed all lists */
        return true;
    }
    return false;
}

bool engine_poll_stored(engine_t *engine)
{
    bool worked = false;
    uint32_t version = engine->client_list_version;
    engine_client_t *next;
    if (engine->watched == 0)
        return false;
    /* One of each, so that no client keeps the others waiting. As in engine_work(), the list may change. */
    for (engine_client_t *client = engine->clients; client && version == engine->client_list_version;
         client = next) {
        next = client->next;
        if (client->stored && !client->removed)
            worked |= replay_one(client);
    }
    return worked;
}

void stream_replay_ended(stored_op_t *stored, blink_result_t result, const char *text)
{
    engine_client_t *client = stored->client;
    stored->running = false;
    replay_done(stored, result);
    /* Not here: the op that ends is still being served. */
    stored->failed = result;
    snprintf(stored->failed_text, sizeof(stored->failed_text), "%s", text ? text : "a replayed op failed");
    if (stored->forgotten)
        stored_forget(stored);
    client_release(client);
}
