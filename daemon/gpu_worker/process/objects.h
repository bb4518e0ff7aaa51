/*
 * Objects: pieces of memory on some GPUs that the service names and fills.
 */
#ifndef BLINK_WORKER_OBJECTS_H
#define BLINK_WORKER_OBJECTS_H

#include "gpu_worker/process/job.h"

typedef struct worker_object {
    uint32_t number;
    CUdeviceptr addresses[GPU_MAX]; /* 0 where it is not */
    void *host;                     /* if it is in host memory */
    struct worker_object *next;     /* in its bucket */
} worker_object_t;

/* GPU_LOAD and GPU_ALLOC: enqueued; the job tells the end. */
blink_result_t worker_object_make(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job);
blink_result_t worker_object_free(worker_t *worker, uint32_t number);

/* NULL: there is none. */
worker_object_t *worker_object_find(const worker_t *worker, uint32_t number);

#endif
