/* One rank of a communicator, as the library keeps it. */
#ifndef CLIENT_COMM_H
#define CLIENT_COMM_H

#include "api/redop.h"
#include "blink/blink.h"
#include "gpu/gpu.h"
#include "submit/ops.h"

#include "blink.pb-c.h"

struct blink_comm {
    blink_context_t *context;
    blink_comm_t *next,
        **link; /* of the context's; under control.lock; link is NULL while it is not among them */
    uint32_t rank, rank_count;
    uint32_t device;             /* this and member are set when the daemon answers and constant then */
    uint32_t member;             /* the daemon's handle; 0 before */
    blink_algorithm_t algorithm; /* this and the next: as asked for */
    unsigned int op_timeout_ms;
    bool on_gpu;                      /* this and the next: set with `member` */
    uint8_t gpu_uuid[GPU_UUID_BYTES]; /* of the rank's GPU */
    _Atomic(gpu_t *) gpu;             /* that GPU, once this process's driver has found it */
    struct stream_window *windows;    /* of its streams; under streams.lock */
    blink_unique_id_t id;
    pthread_mutex_t graphs_lock;    /* to make the next */
    _Atomic(blink_comm_t *) graphs; /* for the replays of captured ops; NULL until there are any */
    ops_queue_t queue;
    redops_t redops;
    _Atomic bool finalized;      /* accepts no more ops */
    blink_result_t async_result; /* this and async_text: under control.lock */
    char async_text[BLINK_ERROR_TEXT_BYTES];
};

/** The daemon has answered: enter the communicator among the context's. Under control.lock. */
void comm_joined(blink_comm_t *comm, const Blinkwire__CommInitReply *reply);

/**
 * The communicator of the same ranks by which captured ops run: replays and other ops are each in an order of
 * their own, for a replay's turn comes with its stream, not with a call. The first time it waits until all
 * ranks ask for it. Errors: those of blink_comm_init_rank().
 */
blink_result_t comm_for_graphs(blink_comm_t *comm, blink_comm_t **graphs);

/** An op that nobody waits for has ended (ops_ended_t): the first failure is the communicator's own. `queue`
 * is that of a communicator. */
void comm_op_ended(void *queue, blink_result_t result, const char *text);

/** Free the handle; it is in no list any more. */
void comm_free(blink_comm_t *comm);

/** Check a configuration. Errors: INVALID_ARGUMENT. */
blink_result_t comm_check_config(const blink_comm_config_t *config);

/** The daemon gave a communicator up. Under control.lock; `comms` is the context's list. */
void comm_lost(blink_comm_t *comms, const Blinkwire__CommLost *event);

#endif
