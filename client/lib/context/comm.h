/* One rank of a communicator, as the library keeps it: its life, and what has become of it. */
#ifndef CLIENT_COMM_H
#define CLIENT_COMM_H

#include "context/context.h"
#include "context/redops.h"

typedef enum comm_phase {
    COMM_JOINING,
    COMM_FAILED,   /* to join: async_result says why */
    COMM_READY,    /* all ranks have joined */
    COMM_FINALIZED /* and no more ops are accepted */
} comm_phase_t;

struct blink_comm {
    blink_context_t *context;
    list_t of_context; /* under connection.lock */
    _Atomic comm_phase_t phase;
    connection_wait_t join;    /* its answer is taken in by one thread, which ends COMM_JOINING, */
    pthread_mutex_t join_lock; /* under this */
    uint32_t rank, rank_count;
    char name[BLINK_NAME_BYTES]; /* "": none */
    uint32_t member;             /* the daemon's handle, constant once it is ready */
    bool spans_hosts;            /* constant then, too */
    blink_algorithm_t algorithm; /* this and the next two: as asked for */
    unsigned int init_timeout_ms;
    _Atomic unsigned int op_timeout_ms;
    blink_unique_id_t id;
    rank_gpu_t gpu;
    stream_rank_t streams;
    pthread_mutex_t graphs_lock;    /* to make the next */
    _Atomic(blink_comm_t *) graphs; /* for the replays of captured ops; NULL until there are any */
    ops_queue_t queue;
    redops_t redops;
    int aborting; /* threads in comm_abort(); this and the next two: under connection.lock */
    blink_result_t async_result;
    char async_text[BLINK_ERROR_TEXT_BYTES];
};

/** The communicator of whose ranks another one is made: who goes from it does not come to the other, and if
 * it ends there is no other, unless that is of its survivors. */
typedef struct comm_parent {
    const blink_comm_t *comm; /* NULL: there is none */
    const uint32_t *ranks;    /* by rank of the other one: the rank in this one; NULL: the same */
    bool of_survivors;
} comm_parent_t;

/** Acquire: pairs with the stores of a phase, before which all was written that is constant from then on. */
static inline comm_phase_t comm_phase(const blink_comm_t *comm)
{
    return atomic_load_explicit(&comm->phase, memory_order_acquire);
}

/** Begin to join as a rank. The configuration has been checked. comm_destroy() after a success. Errors:
 * NO_MEMORY, SYSTEM. */
blink_result_t comm_join(blink_context_t *context, const comm_parent_t *parent, const blink_unique_id_t *id,
                         uint32_t rank_count, uint32_t rank, const blink_comm_config_t *config,
                         blink_comm_t **comm);

/** Wait for so long (UINT_MAX: for ever) until the communicator is ready or will not be. Errors: PROTOCOL,
 * what the daemon answers: it will not be ready. */
blink_result_t comm_await_ready(blink_comm_t *comm, unsigned int timeout_ms, bool *ready);

/** Whether a call, of this name, may use the communicator. Errors: INVALID_ARGUMENT (it is not ready). */
blink_result_t comm_check_ready(const blink_comm_t *comm, const char *call);

/** Wait until the communicator is ready, or free the handle if it will not be. Errors: those of
 * comm_await_ready(). */
blink_result_t comm_finish_joining(blink_comm_t *joining, blink_comm_t **comm);

/** Join as a rank; waits until all ranks have. Errors: those of comm_join() and comm_await_ready(). */
blink_result_t comm_create(blink_context_t *context, const comm_parent_t *parent, const blink_unique_id_t *id,
                           uint32_t rank_count, uint32_t rank, const blink_comm_config_t *config,
                           blink_comm_t **comm);

/** How the communicator was configured, with its rank's device. */
blink_comm_config_t comm_config(const blink_comm_t *comm);

/** Leave, and free the handle once its ops have ended; a communicator that is not ready is aborted before.
 * Errors: INVALID_ARGUMENT (ops were submitted meanwhile: the handle stays until the context is closed),
 * NO_MEMORY, SYSTEM (the daemon does not know that a rank which joins leaves: the handle stays), what the
 * daemon answers. */
blink_result_t comm_destroy(blink_comm_t *comm);

/** Free the handle of a context that is closed. */
void comm_free(blink_comm_t *comm);

/** Change how long ops may wait for ranks. Errors: what the daemon answers. */
blink_result_t comm_set_timeout(blink_comm_t *comm, unsigned int op_timeout_ms);

/** End the ops of all ranks with ABORTED, or their joining. Errors: what the daemon answers. */
blink_result_t comm_abort(blink_comm_t *comm);

/**
 * The communicator of the same ranks by which captured ops run: replays and other ops are each in an order of
 * their own, for a replay comes when its stream does, not with a call. The first time it waits until all
 * ranks ask for it. Errors: those of comm_create().
 */
blink_result_t comm_for_graphs(blink_comm_t *comm, blink_comm_t **graphs);

/** What the communicator has come to: BLINK_OK, or the failure that has ended it, with its sentence. */
blink_result_t comm_state(blink_comm_t *comm);

/** An op that nobody waits for has ended (ops_ended_t): the first failure is the communicator's own. `queue`
 * is that of a communicator. */
void comm_op_ended(void *queue, blink_result_t result, const char *text);

/** Whether there are captured ops, for whose replays streams wait at times that nobody here knows. */
bool comms_have_graphs(blink_context_t *context);

/** The daemon says that a communicator has ended. */
void comms_lost(blink_context_t *context, const Blinkwire__CommLost *event);

#endif
