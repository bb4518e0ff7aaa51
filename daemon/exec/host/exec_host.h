/*
 * The host executor: runs lane programs on CPU threads over shared memory. Lanes are resumable state
 * machines; a lane whose wait is not satisfied parks on that semaphore and its one writer puts it back on the
 * run queue, so a worker never blocks on a lane and any number of workers (one included) runs any number of
 * lanes. A program that is independent has no lanes here: workers take its chunks from one counter.
 *
 * With a pacer every transfer gets virtual times: a step is ready at the latest arrival it waited for, its
 * transfers are booked from then on, and what it signals becomes visible at the booked times. Workers take
 * lanes in order of their ready times and never before that time has come.
 */
#ifndef BLINK_EXEC_HOST_H
#define BLINK_EXEC_HOST_H

#include "exec/exec.h"
#include "exec/host/pace.h"

typedef struct exec_host exec_host_t;

typedef struct exec_host_config {
    uint32_t workers; /* threads; 0: one per core */
    bool bind;        /* bind each worker to a core with hwloc */
    pace_t *pace;     /* borrowed; NULL: links are as fast as the memory */
    uint32_t link_count;
    _Atomic uint64_t *link_bytes; /* link_count counters, borrowed: bytes that crossed each directed link */
} exec_host_config_t;

/* Start the worker pool. Errors: NO_MEMORY, SYSTEM. */
blink_result_t exec_host_create(const exec_host_config_t *config, exec_host_t **exec);

/* Stop and join the workers. Every instance must be destroyed before. */
void exec_host_destroy(exec_host_t *exec);

/* The executor as exec.h knows it. A run short enough that waking a worker would cost more is made on the
 * thread that starts it, without a pacer only. exec_abort() is thread-safe. */
exec_t *exec_of_host(exec_host_t *exec);

/* Whether every worker has come by the run queue since the last call that returned true: none is stuck in a
 * task, of which each is short. Asks them anew if so. One thread calls. */
bool exec_host_turns(exec_host_t *exec);

/* Workers that are running a lane at this moment (a hint for waiting policies). Thread-safe. */
uint32_t exec_host_busy(const exec_host_t *exec);
uint32_t exec_host_workers(const exec_host_t *exec);

#endif
