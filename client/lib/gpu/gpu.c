/* The driver and its GPUs: finding them, visiting them, copies and pinned memory. What a pointer is, is
 * gpu_memory.c's. */
#include "gpu/gpu_internal.h"

#include "context/comm.h"
#include "context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver ---- */

gpus_t *gpus_find(blink_context_t *context)
{
    /* Acquire: pairs with the store below. */
    gpus_t *gpus = atomic_load_explicit(&context->gpus, memory_order_acquire);
    const cuda_driver_t *driver = gpus ? NULL : cuda_driver_find(false);
    if (!driver)
        return gpus;
    gpus_t *fresh = calloc(1, sizeof(*fresh));
    if (!fresh)
        return NULL;
    fresh->context = context;
    fresh->driver = driver;
    pthread_mutex_init(&fresh->lock, NULL);
    gpu_imports_init(&fresh->imports);
    /* Release: pairs with every load of it. Of threads that come here at once the first wins. */
    if (atomic_compare_exchange_strong_explicit(&context->gpus, &gpus, fresh, memory_order_acq_rel,
                                                memory_order_acquire))
        return fresh;
    gpu_imports_fini(&fresh->imports);
    pthread_mutex_destroy(&fresh->lock);
    free(fresh);
    return gpus;
}

/* ---- names ---- */

void gpu_uuid_text(const uint8_t uuid[GPU_UUID_BYTES], char text[GPU_UUID_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(text, GPU_UUID_TEXT_BYTES, "GPU");
    for (size_t i = 0; i < GPU_UUID_BYTES; i++) {
        bool begins = i == 0 || (i >= 4 && i <= 10 && i % 2 == 0);
        used += (size_t)snprintf(text + used, GPU_UUID_TEXT_BYTES - used, begins ? "-%02x" : "%02x", uuid[i]);
    }
}

void gpu_device_text(const cuda_driver_t *driver, CUdevice device, char text[GPU_UUID_TEXT_BYTES])
{
    CUuuid uuid;
    if (driver->cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
        gpu_uuid_text((const uint8_t *)uuid.bytes, text);
    else
        snprintf(text, GPU_UUID_TEXT_BYTES, "?");
}

bool gpus_current_uuid(blink_context_t *context, uint8_t uuid[GPU_UUID_BYTES])
{
    gpus_t *gpus = gpus_find(context);
    CUcontext current = NULL;
    CUdevice device;
    CUuuid found;
    if (!gpus || gpus->driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return false;
    if (gpus->driver->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        gpus->driver->cuDeviceGetUuid(&found, device) != CUDA_SUCCESS)
        return false;
    memcpy(uuid, found.bytes, GPU_UUID_BYTES);
    return true;
}

/* ---- visits ---- */

blink_result_t gpu_enter(gpu_t *gpu, gpu_visit_t *visit)
{
    *visit = (gpu_visit_t){.gpu = gpu};
    if (!gpu)
        return BLINK_OK;
    CUcontext current = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUDA_DRIVER_TRY(gpu->driver, cuCtxGetCurrent, &current);
    if (!current)
        CUDA_DRIVER_TRY(gpu->driver, cuCtxPushCurrent, gpu->primary);
    visit->pushed = !current;
    (void)gpu->driver->cuThreadExchangeStreamCaptureMode(&mode); /* cannot fail for a valid mode */
    visit->capture_mode = (int)mode;
    return BLINK_OK;
}

void gpu_leave(const gpu_visit_t *visit)
{
    if (!visit->gpu)
        return;
    const cuda_driver_t *driver = visit->gpu->driver;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)visit->capture_mode;
    (void)driver->cuThreadExchangeStreamCaptureMode(&mode);
    if (visit->pushed)
        (void)driver->cuCtxPopCurrent(&(CUcontext){NULL});
}

/* A visit to the primary context, whatever is current: that of `copies`, and of what is pinned. */
static blink_result_t enter_primary(gpu_t *gpu, gpu_visit_t *visit)
{
    CUDA_DRIVER_TRY(gpu->driver, cuCtxPushCurrent, gpu->primary);
    blink_result_t result = gpu_enter(gpu, visit);
    if (result != BLINK_OK)
        (void)gpu->driver->cuCtxPopCurrent(&(CUcontext){NULL});
    visit->pushed = true;
    return result;
}

/* ---- the GPU of a rank ---- */

static blink_result_t find_device(const cuda_driver_t *driver, const uint8_t *uuid, CUdevice *device)
{
    int count = 0;
    CUDA_DRIVER_TRY(driver, cuDeviceGetCount, &count);
    for (int ordinal = 0; ordinal < count; ordinal++) {
        CUuuid found;
        CUDA_DRIVER_TRY(driver, cuDeviceGet, device, ordinal);
        CUDA_DRIVER_TRY(driver, cuDeviceGetUuid, &found, *device);
        if (memcmp(found.bytes, uuid, GPU_UUID_BYTES) == 0)
            return BLINK_OK;
    }
    char text[GPU_UUID_TEXT_BYTES];
    gpu_uuid_text(uuid, text);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "the rank's %s is not among the %d GPUs that this process sees", text, count);
}

static blink_result_t open_copies(gpu_t *gpu)
{
    gpu_visit_t visit;
    BLINK_TRY(enter_primary(gpu, &visit));
    CUresult result = gpu->driver->cuStreamCreate(&gpu->copies, CU_STREAM_NON_BLOCKING);
    gpu_leave(&visit);
    return result == CUDA_SUCCESS ? BLINK_OK : cuda_driver_fail(gpu->driver, "cuStreamCreate", result);
}

/* Under the lock. */
static blink_result_t open_gpu(gpus_t *gpus, const uint8_t *uuid, gpu_t **gpu)
{
    const cuda_driver_t *driver = gpus->driver;
    gpu_t *fresh = calloc(1, sizeof(*fresh));
    if (!fresh)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a GPU");
    fresh->driver = driver;
    memcpy(fresh->uuid, uuid, GPU_UUID_BYTES);
    blink_result_t result = find_device(driver, uuid, &fresh->device);
    if (result != BLINK_OK)
        goto free_gpu;
    CUresult retained = driver->cuDevicePrimaryCtxRetain(&fresh->primary, fresh->device);
    if (retained != CUDA_SUCCESS) {
        result = cuda_driver_fail(driver, "cuDevicePrimaryCtxRetain", retained);
        goto free_gpu;
    }
    result = open_copies(fresh);
    if (result != BLINK_OK)
        goto release;
    fresh->next = gpus->list;
    gpus->list = *gpu = fresh;
    return BLINK_OK;
release:
    (void)driver->cuDevicePrimaryCtxRelease(fresh->device);
free_gpu:
    free(fresh);
    return result;
}

/* Where the driver has ended before us, its calls say so and do nothing. */
static void close_gpu(gpu_t *gpu)
{
    gpu_visit_t visit;
    if (enter_primary(gpu, &visit) == BLINK_OK) {
        (void)gpu->driver->cuStreamDestroy(gpu->copies);
        gpu_leave(&visit);
        (void)gpu->driver->cuDevicePrimaryCtxRelease(gpu->device);
    }
    free(gpu);
}

void gpus_fini(blink_context_t *context)
{
    gpus_t *gpus = atomic_load_explicit(&context->gpus, memory_order_relaxed); /* the only thread left */
    if (!gpus)
        return;
    for (gpu_t *gpu = gpus->list, *next; gpu; gpu = next) {
        next = gpu->next;
        close_gpu(gpu);
    }
    gpu_imports_fini(&gpus->imports);
    pthread_mutex_destroy(&gpus->lock);
    free(gpus);
}

blink_result_t gpu_require(blink_comm_t *comm, gpu_t **gpu)
{
    /* Acquire: pairs with the store below. */
    *gpu = atomic_load_explicit(&comm->gpu, memory_order_acquire);
    if (*gpu)
        return BLINK_OK;
    if (!comm->on_gpu)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "device %u of rank %u is not a GPU", comm->device,
                          comm->rank);
    gpus_t *gpus = gpus_find(comm->context);
    if (!gpus)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "this process has not loaded a CUDA driver");
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&gpus->lock);
    for (*gpu = gpus->list; *gpu && memcmp((*gpu)->uuid, comm->gpu_uuid, GPU_UUID_BYTES) != 0;)
        *gpu = (*gpu)->next;
    if (!*gpu)
        result = open_gpu(gpus, comm->gpu_uuid, gpu);
    pthread_mutex_unlock(&gpus->lock);
    /* Release: pairs with the load above. */
    if (result == BLINK_OK)
        atomic_store_explicit(&comm->gpu, *gpu, memory_order_release);
    return result;
}

