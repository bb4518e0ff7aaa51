/*
 * A rank of a communicator, and the order in which its batches of ops become active.
 */
#ifndef BLINK_ENGINE_RANK_H
#define BLINK_ENGINE_RANK_H

#include "engine/engine.h"

typedef struct comm_op comm_op_t;
typedef struct op_entry op_entry_t;
typedef struct stored_op stored_op_t;
typedef struct comm_rank comm_rank_t;

/* What a rank submitted as one, an op or a group of ops. A rank's batches become active in the order of
 * submission, each when the one before it has ended; only then may its ops start. */
typedef struct op_batch {
    struct op_batch *next;    /* of the rank */
    struct op_entry *entries; /* that are not completed */
    uint32_t unfinished;      /* of these */
    bool committed;           /* its last entry has come */
    bool active;
    bool ended; /* its completion is out, or nobody is left to have it */
    uint64_t user_data;
    stored_op_t *replayed; /* whose replay it is: that is told of the end, not the client. Else NULL */
    blink_result_t result; /* the first failure of a entry */
    char *text;            /* of that */
} op_batch_t;

struct comm_rank {
    engine_comm_t *comm;
    engine_client_t *client;
    comm_rank_t *next_membership; /* in the client's bucket */
    uint32_t member;
    uint32_t rank;
    op_batch_t *first_batch, *last_batch;
    comm_op_t *next_collective; /* the op its next collective belongs to; NULL: a new one */
    uint32_t outstanding;       /* batches that have not ended */
    bool leaving, left;
    bool last; /* to leave: the control thread then frees the communicator */
    bool lost; /* how it leaves */
    char text[BLINK_ERROR_TEXT_BYTES];
    engine_done_t done;
    mailbox_item_t item;
};

/* The batch that the rank's next entry belongs to, at the end of its batches; NULL: no memory. */
op_batch_t *rank_open_batch(comm_rank_t *rank);

/* Whether the rank is in the middle of a group. */
bool rank_in_group(const comm_rank_t *rank);

/* Its last entry has come: complete it if its entries are, make it active if it is the rank's first. */
void batch_commit(comm_rank_t *rank, op_batch_t *batch, uint64_t user_data);

/* Complete the batch to its client if it is committed and none of its entries is left. */
void batch_end_if_done(comm_rank_t *rank, op_batch_t *batch);

/* Record a failure that belongs to no op. */
void batch_fail(op_batch_t *batch, blink_result_t code, const char *text);

/* Drop the batch that is not committed, if any; its entries are completed. */
void rank_drop_open_batch(comm_rank_t *rank);

#endif
