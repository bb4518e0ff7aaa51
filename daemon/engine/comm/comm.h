/*
 * The engine's side of a communicator: its ranks, its ops, and how it ends. Every field is the engine
 * thread's unless its comment says otherwise.
 */
#ifndef BLINK_ENGINE_COMM_H
#define BLINK_ENGINE_COMM_H

#include "base/list.h"
#include "engine/comm/history.h"
#include "engine/engine.h"

#define COMM_ELSEWHERE UINT32_MAX

typedef struct comm_rank comm_rank_t;
typedef struct comm_op comm_op_t;
typedef struct remote_comm remote_comm_t;

/* Who found that a communicator ends. Of an end that the engine found, the control thread is told. */
typedef enum comm_ender { ENDED_BY_CONTROL, ENDED_BY_ENGINE } comm_ender_t;

struct engine_comm {
    engine_t *engine;
    uint32_t comm; /* number */
    char title[COMM_TITLE_BYTES];
    tenant_t *tenant; /* not followed after the last rank has left */
    uid_t uid;        /* the tenant's */
    uint32_t rank_count;
    uint32_t member_count; /* ranks of this host */
    blink_algorithm_t algorithm;
    uint64_t op_timeout_us;
    fabric_t *fabric;
    uint32_t *nodes;        /* by rank: the node of its device in the fabric */
    uint32_t *member_of;    /* by rank: its place in `members`; COMM_ELSEWHERE: it is on another host */
    bool on_gpus;           /* all devices are; else none */
    remote_comm_t *remote;  /* NULL: all ranks are members */
    comm_rank_t *members;   /* in the order of their ranks */
    uint32_t leaving_count; /* ranks that are leaving and have not left */
    uint32_t left_count;
    list_t of_busy;             /* engine->busy_comms, while it has ops */
    exec_share_t *share;        /* of the executor of its devices */
    fair_share_t turn;          /* of its tenant's, while it is to be attended to: comm_attend() */
    list_t of_gpus;             /* engine->gpu_comms, engine->lost_comms */
    uint32_t gpu_worker;        /* engine->lost_gpu_workers, when it was made */
    list_t ops;                 /* comm_op_t.of_comm, oldest first */
    list_t due;                 /* its ops in OP_DUE (op.h) */
    list_t running;             /* its ops in OP_RUNNING, in the order in which they entered it */
    list_t activating;          /* op_batch_t.of_activating */
    list_t *sweep;              /* in `ops`, the next that comm_sweep() looks at; the head: none */
    uint32_t op_total;          /* of `ops` */
    comm_op_t *last_collective; /* to which the next one is tied; NULL: none */
    list_t *transfers;          /* match.h; NULL until the first transfer */
    comm_op_t *spare_op;        /* a collective's memory, charged, to be used again */
    uint64_t last_sequence;
    uint64_t oldest_since_us;  /* when the oldest op became that */
    blink_result_t end_reason; /* not BLINK_OK: the communicator has ended, and why */
    char end_text[BLINK_ERROR_TEXT_BYTES];
    _Atomic uint64_t awaited_since_us; /* oldest_since_us, for everybody; 0: there is no op */
    _Atomic uint64_t op_count, failed_op_count, payload_bytes, direct_bytes, staged_bytes;
    plan_uses_t plan_uses; /* read by the control thread */
    history_t history;
    /* What was the history, when the last rank has left a lost one; the control thread's. */
    history_t lost_ops;
    _Atomic uint64_t *link_bytes;
    mailbox_item_t add_item;
    mailbox_item_t ended_item;   /* engine to control */
    bool end_posted;             /* control thread */
    bool has_mail;               /* control thread: items that refer to it may be in the engine's mailbox */
    blink_result_t asked_reason; /* control thread until posted */
    char asked_text[BLINK_ERROR_TEXT_BYTES];
    mailbox_item_t end_item;     /* control to engine */
    mailbox_item_t timeout_item; /* the same: to take asked_timeout_us */
    _Atomic bool timeout_posted;
    _Atomic uint64_t asked_timeout_us;
};

/* End the communicator: its ops complete with the reason, slice by slice and as soon as nothing of them runs
 * any more, and later ones at once. The first reason wins. */
void comm_end(engine_comm_t *comm, comm_ender_t ender, blink_result_t reason, const char *text);

/* The process of a rank's client is gone: end the communicator if the rank was leaving with ops under way. */
void comm_rank_gone(comm_rank_t *rank);

/* Visit communicators that are to be attended to, in fair shares of their tenants and of each tenant's: a
 * slice of their groups becomes active, a slice of their ops is cancelled, an op is started, ranks leave.
 * With its last rank a communicator goes too. True if there was one. */
bool comms_serve(engine_t *engine);

#endif
