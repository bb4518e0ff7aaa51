/*
 * One collective or transfer, from its first submission until its last rank is served.
 */
#ifndef BLINK_ENGINE_OP_H
#define BLINK_ENGINE_OP_H

#include "base/list.h"
#include "engine/comm.h"
#include "engine/plans.h"
#include "engine/rank.h"
#include "engine/stream.h"

/* One rank's entry in an op. */
typedef struct op_entry {
    comm_op_t *op;
    comm_rank_t *rank;
    op_batch_t *batch;                      /* NULL: not submitted yet */
    struct op_entry *next, **previous_next; /* of the batch, until it is active; then the latter is NULL */
    bool completed;
    const void *input;
    void *output;
    engine_region_t *input_region, *output_region; /* held */
    bool input_staged, output_staged;              /* input, output: the first slot */
    staging_words_t *window;                       /* if either is */
    stream_ticket_t *ticket;                       /* its turn on a stream; NULL: it need not wait for any */
    uint64_t scalar;
} op_entry_t;

/* What all ranks must agree on. */
typedef struct op_signature {
    uint8_t opcode; /* SEND for both ends of a transfer */
    uint8_t datatype;
    uint8_t redop;
    uint32_t root; /* of a transfer: the source */
    uint32_t peer; /* of a transfer: the destination */
    uint64_t count;
} op_signature_t;

typedef enum op_state {
    OP_GATHERING, /* ranks have not submitted, or their batches are not active; or it has ended */
    OP_DUE,       /* to be started */
    OP_PLANNING,
    OP_RUNNING,  /* on the executor */
    OP_AWAITING, /* the clients' copies for the next piece, or their streams */
} op_state_t;

/* One collective or transfer, from its first submission until its last rank is served. */
struct comm_op {
    engine_comm_t *comm;
    comm_op_t *next, **previous_next; /* the communicator's ops, oldest first */
    comm_op_t *
        next_match; /* collectives: the next one; unmatched transfers: the oldest of the bucket's next pair */
    comm_op_t *next_of_pair, *last_of_pair; /* unmatched transfers: the next; of the oldest, the newest */
    comm_op_t *next_due; /* of those to be started, of those waiting for one plan, of those awaiting copies */
    uint64_t sequence;
    op_signature_t signature;
    uint32_t first_rank; /* whose signature it is */
    uint32_t entry_count, submitted_count, active_count, completed_count;
    op_state_t state;
    bool is_long;                   /* its clients had best sleep */
    uint64_t since_us;              /* its first submission, or when its last piece ended */
    blink_result_t result;          /* not BLINK_OK: failed; entries are completed as they come */
    char *text;                     /* of the failure */
    struct comm_instance *instance; /* while planned and not ended */
    uint64_t piece_elements;        /* of a block, run at a time */
    uint64_t pieces, piece;         /* how many, and which is next */
    mailbox_item_t run_end_item;    /* worker to engine */
    exec_end_t run_end;
    char *run_text;       /* of a failed run; NULL: none */
    op_entry_t entries[]; /* by rank; of a transfer source and destination */
};

/* Elements in one rank's input or output; 0 where it has none. */
uint64_t op_input_elements(const engine_comm_t *comm, const op_signature_t *signature, uint32_t rank);

uint64_t op_output_elements(const engine_comm_t *comm, const op_signature_t *signature, uint32_t rank);

/* Of the payload, as collective.h defines it. */
uint64_t op_payload_bytes(const comm_op_t *op);

/* Whether it is between two ranks, one of which sends and the other receives. */
bool op_is_transfer(const comm_op_t *op);

/* A new op at the end of the communicator's. Errors: QUOTA, NO_MEMORY. */
blink_result_t op_create(engine_comm_t *comm, const op_signature_t *signature, uint32_t rank, comm_op_t **op);

/* The entry of a rank in an op: of a transfer to itself the source's if that is not submitted yet. */
op_entry_t *op_entry_of(comm_op_t *op, uint32_t rank, bool receives);

/* The rank has submitted its entry, in this batch. */
void op_add_entry(op_entry_t *entry, op_batch_t *batch);

/* Complete the entries that are submitted, with the op's result; the op is freed once none is missing any
 * more. It must not be running. The others give it a result first; a failed op keeps its first one. */
void op_serve(comm_op_t *op);
void op_succeed(comm_op_t *op);
void op_fail(comm_op_t *op, blink_result_t code, const char *text);
void op_failf(comm_op_t *op, blink_result_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether a rank that has not submitted is leaving. Errors: PEER_LOST. */
blink_result_t op_check_left(const comm_op_t *op);

/* A rank leaves, and its client may go: ops that it began and others wait for are no longer counted. */
void ops_forget_client(engine_comm_t *comm, uint32_t rank);

/* Free an op that has served everybody it can. False if it still waits for something. */
bool op_free_if_done(comm_op_t *op);

#endif
