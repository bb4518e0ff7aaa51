/*
 * What the engine's files share. Unless a comment says otherwise every field belongs to the engine thread.
 */
#ifndef BLINK_ENGINE_INTERNAL_H
#define BLINK_ENGINE_INTERNAL_H

#include "base/list.h"
#include "engine/engine.h"

#include <pthread.h>

/* The turn of an op on a stream (ring.h, "Streams"). In the order of submission, until it and all before it
 * have ended. */
typedef struct stream_ticket {
    struct stream_ticket *next; /* of the window */
    struct engine_region *region;
    uint32_t window;
    uint64_t number; /* what `filled` must reach */
    bool ended;
} stream_ticket_t;

/* The engine's side of a window of a windows region. */
typedef struct stream_window {
    stream_ticket_t *first, *last; /* that have not ended */
    uint64_t submitted, ended;
} stream_window_t;

typedef struct engine_region {
    uint32_t region;
    engine_region_kind_t kind;
    char *base;
    uint64_t gpu_address;
    uint64_t bytes;
    const _Atomic bool *poisoned;
    stream_window_t *windows; /* of a windows region */
    uint32_t uses;            /* ops that hold it */
    bool removing;            /* no new uses */
    engine_client_t *client;
    engine_done_t done;
    mailbox_item_t add_item;            /* may still lie in the mailbox when the removal is posted */
    mailbox_item_t remove_item;         /* to the engine, and back to control */
    struct engine_region *next;         /* in its bucket */
    struct engine_region *control_next; /* control thread: the client's regions, to find one by number */
} engine_region_t;

#define REGION_BUCKETS     64u
#define MEMBERSHIP_BUCKETS 16u /* to begin with */

typedef struct comm_rank comm_rank_t;
typedef struct comm_op comm_op_t;
typedef struct stored_op stored_op_t;

struct engine_client {
    engine_t *engine;
    uint32_t client;
    ring_t ring;
    int doorbell_fd, completion_fd;
    engine_region_t *regions[REGION_BUCKETS]; /* by number modulo buckets */
    engine_region_t *windows;                 /* its windows region; NULL: none */
    stored_op_t *stored;
    uint32_t kept;             /* turns on streams, and stored entries */
    stored_op_t *storing;      /* whose last entry has not come; not among `stored` */
    comm_rank_t **memberships; /* by member modulo buckets, which are a power of two */
    uint32_t membership_buckets, membership_count;
    uint32_t outstanding; /* completions owed */
    uint32_t begun_ops;   /* live ops whose first submission was this client's */
    uint32_t long_ops;    /* of these, in a run expected to take long */
    bool removed;         /* its process is gone: complete nothing, free when `outstanding` is 0 */
    _Atomic uint64_t op_count;
    engine_done_t done;
    mailbox_item_t add_item, remove_item;
    mailbox_item_t *deferred, **deferred_end; /* to be run once the ring has been found empty */
    engine_region_t *control_regions;         /* control thread */
    engine_client_t *next;
};

/* What a rank submitted as one, an op or a group of ops. A rank's batches become active in the order of
 * submission, each when the one before it has ended; only then may its ops start. */
typedef struct op_batch {
    struct op_batch *next; /* of the rank */
    struct op_part *parts; /* that are not completed */
    uint32_t unfinished;   /* of these */
    bool committed;        /* its last entry has come */
    bool active;
    bool ended; /* its completion is out, or nobody is left to have it */
    uint64_t user_data;
    stored_op_t *replayed; /* whose replay it is: that is told of the end, not the client. Else NULL */
    blink_result_t result; /* the first failure of a part */
    char *text;            /* of that */
} op_batch_t;

/* One rank's part in an op. */
typedef struct op_part {
    comm_op_t *op;
    comm_rank_t *rank;
    op_batch_t *batch;                     /* NULL: not submitted yet */
    struct op_part *next, **previous_next; /* of the batch, until it is active; then the latter is NULL */
    bool completed;
    const void *input;
    void *output;
    engine_region_t *input_region, *output_region; /* held */
    bool input_staged, output_staged;              /* input, output: the first slot */
    ring_window_t *window;                         /* if either is */
    stream_ticket_t *ticket;                       /* its turn on a stream; NULL: it need not wait for any */
    uint64_t scalar;
} op_part_t;

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
    uint32_t part_count, submitted_count, active_count, completed_count;
    op_state_t state;
    bool is_long;                   /* its clients had best sleep */
    uint64_t since_us;              /* its first submission, or when its last piece ended */
    blink_result_t result;          /* not BLINK_OK: failed; parts are completed as they come */
    char *text;                     /* of the failure */
    struct comm_instance *instance; /* while planned and not ended */
    uint64_t piece_elements;        /* of a block, run at a time */
    uint64_t pieces, piece;         /* how many, and which is next */
    mailbox_item_t run_done_item;   /* worker to engine */
    blink_result_t run_result;
    char *run_text;    /* of a failed run; NULL: none */
    op_part_t parts[]; /* by rank; of a transfer source and destination */
};

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

