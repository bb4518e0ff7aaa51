/*
 * A rank of a communicator, and the order of its batches: a rank's batches become active one by one, in the
 * order of submission, each when the one before it has ended; only then may the ops of a batch start.
 */
#ifndef BLINK_ENGINE_RANK_H
#define BLINK_ENGINE_RANK_H

#include "base/list.h"
#include "engine/engine.h"

typedef struct comm_op comm_op_t;
typedef struct comm_rank comm_rank_t;
typedef struct engine_region engine_region_t;
typedef struct stored_op stored_op_t;

/* What a rank submitted as one, an op or a group of ops. */
typedef struct op_batch {
    list_t of_rank;        /* comm_rank_t.batches, or engine_t.spare_batches */
    list_t of_activating;  /* engine_comm_t.activating, while it is active and some entry is not */
    list_t entries;        /* op_entry_t.of_batch: that are neither active nor completed */
    list_t active_entries; /* op_entry_t.of_batch: that are active and not completed */
    uint32_t unfinished;   /* entries that are not completed */
    bool committed;        /* its last entry has come, or will not come */
    bool dropped;          /* it will not come, and nobody waits for the batch's completion */
    bool active;
    bool ended; /* its completion has been written, or its client is gone */
    uint64_t user_data;
    stored_op_t *replayed; /* the stored op whose replay it is, which hears of the end instead of the client;
                              else NULL */
    blink_result_t result; /* the first failure of an entry */
    char *text;            /* of that; charged, as the batch is, to the communicator's tenant */
} op_batch_t;

struct comm_rank {
    engine_comm_t *comm;
    engine_client_t *client;
    list_t of_client; /* in its bucket of the client's memberships */
    uint32_t member;
    uint32_t rank;
    list_t batches;             /* op_batch_t.of_rank, oldest first */
    uint32_t outstanding;       /* batches that have not ended */
    list_t stored;              /* stored_op_t.of_rank */
    uint32_t begun_ops;         /* live ops whose first submission was this rank's */
    comm_op_t *next_collective; /* the op its next collective belongs to; NULL: a new one */
    bool leaving, left;
    bool last; /* to leave: the control thread then frees the communicator */
    bool lost; /* how it leaves: its client is gone */
    char text[BLINK_ERROR_TEXT_BYTES];
    engine_done_t done;
    mailbox_item_t item;
};

/* Whether the rank is in the middle of a group. */
static inline bool rank_in_group(const comm_rank_t *rank)
{
    return !list_is_empty(&rank->batches) &&
           !CONTAINER_OF(rank->batches.previous, op_batch_t, of_rank)->committed;
}

/* The batch that the rank's next entry belongs to, at the end of its batches. Errors: QUOTA, NO_MEMORY. */
blink_result_t rank_open_batch(comm_rank_t *rank, op_batch_t **batch);

/* Add an entry to a batch that is not committed. */
static inline void batch_add(op_batch_t *batch, list_t *entry)
{
    list_append(&batch->entries, entry);
    batch->unfinished++;
}

/* Record a failure that belongs to no entry, of a batch of this rank's. The first one of a batch wins. */
void batch_fail(const comm_rank_t *rank, op_batch_t *batch, blink_result_t code, const char *text);

/*
 * What may end a batch. Each returns the batch of the rank that has become active by it, whose ops may start
 * now as far as this rank is concerned, or NULL.
 */

/* The batch's last entry has come. */
op_batch_t *rank_commit(comm_rank_t *rank, op_batch_t *batch, uint64_t user_data);

/* An entry of the batch, already taken off its list, is completed; result and text are its op's. */
op_batch_t *rank_entry_completed(comm_rank_t *rank, op_batch_t *batch, blink_result_t result,
                                 const char *text);

/* The rest of the batch that is not committed, if there is one, will not come: the batch ends, without a
 * completion, as soon as its entries are completed. */
op_batch_t *rank_drop_open_batch(comm_rank_t *rank);

#endif
