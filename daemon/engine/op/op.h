/*
 * One collective or transfer, from its first submission until its last rank is served.
 */
#ifndef BLINK_ENGINE_OP_H
#define BLINK_ENGINE_OP_H

#include "collective.h"
#include "engine/client/region.h"
#include "engine/client/stream.h"
#include "engine/comm/comm.h"
#include "engine/comm/rank.h"
#include "engine/op/signature.h"
#include "engine/plans/plans.h"

/*
 * The states of an op. op_enter() makes every move, and keeps the op in the one list that its state has.
 *
 *   state      meaning                           list                 entered in  may become
 *   GATHERING  entries or active batches lack,   none                 birth       DUE, ENDED
 *              or remote_holds() it
 *   DUE        it may be started                 comm->due            op, plans,  PLANNING, AWAITING, QUEUED,
 *                                                                     run         RUNNING, ENDED
 *   PLANNING   its plan is being made            program->waiting     plans       DUE, ENDED
 *   AWAITING   clients have copies to make for   client->awaited      await, run  QUEUED, RUNNING, ENDED;
 *              its next piece, or streams have                                    AWAITING, of another client
 *              not come to it
 *   QUEUED     no scratch is left for its piece  tenant->queued_runs  lend        RUNNING, AWAITING, ENDED
 *   RUNNING    a piece of it is on the executor  comm->running        run         AWAITING, QUEUED, ENDED
 *   ENDED      it has its result                 none                 op          nothing
 *
 * An op that has ended is freed once none of its entries can come any more; those that come are completed.
 * "Entered in" names the file that moves an op there. op_succeed() and op_fail() move an op to ENDED. Whoever
 * calls them has taken back what run.c and plans.c lent the op: run_cancel() for an op that somebody else
 * wants to end.
 */
typedef enum op_state {
    OP_GATHERING,
    OP_DUE,
    OP_PLANNING,
    OP_AWAITING,
    OP_QUEUED,
    OP_RUNNING,
    OP_ENDED,
} op_state_t;

typedef struct remote_op remote_op_t;

/* One rank's side of an op. */
typedef struct op_entry {
    comm_op_t *op;
    comm_rank_t *rank;
    op_batch_t *batch; /* NULL: not submitted yet */
    list_t of_batch;   /* until it is completed */
    bool completed;
    const void *input; /* NULL: the rank gives nothing */
    void *output;      /* NULL: the rank gets nothing */
    uint64_t input_bytes, output_bytes;
    engine_region_t *input_region, *output_region; /* held */
    bool input_staged, output_staged;              /* input, output: the first slot */
    staging_words_t *window;                       /* if either is */
    stream_ticket_t *ticket;                       /* of its stream; NULL: it need not wait for any */
    uint64_t scalar;
    uint32_t came_us; /* after the op's first submission */
} op_entry_t;

/* What follows from an op's signature, kept so that it is asked once. */
typedef struct op_shape {
    blink_collective_t collective;
    bool is_transfer; /* between two ranks; else every rank has an entry */
    bool has_root;
    uint32_t element_bytes; /* 0 of an unknown type, which fails the op */
    uint64_t payload_bytes; /* as collective.h defines it */
} op_shape_t;

