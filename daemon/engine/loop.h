/*
 * What belongs to the engine thread as a whole, and what its loop goes round. Every field is the engine
 * thread's unless its comment says otherwise.
 */
#ifndef BLINK_ENGINE_LOOP_H
#define BLINK_ENGINE_LOOP_H

#include "base/list.h"
#include "engine/comm/comm.h"
#include "engine/plans/plans.h"
#include "engine/remote/remote.h"

#include <pthread.h>

struct engine {
    engine_config_t config;
    pthread_t thread;
    mailbox_t mailbox;
    int wake_fd, epoll_fd;
    int gpu_event_fd;     /* of the GPU worker attached, in the epoll set; -1: none */
    uint32_t gpu_workers; /* that have been attached so far */
    uint32_t gpu_stuck;   /* the last of them that was found stuck; read by the control thread once posted */
    mailbox_item_t gpu_stuck_item; /* engine to control */
    _Atomic bool sleeping;         /* written by the engine thread, read by posters */
    bool stop;
    fabric_t *local;          /* this host alone */
    bool crowded;             /* more runnable threads than cores */
    uint32_t clients_waiting; /* with outstanding submissions */
    uint32_t clients_joined;  /* members of a communicator */
    uint32_t long_runs;       /* ops in a run expected to take long */
    /* Nobody rings a doorbell for what a GPU writes, so the loop looks: how many ops are in OP_AWAITING for
     * such a word, and how many ops are stored, which a graph on a GPU may replay. */
    uint32_t awaited_gpu_ops, stored_ops;
    uint32_t replaying;    /* clients with a replay that is submitted slice by slice */
    list_t active_tenants; /* tenant_t.of_active: that have active clients */
    list_t leaving;        /* engine_client_t.of_active: clients whose processes are gone */
    uint32_t resting;      /* clients that are looked at only after they have rung their doorbells */
    bool drowsy;           /* clients are told that the engine sleeps, and it does as soon as… */
    uint32_t unsettled;    /* … so many active clients have been told and looked at since (serve.h), … */
    uint32_t looks_owed;   /* … and so many words that ops await, once more */
    uint64_t now_us;       /* at the last look at the clock */
    uint32_t turn_steps;   /* of this turn */
    uint32_t unheard;      /* steps since doorbells were listened for */
    list_t busy_comms;     /* engine_comm_t.of_busy: that have ops */
    list_t gpu_comms;      /* engine_comm_t.of_gpus: whose devices are on GPUs */
    /* Counts GPU workers that have ended. What belongs to one of them says so by an older number: nothing of
     * it is used from that moment on, and it is ended in slices. */
    uint32_t lost_gpu_workers;
    list_t lost_comms; /* engine_comm_t.of_gpus: of workers that have ended, to be ended */
    char gpu_lost_text[BLINK_ERROR_TEXT_BYTES]; /* how the last one ended */
    list_t spare_batches; /* op_batch_t.of_rank, to be used again; nobody's, hence few */
    uint32_t spare_batch_count;
    fair_round_t due_tenants; /* tenant_t.turn: that have communicators which the loop is to attend to */
    plan_cache_t cache;
    remotes_t remotes;
    struct { /* scratch to start a run, by rank */
        const void *inputs[PLAN_RANKS_MAX];
        void *outputs[PLAN_RANKS_MAX];
        uint64_t input_strides[PLAN_RANKS_MAX], output_strides[PLAN_RANKS_MAX], scalars[PLAN_RANKS_MAX];
        uint64_t output_bytes[PLAN_RANKS_MAX];
    } run;
    _Atomic uint64_t op_count, failed_op_count, payload_bytes;
    _Atomic uint32_t longest_turn; /* in steps */
    mailbox_item_t stop_item;
    mailbox_item_t heartbeat_item; /* to the engine, and back to control */
    engine_done_t heartbeat_done;
};

/* Have the loop attend to the communicator. */
static inline void comm_attend(engine_comm_t *comm)
{
    fair_enter(&comm->tenant->due_comms, &comm->turn);
    fair_enter(&comm->engine->due_tenants, &comm->tenant->turn);
}

static inline void comm_attend_no_more(engine_comm_t *comm)
{
    fair_leave(&comm->turn);
    if (list_is_empty(&comm->tenant->due_comms.waiting))
        fair_leave(&comm->tenant->turn);
}

/* End a communicator of GPUs whose worker has ended. */
void gpu_worker_end_comm(engine_comm_t *comm);

/* Whether the communicator has ended, also if it is still to be ended because the GPU worker was. */
static inline bool comm_has_ended(engine_comm_t *comm)
{
    if (comm->on_gpus && comm->gpu_worker != comm->engine->lost_gpu_workers)
        gpu_worker_end_comm(comm);
    return comm->end_reason != BLINK_OK;
}

/* End some of the communicators whose GPU worker has ended. True if there were any. */
bool gpu_worker_end_some(engine_t *engine);

/* Entries of an op that are one step together. */
#define ENTRIES_PER_STEP 16u

/* Count steps of this turn. A submission taken, an op looked at, cancelled or activated, or a client visited
 * is one, about a tenth of a microsecond; an op that is started is four. How many there may be in a turn does
 * not depend on what tenants have and do. */
static inline void engine_count(engine_t *engine, uint32_t steps)
{
    engine->turn_steps += steps;
}

/* The node of this host's own topology that a node of the fabric is; TOPO_NONE: it is no device of this host.
 * Thread-safe. */
static inline uint32_t engine_own_node(const engine_t *engine, const fabric_t *fabric, uint32_t node)
{
    if (!fabric_spans_hosts(fabric))
        return node;
    uint32_t device = fabric_own_device(fabric, node);
    return device == TOPO_NONE ? TOPO_NONE : engine->config.local->gpus[device];
}

/* Whether the nodes of the fabric, one of which is this host's, are devices on GPUs, as all devices of a
 * communicator are, or none. Thread-safe. */
static inline bool engine_is_on_gpus(const engine_t *engine, const fabric_t *fabric, const uint32_t *nodes,
                                     uint32_t count)
{
    for (uint32_t i = 0; engine->config.gpu_of_node && i < count; i++) {
        uint32_t own = engine_own_node(engine, fabric, nodes[i]);
        if (own != TOPO_NONE)
            return engine->config.gpu_of_node[own] != GPU_NONE;
    }
    return false;
}

/* Tell the control thread of a GPU worker that does not end a run that was aborted long ago. Returns when to
 * look again (µs), or UINT64_MAX. */
uint64_t engine_check_gpu_worker(engine_t *engine, uint64_t now_us);

/* The executor for devices on these nodes. Thread-safe. */
static inline exec_t *engine_exec(const engine_t *engine, const fabric_t *fabric, const uint32_t *nodes,
                                  uint32_t count)
{
    return engine_is_on_gpus(engine, fabric, nodes, count) ? exec_of_cuda(engine->config.cuda)
                                                           : exec_of_host(engine->config.exec);
}

#endif
