/*
 * The engine's side of a communicator: its ranks, its ops, and how it ends. Every field is the engine
 * thread's unless its comment says otherwise.
 */
#ifndef BLINK_ENGINE_COMM_H
#define BLINK_ENGINE_COMM_H

#include "base/list.h"
#include "engine/engine.h"

typedef struct comm_rank comm_rank_t;
typedef struct comm_op comm_op_t;

/* Who found that a communicator ends. Of an end that the engine found, the control thread is told. */
typedef enum comm_ender { ENDED_BY_CONTROL, ENDED_BY_ENGINE } comm_ender_t;

struct engine_comm {
    engine_t *engine;
    uint32_t comm;    /* number, for messages */
    tenant_t *tenant; /* not followed after the last rank has left */
    uint32_t rank_count;
    blink_algorithm_t algorithm;
    uint64_t op_timeout_us;
    uint32_t *nodes; /* topology node of each rank */
    bool on_gpus;    /* all of them are; else none */
    comm_rank_t *ranks;
    uint32_t leaving_count; /* ranks that are leaving and have not left */
    uint32_t left_count;
    list_t of_busy;             /* engine->busy_comms, while it has ops */
    list_t of_due;              /* engine->due_comms: comm_attend() */
    list_t of_gpus;             /* engine->gpu_comms */
    list_t ops;                 /* comm_op_t.of_comm, oldest first */
    list_t due;                 /* its ops in OP_DUE (op.h) */
    uint32_t op_total;          /* of `ops` */
    comm_op_t *last_collective; /* to which the next one is tied; NULL: none */
    list_t *transfers;          /* match.h; NULL until the first transfer */
    comm_op_t *spare_op;        /* a collective's memory, to be used again */
    uint64_t next_sequence;
    uint64_t oldest_since_us;  /* when the oldest op became that */
    blink_result_t end_reason; /* not BLINK_OK: the communicator has ended, and why */
    char end_text[BLINK_ERROR_TEXT_BYTES];
    _Atomic uint64_t op_count, failed_op_count, payload_bytes, direct_bytes, staged_bytes;
    plan_uses_t plan_uses; /* read by the control thread */
    _Atomic uint64_t *link_bytes;
    mailbox_item_t add_item;
    mailbox_item_t ended_item;   /* engine to control */
    bool end_posted;             /* control thread */
    blink_result_t asked_reason; /* control thread until posted */
    char asked_text[BLINK_ERROR_TEXT_BYTES];
    mailbox_item_t end_item; /* control to engine */
};

/* End the communicator: its ops complete with the reason, at once or as soon as nothing of them runs any
 * more, and so do later ones. The first reason wins. */
void comm_end(engine_comm_t *comm, comm_ender_t ender, blink_result_t reason, const char *text);

/* The process of a client is gone: end the communicators in which it was leaving with ops under way. */
void comm_client_gone(engine_client_t *client);

/* Let ranks go that are leaving and have nothing under way. With the last rank the communicator goes too: the
 * control thread now frees it, and the caller does not touch it any more. */
void comm_let_go(engine_comm_t *comm);

/* End communicators whose oldest op waits too long for a rank. Returns when to look again (µs), or
 * UINT64_MAX. */
uint64_t comms_check_timeouts(engine_t *engine, uint64_t now_us);

#endif
