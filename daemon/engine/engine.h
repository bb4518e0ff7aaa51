/*
 * The engine thread: polls the rings of all clients, checks and matches submissions, has plans made, starts
 * runs on the executor and completes them. It owns the queues; the control thread owns the objects and tells
 * the engine about them through the calls below.
 *
 * Every call here is made by the control thread, returns at once and takes effect in the order of the calls.
 * Where a call takes an engine_done_t, that is called later on the control thread (through config.control),
 * exactly once.
 */
#ifndef BLINK_ENGINE_H
#define BLINK_ENGINE_H

#include "base/label.h"
#include "base/mailbox.h"
#include "base/settings.h"
#include "base/tenant.h"
#include "engine/comm/history.h"
#include "engine/plans/fabric.h"
#include "engine/plans/plan_use.h"
#include "engine/plans/word.h"
#include "exec/cuda/exec_cuda.h"
#include "exec/host/exec_host.h"
#include "net/data/data.h"
#include "ring.h"
#include "topo/topo.h"

#include <stdalign.h>

typedef struct engine engine_t;
typedef struct engine_client engine_client_t; /* one client's ring and regions */
typedef struct engine_comm engine_comm_t;     /* one communicator's queues */
typedef struct engine_region engine_region_t; /* a region of a client's memory */

typedef struct engine_done {
    void (*call)(void *context);
    void *context;
} engine_done_t;

typedef struct engine_config {
    const settings_t *settings;  /* borrowed, as all pointers here */
    exec_host_t *exec;           /* outlives the engine */
    exec_cuda_t *cuda;           /* outlives the engine; NULL: no GPUs */
    const uint32_t *gpu_of_node; /* as in exec_cuda_config_t; NULL: no GPUs */
    const topo_t *topo;          /* whose links are counted */
    const topo_t *local;         /* of this host alone: nodes and links have the same indices there */
    data_t *data;       /* outlives the engine; NULL: the daemon has nothing to do with other hosts */
    uint32_t cores;     /* processors of this machine, for the waiting policy */
    mailbox_t *control; /* the control thread's mailbox */
    /* Called on the control thread when the engine itself has ended a communicator (TIMEOUT, QUOTA,
     * NO_MEMORY, …). */
    void (*comm_ended)(void *context, uint32_t comm, blink_result_t reason, const char *text);
    /* Called on the control thread when a GPU worker has not ended a run within run_timeout_s of its abort:
     * its runs end with its process only. worker: its number among those that were attached, from 1. */
    void (*gpu_worker_stuck)(void *context, uint32_t worker);
    /* Called on the control thread: say this to the host that the endpoint leads to, by its session. Not
     * called without `data`. */
    void (*tell_plan)(void *context, data_endpoint_t *endpoint, const plan_word_t *word);
    void *context;
} engine_config_t;

/* Start the engine thread. Errors: NO_MEMORY, SYSTEM. */
blink_result_t engine_create(const engine_config_t *config, engine_t **engine);

/* Stop and join the thread. All clients and communicators must have been removed. */
void engine_stop(engine_t *engine);

/* After engine_stop(), and after the executor is destroyed: a worker that has just handed its last run over
 * may still be on its way out of the engine's mailbox. */
void engine_destroy(engine_t *engine);

/* done: the engine has got through all it was told before; how to see that it is not stuck. One at a time. */
void engine_heartbeat(engine_t *engine, engine_done_t done);

/* Whether the threads that make plans turn. Thread-safe, for one thread. */
bool engine_planner_turns(engine_t *engine);

/* ---- clients ---- */

typedef struct engine_client_config {
    uint32_t client;   /* number, for messages */
    tenant_t *tenant;  /* whose it is; there until the removal is done */
    ring_t ring;       /* daemon side; the engine unmaps it */
    int doorbell_fd;   /* eventfd; the engine closes both */
    int completion_fd; /* of ring_create_event() */
} engine_client_config_t;

/* The engine takes ring and descriptors over, also on failure. Errors: NO_MEMORY, SYSTEM. */
blink_result_t engine_client_add(engine_t *engine, const engine_client_config_t *config,
                                 engine_client_t **client);

/* Forget the client and free it. Its memberships must have been left before (engine_comm_leave called, not
 * necessarily done). done: no lane touches its regions any more. */
void engine_client_remove(engine_client_t *client, engine_done_t done);