gpu_t *gpu_of(blink_comm_t *comm)
{
    gpu_t *gpu;
    return comm->on_gpu && gpu_require(comm, &gpu) == BLINK_OK ? gpu : NULL;
}

/* ---- copies ---- */

blink_result_t gpu_copy(gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    gpu_visit_t visit;
    BLINK_TRY(enter_primary(gpu, &visit));
    CUresult result = gpu->driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                                 bytes, gpu->copies);
    gpu_leave(&visit);
    return result == CUDA_SUCCESS ? BLINK_OK : cuda_driver_fail(gpu->driver, "cuMemcpyAsync", result);
}

blink_result_t gpu_copy_end(gpu_t *gpu)
{
    gpu_visit_t visit;
    BLINK_TRY(enter_primary(gpu, &visit));
    CUresult result = gpu->driver->cuStreamSynchronize(gpu->copies);
    gpu_leave(&visit);
    return result == CUDA_SUCCESS ? BLINK_OK : cuda_driver_fail(gpu->driver, "cuStreamSynchronize", result);
}

bool gpu_is_lost(gpu_t *gpu)
{
    gpu_visit_t visit;
    if (enter_primary(gpu, &visit) != BLINK_OK)
        return true;
    CUresult result = gpu->driver->cuStreamQuery(gpu->copies);
    gpu_leave(&visit);
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

/* ---- pinned memory ---- */

static blink_result_t pin(const cuda_driver_t *driver, void *base, size_t bytes, uint64_t *address)
{
    CUdeviceptr found;
    CUDA_DRIVER_TRY(driver, cuMemHostRegister, base, bytes,
                    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    CUresult result = driver->cuMemHostGetDevicePointer(&found, base, 0);
    if (result != CUDA_SUCCESS) {
        (void)driver->cuMemHostUnregister(base);
        return cuda_driver_fail(driver, "cuMemHostGetDevicePointer", result);
    }
    *address = found;
    return BLINK_OK;
}

blink_result_t gpu_pin(gpu_t *gpu, void *base, size_t bytes, uint64_t *address)
{
    gpu_visit_t visit;
    BLINK_TRY(enter_primary(gpu, &visit));
    blink_result_t result = pin(gpu->driver, base, bytes, address);
    gpu_leave(&visit);
    return result;
}

void gpu_unpin(gpu_t *gpu, void *base)
{
    gpu_visit_t visit;
    if (enter_primary(gpu, &visit) != BLINK_OK)
        return;
    (void)gpu->driver->cuMemHostUnregister(base);
    gpu_leave(&visit);
}
