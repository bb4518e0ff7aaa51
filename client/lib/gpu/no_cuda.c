/* gpu.h where there was no CUDA to build with: there is no GPU. */
#include "gpu/gpu.h"

#include "error.h"
#include "gpu/unusable.h"

static blink_result_t without_cuda(void)
{
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "libblinkclient was built without CUDA");
}

void gpus_init(gpus_t *gpus)
{
    *gpus = (gpus_t){0};
}

void gpus_fini(gpus_t *gpus)
{
    (void)gpus;
}

const struct cuda_driver *gpus_find_driver(gpus_t *gpus)
{
    (void)without_cuda();
    gpus_note_unusable(gpus);
    return NULL;
}

const struct cuda_driver *gpus_driver(gpus_t *gpus)
{
    (void)gpus;
    return NULL;
}

bool gpus_current_uuid(gpus_t *gpus, uint8_t uuid[GPU_UUID_BYTES])
{
    (void)uuid;
    (void)gpus_find_driver(gpus);
    return false;
}

blink_result_t gpus_open(gpus_t *gpus, const uint8_t uuid[GPU_UUID_BYTES], gpu_t **gpu)
{
    (void)gpus, (void)uuid;
    *gpu = NULL;
    return without_cuda();
}

blink_result_t gpu_enter(gpu_t *gpu, gpu_visit_t *visit)
{
    *visit = (gpu_visit_t){.gpu = gpu};
    return BLINK_OK;
}

void gpu_leave(const gpu_visit_t *visit)
{
    (void)visit;
}

blink_result_t gpu_copy(gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    (void)gpu, (void)to, (void)from, (void)bytes;
    return without_cuda();
}

blink_result_t gpu_copy_end(gpu_t *gpu)
{
    (void)gpu;
    return without_cuda();
}

bool gpu_is_lost(gpu_t *gpu)
{
    (void)gpu;
    return true;
}

blink_result_t gpu_pin(gpu_t *gpu, void *base, size_t bytes, uint64_t *address)
{
    (void)gpu, (void)base, (void)bytes, (void)address;
    return without_cuda();
}

void gpu_unpin(gpu_t *gpu, void *base)
{
    (void)gpu, (void)base;
}
