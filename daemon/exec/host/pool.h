/*
 * The worker pool as the instances see it: a locked run queue, whose lock also guards the pacer.
 */
#ifndef BLINK_EXEC_POOL_H
#define BLINK_EXEC_POOL_H

#include "exec/host/queue.h"
#include "exec/instance.h"

#include <pthread.h>

struct exec_host {
    exec_t base;
    exec_host_config_t config;
    uint32_t worker_count;
    pthread_t *workers;
    uint64_t cache_bytes; /* of all caches of the last level */

    pthread_mutex_t mutex; /* guards everything below, and config.pace */
    exec_queue_t queue;
    pthread_cond_t idle_wake;  /* workers asleep without a time to wake at */
    pthread_cond_t timer_wake; /* the timekeeper */
    uint32_t idle;             /* of these workers, those that nobody has called yet */
    uint32_t called;           /* those that were called and are not up yet */
    uint32_t runners;          /* workers inside a lane: they come back to the queue soon */
    bool timekeeper;           /* a worker sleeps until deadline_ns */
    uint64_t deadline_ns;
    bool stopping;
    uint32_t started;  /* workers that have begun */
    uint32_t round;    /* counts exec_host_turns() */
    uint32_t *came_by; /* by worker: the last round that it has seen */

    _Atomic uint32_t busy; /* a hint, so all its accesses are relaxed */
};

/* Unlock after pushing to the queue, and wake a worker if what was pushed needs one. A worker that only puts
 * its own task back unlocks the mutex plainly, since it returns to the queue itself. */
void pool_unlock_and_wake(exec_host_t *exec);

/* Under the lock, which is let go of meanwhile: run a task that is not in the queue, and charge its share. */
void pool_run_locked(exec_host_t *exec, exec_task_t *task);

/* The host's side of exec_calls_t. */
blink_result_t host_share_create(exec_t *exec, const void *tenant, uint32_t weight, exec_share_t **share);
void host_share_destroy(exec_share_t *share);

/* Under the lock: free a share that no worker runs a task of. */
void share_free(exec_share_t *share);

/* Under the lock: wake sleepers until so many are on their way, as far as there are any. Without a pacer
 * only. */
void pool_wake_helpers(exec_host_t *exec, uint32_t helpers);

#endif
