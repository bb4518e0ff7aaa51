/*
 * Batches: what a rank submits as one, in the order of submission.
 */
#include "engine/rank.h"

#include "engine/client.h"
#include "engine/loop.h"
#include "engine/op.h"
#include "engine/replay.h"
#include "engine/run.h"

#include <stdlib.h>
#include <string.h>

bool rank_in_group(const comm_rank_t *rank)
{
    return rank->last_batch && !rank->last_batch->committed;
}

op_batch_t *rank_open_batch(comm_rank_t *rank)
{
    engine_t *engine = rank->comm->engine;
    if (rank_in_group(rank))
        return rank->last_batch;
    op_batch_t *batch = engine->spare_batches;
    if (batch)
        engine->spare_batches = batch->next;
    else
        batch = malloc(sizeof(*batch));
    if (!batch)
        return NULL;
    *batch = (op_batch_t){0};
    if (rank->last_batch)
        rank->last_batch->next = batch;
    else
        rank->first_batch = batch;
    rank->last_batch = batch;
    rank->outstanding++;
    return batch;
}

static void batch_recycle(engine_t *engine, op_batch_t *batch)
{
    free(batch->text);
    batch->next = engine->spare_batches;
    engine->spare_batches = batch;
}

/* Let the ops of a rank's oldest batch start, if nothing else keeps them. */
static void rank_activate(comm_rank_t *rank)
{
    op_batch_t *batch = rank->first_batch;
    if (!batch || !batch->committed || batch->active)
        return;
    batch->active = true;
    for (op_entry_t *entry = batch->entries; entry; entry = entry->next) {
        comm_op_t *op = entry->op;
        entry->previous_next = NULL;
        if (++op->active_count == op->entry_count && op->result == BLINK_OK)
            op_make_due(op);
    }
    batch->entries = NULL; /* from here on entries end one by one */
}

static void rank_pop_ended(comm_rank_t *rank)
{
    while (rank->first_batch && rank->first_batch->ended) {
        op_batch_t *batch = rank->first_batch;
        rank->first_batch = batch->next;
        if (!batch->next)
            rank->last_batch = NULL;
        batch_recycle(rank->comm->engine, batch);
    }
    rank_activate(rank);
}

void batch_end_if_done(comm_rank_t *rank, op_batch_t *batch)
{
    if (!batch->committed || batch->unfinished > 0)
        return;
    batch->ended = true;
    rank->outstanding--;
    if (batch->replayed)
        stream_replay_ended(batch->replayed, batch->result, batch->text);
    else
        client_complete(rank->client, batch->user_data, batch->result, batch->text);
    rank_pop_ended(rank);
}

void batch_commit(comm_rank_t *rank, op_batch_t *batch, uint64_t user_data)
{
    batch->committed = true;
    batch->user_data = user_data;
    if (batch->unfinished == 0)
        batch_end_if_done(rank, batch);
    else if (batch == rank->first_batch)
        rank_activate(rank);
}

void batch_fail(op_batch_t *batch, blink_result_t code, const char *text)
{
    if (batch->result != BLINK_OK)
        return;
    batch->result = code;
    batch->text = text ? strdup(text) : NULL; /* without memory the code must do */
}

void rank_drop_open_batch(comm_rank_t *rank)
{
    op_batch_t *batch = rank->last_batch;
    if (!batch || batch->committed || batch->ended)
        return;
    batch->ended = true;
    rank->outstanding--;
    rank_pop_ended(rank);
}
