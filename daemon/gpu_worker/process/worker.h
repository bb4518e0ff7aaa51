/*
 * Inside the GPU worker process. The main thread (worker.c) answers the service's requests about memory; the
 * run thread (run.c) takes submissions from the ring, launches and completes. They share what is fixed
 * once both run: the driver's calls and the GPUs; everything else is one thread's. They take turns (turns.h):
 * no request about memory is served while a run is on some of its GPUs only. Where there are processors
 * enough, a thread for each GPU helps the run thread with launches, and does nothing else (launchers.h).
 *
 * Nothing that the run thread does waits for a GPU, since an abort may come at any time: memory of objects
 * comes from pools in stream order, and all work, also copying an object to its GPU, tells its end through a
 * word in host memory. Teams (team.h) are the exception: they are mapped and unmapped by calls that may wait
 * for what runs, which is on all of its GPUs by then and ends by itself.
 */
#ifndef BLINK_WORKER_H
#define BLINK_WORKER_H

#include "gpu_worker/process/launchers.h"
#include "gpu_worker/process/objects.h"
#include "gpu_worker/process/turns.h"

#define WORKER_KERNELS_MAX    64u
#define WORKER_OBJECT_BUCKETS 1024u

typedef struct worker_kernel {
    char name[LANE_ABI_KERNEL_NAME_BYTES];
    CUfunction functions[GPU_MAX];
} worker_kernel_t;

struct worker {
    const cuda_driver_t *cu;
    gpu_start_t start;
    uint32_t gpu_count;
    uint32_t kernel_count;
    bool is_mps;
    worker_gpu_t gpus[GPU_MAX];
    worker_kernel_t kernels[WORKER_KERNELS_MAX];
    /* between the two threads */
    worker_turns_t turns;
    atomic_flag has_lost_text;
    _Atomic bool is_lost; /* a context is; the driver's words, which the first failure has: */
    char lost_text[BLINK_ERROR_TEXT_BYTES];
    /* the main thread's */
    int socket_fd;
    struct worker_import *imports;
    struct worker_ipc *ipc_mappings;
    struct worker_pool *pools;
    bool warned_of_ipc; /* that peers do not reach them */
    /* the run thread's */
    worker_launcher_t launchers[GPU_MAX]; /* by GPU */
    bool launches_at_once;                /* they have threads */
    ring_t ring;
    bool has_drawn; /* a turn, for submissions: */
    uint32_t turn;
    int doorbell_fd, completion_fd, epoll_fd;
    char *arena;
    CUdeviceptr arena_address; /* where GPUs find it */
    char *wires;               /* what GPUs and the network share */
    uint64_t wires_pinned[GPU_WIRE_SEGMENTS / 64];
    worker_object_t *objects[WORKER_OBJECT_BUCKETS];
    worker_slab_t *slabs;
    list_t jobs, free_jobs;
};

/* Tell the service that a GPU is opened next, which may take a while. */
void worker_say_opening(const worker_t *worker);

/* Fail as cuda_driver_fail(), and note in is_lost if the error is one after which a context is of no more
 * use: the run thread's loop then ends the worker. */
blink_result_t worker_fail(worker_t *worker, const char *call, CUresult result);

static inline bool worker_is_lost(const worker_t *worker)
{
    /* Acquire: pairs with worker_fail(), which has written the text. */
    return atomic_load_explicit(&worker->is_lost, memory_order_acquire);
}

#define WORKER_TRY(worker, name, ...)                                                                        \
    do {                                                                                                     \
        CUresult worker_result_ = (worker)->cu->name(__VA_ARGS__);                                           \
        if (worker_result_ != CUDA_SUCCESS)                                                                  \
            return worker_fail((worker), #name, worker_result_);                                             \
    } while (0)

#endif
