/*
 * Objects: pieces of memory on some GPUs that the service names and fills.
 */
#ifndef BLINK_WORKER_OBJECTS_H
#define BLINK_WORKER_OBJECTS_H

#include "base/gpu_arena.h"
#include "gpu_worker/process/job.h"
#include "gpu_worker/process/team.h"

/* Page-locked host memory, of which objects are made that are not on GPUs. It is never given back: to lock
 * and to unlock pages may wait for what the GPUs run. Sizes are 32 MiB and its doubles; of each size as much
 * is kept as objects that need a slab of it once took at the same time, and up to as much again. */
typedef struct worker_slab {
    char *memory;
    CUdeviceptr addresses[GPU_MAX]; /* where each GPU finds it */
    gpu_arena_t arena;
    struct worker_slab *next;
} worker_slab_t;

/* Make one before it is needed. Errors: NO_MEMORY, SYSTEM. */
blink_result_t worker_slab_make(worker_t *worker, uint64_t bytes);

typedef struct worker_object {
    uint32_t number;
    CUdeviceptr addresses[GPU_MAX]; /* 0 where it is not */
    worker_team_t *team;            /* NULL: no switch reaches it */
    worker_slab_t *slab;            /* NULL: it is on GPUs */
    uint64_t offset;                /* in the slab */
    uint64_t bytes;                 /* as asked for, on each GPU or once in the slab */
    struct worker_object *next;     /* in its bucket */
} worker_object_t;

/* GPU_LOAD and GPU_ALLOC: enqueued; the job tells the end. */
blink_result_t worker_object_make(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job);
blink_result_t worker_object_free(worker_t *worker, uint32_t number);

/* NULL: there is none. */
worker_object_t *worker_object_find(const worker_t *worker, uint32_t number);

#endif
