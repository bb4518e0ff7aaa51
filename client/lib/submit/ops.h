/*
 * The submitted operations of one context: their handles, the client side of the rings, and the threads that
 * wait (wait.c).
 *
 * Locks. submit_lock serialises the producer side of the ring, the queues and the making of handles;
 * reap_lock the consumer side; staging.lock the copying of staged buffers. None of these is ever held while
 * taking another, or while waiting.
 *
 * Bounds. An op is what completes once: a submission, or a group of them of one rank. At most `limit` ops are
 * in the ring and unreaped, which is what the ring's contract asks for. What exceeds a bound is parked in its
 * queue here and moved to the ring as completions are reaped, so that a submission returns at once however
 * many are unfinished. Of the limit, a part is for the oldest unfinished op of each queue alone: one place
 * for each live queue while there are no more than `limit` of them, at least half in any case. The rest is
 * shared evenly by the queues that have ops in the ring. So ranks that share a context do not starve one
 * another: with up to `limit` live queues, or up to half of that with unfinished ops, the oldest unfinished
 * op of every rank is in the ring, hence the oldest unfinished collective of every communicator can run.
 * Beyond that the oldest unfinished op of the context still is, for parked ops are taken by their age:
 * progress then needs all processes to submit in one order.
 *
 * A group takes one place among the `limit` and any number of SQ entries. If the SQ is full in its midst, the
 * rest of it is parked, in front of its queue; the engine drains the SQ without regard to completions, so it
 * goes on soon. Parked ops are moved on by every thread that submits, tests or waits, and once a millisecond
 * by the watcher.
 *
 * Ops of streams have no owner: they are detached, and free themselves when they are over.
 *
 * Staged ops. The completion of an op with staged buffers makes it `arrived`; it is over for its owner when
 * its last output has been copied out (staging.h), by whichever thread comes first; where a stream copies,
 * the watcher looks for its last store, and wakes who waits for the op.
 *
 * No wake-up is missed by a waiting thread. It announces itself (ring_sleep_begin), then takes reap_lock,
 * reaps whatever is there, does the same with staging.lock and the windows, looks at what it waits for, and
 * only then sleeps. The daemon's store that it needs (a completion, or a window's `done`) is made either
 *  - after that last look: then, by the argument in ring.h, the daemon saw the announcement and changes
 * the futex word after the announcement, so that the sleep ends or never begins; or
 *  - before: then that look found it, or another thread had dealt with it earlier under the same lock, which
 * the look under the lock sees. So a thread that reaps or copies for others never has to wake them. Losing
 * the daemon ends every op under those locks and then wakes all sleepers: the same two cases.
 *
 * No parked op is forgotten. Whoever parks first counts it in `parked` and then looks at `reaped`; whoever
 * reaps first publishes `reaped` and then looks at `parked`; all four are sequentially consistent, so one of
 * them sees the other. What is parked because the SQ is full, the watcher moves on.
 */
#ifndef CLIENT_OPS_H
#define CLIENT_OPS_H

#include "blink/blink.h"
#include "ring.h"
#include "submit/staging.h"

#include <pthread.h>

#define OPS_CHUNK_OPS  256u
#define OPS_CHUNKS_MAX 4096u

/** The ops of one rank, or of the context itself (nops), in order. */
typedef struct ops_queue {
    struct ops_queue *next_parked; /* of those with parked ops; this and the next two under submit_lock */
    blink_op_t *first_parked, *last_parked;
    _Atomic uint32_t in_ring;    /* ops that have a place there; with submit_lock up, with reap_lock down */
    _Atomic uint32_t unfinished; /* ops that are not over for their owners */
} ops_queue_t;

/** What one op submits. */
typedef struct ops_run {
    ring_sqe_t *sqes; /* more than one: malloc'd, and taken over */
    uint32_t count;
    staging_transfer_t *transfers; /* chained by next_of_op; NULL if no buffer is staged */
} ops_run_t;

/** Called for an op that nobody waits for, once it is over, under reap_lock or staging.lock: it may take no
 * lock of ops. `text` is valid if the result is not BLINK_OK. */
typedef void ops_ended_t(void *owner, blink_result_t result, const char *text);

struct blink_op {
    struct ops *ops;
    ops_queue_t *queue;
    blink_op_t *next;         /* in a queue's parked ops, or among the free ones */
    blink_op_t *rest;         /* of a group: the op of its next communicator */
    ops_ended_t *ended;       /* NULL: somebody waits for it */
    void *owner;              /* ended()'s */
    _Atomic uint64_t pending; /* the submission's user_data; 0 once it is over and result and text stand */
    uint64_t age;             /* counts what the context has parked */
    uint32_t index;           /* of this handle, from 0 */
    uint32_t generation;      /* makes user_data of a reused handle new; under submit_lock */
    uint32_t staged;          /* transfers not over: under staging.lock once submitted */
    uint32_t run_count;       /* while parked: this and the next three, under submit_lock */
    uint32_t run_published;
    bool has_place;
    ring_sqe_t *run;      /* malloc'd; NULL: the one in `sqe` */
    _Atomic bool arrived; /* its completion has been reaped; set under reap_lock */
    blink_result_t result;
    union {
        ring_sqe_t sqe;                    /* while parked */
        char text[BLINK_ERROR_TEXT_BYTES]; /* once arrived */
    };
};

