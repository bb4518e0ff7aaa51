/* Memory that the daemon uses in place, and what is said of other memory. */
#include "comm.h"
#include "home.h"

/* ---- allocating ---- */

static CUmemAllocationProp properties_of(CUdevice device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

/* The GPU's own, and those that reach its memory. */
static abi_result_t give_access(const cuda_driver_t *driver, CUdevice device, CUdeviceptr address,
                                size_t bytes)
{
    int count = 0;
    NCCL_CUDA_TRY(driver, cuDeviceGetCount, &count);
    for (int ordinal = 0; ordinal < count; ordinal++) {
        CUdevice other;
        int reaches = 1;
        NCCL_CUDA_TRY(driver, cuDeviceGet, &other, ordinal);
        if (other != device)
            NCCL_CUDA_TRY(driver, cuDeviceCanAccessPeer, &reaches, other, device);
        const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = other},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (reaches)
            NCCL_CUDA_TRY(driver, cuMemSetAccess, address, bytes, &access, 1);
    }
    return ABI_SUCCESS;
}

static abi_result_t map(const cuda_driver_t *driver, CUdevice device, CUmemGenericAllocationHandle memory,
                        size_t bytes, CUdeviceptr *address)
{
    NCCL_CUDA_TRY(driver, cuMemAddressReserve, address, bytes, 0, 0, 0);
    abi_result_t result =
        nccl_cuda_result(driver, "cuMemMap", driver->cuMemMap(*address, bytes, 0, memory, 0));
    if (result != ABI_SUCCESS)
        goto free_address;
    result = give_access(driver, device, *address, bytes);
    if (result != ABI_SUCCESS)
        goto unmap;
    return ABI_SUCCESS;
unmap:
    (void)driver->cuMemUnmap(*address, bytes);
free_address:
    (void)driver->cuMemAddressFree(*address, bytes);
    return result;
}

static abi_result_t allocate(const cuda_driver_t *driver, size_t bytes, CUdeviceptr *address)
{
    CUdevice device;
    size_t granularity;
    CUmemGenericAllocationHandle memory;
    NCCL_CUDA_TRY(driver, cuCtxGetDevice, &device);
    const CUmemAllocationProp properties = properties_of(device);
    NCCL_CUDA_TRY(driver, cuMemGetAllocationGranularity, &granularity, &properties,
                  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (bytes > SIZE_MAX - granularity)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclMemAlloc: %zu bytes are more than there are addresses",
                         bytes);
    bytes = (bytes + granularity - 1) / granularity * granularity;
    NCCL_CUDA_TRY(driver, cuMemCreate, &memory, bytes, &properties, 0);
    abi_result_t result = map(driver, device, memory, bytes, address);
    (void)driver->cuMemRelease(memory); /* the mapping keeps it */
    return result;
}

abi_result_t ncclMemAlloc(void **address, size_t bytes)
{
    const cuda_driver_t *driver;
    nccl_gpu_t gpu;
    CUdeviceptr made;
    if (!address || bytes == 0)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclMemAlloc: %s",
                         address ? "0 bytes are asked for" : "ptr is NULL");
    NCCL_TRY(nccl_driver(&driver));
    NCCL_TRY(nccl_gpu_current(&gpu));
    NCCL_TRY(allocate(driver, bytes, &made));
    *address = (void *)(uintptr_t)made;
    return ABI_SUCCESS;
}

/* The daemon lets go of it, so that it can be freed. */
static abi_result_t release(const void *address)
{
    blink_context_t *context = nccl_home_find();
    if (!context)
        return ABI_SUCCESS;
    blink_result_t result = blink_mem_release(context, address);
    abi_result_t told = result == BLINK_ERR_DAEMON_LOST ? ABI_SUCCESS : nccl_result(result);
    nccl_home_put(context);
    return told;
}

abi_result_t ncclMemFree(void *address)
{
    const cuda_driver_t *driver;
    CUdeviceptr base;
    size_t bytes;
    if (!address)
        return ABI_SUCCESS;
    NCCL_TRY(nccl_driver(&driver));
    NCCL_CUDA_TRY(driver, cuMemGetAddressRange, &base, &bytes, (CUdeviceptr)(uintptr_t)address);
    if (base != (CUdeviceptr)(uintptr_t)address)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclMemFree: no memory begins at %p", address);
    NCCL_TRY(release(address));
    NCCL_CUDA_TRY(driver, cuMemUnmap, base, bytes);
    NCCL_CUDA_TRY(driver, cuMemAddressFree, base, bytes);
    return ABI_SUCCESS;
}

/* ---- registering ---- */

abi_result_t ncclCommRegister(const nccl_comm_t *comm, void *address, size_t bytes, void **handle)
{
    if (!comm || !address || !handle || bytes == 0)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommRegister: %s",
                         !comm      ? "comm is NULL"
                         : !address ? "buff is NULL"
                         : !handle  ? "handle is NULL"
                                    : "size is 0");
    *handle = address; /* whatever can be used in place is, from its first use on */
    return ABI_SUCCESS;
}

abi_result_t ncclCommDeregister(const nccl_comm_t *comm, void *handle)
{
    if (!comm)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommDeregister: comm is NULL");
    return handle ? release(handle) : ABI_SUCCESS;
}
