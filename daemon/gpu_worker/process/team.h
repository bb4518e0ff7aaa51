/*
 * Teams: memory on several GPUs that a switch reaches all at once. Each GPU has a piece, which all of them
 * find at an address of its own, and the pieces are bound to one multicast object, which has an address too:
 * what reads and writes there (multimem, kernels/switch.cuh) reads and writes all pieces, at the same place
 * in each.
 */
#ifndef BLINK_WORKER_TEAM_H
#define BLINK_WORKER_TEAM_H

#include "gpu_worker/process/gpu.h"

typedef struct worker_team {
    uint64_t bytes;                 /* of each piece */
    CUdeviceptr address;            /* of the object */
    CUdeviceptr addresses[GPU_MAX]; /* of the pieces; 0: the GPU has none */
    CUmemGenericAllocationHandle object;
    uint32_t bound; /* mask: GPUs whose pieces are bound */
} worker_team_t;

/* Whether the driver says that a switch reaches this GPU's memory, and has the calls; the GPU's facts but for
 * this have been read. */
bool worker_has_switch(const worker_t *worker, const worker_gpu_t *gpu);

/* Memory of at least so many bytes on each GPU of the mask, whatever is in it. Errors: UNSUPPORTED (the
 * driver lacks the calls), and what the driver says. */
blink_result_t worker_team_make(const worker_t *worker, uint32_t gpus, uint64_t bytes, worker_team_t **team);

/* Nothing uses it any more. */
void worker_team_free(const worker_t *worker, worker_team_t *team);

#endif