typedef struct ops {
    ring_t ring;
    int doorbell_fd;   /* wakes the engine */
    int completion_fd; /* blink_poll_fd() */
    int pump_fd;       /* wakes the watcher for what goes on without the application's calls; non-blocking */
    uint32_t limit;
    ops_queue_t nops;
    staging_t staging;

    pthread_mutex_t submit_lock;
    ops_queue_t *parked_queues; /* by the age of their first parked op; under submit_lock */
    ops_queue_t **parked_end;   /* where the next is linked; under submit_lock */
    uint32_t stalled;           /* parked ops that have a place, the SQ being full; under submit_lock */
    uint32_t live_queues;       /* of ranks that have joined, or are joining; under submit_lock */
    uint32_t submitted;         /* ops that got a place in the ring; under submit_lock */
    uint64_t age;               /* under submit_lock */
    bool lost;                  /* under submit_lock */
    uint32_t chunk_count;
    blink_op_t *free_ops;            /* under submit_lock */
    _Atomic(blink_op_t *) freed_ops; /* pushed by any thread, taken whole under submit_lock */
    _Atomic(blink_op_t *) *chunks;   /* OPS_CHUNKS_MAX; written under submit_lock */
    pthread_mutex_t reap_lock;
    _Atomic uint32_t reaped; /* written under reap_lock */
    _Atomic uint32_t
        cq_seen; /* the CQ's index up to which everything has been reaped; written under reap_lock */
    _Atomic uint32_t used_queues; /* queues with ops in the ring */
    _Atomic uint32_t parked;      /* ops; written under submit_lock */
    _Atomic bool pumped;          /* the watcher looks after parked and streaming ops */
} ops_t;

/** Take over the ring and its two descriptors, whatever the outcome; ops_fini() after a success only.
 * Errors: NO_MEMORY, SYSTEM. */
blink_result_t ops_init(ops_t *ops, const ring_t *ring, int doorbell_fd, int completion_fd);

/** Free everything, unfinished handles too. No thread uses the ops any more. */
void ops_fini(ops_t *ops);

/** Count the queue of a rank, zeroed, before the daemon hears of the rank. */
void ops_queue_add(ops_t *ops);

/** Take a queue out. False, and nothing done, if ops of it are unfinished. */
bool ops_queue_remove(ops_t *ops, ops_queue_t *queue);

/** Submit one entry (user_data is set here) through a queue. Never waits. Errors: DAEMON_LOST, NO_MEMORY; the
 * transfers are then still the caller's. */
blink_result_t ops_submit(ops_t *ops, ops_queue_t *queue, const ops_run_t *run, blink_op_t **op);

/** The same in two steps, for groups of several queues: take a handle (errors as ops_submit()), and submit a
 * run for it without fail, or give it back with handle_put(). Once the daemon is lost the op ends with that.
 */
blink_result_t ops_reserve(ops_t *ops, blink_op_t **op);
void ops_launch(blink_op_t *op, ops_queue_t *queue, const ops_run_t *run);

/** Between these two steps: nobody will wait for the op; it frees itself after ended(owner). */
void ops_detach(blink_op_t *op, ops_ended_t *ended, void *owner);

/** Wait until every op of the queue is over. */
void ops_await_idle(ops_t *ops, ops_queue_t *queue);

/** Whether anything is parked in the queue; NULL: in any. */
bool ops_has_parked(ops_t *ops, const ops_queue_t *queue);

/** Wait until nothing is. */
void ops_drain(ops_t *ops, const ops_queue_t *queue);

/** Reap what has completed, copy what is staged and move parked ops on. What another thread is doing at the
 * moment is left to it, but if `certain` not the reaping. */
void ops_progress(ops_t *ops, bool certain);

/** The same for a thread that is about to sleep: leaves nothing to others. Whether it may only doze, for
 * parked ops wait for the SQ to be drained, which wakes nobody. */
bool ops_progress_all(ops_t *ops);

/** Whether the op is over for its owner. */
bool ops_is_over(blink_op_t *op);

/** For staging: the last of an arrived op's outputs has been copied out. */
void ops_over(blink_op_t *op);

/** Wake the engine if it sleeps: after a store it may be waiting for. */
void ops_ring_doorbell(ops_t *ops);

/** The watcher's share: whether work remains for which it is to come back within a millisecond. */
bool ops_pump(ops_t *ops);

/** The daemon is lost: end every unfinished op with DAEMON_LOST, refuse new ones, wake every waiter. */
void ops_lose(ops_t *ops);

#endif
