/*
 * What the engine's files share. Unless a comment says otherwise every field belongs to the engine thread.
 */
#ifndef BLINK_ENGINE_INTERNAL_H
#define BLINK_ENGINE_INTERNAL_H

#include "service/engine.h"

#include <pthread.h>

#define CONTAINER_OF(pointer, type, field) ((type *)((char *)(pointer)-offsetof(type, field)))

typedef struct engine_region {
    uint32_t region;
    char *base;
    uint64_t bytes;
    const _Atomic bool *poisoned;
    uint32_t uses; /* ops that hold it */
    bool removing; /* no new uses */
    engine_client_t *client;
    engine_done_t done;
    mailbox_item_t add_item;            /* may still lie in the mailbox when the removal is posted */
    mailbox_item_t remove_item;         /* to the engine, and back to control */
    struct engine_region *next;         /* in its bucket */
    struct engine_region *control_next; /* control thread: the client's regions, to find one by number */
} engine_region_t;

#define REGION_BUCKETS 64u

typedef struct comm_rank comm_rank_t;

struct engine_client {
    engine_t *engine;
    uint32_t client;
    ring_t ring;
    int doorbell_fd, completion_fd;
    engine_region_t *regions[REGION_BUCKETS]; /* by number modulo buckets */
    comm_rank_t *memberships[REGION_BUCKETS]; /* by member modulo buckets */
    uint32_t membership_count;
    uint32_t outstanding; /* submissions taken and not completed */
    uint32_t long_ops;    /* of these, in a run expected to take long */
    bool removed;         /* its process is gone: complete nothing, free when `outstanding` is 0 */
    _Atomic uint64_t op_count;
    engine_done_t done;
    mailbox_item_t add_item, remove_item;
    mailbox_item_t *deferred, **deferred_end; /* to be run once the ring has been found empty */
    engine_region_t *control_regions;         /* control thread */
    engine_client_t *next;
};

/* One rank's part in an op. */
typedef struct op_part {
    bool submitted, completed;
    uint64_t user_data;
    const void *input;
    void *output;
    engine_region_t *input_region, *output_region;
} op_part_t;

/* What all ranks must agree on. */
typedef struct op_signature {
    uint8_t opcode;
    uint8_t datatype;
    uint8_t redop;
    uint32_t root;
    uint64_t count;
} op_signature_t;

/* One collective of a communicator, from its first submission until its last rank is served. */
typedef struct comm_op {
    struct comm_op *next;
    uint64_t sequence;
    op_signature_t signature;
    uint32_t first_rank; /* whose signature it is */
    uint32_t submitted_count;
    uint64_t waiting_since_us; /* for ranks to submit: since its first did, or it became the oldest */
    blink_result_t result;     /* not BLINK_OK: failed; parts are completed as they come */
    char text[BLINK_ERROR_TEXT_BYTES];
    op_part_t parts[]; /* by rank */
} comm_op_t;

struct comm_rank {
    engine_comm_t *comm;
    engine_client_t *client;
    comm_rank_t *next_membership; /* in the client's bucket */
    uint32_t member;
    uint32_t rank;
    comm_op_t *next_op;   /* the op its next submission belongs to; NULL: a new one */
    uint32_t outstanding; /* submitted and not completed */
    bool leaving, left;
    bool last; /* to leave: the control thread then frees the communicator */
    bool lost; /* how it leaves */
    char text[BLINK_ERROR_TEXT_BYTES];
    engine_done_t done;
    mailbox_item_t item;
};

/* A compiled plan, shared by all communicators of the same ranks. */
typedef struct cached_program cached_program_t;

/* What runs one kind of collective for one communicator. */
typedef struct comm_instance {
    struct comm_instance *next;
    blink_collective_t collective;
    uint32_t root; /* PLAN_NONE for allreduce */
    cached_program_t *program;
    exec_instance_t *exec;
} comm_instance_t;

typedef enum comm_activity { COMM_IDLE, COMM_PLANNING, COMM_RUNNING } comm_activity_t;