struct comm_op {
    engine_comm_t *comm;
    list_t of_comm;  /* comm->ops */
    list_t of_state; /* op_enter()'s alone, as is `state` */
    op_state_t state;
    uint64_t sequence; /* among the communicator's ops here, from 1 on: what errors call it */
    op_signature_t signature;
    uint32_t first_rank;   /* whose signature it is */
    comm_rank_t *beginner; /* the rank of this host that began the op and is charged for it */
    op_shape_t shape;
    /* A transfer that is planned for its two ranks alone: all communicators then share what is between two
     * devices. False if another rank might have to relay. */
    bool for_pair;
    /* How ranks find it. */
    comm_op_t *next_collective; /* of a collective: the one that was begun after it; NULL: none yet */
    list_t of_bucket, of_pair;  /* of a transfer: match.h */
    /* Its entries. */
    uint32_t entry_count, submitted_count, active_count, completed_count;
    bool has_windows, has_tickets; /* some entry has one */
    uint32_t awaited; /* in OP_AWAITING: the entry whose client it waits for, set before it enters */
    engine_client_t *awaited_client; /* and that client */
    /* Its times. */
    uint64_t began_us, ended_us;
    uint64_t waits_since_us;      /* in a state of op_wait_t */
    uint32_t waited_us[OP_WAITS]; /* before */
    /* Its run. */
    bool is_long;      /* its clients had best sleep */
    uint64_t since_us; /* its first submission, when its last piece ended, or while it runs when that began */
    cached_program_t *program; /* in OP_PLANNING and after it: the program that was asked for; held */
    plan_instance_t *instance; /* lent, while a piece of it runs */
    uint64_t piece_elements;   /* of a block, run at a time */
    uint64_t pieces, piece;    /* how many, and which is next */
    double predicted_us;       /* of all its runs */
    /* How many of its runs that have ended said how long they took, and the sum of those times. */
    uint64_t measured_pieces, measured_ns;
    mailbox_item_t run_end_item; /* worker to engine */
    exec_end_t run_end;
    char *run_text;      /* of a failed run; NULL: none */
    remote_op_t *remote; /* what other hosts have to do with it, until it has ended; NULL: nothing */
    /* Its end. */
    blink_result_t result;
    char *text; /* of a failure; charged, as the op is, to the communicator's tenant */
    op_entry_t
        entries[]; /* of the ranks of this host, in their order; of a transfer source and destination */
};

/* Whether an op in one state may enter the other. */
bool op_may_enter(op_state_t from, op_state_t to);

/* Move an op into a state that it may enter. */
void op_enter(comm_op_t *op, op_state_t state);

/* A new op at the end of the communicator's, begun by this rank. Errors: QUOTA, NO_MEMORY. */
blink_result_t op_create(comm_rank_t *rank, const op_signature_t *signature, const op_shape_t *shape,
                         comm_op_t **op);

/* The entry of a rank of this host in an op: of a transfer to itself the destination's if the rank receives.
 */
static inline op_entry_t *op_entry_of(comm_op_t *op, uint32_t rank, bool receives)
{
    if (op->shape.is_transfer)
        return &op->entries[receives ? op->entry_count - 1 : 0];
    return &op->entries[op->comm->member_of[rank]];
}

/* The rank has submitted its entry, in this batch. */
void op_add_entry(op_entry_t *entry, op_batch_t *batch);

/* A batch has become active (rank.h; NULL: none has): ops whose batches all are now are due. Of a large
 * group a slice is done here, and the rest by ops_activate_more(). */
void ops_activate(op_batch_t *batch);

/* Go on with groups of the communicator that have become active, for a slice. */
void ops_activate_more(engine_comm_t *comm);

/* End an op, and complete its entries. The op is freed once no entry can come any more: the caller does not
 * touch it afterwards. A failed op keeps its first result. */
void op_succeed(comm_op_t *op);
void op_fail(comm_op_t *op, blink_result_t code, const char *text);
void op_failf(comm_op_t *op, blink_result_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sentence as op_failf() makes it: "allreduce 7 of communicator 3: …". */
void op_tell(const comm_op_t *op, char text[BLINK_ERROR_TEXT_BYTES], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Of an op that has ended: complete entries that have come since, and free the op if it can be. */
void op_serve(comm_op_t *op);

/* Whether a rank that has not submitted is leaving. Errors: PEER_LOST. */
blink_result_t op_check_left(const comm_op_t *op);

/* The last rank leaves: free the memory that is kept for the communicator's next op. */
void op_free_spare(engine_comm_t *comm);

/* A rank leaves, and its client may go: ops that it began and others wait for are no longer counted. */
void ops_forget_client(comm_rank_t *rank);

#endif
