/*
 * Inside the GPU worker process. The main thread (worker.c) answers the service's requests about memory; the
 * run thread (worker_run.c) takes submissions from the ring, launches and completes. They share what is fixed
 * once both run: the driver's calls and the GPUs; everything else is one thread's.
 *
 * Nothing that the run thread does waits for a GPU, since an abort may come at any time: memory of objects
 * comes from pools in stream order, and all work, also copying an object to its GPU, tells its end through a
 * word in host memory.
 */
#ifndef BLINK_WORKER_H
#define BLINK_WORKER_H

#include "base/cuda_driver.h"
#include "gpu_worker/link.h"
#include "ring.h"

#define WORKER_STREAMS_MAX      32u /* of a GPU, for runs */
#define WORKER_COPY_STREAMS_MAX 8u
#define WORKER_KERNELS_MAX      64u
#define WORKER_OBJECT_BUCKETS   1024u

typedef struct worker_kernel {
    char name[LANE_ABI_KERNEL_NAME_BYTES];
    CUfunction functions[GPU_MAX];
} worker_kernel_t;

typedef struct worker_stream {
    CUstream handle;
    CUevent event;  /* for other streams to wait on */
    uint32_t users; /* parts under way */
} worker_stream_t;

typedef struct worker_streams {
    uint32_t count;
    worker_stream_t streams[WORKER_STREAMS_MAX];
} worker_streams_t;

/* What one part of a job needs to tell its end. */
typedef struct worker_slot {
    lane_abi_control_t *control; /* host memory */
    CUdeviceptr control_address;
    CUdeviceptr blocks_left; /* on the slot's GPU; 0 between uses */
    struct worker_slot *next;
} worker_slot_t;

typedef struct worker_gpu {
    uint32_t number;
    CUdevice device;
    CUcontext context;
    gpu_facts_t facts;
    /* the run thread's */
    worker_streams_t run_streams, copy_streams;
    uint32_t copy_turn; /* counts copies, which take the streams in turn */
    worker_stream_t object_stream;
    CUmemoryPool object_pool;
    bool objects_pending; /* object_stream may be busy: its event tells */
    worker_slot_t *free_slots;
} worker_gpu_t;

/* A piece of memory on some GPUs that the service named. */
typedef struct worker_object {
    uint32_t number;
    CUdeviceptr addresses[GPU_MAX]; /* 0 where it is not */
    void *host;                     /* if it is in host memory */
    struct worker_object *next;     /* in its bucket */
} worker_object_t;

typedef struct worker_part {
    worker_gpu_t *gpu;
    worker_slot_t *slot;
    worker_stream_t *stream;
    bool is_finished;
} worker_part_t;

/* A submission under way. */
typedef struct worker_job {
    uint64_t user_data;
    uint64_t number;     /* what a part's control->finished holds at its end */
    uint64_t run_number; /* what GPU_ABORT names; 0: no run */
    uint64_t wait_limit_ns;
    bool is_aborted;
    blink_result_t result; /* the first failure */
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t part_count, parts_left;
    worker_part_t parts[GPU_MAX];
    struct worker_job *next;
} worker_job_t;

typedef struct worker {
    const cuda_driver_t *cu;
    gpu_start_t start;
    uint32_t gpu_count;
    uint32_t kernel_count;
    bool is_mps;
    worker_gpu_t gpus[GPU_MAX];
    worker_kernel_t kernels[WORKER_KERNELS_MAX];
    /* the main thread's */
    int socket_fd;
    struct worker_import *imports;
    struct worker_ipc *ipc_mappings;
    /* the run thread's */
    ring_t ring;
    int doorbell_fd, completion_fd, epoll_fd;
    char *arena;
    bool is_lost; /* a context is; the driver's words: */
    char lost_text[BLINK_ERROR_TEXT_BYTES];
    worker_object_t *objects[WORKER_OBJECT_BUCKETS];
    worker_job_t *jobs, *free_jobs;
} worker_t;

/*
 * Fail as cuda_driver_fail(), and note in is_lost if the error is one after which a context is of no more
 * use. For the run thread: the next turn of its loop ends the worker.
 */
blink_result_t worker_fail(worker_t *worker, const char *call, CUresult result);

