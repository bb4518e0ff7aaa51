/*
 * The submitted operations of one context, and the client side of the rings.
 *
 * Locks. submit_lock serialises the producer side of the ring, the queues and the making of handles;
 * reap_lock the consumer side; staging.lock the copying of staged buffers. None of these is ever held while
 * taking another, or while waiting. (staging.lock is that of its arenas.)
 *
 * Bounds. An op is what completes once: a submission, or a group of them of one rank. At most `limit` ops are
 * in the ring and unreaped, which is what the ring's contract asks for. What exceeds a bound is parked in its
 * queue here and moved to the ring as completions are reaped, so that a submission returns at once however
 * many are unfinished. Of the limit, some places are for the oldest unfinished op of each queue alone:
 * one for each live queue while there are no more than `limit` of them, at least half in any case. The rest
 * is shared evenly by the queues that have ops in the ring. So ranks that share a context do not starve one
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
 * No wake-up is missed by a waiting thread (wait.c). It announces itself (ring_sleep_begin), then takes
 * reap_lock, reaps whatever is there, does the same with staging.lock and the windows, looks at what it waits
 * for, and only then sleeps. The daemon's store that it needs (a completion, or a window's `done`) is made
 * either
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

#include "submit/engine.h"
#include "submit/handle.h"
#include "submit/op.h"
#include "submit/staging.h"

#include <pthread.h>

typedef struct ops {
    engine_t engine;
    int pump_fd;    /* wakes the watcher for what goes on without the application's calls; non-blocking */
    uint32_t limit; /* ops in the ring */
    ops_queue_t nops;
    staging_t staging;

    pthread_mutex_t submit_lock;
    handles_t handles;
    list_t parked_queues; /* by the age of their first parked op; this and what follows under submit_lock */
    uint32_t stalled;     /* parked ops that have a place, the SQ being full */
    uint32_t live_queues; /* of ranks that have joined, or are joining */
    uint32_t submitted;   /* ops that got a place in the ring */
    uint64_t age;
    const char *lost_text; /* why the daemon is lost; NULL: it is not */

    pthread_mutex_t reap_lock;
    _Atomic uint32_t reaped;      /* written under reap_lock */
    _Atomic uint32_t cq_seen;     /* up to this index of the CQ all is reaped; written under reap_lock */
    _Atomic uint32_t used_queues; /* queues with ops in the ring */
    _Atomic uint32_t parked;      /* ops; written under submit_lock */
    _Atomic bool pumped;          /* the watcher looks after parked and streaming ops */
} ops_t;

/** Take over the ring and its two descriptors, whatever the outcome; ops_fini() after a success only.
 * Errors: NO_MEMORY, SYSTEM. */
blink_result_t ops_init(ops_t *ops, const engine_t *engine, connection_t *connection);

/** Free everything, unfinished handles too. No thread uses the ops any more. */
void ops_fini(ops_t *ops);

/** Make the queue of a rank, and count it before the daemon hears of the rank. */
void ops_queue_add(ops_t *ops, ops_queue_t *queue);

/** Take a queue out. False, and nothing done, if ops of it are unfinished. */
bool ops_queue_remove(ops_t *ops, ops_queue_t *queue);

/** Submit one entry (user_data is set here) through a queue. Never waits. Errors: DAEMON_LOST, NO_MEMORY; the
 * transfers are then still the caller's. */
blink_result_t ops_submit(ops_t *ops, ops_queue_t *queue, const ops_run_t *run, blink_op_t **op);

/** The same in two steps, for groups of several queues: take a handle (errors as ops_submit()), and submit a
 * run for it without fail, or give it back with ops_unreserve(). Once the daemon is lost the op ends with
 * that. */
blink_result_t ops_reserve(ops_t *ops, blink_op_t **op);
void ops_unreserve(blink_op_t *op);
void ops_launch(blink_op_t *op, ops_queue_t *queue, const ops_run_t *run);

/** Between these two steps: nobody will wait for the op; it frees itself after ended(owner). */
void ops_detach(blink_op_t *op, ops_ended_t *ended, void *owner);

/** Whether anything is parked in the queue; NULL: in any. */
bool ops_has_parked(ops_t *ops, const ops_queue_t *queue);

/** Reap what has completed, copy what is staged and move parked ops on. What another thread is doing at the
 * moment is left to it, but if `certain` not the reaping. */
void ops_progress(ops_t *ops, bool certain);

/** The same for a thread that is about to sleep: leaves nothing to others. Whether it may only doze, for
 * parked ops wait for the SQ to be drained, which wakes nobody. */
bool ops_progress_all(ops_t *ops);

/** Whether the op is over for its owner, and whether all of the chain of a group's ops are. */
bool ops_is_over(blink_op_t *op);
bool ops_are_over(blink_op_t *op);

/** Free a chain of ops that are over; the first failure among them, with its sentence. */
blink_result_t ops_finish(blink_op_t *op);

/** The watcher's share: whether work remains for which it is to come back within a millisecond. */
bool ops_pump(ops_t *ops);

/** Wake the watcher. */
void ops_wake_watcher(const ops_t *ops);

/** Whether the daemon has ops whose completion has not been taken. */
bool ops_are_awaited(ops_t *ops);

/** The daemon is lost, for this reason, which stays the caller's: end every unfinished op with DAEMON_LOST,
 * refuse new ones, wake every waiter. */
void ops_lose(ops_t *ops, const char *text);

#endif
