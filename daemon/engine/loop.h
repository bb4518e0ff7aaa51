/*
 * What belongs to the engine thread as a whole. Every field is the engine thread's unless its comment says
 * otherwise.
 */
#ifndef BLINK_ENGINE_LOOP_H
#define BLINK_ENGINE_LOOP_H

#include "engine/plans.h"
#include "engine/rank.h"

#include <pthread.h>

struct engine {
    engine_config_t config;
    pthread_t thread;
    mailbox_t mailbox;
    int wake_fd, epoll_fd;
    _Atomic bool sleeping; /* written by the engine thread, read by posters */
    bool stop;
    bool crowded;             /* more runnable threads than cores */
    uint32_t clients_waiting; /* with outstanding submissions */
    uint32_t clients_joined;  /* members of a communicator */
    uint32_t long_runs;
    uint32_t watched; /* ops that await what a GPU writes, and stored ops: nobody rings for those */
    engine_client_t *clients;
    uint32_t client_list_version; /* changes with every client added or freed */
    engine_comm_t *busy_comms;
    engine_comm_t *gpu_comms;
    comm_op_t *awaiting, **awaiting_end;       /* ops whose clients copy pieces */
    engine_comm_t *due_comms, **due_comms_end; /* that have more ops to start than one turn does */
    plan_cache_t cache;
    op_batch_t *spare_batches;
    bool one_class; /* the topology is plain memory: one plan serves all sizes */
    struct {        /* room to start a run, by rank */
        const void *inputs[PLAN_RANKS_MAX];
        void *outputs[PLAN_RANKS_MAX];
        uint64_t input_strides[PLAN_RANKS_MAX], output_strides[PLAN_RANKS_MAX], scalars[PLAN_RANKS_MAX];
    } run;
    _Atomic uint64_t op_count, failed_op_count, payload_bytes;
    int gpu_event_fd; /* of the GPU worker attached, in the epoll set; -1: none */
    mailbox_item_t stop_item;
    mailbox_item_t heartbeat_item; /* to the engine, and back to control */
    engine_done_t heartbeat_done;
};

#endif
