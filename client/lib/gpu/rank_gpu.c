/* From ranks to GPUs. */
#include "gpu/rank_gpu.h"

#include "error.h"

#include <stdatomic.h>

blink_result_t rank_gpu_require(rank_gpu_t *rank, gpu_t **gpu)
{
    /* Acquire: pairs with the store below. */
    *gpu = atomic_load_explicit(&rank->found, memory_order_acquire);
    if (*gpu)
        return BLINK_OK;
    if (!rank->is_gpu)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "device %u of rank %u is not a GPU", rank->device,
                          rank->rank);
    BLINK_TRY(gpus_open(rank->gpus, rank->uuid, gpu));
    /* Release: pairs with the load above. */
    atomic_store_explicit(&rank->found, *gpu, memory_order_release);
    return BLINK_OK;
}

gpu_t *rank_gpu_find(rank_gpu_t *rank)
{
    gpu_t *gpu;
    return rank->is_gpu && rank_gpu_require(rank, &gpu) == BLINK_OK ? gpu : NULL;
}