/* A compiled plan, shared by all communicators of the same ranks. */
typedef struct cached_program cached_program_t;

#define CACHE_BUCKETS 256u

/* Programs by what they are for, and by when they were last asked for. */
typedef struct plan_cache {
    cached_program_t *buckets[CACHE_BUCKETS];
    cached_program_t *newest, *oldest;
    uint32_t count;
} plan_cache_t;

/* What runs a program; lent to one op at a time. */
typedef struct comm_instance {
    struct comm_instance *next; /* among the idle ones */
    cached_program_t *program;
    exec_instance_t *host; /* one of the two */
    cuda_instance_t *cuda;
} comm_instance_t;

/* Unmatched transfers, by source and destination. */
#define TRANSFER_BUCKETS 256u

struct engine_comm {
    engine_t *engine;
    uint32_t comm;
    uint32_t rank_count;
    blink_algorithm_t algorithm;
    uint64_t op_timeout_us;
    uint32_t *nodes;                                 /* topology node of each rank */
    bool on_gpus;                                    /* all of them are; else none */
    engine_comm_t *next_on_gpus, **previous_on_gpus; /* of these */
    comm_rank_t *ranks;
    uint32_t left_count;
    comm_op_t *ops, **ops_end; /* oldest first */
    uint32_t op_total;         /* of these */
    comm_op_t *last_collective;
    comm_op_t **transfers; /* TRANSFER_BUCKETS lists, oldest first; NULL until the first transfer */
    comm_op_t *due, **due_end;
    bool is_due; /* in the engine's list */
    engine_comm_t *next_due;
    comm_op_t *spare_op;    /* a collective's, to be used again */
    uint32_t leaving_count; /* ranks that are leaving and have not left */
    uint64_t next_sequence;
    uint64_t oldest_since_us; /* when the oldest op became that */
    blink_result_t lost;      /* not BLINK_OK: given up, and why */
    char lost_text[BLINK_ERROR_TEXT_BYTES];
    _Atomic uint64_t op_count, failed_op_count, payload_bytes, direct_bytes, staged_bytes;
    _Atomic(engine_plan_use_t *)
        plan_uses; /* read by the control thread; entries are only ever added in front */
    _Atomic uint64_t *link_bytes;
    mailbox_item_t add_item;
    mailbox_item_t lost_item;  /* engine to control */
    bool abort_posted;         /* control thread */
    blink_result_t abort_code; /* control thread until posted */
    char abort_text[BLINK_ERROR_TEXT_BYTES];
    mailbox_item_t abort_item;
    engine_comm_t *next_busy, **previous_busy; /* the engine's list of communicators that have ops */
};

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

uint64_t engine_now_us(void);

/* ---- client.c ---- */

/* Take and handle a few submissions; true if there was one. May free this client and others. */
bool client_poll(engine_client_t *client);

/* One of the outstanding is no more; frees a removed client with its last one. */
void client_release(engine_client_t *client);

/* Publish a completion and update the client's counts; frees a removed client with its last one. */
void client_complete(engine_client_t *client, uint64_t user_data, blink_result_t result, const char *text);

/* A region that is not being removed, or NULL. */
engine_region_t *client_find_region(const engine_client_t *client, uint32_t number);

/* An operand's place in a region, and who is to find it. */
typedef struct region_range {
    uint64_t offset_bytes, bytes;
    uint32_t alignment;
    bool for_gpus;
} region_range_t;

/* Check it, count its use and find its bytes, in this process or for GPUs. Errors: OUT_OF_RANGE,
 * INVALID_ARGUMENT, SYSTEM. */
blink_result_t region_use(engine_region_t *region, const region_range_t *range, void **address);
void region_release(engine_region_t *region);

/* Fails if the region's memory (NULL: of none) is not what it was: pages that could not be had, a GPU worker
 * that ended. Errors: SYSTEM. */
blink_result_t region_check(const engine_region_t *region);

void client_add_membership(engine_client_t *client, comm_rank_t *rank);
void client_remove_membership(engine_client_t *client, comm_rank_t *rank);

