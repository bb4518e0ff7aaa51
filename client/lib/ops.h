/*
 * The submitted operations of one context: their handles, the client side of the rings, and the threads that
 * wait.
 *
 * Locks. submit_lock serialises the producer side of the ring, the queues and the making of handles;
 * reap_lock the consumer side. Neither is ever held while taking another lock, or while waiting.
 *
 * Bounds. At most `limit` submissions are unreaped at any time, which is what the ring's contract asks for;
 * and of those at most limit / rank_count belong to one rank of this context. What exceeds either bound is
 * parked in its queue here and moved to the ring as completions are reaped, so that a submission returns at
 * once however many are unfinished. The second bound is what keeps ranks that share a context from starving
 * one another: the oldest unfinished op of every rank is always in the ring, hence the oldest unfinished
 * collective of every communicator can run. Parked ops are moved on by every thread that submits, tests or
 * waits, and once a millisecond by the watcher.
 *
 * No wake-up is missed by a waiting thread. It announces itself (ring_sleep_begin), then takes reap_lock,
 * reaps whatever is there and looks at its op, and only then sleeps. Its op's completion is published either
 *  - after that last reaping: then, by the argument in ring.h, the daemon saw the announcement and changes
 * the futex word after the announcement, so that the sleep ends or never begins; or
 *  - before: then that reaping found it, or another thread had reaped it earlier under reap_lock and with
 * that marked the op done, which the look under the lock sees. So a thread that reaps for others never has to
 * wake them. Losing the daemon marks every op done under reap_lock and then wakes all sleepers: the same two
 * cases. (A woken thread whose op is published but in the hands of another reaping thread does not oversleep
 * either: it takes reap_lock before it sleeps again.)
 *
 * No parked op is forgotten. Whoever parks first counts it in `parked` and then looks at `reaped`; whoever
 * reaps first publishes `reaped` and then looks at `parked`; all four are sequentially consistent, so one of
 * them sees the other.
 */
#ifndef CLIENT_OPS_H
#define CLIENT_OPS_H

#include "blink/blink.h"
#include "ring.h"

#include <pthread.h>

#define OPS_CHUNK_OPS  256u
#define OPS_CHUNKS_MAX 4096u

/** The submissions of one rank, or of the context itself (nops), in order. */
typedef struct ops_queue {
    struct ops_queue *next;
    blink_op_t *first_parked, *last_parked;
    uint32_t submitted;      /* to the ring; under submit_lock */
    _Atomic uint32_t reaped; /* written under reap_lock */
} ops_queue_t;

typedef struct ops {
    ring_t ring;
    int doorbell_fd;   /* wakes the engine */
    int completion_fd; /* blink_poll_fd() */
    int pump_fd;       /* wakes the watcher for parked ops */
    uint32_t limit;

    pthread_mutex_t submit_lock;
    ops_queue_t nops;    /* always in the list of queues */
    ops_queue_t *queues; /* under submit_lock */
    uint32_t rank_count; /* ranks that are in the list, or joining; under submit_lock */
    uint32_t submitted;  /* to the ring, by all queues; under submit_lock */
    bool lost;           /* under submit_lock */
    uint32_t chunk_count;
    blink_op_t *free_ops;            /* under submit_lock */
    _Atomic(blink_op_t *) freed_ops; /* pushed by any thread, taken whole under submit_lock */
    _Atomic(blink_op_t *) *chunks;   /* OPS_CHUNKS_MAX; written under submit_lock */
    pthread_mutex_t reap_lock;
    _Atomic uint32_t reaped; /* written under reap_lock */
    _Atomic uint32_t parked; /* written under submit_lock */
    _Atomic bool pumped;     /* the watcher looks after parked ops */
} ops_t;

/** Take over the ring and its two descriptors, whatever the outcome; ops_fini() after a success only.
 * Errors: NO_MEMORY, SYSTEM. */
blink_result_t ops_init(ops_t *ops, const ring_t *ring, int doorbell_fd, int completion_fd);

/** Free everything, unfinished handles too. No thread uses the ops any more. */
void ops_fini(ops_t *ops);

/** Add the queue of a rank, before the daemon hears of the rank. Errors: QUOTA (`limit` ranks share the
 * ring). */
blink_result_t ops_queue_add(ops_t *ops, ops_queue_t *queue);

/** Take a queue out. False, and nothing done, if ops of it are unfinished. */
bool ops_queue_remove(ops_t *ops, ops_queue_t *queue);

/** Submit `sqe` (user_data is set here) through a queue. Never waits. Errors: DAEMON_LOST, NO_MEMORY. */
blink_result_t ops_submit(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, blink_op_t **op);

/** Wait until nothing is parked in the queue; NULL: in any queue. */
void ops_drain(ops_t *ops, ops_queue_t *queue);

/** Reap what has completed and move parked ops on. Returns without doing so if another thread is reaping. */
void ops_progress(ops_t *ops);

/** The watcher's share: whether parked ops remain, for which it is to come back within a millisecond. */
bool ops_pump(ops_t *ops);

/** The daemon is lost: end every unfinished op with DAEMON_LOST, refuse new ones, wake every waiter. */
void ops_lose(ops_t *ops);

#endif
