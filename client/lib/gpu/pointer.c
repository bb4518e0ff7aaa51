/* The driver's answers about pointers. */
#include "gpu/pointer.h"

gpu_memory_t gpu_memory_ask(const cuda_driver_t *driver, const char *what, const void *pointer, size_t bytes)
{
    unsigned int type = 0, is_managed = 0;
    gpu_memory_t memory = {.what = what, .address = (CUdeviceptr)(uintptr_t)pointer, .bytes = bytes};
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &is_managed, &memory.id, &memory.ordinal};
    if (driver->cuPointerGetAttributes(4, names, values, memory.address) != CUDA_SUCCESS)
        return memory;
    memory.is_managed = is_managed != 0;
    memory.on_device = type == CU_MEMORYTYPE_DEVICE || memory.is_managed;
    return memory;
}

blink_result_t gpu_memory_check(const cuda_driver_t *driver, const rank_gpu_t *rank, const gpu_t *gpu,
                                const gpu_memory_t *memory)
{
    if (gpu && gpu->device == (CUdevice)memory->ordinal)
        return BLINK_OK;
    char theirs[GPU_UUID_TEXT_BYTES], own[GPU_UUID_TEXT_BYTES];
    CUdevice device = -1;
    (void)driver->cuDeviceGet(&device, memory->ordinal);
    gpu_device_text(driver, device, theirs);
    gpu_uuid_text(rank->uuid, own);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s buffer %#llx is memory of %s, but rank %u is on %s",
                      memory->what, memory->address, theirs, rank->rank, own);
}

unsigned long long gpu_memory_id(const cuda_driver_t *driver, CUdeviceptr address)
{
    unsigned long long id = 0;
    CUresult result = driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    return result == CUDA_SUCCESS ? id : 0;
}

bool gpu_memory_is_gone(const cuda_driver_t *driver, CUdeviceptr address, unsigned long long id)
{
    unsigned long long now = 0;
    CUresult result = driver->cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    return result == CUDA_SUCCESS ? now != id : result == CUDA_ERROR_INVALID_VALUE;
}

bool gpu_is_pooled(const cuda_driver_t *driver, CUdeviceptr address)
{
    CUmemoryPool pool = NULL;
    return driver->cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) ==
               CUDA_SUCCESS &&
           pool;
}

bool gpu_is_mapping(const cuda_driver_t *driver, CUdeviceptr address)
{
    CUmemGenericAllocationHandle handle;
    if (driver->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address) != CUDA_SUCCESS)
        return false;
    (void)driver->cuMemRelease(handle);
    return true;
}

/* The extent at an address. Errors: OUT_OF_RANGE (there is none that adjoins the ones before), SYSTEM. */
static blink_result_t find_extent(const cuda_driver_t *driver, const gpu_memory_t *memory, CUdeviceptr at,
                                  const gpu_extents_t *before, gpu_extent_t *extent)
{
    const bool is_first = before->count == 0;
    const CUdeviceptr end = memory->address + memory->bytes;
    CUresult result = driver->cuMemGetAddressRange(&extent->start, &extent->bytes, at);
    if (result != CUDA_SUCCESS && is_first)
        return cuda_driver_fail(driver, "cuMemGetAddressRange", result);
    bool adjoins = result == CUDA_SUCCESS && (is_first || gpu_is_mapping(driver, before->items[0].start));
    if (!adjoins)
        return BLINK_FAIL(BLINK_ERR_OUT_OF_RANGE,
                          "%s buffer %#llx of %zu bytes runs %zu bytes past the end of its memory at %#llx",
                          memory->what, memory->address, memory->bytes, (size_t)(end - at), at);
    extent->id = gpu_memory_id(driver, at);
    return BLINK_OK;
}

blink_result_t gpu_memory_extents(const cuda_driver_t *driver, const gpu_memory_t *memory,
                                  gpu_extents_t *extents)
{
    const CUdeviceptr end = memory->address + memory->bytes;
    extents->count = 0;
    for (CUdeviceptr next = memory->address; next < end;) {
        gpu_extent_t extent;
        BLINK_TRY(find_extent(driver, memory, next, extents, &extent));
        if (!vec_push(extents, extent))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu extents of GPU memory",
                              extents->count + 1);
        next = extent.start + extent.bytes;
    }
    return BLINK_OK;
}