struct engine_comm {
    engine_t *engine;
    uint32_t comm;
    uint32_t rank_count;
    blink_algorithm_t algorithm;
    uint32_t *nodes; /* topology node of each rank */
    comm_rank_t *ranks;
    uint32_t left_count;
    comm_op_t *head, *tail; /* oldest first */
    uint32_t queued_count;
    uint64_t next_sequence;
    comm_activity_t activity;
    bool run_is_long;
    comm_instance_t *instances, *running;
    const void **inputs; /* of the run being started, by rank */
    void **outputs;
    blink_result_t lost; /* not BLINK_OK: given up, and why */
    char lost_text[BLINK_ERROR_TEXT_BYTES];
    _Atomic uint64_t op_count, failed_op_count, payload_bytes;
    _Atomic uint64_t *link_bytes;
    mailbox_item_t add_item;
    mailbox_item_t run_done_item; /* worker to engine */
    blink_result_t run_result;
    mailbox_item_t lost_item;  /* engine to control */
    bool abort_posted;         /* control thread */
    blink_result_t abort_code; /* control thread until posted */
    char abort_text[BLINK_ERROR_TEXT_BYTES];
    mailbox_item_t abort_item;
    engine_comm_t *next, **previous_next; /* the engine's list */
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
    engine_client_t *clients;
    uint32_t client_list_version; /* changes with every client added or freed */
    engine_comm_t *comms;
    cached_program_t *cache;
    _Atomic uint64_t op_count, failed_op_count, payload_bytes;
    mailbox_item_t stop_item;
    mailbox_item_t heartbeat_item; /* to the engine, and back to control */
    engine_done_t heartbeat_done;
};

uint64_t engine_now_us(void);

/* ---- engine_client.c ---- */

/* Take and handle a few submissions; true if there was one. May free this client and others. */
bool client_poll(engine_client_t *client);

/* Publish a completion and update the client's counts; frees a removed client with its last one. */
void client_complete(engine_client_t *client, uint64_t user_data, blink_result_t result, const char *text);

/* Find a region's bytes for an operand and count its use. Errors: NOT_REGISTERED, OUT_OF_RANGE,
 * INVALID_ARGUMENT, SYSTEM. */
blink_result_t client_use_memory(engine_client_t *client, uint32_t region, uint64_t offset_bytes,
                                 uint64_t bytes, uint32_t alignment, engine_region_t **held, void **address);
void region_release(engine_region_t *region);

/* Fails if pages of the region (NULL: of none) were replaced because they could not be had. Errors: SYSTEM. */
blink_result_t region_check(const engine_region_t *region);

void client_add_membership(engine_client_t *client, comm_rank_t *rank);
void client_remove_membership(engine_client_t *client, comm_rank_t *rank);

/* Free a removed client whose last op and membership have ended. */
void client_free_if_done(engine_client_t *client);
void client_update_wait_policy(engine_client_t *client);

/* Run an item after the submissions that the client made before it asked for what the item does: the control
 * socket may be faster than the ring. */
void client_defer(engine_client_t *client, mailbox_item_t *item, void (*run)(mailbox_item_t *item));

/* ---- engine_comm.c ---- */

/* One rank's submission, already copied. Its completion follows, now or later. */
void comm_submit(comm_rank_t *rank, const ring_sqe_t *sqe);

/* Fail communicators whose oldest op waits too long for a rank. Returns when to look again (µs), or
 * UINT64_MAX. */
uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us);

/* The plan of the oldest op has come, or failed. Called by engine_plan.c on the engine thread. */
void comm_planned(engine_comm_t *comm, blink_result_t result, const char *text, comm_instance_t *instance);

/* ---- engine_plan.c ---- */

/* An instance for this collective: at once if its program is cached, else comm_planned() follows and
 * *instance is NULL. Errors: NO_MEMORY. */
blink_result_t comm_find_instance(engine_comm_t *comm, blink_collective_t collective, uint32_t root,
                                  comm_instance_t **instance);
void comm_free_instances(engine_comm_t *comm);
double instance_rate_GBps(const comm_instance_t *instance);
void engine_free_cache(engine_t *engine);

#endif
