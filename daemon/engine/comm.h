/*
 * The engine's side of a communicator: its ranks, its ops, and how it ends.
 */
#ifndef BLINK_ENGINE_COMM_H
#define BLINK_ENGINE_COMM_H

#include "engine/engine.h"

typedef struct comm_rank comm_rank_t;
typedef struct comm_op comm_op_t;

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

#endif
