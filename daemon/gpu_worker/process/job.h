/*
 * A submission under way, and its parts, one for each stream that works for it.
 */
#ifndef BLINK_WORKER_JOB_H
#define BLINK_WORKER_JOB_H

#include "base/list.h"
#include "gpu_worker/process/slots.h"
#include "ring.h"

typedef struct worker_part {
    worker_gpu_t *gpu;
    worker_slot_t *slot;
    worker_stream_t *stream;
    bool is_finished;
} worker_part_t;

typedef struct worker_job {
    list_t link; /* worker_t.jobs or .free_jobs */
    uint64_t user_data;
    uint64_t number;     /* what a part's control->finished holds at its end */
    uint64_t run_number; /* what GPU_ABORT names; 0: no run */
    uint64_t wait_limit_ns;
    const uint64_t *watched; /* semaphores of wires */
    uint32_t watched_count;
    uint64_t watched_sum; /* of these, when they were last looked at: they only grow */
    bool is_aborted;
    blink_result_t result; /* the first failure */
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t part_count, parts_left;
    worker_part_t parts[GPU_MAX];
} worker_job_t;

/* Note a failure, unless one came before. */
void worker_job_fail(worker_job_t *job, blink_result_t result, const char *text);

/* Tell all lanes of the job to end. */
void worker_job_abort(worker_job_t *job);

/* Add a part to the job, which has none on this GPU: a slot, and the stream it will use. */
worker_part_t *worker_part_add(worker_job_t *job, worker_gpu_t *gpu, worker_stream_t *stream);

/* Take a part back: nothing was enqueued that would end it. The last one takes its place. */
void worker_part_drop(worker_job_t *job, uint32_t number);

/* Let the part's stream tell its end once it comes to here. */
blink_result_t worker_part_finish(worker_t *worker, const worker_job_t *job, const worker_part_t *part);

/* The range of the arena that a submission names; NULL, with INVALID_ARGUMENT recorded, if it is none. */
void *worker_range(const worker_t *worker, const ring_sqe_t *sqe);

#endif
