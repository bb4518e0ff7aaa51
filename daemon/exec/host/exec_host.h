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

#include "exec/host/pace.h"
#include "plan/lane.h"

#include <stdatomic.h>

typedef struct exec_host exec_host_t;
typedef struct exec_instance exec_instance_t;

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

/* Any other work for the pool (planning): runs job(argument) on a worker, after lanes that are already due.
 * Thread-safe. Errors: NO_MEMORY. */
blink_result_t exec_host_post(exec_host_t *exec, void (*job)(void *), void *argument);

/* Workers that are running a lane or a job at this moment (a hint for waiting policies). Thread-safe. */
uint32_t exec_host_busy(const exec_host_t *exec);
uint32_t exec_host_workers(const exec_host_t *exec);

/*
 * What it takes to run one program: lane states, semaphores, scratch (grown on demand, kept between runs). One run at a
 * time. Borrows the program until destroyed. Errors: NO_MEMORY.
 */
blink_result_t exec_instance_create(exec_host_t *exec, const lane_program_t *program,
                                    exec_instance_t **instance);

/* The instance must be idle. */
void exec_instance_destroy(exec_instance_t *instance);

/*
 * Buffers are arrays of blocks of `count` elements; plan/collective.h says of how many blocks, and what stands
 * where. Read: one block of the input of every rank, but all n for reducescatter and alltoall, those of the
 * root alone for broadcast (one) and scatter (n), one of the source for sendrecv. Written: one block of the
 * output of every rank, but all n for allgather and alltoall, those of the root alone for reduce (one) and
 * gather (n), one of the destination for sendrecv. Nothing else is touched. Buffers overlap only as
 * lane_verify() proves it right in place.
 */
typedef struct exec_run {
    const void *const *inputs; /* per rank; NULL where it is not read. Copied by exec_start */
    void *const *outputs;      /* per rank; NULL where it is not written. Copied by exec_start */
    /* Bytes from one block to the next in each rank's input and output; NULL: the blocks adjoin. Copied. */
    const uint64_t *input_strides, *output_strides;
    uint64_t count; /* elements of one block: of the payload where that is a single block */
    blink_datatype_t datatype;
    blink_redop_t redop; /* SUM where nothing is reduced */
    const uint64_t
        *scalars; /* PRE_MUL_SUM: per rank, the bits of an element its input is multiplied by; else NULL.
                                 Copied */
    _Atomic uint64_t
        *comm_link_bytes; /* link_count more counters, borrowed until the run ends; may be NULL */
    /* Called exactly once when no lane touches a buffer any more: BLINK_OK, or the code given to
     * exec_abort(). On a worker thread. Must not block. */
    void (*done)(void *context, blink_result_t result);
    void *context;
} exec_run_t;

/*
 * Start a run on an idle instance. A run short enough that waking a worker would cost more is made on the caller's thread:
 * *ended says that it is over, and done is then not called: what it would be told is returned. Without a pacer only, but
 * for a run of nothing. Errors (nothing runs, *ended is false): NO_MEMORY.
 */
blink_result_t exec_start(exec_instance_t *instance, const exec_run_t *run, bool *ended);

/* Make the current run end soon with `reason` (no-op when idle). Thread-safe; done follows from a worker, or exec_start()
 * returns the reason if it is still at the run. */
void exec_abort(exec_instance_t *instance, blink_result_t reason);

#endif