/* Whose memory a region is. */
typedef enum engine_region_kind {
    ENGINE_REGION_CLIENT,  /* the client's, on the host or on a GPU */
    ENGINE_REGION_STAGING, /* the daemon's own, on the host: begins with windows (windows.h) */
    ENGINE_REGION_WINDOWS, /* the same, of windows alone, for streams; one per client */
} engine_region_kind_t;

typedef struct engine_region_config {
    uint32_t region; /* unique within the client, not 0 */
    engine_region_kind_t kind;
    void *base;           /* where it is mapped; NULL: on a GPU */
    uint64_t gpu_address; /* where GPUs find it, in the GPU worker; 0: they do not */
    uint64_t bytes;
    const _Atomic bool *poisoned; /* once set, ops that use the region fail with SYSTEM */
} engine_region_config_t;

/* The memory is there, and *poisoned valid, until engine_region_remove's done. Errors: NO_MEMORY. */
blink_result_t engine_region_add(engine_client_t *client, const engine_region_config_t *config,
                                 engine_region_t **region);

/* A new GPU worker finds the region there. What the one before it had imported is not used any more after
 * engine_gpu_detach(). */
void engine_region_move(engine_client_t *client, uint32_t region, uint64_t gpu_address);

/* done: no op uses the region any more and none can start to. */
void engine_region_remove(engine_region_t *region, engine_done_t done);

/* Collectives and nops of this client completed so far. Thread-safe. */
uint64_t engine_client_op_count(const engine_client_t *client);

/* ---- the GPU worker ---- */

/* One has started; the engine takes the channel over. Or it has ended, and `text` says how: communicators on
 * GPUs end with SYSTEM, and no region that was told before is used by GPUs again, until it is moved. */
void engine_gpu_attach(engine_t *engine, const gpu_channel_t *channel);
void engine_gpu_detach(engine_t *engine, const char *text);

/* ---- communicators ---- */

/* A rank of this host. */
typedef struct engine_member {
    engine_client_t *client;
    uint32_t member; /* handle in the client's SQEs, unique in the daemon, not 0 */
    uint32_t rank;
} engine_member_t;

/* "communicator 7", or "communicator 7 (name)". */
#define COMM_TITLE_BYTES (LABEL_BYTES + 32)

/* A communicator that has ranks on other hosts. All is borrowed until engine_comm_add() returns. */
typedef struct engine_remote_config {
    uint64_t home; /* the communicator's name on all of its hosts */
    uint32_t number;
    const uint32_t *host_of_rank;      /* by rank: a host of the fabric */
    data_endpoint_t *const *endpoints; /* by host, NULL for this one; the communicator holds them */
    const char *const *versions;       /* by host: of its daemon */
} engine_remote_config_t;

typedef struct engine_comm_config {
    uint32_t comm;     /* number */
    const char *title; /* for sentences and the log; copied */
    tenant_t *tenant;  /* whose it is; there until the last leave is done */
    uint32_t rank_count;
    uint32_t member_count;
    const engine_member_t *members; /* in the order of their ranks; copied */
    fabric_t *fabric;               /* the communicator holds it; NULL: this host's alone */
    const uint32_t *nodes;          /* by rank: the node of its device in the fabric's topology; copied */
    const engine_remote_config_t *remote; /* NULL: all ranks are members */
    blink_algorithm_t algorithm;
    /* How long the communicator's oldest op may wait for ranks, counted from its submission or, if that is
     * later, from the end of the op before it. */
    uint64_t op_timeout_us;
} engine_comm_config_t;

/* All ranks have joined. Errors: NO_MEMORY. */
blink_result_t engine_comm_add(engine_t *engine, const engine_comm_config_t *config, engine_comm_t **comm);

/*
 * A rank leaves. lost: its client is gone: its ops are cancelled and the communicator ends for the
 * others with PEER_LOST and `text`. Not lost (destroy): ops that every rank has submitted still run; ops that
 * this rank did not submit fail with PEER_LOST. done: no op of this rank is under way. After the last rank's
 * leave has been done, nothing is left but engine_comm_free().
 */
void engine_comm_leave(engine_comm_t *comm, uint32_t rank, bool lost, const char *text, engine_done_t done);

/* Take the ops out of a communicator that ended with an error: history_free() when they are not needed any
 * more. Of one that ended without there are none. The last leave is done, as for the next. */
history_t engine_comm_take_lost_ops(engine_comm_t *comm);

void engine_comm_free(engine_comm_t *comm);

/* End the communicator: ops under way and later ones complete with the reason and the text. The first reason
 * wins. Until the last leave's done. */
