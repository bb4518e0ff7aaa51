/*
 * What belongs to the engine thread as a whole, and what its loop goes round. Every field is the engine
 * thread's unless its comment says otherwise.
 */
#ifndef BLINK_ENGINE_LOOP_H
#define BLINK_ENGINE_LOOP_H

#include "base/list.h"
#include "engine/comm/comm.h"
#include "engine/plans/plans.h"

#include <pthread.h>

struct engine {
    engine_config_t config;
    pthread_t thread;
    mailbox_t mailbox;
    int wake_fd, epoll_fd;
    int gpu_event_fd;      /* of the GPU worker attached, in the epoll set; -1: none */
    _Atomic bool sleeping; /* written by the engine thread, read by posters */
    bool stop;
    bool one_class;           /* the topology is plain memory: one plan serves all sizes */
    bool crowded;             /* more runnable threads than cores */
    uint32_t clients_waiting; /* with outstanding submissions */
    uint32_t clients_joined;  /* members of a communicator */
    uint32_t long_runs;       /* ops in a run expected to take long */
    /* Nobody rings a doorbell for what a GPU writes, so the loop looks: how many ops are in OP_AWAITING for
     * such a word, and how many ops are stored, which a graph on a GPU may replay. */
    uint32_t awaited_gpu_ops, stored_ops;
    list_t clients;       /* engine_client_t.of_engine */
    list_t busy_comms;    /* engine_comm_t.of_busy: that have ops */
    list_t due_comms;     /* engine_comm_t.of_due: that the loop is to attend to */
    list_t gpu_comms;     /* engine_comm_t.of_gpus: whose devices are on GPUs */
    list_t awaiting;      /* ops in OP_AWAITING (op.h) */
    list_t spare_batches; /* op_batch_t.of_rank, to be used again */
    plan_cache_t cache;
    struct { /* scratch to start a run, by rank */
        const void *inputs[PLAN_RANKS_MAX];
        void *outputs[PLAN_RANKS_MAX];
        uint64_t input_strides[PLAN_RANKS_MAX], output_strides[PLAN_RANKS_MAX], scalars[PLAN_RANKS_MAX];
    } run;
    _Atomic uint64_t op_count, failed_op_count, payload_bytes;
    mailbox_item_t stop_item;
    mailbox_item_t heartbeat_item; /* to the engine, and back to control */
    engine_done_t heartbeat_done;
};

/* Have the loop attend to the communicator: start what is due of it, and let ranks go that are leaving. */
static inline void comm_attend(engine_comm_t *comm)
{
    if (list_is_empty(&comm->of_due))
        list_append(&comm->engine->due_comms, &comm->of_due);
}

/* Whether a topology node is a device on a GPU. Thread-safe. */
static inline bool engine_node_is_gpu(const engine_t *engine, uint32_t node)
{
    return engine->config.gpu_of_node && engine->config.gpu_of_node[node] != GPU_NONE;
}

/* The executor for devices on this node. Thread-safe. */
static inline exec_t *engine_exec(const engine_t *engine, uint32_t node)
{
    return engine_node_is_gpu(engine, node) ? exec_of_cuda(engine->config.cuda)
                                            : exec_of_host(engine->config.exec);
}

#endif
