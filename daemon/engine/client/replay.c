#include "engine/client/replay.h"

#include "engine/client/stored.h"
#include "engine/client/submit.h"
#include "engine/comm/comm.h"
#include "engine/loop.h"

static void replay(stored_op_t *stored)
{
    if (!stored->rank || stored->rank->leaving) {
        stored_replay_done(stored, BLINK_OK);
        return;
    }
    stored->running = true;
    client_owe(stored->client, 1);
    /* The last entry may end the replay, and with it the stored op. */
    for (size_t i = 0, count = stored->entries.count; i < count; i++)
        submit_stored(stored->rank, &stored->entries.items[i], stored);
}

/* Nobody waits for a replay who could be told: the communicator is no longer what its graphs take it for. */
static void end_for(stored_op_t *stored)
{
    blink_result_t failed = stored->failed;
    stored->failed = BLINK_OK;
    if (stored->rank)
        comm_end(stored->rank->comm, ENDED_BY_ENGINE, failed, stored->failed_text);
}

/* Whether the stream has come to the stored op, which can be replayed now. */
static bool take_start(const stored_op_t *stored)
{
    graph_words_t *words = &region_window(stored->region, stored->window)->graph;
    if (stored->running || (stored->rank && rank_in_group(stored->rank)))
        return false;
    /* Acquire: what the stream did before comes first. Pairs with the stream's write of `requested`
     * (windows.h). */
    if (atomic_load_explicit(&words->requested, memory_order_acquire) != 1)
        return false;
    /* Relaxed: the stream writes it again only after it has seen `ended`. */
    atomic_store_explicit(&words->requested, 0, memory_order_relaxed);
    return true;
}

/* The first of a client's that failed, or that its stream has come to. */
static bool replay_one(engine_client_t *client)
{
    LIST_FOR_EACH (link, &client->stored) {
        stored_op_t *stored = CONTAINER_OF(link, stored_op_t, of_client);
        if (stored->failed != BLINK_OK) {
            end_for(stored);
            return true;
        }
        if (take_start(stored)) {
            replay(stored); /* which may have changed the list */
            return true;
        }
    }
    return false;
}

bool replay_poll(engine_t *engine)
{
    bool worked = false;
    LIST_FOR_EACH (link, &engine->clients) {
        engine_client_t *client = CONTAINER_OF(link, engine_client_t, of_engine);
        if (!client->removed)
            worked |= replay_one(client);
    }
    return worked;
}
