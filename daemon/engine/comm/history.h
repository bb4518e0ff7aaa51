/*
 * The last ops of a communicator: who came to each when, what it waited for, and how it ended. The memory
 * grows with what there is to remember, and is charged to the communicator's tenant while that leaves half of
 * the budget to ops that live. The engine thread's.
 */
#ifndef BLINK_ENGINE_HISTORY_H
#define BLINK_ENGINE_HISTORY_H

#include "base/budget.h"

/* So many ops are remembered, and of each so many ranks of this host: those that have not come, then the
 * first. */
#define HISTORY_OPS   1024u
#define HISTORY_RANKS 64u

#define RECORD_NOT_COME UINT32_MAX

/* A rank's side of an op. */
typedef struct op_arrival {
    uint32_t rank;
    uint32_t came_us; /* after the first one; RECORD_NOT_COME: not yet */
} op_arrival_t;

/* Why an op does not run, in the order in which it may meet them. */
typedef enum op_wait {
    WAIT_PLAN,   /* for its plan */
    WAIT_CLIENT, /* for copies of staged memory, or for streams */
    WAIT_SCRATCH,
    OP_WAITS
} op_wait_t;

/* What an op that has not ended does. */
typedef enum op_doing {
    DOING_ENDED,
    DOING_GATHERING, /* ranks are missing, or earlier ops hold it up */
    DOING_PLAN,
    DOING_CLIENT,
    DOING_SCRATCH,
    DOING_RUN,
} op_doing_t;

typedef struct op_record {
    uint64_t sequence; /* number of the op in its communicator */
    uint64_t payload_bytes;
    uint64_t began_us; /* its first submission, by the clock of base/clock.h */
    uint64_t ended_us; /* 0: it has not */
    uint64_t run_us;   /* of its runs, as far as it is known */
    uint32_t waited_us[OP_WAITS];
    uint32_t arrival_count;
    blink_result_t result;
    op_doing_t doing;
    uint32_t root, peer; /* of a transfer: source and destination */
    uint8_t opcode, datatype, redop;
    op_arrival_t arrivals[];
} op_record_t;

/* Of a record with arrivals of so many ranks. */
static inline size_t record_bytes(uint32_t ranks)
{
    return sizeof(op_record_t) + ranks * sizeof(op_arrival_t);
}

/* So many ranks of a communicator that has `members` on this host are in each record. */
static inline uint32_t record_ranks(uint32_t members)
{
    return members > HISTORY_RANKS ? HISTORY_RANKS : members < 2 ? 2 : members;
}

typedef struct history {
    char *records; /* of `stride` bytes each, the n-th op that ended at n % capacity */
    size_t stride;
    uint32_t capacity;
    bool is_full;       /* the capacity stays, and the newest record takes the place of the oldest */
    uint64_t total;     /* ops that were remembered so far */
    account_t *account; /* not followed by history_free(), so history_credit() comes first */
} history_t;

void history_init(history_t *history, account_t *account, uint32_t members);

/* The place of a new record, which the caller fills; NULL: there is no memory for any. */
op_record_t *history_add(history_t *history);

/* The number-th op that was remembered, counted from 0; NULL: it is not there, or not any more. */
const op_record_t *history_get(const history_t *history, uint64_t number);

/* No op follows: credit the account, which may go before the records do. */
void history_credit(history_t *history);

/* No op follows: give the memory of unused places back. */
void history_trim(history_t *history);

void history_free(history_t *history);

#endif
