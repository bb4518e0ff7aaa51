/*
 * Slots, by which all work on the GPUs tells its end: a word in host memory that the run thread looks at.
 */
#ifndef BLINK_WORKER_SLOTS_H
#define BLINK_WORKER_SLOTS_H

#include "gpu_worker/process/gpu.h"

/* What one part of a job needs to tell its end. */
typedef struct worker_slot {
    lane_abi_control_t *control; /* host memory */
    CUdeviceptr control_address;
    CUdeviceptr blocks_left; /* on the slot's GPU; 0 between uses */
    struct worker_slot *next;
} worker_slot_t;

/* All slots of this GPU, which is the thread's current one: as many as submissions can be under way. The
 * worker ends where this fails. Errors: NO_MEMORY, SYSTEM. */
blink_result_t worker_slots_make(worker_t *worker, worker_gpu_t *gpu);

/* A slot of this GPU, control and counter zeroed. A submission takes one at most: there always is one. */
worker_slot_t *worker_slot_get(worker_gpu_t *gpu);
void worker_slot_put(worker_gpu_t *gpu, worker_slot_t *slot);

#endif
