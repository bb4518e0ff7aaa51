/*
 * One GPU as the worker works with it.
 */
#ifndef BLINK_WORKER_GPU_H
#define BLINK_WORKER_GPU_H

#include "base/cuda_driver.h"
#include "gpu_worker/link.h"

typedef struct worker worker_t;

#define WORKER_STREAMS_MAX      32u /* of a GPU, for runs */
#define WORKER_COPY_STREAMS_MAX 8u

typedef struct worker_stream {
    CUstream handle;
    CUevent event;  /* for other streams to wait on */
    uint32_t users; /* parts under way */
} worker_stream_t;

typedef struct worker_streams {
    uint32_t count;
    worker_stream_t streams[WORKER_STREAMS_MAX];
} worker_streams_t;

typedef struct worker_gpu {
    uint32_t number;
    CUdevice device;
    CUcontext context;
    gpu_facts_t facts;
    bool has_domains; /* of memory synchronization: more than one */
    int exported_fd;  /* a dma-buf, if facts.exported_address is not 0 */
    /* the run thread's */
    worker_streams_t run_streams, copy_streams;
    uint32_t copies_made; /* copies take the streams one after the other */
    worker_stream_t object_stream;
    CUmemoryPool object_pool;
    bool objects_pending; /* object_stream may be busy: its event tells */
    struct worker_slot *free_slots;
} worker_gpu_t;

/* Make this GPU the thread's current one: calls that make something on a GPU, or launch there, need that. */
blink_result_t worker_select(worker_t *worker, const worker_gpu_t *gpu);

/* On the thread's current GPU. */
blink_result_t worker_stream_create(worker_t *worker, worker_stream_t *stream);

/* Something was enqueued on the GPU's object stream: whoever uses an object from now on waits for it. */
blink_result_t worker_objects_changed(worker_t *worker, worker_gpu_t *gpu);

/* Let a stream wait for all that was enqueued on the object streams before. */
blink_result_t worker_objects_await(worker_t *worker, CUstream stream);

/* Leave for a GPU to read and write, as the driver wants it described. */
CUmemAccessDesc worker_access_from(const worker_gpu_t *gpu);

/* The GPUs that can use memory of `gpu`, it first, as the driver wants them described; returns how many. */
uint32_t worker_accessors(const worker_t *worker, uint32_t gpu, CUmemAccessDesc access[GPU_MAX]);

#endif
