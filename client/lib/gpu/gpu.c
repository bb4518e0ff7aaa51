/* The driver and its GPUs: finding them, visiting them, copies and pinned memory. */
#include "gpu/device.h"
#include "gpu/unusable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver ---- */

void gpus_init(gpus_t *gpus)
{
    *gpus = (gpus_t){0};
    pthread_mutex_init(&gpus->lock, NULL);
}

const cuda_driver_t *gpus_driver(gpus_t *gpus)
{
    /* Acquire: pairs with the store in gpus_find_driver(). */
    return atomic_load_explicit(&gpus->driver, memory_order_acquire);
}

const cuda_driver_t *gpus_find_driver(gpus_t *gpus)
{
    const cuda_driver_t *driver = gpus_driver(gpus);
    if (driver)
        return driver;
    driver = cuda_driver_find(false);
    /* Release: pairs with the load in gpus_driver(). Threads that come here at once store the same. */
    if (driver)
        atomic_store_explicit(&gpus->driver, driver, memory_order_release);
    else
        gpus_note_unusable(gpus);
    return driver;
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

bool gpus_current_uuid(gpus_t *gpus, uint8_t uuid[GPU_UUID_BYTES])
{
    const cuda_driver_t *driver = gpus_find_driver(gpus);
    CUcontext current = NULL;
    CUdevice device;
    CUuuid found;
    if (!driver || driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return false;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        driver->cuDeviceGetUuid(&found, device) != CUDA_SUCCESS)
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

/* ---- opening ---- */

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
    const cuda_driver_t *driver = gpus_driver(gpus);
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

void gpus_fini(gpus_t *gpus)
{
    for (gpu_t *gpu = gpus->list, *next; gpu; gpu = next) {
        next = gpu->next;
        close_gpu(gpu);
    }
    pthread_mutex_destroy(&gpus->lock);
}

blink_result_t gpus_open(gpus_t *gpus, const uint8_t uuid[GPU_UUID_BYTES], gpu_t **gpu)
{
    blink_result_t result = BLINK_OK;
    if (!gpus_find_driver(gpus))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s", blink_error_text());
    pthread_mutex_lock(&gpus->lock);
    for (*gpu = gpus->list; *gpu && memcmp((*gpu)->uuid, uuid, GPU_UUID_BYTES) != 0;)
        *gpu = (*gpu)->next;
    if (!*gpu)
        result = open_gpu(gpus, uuid, gpu);
    pthread_mutex_unlock(&gpus->lock);
    return result;
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
