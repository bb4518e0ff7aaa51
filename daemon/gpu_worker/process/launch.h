/*
 * Beginning a run: its launches, or its copies.
 */
#ifndef BLINK_WORKER_LAUNCH_H
#define BLINK_WORKER_LAUNCH_H

#include "gpu_worker/process/job.h"

/* GPU_RUN. What it enqueued is in the job's parts, on failure too: the job ends when they have. */
blink_result_t worker_launch(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job);

#endif
