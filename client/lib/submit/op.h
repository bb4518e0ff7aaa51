/*
 * An op: what completes once, a submission or a group of them of one rank. Every op belongs to a queue.
 */
#ifndef CLIENT_OP_H
#define CLIENT_OP_H

#include "base/list.h"
#include "blink/blink.h"
#include "environment/debug.h"
#include "error.h"
#include "ring.h"

#include <stdatomic.h>

struct ops;
struct staging_transfer;

/** The ops of one rank, or of the context itself (nops), in order. */
typedef struct ops_queue {
    list_t parked;               /* ops; this and the next under submit_lock */
    list_t of_parked;            /* among the queues with parked ops */
    _Atomic uint32_t in_ring;    /* ops that have a place there; with submit_lock up, with reap_lock down */
    _Atomic uint32_t unfinished; /* ops that are not over for their owners */
    debug_rank_t rank;           /* for lines; constant once ops are submitted */
    _Atomic uint64_t traced;     /* calls, if they are */
} ops_queue_t;

/** What is told of an op when it ends. */
typedef struct trace {
    uint64_t number; /* among the queue's ops, from 1; 0: nothing is told */
    uint64_t submitted_ns;
    uint64_t count; /* of the first call, as what follows the next */
    uint32_t calls; /* in the op */
    uint8_t opcode, datatype;
} trace_t;

/** What one op submits. */
typedef struct ops_run {
    ring_sqe_t *sqes; /* more than one: malloc'd, and taken over */
    uint32_t count;
    struct staging_transfer *transfers; /* chained by next_of_op; NULL if no buffer is staged */
} ops_run_t;

/** Called for an op that nobody waits for, once it is over, under reap_lock or staging.lock: it may take no
 * lock of ops. `text` is valid if the result is not BLINK_OK. */
typedef void ops_ended_t(void *owner, blink_result_t result, const char *text);

struct blink_op {
    struct ops *ops;
    ops_queue_t *queue;
    blink_op_t *next;         /* among the free handles, or those that a round of staging has ended */
    blink_op_t *rest;         /* of a group: the op of its next communicator */
    ops_ended_t *ended;       /* NULL: somebody waits for it */
    void *owner;              /* ended()'s */
    _Atomic uint64_t pending; /* the submission's user_data; 0 once it is over and result and text stand */
    list_t of_queue;          /* while parked: this and what follows up to has_place, under submit_lock */
    uint64_t age;             /* counts what the context has parked */
    ring_sqe_t *run;          /* malloc'd; NULL: the one in `sqe` */
    uint32_t run_count;
    uint32_t run_published;
    bool has_place;       /* in the ring, the SQ being full */
    uint32_t index;       /* of this handle, from 0 */
    uint32_t generation;  /* makes user_data of a reused handle new; under submit_lock */
    uint32_t staged;      /* transfers not over: under staging.lock once submitted */
    _Atomic bool arrived; /* its completion has been reaped; set under reap_lock */
    trace_t trace;        /* constant once submitted */
    blink_result_t result;
    union {
        ring_sqe_t sqe;                    /* while parked */
        char text[BLINK_ERROR_TEXT_BYTES]; /* once arrived */
    };
};

#endif
