/* GPUs by the driver's calls. */
#include "gpu.h"

abi_result_t nccl_driver(const cuda_driver_t **driver)
{
    *driver = cuda_driver_find(true);
    return *driver ? ABI_SUCCESS : nccl_fail(ABI_SYSTEM_ERROR, "%s", blink_error_text());
}

abi_result_t nccl_cuda_result(const cuda_driver_t *driver, const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return ABI_SUCCESS;
    (void)cuda_driver_fail(driver, call, result);
    return nccl_fail(ABI_CUDA_ERROR, "%s", blink_error_text());
}

abi_result_t nccl_gpu_numbered(int ordinal, nccl_gpu_t *gpu)
{
    const cuda_driver_t *driver;
    int count = 0;
    CUdevice device;
    NCCL_TRY(nccl_driver(&driver));
    NCCL_CUDA_TRY(driver, cuInit, 0);
    NCCL_CUDA_TRY(driver, cuDeviceGetCount, &count);
    if (ordinal < 0 || ordinal >= count)
        return nccl_fail(ABI_INVALID_ARGUMENT, "CUDA device %d is not among the %d that this process sees",
                         ordinal, count);
    NCCL_CUDA_TRY(driver, cuDeviceGet, &device, ordinal);
    *gpu = (nccl_gpu_t){.ordinal = ordinal, .retained = true};
    NCCL_CUDA_TRY(driver, cuDevicePrimaryCtxRetain, &gpu->context, device);
    return ABI_SUCCESS;
}

/* Which number a device has. */
static abi_result_t find_ordinal(const cuda_driver_t *driver, CUdevice device, int *ordinal)
{
    int count = 0;
    NCCL_CUDA_TRY(driver, cuDeviceGetCount, &count);
    for (*ordinal = 0; *ordinal < count; ++*ordinal) {
        CUdevice found;
        NCCL_CUDA_TRY(driver, cuDeviceGet, &found, *ordinal);
        if (found == device)
            return ABI_SUCCESS;
    }
    return nccl_fail(ABI_CUDA_ERROR, "the current CUDA device is none of the %d that this process sees",
                     count);
}

abi_result_t nccl_gpu_current(nccl_gpu_t *gpu)
{
    const cuda_driver_t *driver;
    CUdevice device;
    *gpu = (nccl_gpu_t){0};
    NCCL_TRY(nccl_driver(&driver));
    NCCL_CUDA_TRY(driver, cuInit, 0);
    NCCL_CUDA_TRY(driver, cuCtxGetCurrent, &gpu->context);
    if (!gpu->context) {
        NCCL_TRY(nccl_gpu_numbered(0, gpu));
        gpu->retained = false; /* it stays current, and so the context stays */
        NCCL_CUDA_TRY(driver, cuCtxSetCurrent, gpu->context);
    }
    NCCL_CUDA_TRY(driver, cuCtxGetDevice, &device);
    return find_ordinal(driver, device, &gpu->ordinal);
}

abi_result_t nccl_gpu_again(const nccl_gpu_t *gpu, nccl_gpu_t *again)
{
    *again = *gpu;
    return gpu->retained ? nccl_gpu_numbered(gpu->ordinal, again) : ABI_SUCCESS;
}

void nccl_gpu_release(const nccl_gpu_t *gpu)
{
    const cuda_driver_t *driver = cuda_driver_find(true);
    CUdevice device;
    if (gpu->retained && driver->cuDeviceGet(&device, gpu->ordinal) == CUDA_SUCCESS)
        (void)driver->cuDevicePrimaryCtxRelease(device);
}

abi_result_t nccl_gpu_enter(const nccl_gpu_t *gpu, bool *entered)
{
    const cuda_driver_t *driver;
    CUcontext current = NULL;
    *entered = false;
    NCCL_TRY(nccl_driver(&driver));
    NCCL_CUDA_TRY(driver, cuCtxGetCurrent, &current);
    if (current == gpu->context)
        return ABI_SUCCESS;
    NCCL_CUDA_TRY(driver, cuCtxPushCurrent, gpu->context);
    *entered = true;
    return ABI_SUCCESS;
}

void nccl_gpu_leave(bool entered)
{
    if (entered)
        (void)cuda_driver_find(true)->cuCtxPopCurrent(&(CUcontext){NULL});
}
