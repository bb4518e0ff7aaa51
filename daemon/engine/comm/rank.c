#include "engine/comm/rank.h"

#include "engine/client/client.h"
#include "engine/client/stored.h"
#include "engine/loop.h"

#include <stdlib.h>
#include <string.h>

static op_batch_t *batch_of(list_t *link)
{
    return CONTAINER_OF(link, op_batch_t, of_rank);
}

op_batch_t *rank_open_batch(comm_rank_t *rank)
{
    if (rank_in_group(rank))
        return batch_of(rank->batches.previous);
    list_t *spare = list_take_first(&rank->comm->engine->spare_batches);
    op_batch_t *batch = spare ? batch_of(spare) : malloc(sizeof(*batch));
    if (!batch)
        return NULL;
    *batch = (op_batch_t){0};
    list_init(&batch->of_activating);
    list_init(&batch->entries);
    list_init(&batch->active_entries);
    list_append(&rank->batches, &batch->of_rank);
    rank->outstanding++;
    return batch;
}

void batch_fail(op_batch_t *batch, blink_result_t code, const char *text)
{
    if (batch->result != BLINK_OK)
        return;
    batch->result = code;
    batch->text = text ? strdup(text) : NULL; /* without memory the code must do */
}

/* Recycle the rank's oldest batches, which have ended, and make the next one active if it is committed. */
static op_batch_t *rank_next_active(comm_rank_t *rank)
{
    op_batch_t *first = LIST_FIRST(&rank->batches, op_batch_t, of_rank);
    while (first && first->ended) {
        free(first->text);
        list_remove(&first->of_rank);
        list_prepend(&rank->comm->engine->spare_batches,
                     &first->of_rank); /* the next to be used is in cache */
        first = LIST_FIRST(&rank->batches, op_batch_t, of_rank);
    }
    if (!first || !first->committed || first->active || first->dropped)
        return NULL;
    first->active = true;
    return first;
}

static op_batch_t *batch_ended(comm_rank_t *rank, op_batch_t *batch)
{
    batch->ended = true;
    list_remove(&batch->of_activating);
    rank->outstanding--;
    if (rank->leaving)
        comm_attend(rank->comm);
    return rank_next_active(rank);
}

static op_batch_t *batch_complete(comm_rank_t *rank, op_batch_t *batch)
{
    if (batch->dropped)
        return batch_ended(rank, batch);
    if (batch->replayed)
        stored_replay_ended(batch->replayed, batch->result, batch->text);
    else
        client_complete(rank->client, batch->user_data, batch->result, batch->text);
    return batch_ended(rank, batch);
}

op_batch_t *rank_commit(comm_rank_t *rank, op_batch_t *batch, uint64_t user_data)
{
    batch->committed = true;
    batch->user_data = user_data;
    return batch->unfinished == 0 ? batch_complete(rank, batch) : rank_next_active(rank);
}

op_batch_t *rank_entry_completed(comm_rank_t *rank, op_batch_t *batch, blink_result_t result,
                                 const char *text)
{
    batch->unfinished--;
    if (result != BLINK_OK)
        batch_fail(batch, result, text);
    return batch->committed && batch->unfinished == 0 ? batch_complete(rank, batch) : NULL;
}

op_batch_t *rank_drop_open_batch(comm_rank_t *rank)
{
    if (!rank_in_group(rank))
        return NULL;
    op_batch_t *batch = batch_of(rank->batches.previous);
    batch->committed = batch->dropped = true;
    return batch->unfinished == 0 ? batch_ended(rank, batch) : NULL;
}