/* Free a removed client whose last op and membership have ended. */
void client_free_if_done(engine_client_t *client);
void client_update_wait_policy(engine_client_t *client);

/* Run an item after the submissions that the client made before it asked for what the item does: the control
 * socket may be faster than the ring. */
void client_defer(engine_client_t *client, mailbox_item_t *item, void (*run)(mailbox_item_t *item));

/* ---- submit.c: from a submission to its place in an op ---- */

/* How a submission came, beyond its entry. */
typedef struct submission {
    stream_ticket_t
        *ticket; /* its turn on a stream; NULL: none. Taken, and set to NULL, by the part that it gets */
    stored_op_t *replayed; /* as in op_batch_t */
} submission_t;

/* One rank's submission, already copied. Its completion follows, now or later, unless it has RING_SQE_MORE.
 */
void comm_submit(comm_rank_t *rank, const ring_sqe_t *sqe, submission_t *how);

/* ---- stream.c: turns on streams, and stored ops ---- */

/* Give a submission with RING_SQE_STREAM its turn. Errors: those of stream_check(), NO_MEMORY; it is then
 * refused where its op is found, so that all ranks hear. */
blink_result_t stream_begin(engine_client_t *client, const ring_sqe_t *sqe, stream_ticket_t **ticket);

/* Whether such a submission can have a turn. Errors: INVALID_ARGUMENT, QUOTA. */
blink_result_t stream_check(const engine_client_t *client, const ring_sqe_t *sqe);

/* Whether the entry is to be kept: the entries of a group all are, or none is. */
bool stream_stores(const engine_client_t *client, const comm_rank_t *rank, const ring_sqe_t *sqe);

/* Keep it. Errors, of the whole group with its last entry: INVALID_ARGUMENT, QUOTA, NO_MEMORY. */
blink_result_t stream_store(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe);

/* The op has ended, or there never was one; NULL is ignored. */
void stream_end(stream_ticket_t *ticket);

/* Whether the stream has come to it; true for NULL. */
bool stream_has_come(const stream_ticket_t *ticket);

/* RING_OP_FORGET. *later: its completion comes when the replay under way has ended. Errors: NOT_FOUND. */
blink_result_t stream_forget(engine_client_t *client, const ring_sqe_t *sqe, bool *later);

/* A replay's batch has ended. */
void stream_replay_ended(stored_op_t *stored, blink_result_t result, const char *text);

/* The rank leaves: what is stored of it does nothing from now on. */
void stream_forget_rank(const comm_rank_t *rank);

/* The client is gone. */
void stream_forget_client(engine_client_t *client);

/* Start the replays that streams have come to; true if there was one. */
bool engine_poll_stored(engine_t *engine);

/* ---- executor.c: which executor ---- */

/* Errors: as exec_instance_create() and cuda_instance_create(). */
blink_result_t instance_create(engine_t *engine, const lane_program_t *program, const uint32_t *nodes,
                               comm_instance_t *instance);
void instance_destroy(comm_instance_t *instance);
blink_result_t instance_start(comm_instance_t *instance, const exec_run_t *run, bool *ended);
void instance_abort(comm_instance_t *instance, blink_result_t reason);

/* As cuda_instance_transport(). */
const char *instance_transport(const comm_instance_t *instance);

/* Whether a topology node is a device on a GPU. */
bool engine_node_is_gpu(const engine_t *engine, uint32_t node);

/* Whether these devices are on GPUs that cannot reach each other's memory. Thread-safe. */
bool engine_nodes_need_host(const engine_t *engine, const uint32_t *nodes, uint32_t rank_count);

/* Look after the GPU worker; true if it had something. */
bool engine_poll_gpus(engine_t *engine);

/* ---- op.c: ops, their parts and batches ---- */

typedef struct op_facts {
    bool is_collective; /* matched by count; else a transfer */
    bool has_root;
    bool reduces;
    bool input_per_rank, output_per_rank; /* a block per rank; else one */
    bool input_on_root, output_on_root;   /* only the root has it */
} op_facts_t;

/* Of an opcode from ALLREDUCE to BARRIER. */
const op_facts_t *op_facts(uint32_t opcode);

/* Elements in one rank's input or output; 0 where it has none. */
uint64_t op_input_elements(const engine_comm_t *comm, const op_signature_t *signature, uint32_t rank);
uint64_t op_output_elements(const engine_comm_t *comm, const op_signature_t *signature, uint32_t rank);

/* Transfers that lack an end, in comm->transfers: of each pair of ranks the oldest is in its bucket's list,
 * the others hang from it. All of a pair lack the same end. Where the oldest one's link is; it is NULL if the
 * pair has none. */
