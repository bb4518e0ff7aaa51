#include "engine/client/replay.h"

#include "engine/client/stored.h"
#include "engine/client/submit.h"
#include "engine/comm/comm.h"
#include "engine/loop.h"

/* Stored ops looked at in one visit to their client. */
#define LOOKS_PER_VISIT 64u

/* Entries submitted in one. */
#define SUBMISSIONS_PER_VISIT 64u

static void replay(stored_op_t *stored)
{
    engine_client_t *client = stored->client;
    if (!stored->rank || stored->rank->leaving) {
        stored_replay_done(stored, BLINK_OK);
        return;
    }
    stored->running = true;
    stored->submitted = 0;
    client_owe(client, 1);
    client->replaying = stored;
    client->engine->replaying++;
    replay_go_on(client);
}

static void end_submitting(engine_client_t *client)
{
    client->replaying = NULL;
    client->engine->replaying--;
}

void replay_go_on(engine_client_t *client)
{
    stored_op_t *stored = client->replaying;
    if (!stored->rank || stored->rank->leaving) { /* what has been submitted has been dropped */
        end_submitting(client);
        stored_replay_ended(stored, BLINK_ERR_PEER_LOST, "the rank left in the middle of a replay");
        return;
    }
    size_t left = stored->entries.count - stored->submitted;
    size_t count = left < SUBMISSIONS_PER_VISIT ? left : SUBMISSIONS_PER_VISIT;
    if (count == left)
        end_submitting(client);
    engine_count(client->engine, (uint32_t)count);
    /* The last entry may end the replay, and with it the stored op. */
    for (size_t i = 0; i < count; i++)
        submit_stored(stored->rank, &stored->entries.items[stored->submitted++], stored);
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
    /* What the stream did before comes first. Pairs with the stream's write of `requested` (windows.h). */
    if (guard_load(&words->requested) != 1)
        return false;
    guard_store(&words->requested, 0); /* the stream writes it again only after it has seen `ended` */
    return true;
}

/* True if the stored op has been replayed or was found to have failed. */
static bool look(stored_op_t *stored)
{
    if (stored->failed != BLINK_OK) {
        end_for(stored);
        return true;
    }
    if (!take_start(stored))
        return false;
    replay(stored); /* which may have freed it */
    return true;
}

bool replay_look(engine_client_t *client)
{
    bool found = false;
    list_t *last = client->stored.previous, *link = NULL;
    for (uint32_t looks = 0; looks < LOOKS_PER_VISIT && link != last && !found; looks++) {
        link = list_take_first(&client->stored);
        list_append(&client->stored, link);
        found = look(CONTAINER_OF(link, stored_op_t, of_client));
        engine_count(client->engine, 1);
    }
    return found;
}
