/*
 * Launching on several GPUs at once. A launch takes the calling thread some microseconds, so that of eight
 * GPUs the last one would start that much later than the first. So each GPU has a thread that launches there.
 * The run thread offers every launch of a run to the thread of its GPU, makes those itself that nobody has
 * taken up yet, and goes on when all are made: on each GPU kernels are launched in the order of runs, whoever
 * does it, and a run is never whole later than if the run thread had made all its launches, but for waking
 * the others.
 */
#ifndef BLINK_WORKER_LAUNCHERS_H
#define BLINK_WORKER_LAUNCHERS_H

#include "gpu_worker/process/gpu.h"

#include <stdatomic.h>

/* A launch on one GPU. */
typedef struct worker_launch {
    CUfunction function;
    CUstream stream;
    uint32_t blocks;
    bool is_cooperative;
    lane_abi_run_t run; /* the kernel's argument */
    bool is_made;
    CUresult result; /* the driver's, of trying */
} worker_launch_t;

typedef enum worker_offer { OFFER_NONE, OFFER_OPEN, OFFER_TAKEN, OFFER_DONE } worker_offer_t;

/* One for each GPU. */
typedef struct worker_launcher {
    worker_launch_t launch; /* the run thread's, unless its offer is taken by the launching one */
    _Alignas(64) _Atomic uint32_t offer; /* worker_offer_t */
    _Atomic uint32_t is_asleep;          /* the thread is, or about to be */
    worker_gpu_t *gpu;
    const cuda_driver_t *cu;
} worker_launcher_t;

/* Start a thread for each GPU, if there are several and processors for all of these threads; the others are
 * the applications'. Errors: SYSTEM. */
blink_result_t worker_launchers_start(worker_t *worker);

/*
 * Make the launch of each GPU of the mask: worker->launchers[] holds it, and what became of it. Returns when
 * no thread is at it any more. After a failure some may not have been tried: neither made nor with an error.
 */
void worker_launchers_make(worker_t *worker, uint32_t gpus);

#endif