#define WORKER_TRY(worker, name, ...)                                                                        \
    do {                                                                                                     \
        CUresult worker_result_ = (worker)->cu->name(__VA_ARGS__);                                           \
        if (worker_result_ != CUDA_SUCCESS)                                                                  \
            return worker_fail((worker), #name, worker_result_);                                             \
    } while (0)

/* ---- worker_facts.c ---- */

/* Initialise the driver and make every GPU ready: facts, contexts, peers, kernels, what the run thread needs
 * of each. Errors: NOT_FOUND (no driver that will do, no GPU), INTERNAL (a kernel is missing), SYSTEM,
 * NO_MEMORY. */
blink_result_t worker_open_gpus(worker_t *worker);

/* The GPUs that can use memory of `gpu`, it first, as the driver wants them described; returns how many. */
uint32_t worker_accessors(const worker_t *worker, uint32_t gpu, CUmemAccessDesc access[GPU_MAX]);

/* ---- worker_memory.c ---- */

/* `fds` stay the caller's. Errors: as gpu_reply_t says. */
blink_result_t worker_import(worker_t *worker, const gpu_request_t *request, const int *fds,
                             uint32_t fd_count, uint64_t *address);
blink_result_t worker_map_host(worker_t *worker, const gpu_request_t *request, const int *fds,
                               uint32_t fd_count, uint64_t *address);
/* Errors: INVALID_ARGUMENT (no such token). What the driver says on the way is only logged. */
blink_result_t worker_release(worker_t *worker, uint64_t token);

/* ---- worker_import.c: one extent each, of which the caller knows that it lies within its allocation ---- */

/* The allocation behind a descriptor, for cuMemMap(). Errors: INVALID_ARGUMENT, NO_MEMORY, SYSTEM. */
blink_result_t worker_open_vmm(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                               CUmemGenericAllocationHandle *handle);
/* What a pool's descriptor and an allocation's name in it lead to: the allocation's first byte. Errors: the
 * same. */
blink_result_t worker_open_pool(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                                CUmemoryPool *pool, CUdeviceptr *address);
void worker_close_pool(worker_t *worker, uint32_t gpu, CUmemoryPool pool, CUdeviceptr address);
/* A handle that is open already is shared: the driver has one mapping of it. Errors: the same. */
blink_result_t worker_open_ipc(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                               CUdeviceptr *address);
void worker_close_ipc(worker_t *worker, uint32_t gpu, CUdeviceptr address);

/* Fail over a handle that leads nowhere: INVALID_ARGUMENT, or NO_MEMORY. */
blink_result_t worker_import_fail(const worker_t *worker, const char *call, CUresult result);
/* Log a call that failed while memory was given back, if it did. */
void worker_log_failure(const worker_t *worker, const char *call, CUresult result);

/* ---- worker_objects.c ---- */

/* GPU_LOAD and GPU_ALLOC: enqueued; the job tells the end. */
blink_result_t worker_object_make(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job);
blink_result_t worker_object_free(worker_t *worker, uint32_t number);
/* NULL: there is none. */
worker_object_t *worker_object_find(const worker_t *worker, uint32_t number);

/* Let a stream wait for all that was done to objects before. */
blink_result_t worker_objects_await(worker_t *worker, CUstream stream);

/* A slot of this GPU, control and counter zeroed. Errors: NO_MEMORY, SYSTEM. */
blink_result_t worker_slot_get(worker_t *worker, worker_gpu_t *gpu, worker_slot_t **slot);
void worker_slot_put(worker_gpu_t *gpu, worker_slot_t *slot);

/* ---- worker_launch.c ---- */

/* GPU_RUN. What it enqueued is in the job's parts, on failure too: the job ends when they have. */
blink_result_t worker_launch(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job);

/* Add a part to the job: a slot, and the stream it will use. */
blink_result_t worker_part_add(worker_t *worker, worker_job_t *job, worker_gpu_t *gpu,
                               worker_stream_t *stream, worker_part_t **part);
/* Take the last part back: nothing was enqueued that would end it. */
void worker_part_drop(worker_job_t *job);
/* Let the part's stream tell its end once it comes to here. */
blink_result_t worker_part_finish(worker_t *worker, const worker_job_t *job, const worker_part_t *part);

blink_result_t worker_stream_create(worker_t *worker, worker_stream_t *stream);
/* Calls that make something on a GPU, or launch there, do so on the thread's current one. */
blink_result_t worker_select(worker_t *worker, const worker_gpu_t *gpu);

/* ---- worker_run.c ---- */

/* Note a failure, unless one came before. */
void worker_job_fail(worker_job_t *job, blink_result_t result, const char *text);
/* Tell all lanes of the job to end. */
void worker_job_abort(worker_job_t *job);

/* The run thread's life. */
void *worker_run_main(void *worker);

/* The range of the arena that a submission names; NULL, with INVALID_ARGUMENT recorded, if it is none. */
void *worker_range(const worker_t *worker, const ring_sqe_t *sqe);

#endif
