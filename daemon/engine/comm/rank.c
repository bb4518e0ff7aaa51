#include "engine/comm/rank.h"

#include "engine/client/client.h"
#include "engine/client/stored.h"
#include "engine/loop.h"

#include <stdlib.h>
#include <string.h>

/* Of the engine, for ranks of all tenants. */
#define SPARE_BATCHES_MAX 1024u

static op_batch_t *batch_of(list_t *link)
{
    return CONTAINER_OF(link, op_batch_t, of_rank);
}

static account_t *account_of(const comm_rank_t *rank)
{
    return &rank->comm->tenant->account;
}

static blink_result_t batch_alloc(comm_rank_t *rank, op_batch_t **allocated)
{
    engine_t *engine = rank->comm->engine;
    BLINK_TRY(account_charge(account_of(rank), BUDGET_OP_BYTES, sizeof(op_batch_t)));
    list_t *spare = list_take_first(&engine->spare_batches);
    engine->spare_batch_count -= spare != NULL;
    *allocated = spare ? batch_of(spare) : malloc(sizeof(op_batch_t));
    if (*allocated)
        return BLINK_OK;
    account_credit(account_of(rank), BUDGET_OP_BYTES, sizeof(op_batch_t));
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
}

static void batch_free(comm_rank_t *rank, op_batch_t *batch)
{
    engine_t *engine = rank->comm->engine;
    list_remove(&batch->of_rank);
    account_free_text(account_of(rank), BUDGET_OP_BYTES, batch->text);
    account_credit(account_of(rank), BUDGET_OP_BYTES, sizeof(*batch));
    if (engine->spare_batch_count == SPARE_BATCHES_MAX) {
        free(batch);
        return;
    }
    list_prepend(&engine->spare_batches, &batch->of_rank); /* the next to be used is in cache */
    engine->spare_batch_count++;
}

blink_result_t rank_open_batch(comm_rank_t *rank, op_batch_t **opened)
{
    op_batch_t *batch;
    if (rank_in_group(rank)) {
        *opened = batch_of(rank->batches.previous);
        return BLINK_OK;
    }
    BLINK_TRY(batch_alloc(rank, &batch));
    *batch = (op_batch_t){0};
    list_init(&batch->of_activating);
    list_init(&batch->entries);
    list_init(&batch->active_entries);
    list_append(&rank->batches, &batch->of_rank);
    rank->outstanding++;
    *opened = batch;
    return BLINK_OK;
}

void batch_fail(const comm_rank_t *rank, op_batch_t *batch, blink_result_t code, const char *text)
{
    if (batch->result != BLINK_OK)
        return;
    batch->result = code;
    if (text) /* without memory or budget the code must do */
        batch->text = account_copy_text(account_of(rank), BUDGET_OP_BYTES, text);
}

/* Recycle the rank's oldest batches, which have ended, and make the next one active if it is committed. */
static op_batch_t *rank_next_active(comm_rank_t *rank)
{
    op_batch_t *first = LIST_FIRST(&rank->batches, op_batch_t, of_rank);
    while (first && first->ended) {
        batch_free(rank, first);
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

/* Why a batch failed. There may have been no memory or budget for what its ops said, least of all when that
 * is why the communicator has ended. */
static const char *batch_text(const comm_rank_t *rank, const op_batch_t *batch)
{
    bool as_ended = batch->result != BLINK_OK && batch->result == rank->comm->end_reason;
    return !batch->text && as_ended ? rank->comm->end_text : batch->text;
}

static op_batch_t *batch_complete(comm_rank_t *rank, op_batch_t *batch)
{
    if (batch->dropped)
        return batch_ended(rank, batch);
    if (batch->replayed)
        stored_replay_ended(batch->replayed, batch->result, batch_text(rank, batch));
    else
        client_complete(rank->client, batch->user_data, batch->result, batch_text(rank, batch));
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
        batch_fail(rank, batch, result, text);
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