void engine_comm_end(engine_comm_t *comm, blink_result_t reason, const char *text);

/* Its op_timeout_us from now on, also of ops that wait already. Not after the last rank's leave has begun. */
void engine_comm_set_timeout(engine_comm_t *comm, uint64_t op_timeout_us);

/* The communicator of this name (engine_remote_config_t) will never be added: hosts that have begun ops of
 * it, or will, hear so. */
void engine_comm_forget(engine_t *engine, uint64_t home, uint32_t number);

typedef struct engine_comm_stats {
    uint64_t op_count, failed_op_count, payload_bytes;
    uint64_t direct_bytes,
        staged_bytes; /* of user buffers used in place, or copied through staging; 0 in totals */
    /* For how long its oldest op has been that, and has not ended; 0: there is none. 0 in totals. */
    uint64_t oldest_us;
} engine_comm_stats_t;

/* Thread-safe; valid until the last leave's done. */
engine_comm_stats_t engine_comm_stats(const engine_comm_t *comm);

/* By what its data go to other hosts, as far as there are connections: "TCP", "RDMA", "TCP and RDMA", or "".
 * Thread-safe. */
const char *engine_comm_network(const engine_comm_t *comm);

/* Its hosts. Thread-safe; valid as above. */
const fabric_t *engine_comm_fabric(const engine_comm_t *comm);

/* By what plans its ops ran: the newest entry, or NULL. Thread-safe; valid as above. */
const plan_use_t *engine_comm_plan_uses(const engine_comm_t *comm);

/* How many records an answer has, of ops that live (the oldest 32) and of ops that have ended. */
#define ENGINE_RECORDS 64u

/* An answer about the ops of a communicator (comm/history.h). */
typedef struct engine_records {
    engine_comm_t *comm;
    engine_done_t done;
    mailbox_item_t item; /* to the engine, and back to control */
    uint64_t since, before, next;
    uint64_t now_us;      /* when the answer was made, by the clock of its times */
    uint32_t op_total;    /* ops that have not ended or still lack entries */
    uint64_t ended_total; /* ops that have ended so far */
    uint32_t count;
    size_t stride; /* of the records */
    alignas(uint64_t) char records[];
} engine_records_t;

/* A question. since: of ops that have ended only what followed so many, `ended_total` of an earlier answer or
 * 0. before: 0: about all of them; else `next` of the answer before, which goes on with older ones and is 0
 * at the end. The caller frees it. Errors: NO_MEMORY. */
blink_result_t engine_records_create(engine_comm_t *comm, uint64_t since, uint64_t before, engine_done_t done,
                                     engine_records_t **records);

/* The same of ops that were taken out of a communicator: the records are filled at once, and there is nothing
 * to ask. Errors: NO_MEMORY. */
blink_result_t engine_records_of_lost(const history_t *ops, uint64_t since, uint64_t before,
                                      engine_records_t **records);

/* Ask, before the last leave's done. The records are the caller's again when `done` is called. */
void engine_records_ask(engine_records_t *records);

static inline const op_record_t *engine_record(const engine_records_t *records, uint32_t i)
{
    return (const op_record_t *)(const void *)(records->records + i * records->stride);
}

/* Bytes that this communicator moved over each directed link: link_count counters to be read relaxed; valid
 * as above. */
const _Atomic uint64_t *engine_comm_link_bytes(const engine_comm_t *comm);

/* ---- what the data plane tells (data_handler_t) ---- */

blink_result_t engine_data_frame(engine_t *engine, data_endpoint_t *endpoint, const wire_frame_t *frame,
                                 const uint8_t *payload);
void engine_data_aborted(engine_t *engine, void *run_context, blink_result_t code);
void engine_data_settled(engine_t *engine, void *run_context);
void engine_data_lost(engine_t *engine, data_endpoint_t *endpoint);
void engine_data_charge(void *tenant, uint64_t bytes);
void engine_data_credit(void *tenant, uint64_t bytes);

/* ---- what sessions tell ---- */

/* A word about plans, by the host that the endpoint leads to; copied. Thread-safe. Errors: QUOTA, NO_MEMORY.
 */
blink_result_t engine_plan_word(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word);

/* The most steps that a turn of the engine's loop has had: submissions taken, ops looked at, started or
 * cancelled, clients visited. What tenants have and do must not make turns long. Thread-safe. */
uint32_t engine_longest_turn(const engine_t *engine);

/* Totals since the start. Thread-safe. */
engine_comm_stats_t engine_total_stats(const engine_t *engine);

#endif