comm_op_t **transfer_find(engine_comm_t *comm, uint32_t source, uint32_t destination);

/* Add one to the pair at this link; take the oldest out. */
void transfer_append(comm_op_t **first, comm_op_t *op);
void transfer_pop(comm_op_t **first);

/* Of the payload, as plan/collective.h defines it. */
uint64_t op_payload_bytes(const comm_op_t *op);

/* A new op at the end of the communicator's. Errors: QUOTA, NO_MEMORY. */
blink_result_t op_create(engine_comm_t *comm, const op_signature_t *signature, uint32_t rank, comm_op_t **op);

/* The part of a rank in an op: of a transfer to itself the source's if that is not submitted yet. */
op_part_t *op_part_of(comm_op_t *op, uint32_t rank, bool receives);

/* The rank has submitted its part, in this batch. */
void op_add_part(op_part_t *part, op_batch_t *batch);

/* Complete the parts that are submitted, with the op's result; the op is freed once none is missing any more.
 * It must not be running. The others give it a result first; a failed op keeps its first one. */
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

/* The batch that the rank's next entry belongs to, at the end of its batches; NULL: no memory. */
op_batch_t *rank_open_batch(comm_rank_t *rank);

/* Whether the rank is in the middle of a group. */
bool rank_in_group(const comm_rank_t *rank);

/* Its last entry has come: complete it if its parts are, make it active if it is the rank's first. */
void batch_commit(comm_rank_t *rank, op_batch_t *batch, uint64_t user_data);

/* Record a failure that belongs to no op. */
void batch_fail(op_batch_t *batch, blink_result_t code, const char *text);

/* Drop the batch that is not committed, if any; its parts are completed. */
void rank_drop_open_batch(comm_rank_t *rank);

/* ---- run.c: ops that may start, until they have ended ---- */

/* The op may start; comm_advance() starts it. */
void op_make_due(comm_op_t *op);

/* Start what is due, as much as one turn allows (the engine comes back for the rest), then let leavers go.
 * The last of these takes the communicator along: callers do not touch it afterwards. */
void comm_advance(engine_comm_t *comm);

/* Give a planned op's instance back; it then ends one way or the other. */
void op_release_instance(comm_op_t *op);

/* Take an op from those that await copies. */
void op_stop_awaiting(comm_op_t *op);

/* Give the next communicator that has more to start a turn; true if there was one. */
bool engine_serve_due(engine_t *engine);

/* The plan has come, or failed. Called by plans.c on the engine thread. */
void op_planned(comm_op_t *op, blink_result_t result, const char *text, comm_instance_t *instance);

/* Go on with ops whose clients have copied their pieces; true if one did. */
bool engine_poll_awaiting(engine_t *engine);

/* Whether engine_poll_awaiting() would find one. Sequentially consistent: the second look before sleeping. */
bool engine_has_awaited(engine_t *engine);

/* ---- comm.c ---- */

/* Give the communicator up. The first reason wins. comm_advance() must follow. */
void comm_give_up(engine_comm_t *comm, blink_result_t code, const char *text);

/* The same, when nobody but the engine knows: the control thread hears of it. */
void comm_lose(engine_comm_t *comm, blink_result_t code, const char *text);

/* A rank leaves once none of its batches is left. True if it was the last: the control thread now frees the
 * communicator. */
bool rank_leave_if_done(comm_rank_t *rank);

/* The communicator has its first op, or none any more. */
void comm_enlist(engine_comm_t *comm);
void comm_delist(engine_comm_t *comm);

/* Fail communicators whose oldest op waits too long for a rank. Returns when to look again (µs), or
 * UINT64_MAX. */
uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us);

/* ---- plans.c ---- */

/* An instance for this op: at once if its program is cached, else op_planned() follows and *instance is NULL.
 * Errors: NO_MEMORY. */
blink_result_t plan_find_instance(comm_op_t *op, comm_instance_t **instance);

/* Whether the op, a transfer, is planned for its two ranks alone: all communicators then share what is
 * between two devices. Not where other ranks may have to relay. */
bool plan_is_for_pair(const comm_op_t *op);

/* Give an idle instance back. */
void plan_return_instance(engine_t *engine, comm_instance_t *instance);

/* The op has run by this instance: count it for those who ask. */
void plan_note_use(comm_op_t *op, const comm_instance_t *instance);
void comm_free_plan_uses(engine_comm_t *comm);
double instance_rate_GBps(const comm_instance_t *instance);
void engine_free_cache(engine_t *engine);

#endif
