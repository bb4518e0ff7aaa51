/*
 * The device of one rank: whether it is a GPU, and that GPU once this process's driver has found it.
 */
#ifndef CLIENT_RANK_GPU_H
#define CLIENT_RANK_GPU_H

#include "gpu/gpu.h"

typedef struct rank_gpu {
    gpus_t *gpus;
    uint32_t rank;                /* for sentences */
    uint32_t device;              /* this and the next two: constant once the daemon has answered */
    bool is_gpu;                  /* false: a host device */
    uint8_t uuid[GPU_UUID_BYTES]; /* of a GPU */
    _Atomic(gpu_t *) found;       /* by rank_gpu_require() */
} rank_gpu_t;

/** The GPU; NULL if the device is a host device, or this process has no driver or does not see the GPU: then
 * it has no memory there either. Thread-safe. */
gpu_t *rank_gpu_find(rank_gpu_t *rank);

/** The same for calls that cannot do without. Errors: UNSUPPORTED (a host device; no driver),
 * INVALID_ARGUMENT (this process does not see the GPU), SYSTEM, NO_MEMORY. */
blink_result_t rank_gpu_require(rank_gpu_t *rank, gpu_t **gpu);

#endif
