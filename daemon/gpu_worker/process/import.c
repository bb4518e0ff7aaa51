/* Memory of clients' processes, by each of the three ways in which the driver shares it. A client's handle is
 * not trusted: what it leads to must lie on the GPU that was named and be as large as was said, or a kernel's
 * fault would take the whole worker. */
#include "gpu_worker/process/import.h"

#include "base/log.h"
#include "gpu_worker/process/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct worker_ipc {
    uint8_t handle[sizeof(CUipcMemHandle)];
    uint32_t gpu;
    uint32_t users;
    CUdeviceptr address;
    struct worker_ipc *next;
};

struct worker_pool {
    uint64_t number; /* 0: it is not told from others */
    uint32_t client;
    uint32_t gpu;
    uint32_t users;
    CUmemoryPool handle;
    struct worker_pool *next;
};

static_assert(sizeof(CUipcMemHandle) == sizeof((gpu_extent_t){0}.handle), "an IPC handle fits");
static_assert(sizeof(CUmemPoolPtrExportData) == sizeof((gpu_extent_t){0}.handle), "a pool's pointer fits");

blink_result_t worker_import_fail(const worker_t *worker, const char *call, CUresult result)
{
    blink_result_t failure = cuda_driver_fail(worker->cu, call, result);
    if (failure == BLINK_ERR_NO_MEMORY)
        return failure;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the driver does not take it: %s", blink_error_text());
}

void worker_log_failure(const worker_t *worker, const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    cuda_driver_fail(worker->cu, call, result);
    LOG_WARNING("GPU memory given back: %s", blink_error_text());
}

blink_result_t worker_check_gpu(const worker_t *worker, uint32_t gpu, CUdeviceptr address)
{
    int ordinal = -1;
    if (worker->cu->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
        CUDA_SUCCESS)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the driver does not tell where the imported memory is");
    if (ordinal != (int)gpu)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the memory is on GPU %d, not on %u", ordinal, gpu);
    return BLINK_OK;
}

/* What the driver opened at `address` is memory of this GPU, of allocation_bytes at least. */
static blink_result_t check_opened(const worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                                   CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    BLINK_TRY(worker_check_gpu(worker, gpu, address));
    if (worker->cu->cuMemGetAddressRange(&base, &bytes, address) != CUDA_SUCCESS)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the driver does not tell what the imported memory is");
    if (base > address || bytes < address - base || bytes - (address - base) < extent->allocation_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the allocation has %" PRIu64 " bytes, not the %" PRIu64 " that were said",
                          (uint64_t)(base + bytes - address), extent->allocation_bytes);
    return BLINK_OK;
}

/* ---- VMM ---- */

/* The allocation's real size shows when it is mapped, and so does its GPU: the properties may have the number
 * that this GPU has in the process that exported it. */
static blink_result_t check_vmm(const worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                                CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp properties;
    size_t granularity = 1;
    WORKER_IMPORT_TRY(worker, cuMemGetAllocationPropertiesFromHandle, &properties, handle);
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the memory is not on a GPU");
    properties.location.id = worker->gpus[gpu].device;
    WORKER_IMPORT_TRY(worker, cuMemGetAllocationGranularity, &granularity, &properties,
                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (extent->allocation_bytes % granularity != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "no allocation has %" PRIu64 " bytes: a page is %zu",
                          extent->allocation_bytes, granularity);
    return BLINK_OK;
}

blink_result_t worker_open_vmm(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                               CUmemGenericAllocationHandle *handle)
{
    CUmemGenericAllocationHandle opened;
    WORKER_IMPORT_TRY(worker, cuMemImportFromShareableHandle, &opened, (void *)(intptr_t)fd,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    blink_result_t result = check_vmm(worker, gpu, extent, opened);
    if (result != BLINK_OK) {
        worker_log_failure(worker, "cuMemRelease", worker->cu->cuMemRelease(opened));
        return result;
    }
    *handle = opened;
    return BLINK_OK;
}

/* ---- pools ---- */

static struct worker_pool *find_pool(const worker_t *worker, uint32_t gpu, const gpu_extent_t *extent)
{
    struct worker_pool *pool = extent->pool != 0 ? worker->pools : NULL;
    while (pool && !(pool->number == extent->pool && pool->client == extent->client && pool->gpu == gpu))
        pool = pool->next;
    return pool;
}

/* With the access that all of its memory has. */
static blink_result_t import_handle(worker_t *worker, uint32_t gpu, int fd, struct worker_pool *pool)
{
    CUmemAccessDesc access[GPU_MAX];
    WORKER_IMPORT_TRY(worker, cuMemPoolImportFromShareableHandle, &pool->handle, (void *)(intptr_t)fd,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    CUresult granted =
        worker->cu->cuMemPoolSetAccess(pool->handle, access, worker_accessors(worker, gpu, access));
    if (granted == CUDA_SUCCESS)
        return BLINK_OK;
    worker_log_failure(worker, "cuMemPoolDestroy", worker->cu->cuMemPoolDestroy(pool->handle));
    return worker_import_fail(worker, "cuMemPoolSetAccess", granted);
}

static blink_result_t import_pool(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                                  struct worker_pool **imported)
{
    struct worker_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a pool");
    blink_result_t result = import_handle(worker, gpu, fd, pool);
    if (result != BLINK_OK) {
        free(pool);
        return result;
    }
    pool->number = extent->pool;
    pool->client = extent->client;
    pool->gpu = gpu;
    pool->next = worker->pools;
    worker->pools = *imported = pool;
    return BLINK_OK;
}

static blink_result_t open_pointer(const worker_t *worker, const gpu_extent_t *extent,
                                   const struct worker_pool *pool, CUdeviceptr *address)
{
    CUmemPoolPtrExportData data;
    memcpy(&data, extent->handle, sizeof(data));
    WORKER_IMPORT_TRY(worker, cuMemPoolImportPointer, address, pool->handle, &data);
    return check_opened(worker, pool->gpu, extent, *address);
}

blink_result_t worker_open_pooled(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                                  struct worker_pool **pool, CUdeviceptr *address)
{
    if (extent->allocation_bytes > WORKER_POOLED_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "an allocation of %" PRIu64 " bytes in a pool: %" PRIu64 " are opened at most",
                          extent->allocation_bytes, WORKER_POOLED_MOST_BYTES);
    BLINK_TRY(worker_select(worker, &worker->gpus[gpu]));
    *pool = find_pool(worker, gpu, extent);
    if (!*pool)
        BLINK_TRY(import_pool(worker, gpu, extent, fd, pool));
    (*pool)->users++;
    *address = 0;
    blink_result_t result = open_pointer(worker, extent, *pool, address);
    if (result != BLINK_OK)
        worker_close_pooled(worker, *pool, *address);
    return result;
}

static void put_pool(worker_t *worker, struct worker_pool *pool)
{
    struct worker_pool **place = &worker->pools;
    if (--pool->users > 0)
        return;
    while (*place != pool)
        place = &(*place)->next;
    *place = pool->next;
    worker_log_failure(worker, "cuMemPoolDestroy", worker->cu->cuMemPoolDestroy(pool->handle));
    free(pool);
}

void worker_close_pooled(worker_t *worker, struct worker_pool *pool, CUdeviceptr address)
{
    /* Not in the order of a stream: when the client hears that its memory is given back, it may free it. */
    if (address != 0 && worker_select(worker, &worker->gpus[pool->gpu]) == BLINK_OK)
        worker_log_failure(worker, "cuMemFree", worker->cu->cuMemFree(address));
    put_pool(worker, pool);
}

/* ---- CUDA IPC ---- */

static struct worker_ipc *find_handle(const worker_t *worker, uint32_t gpu, const uint8_t *handle)
{
    struct worker_ipc *mapping = worker->ipc_mappings;
    while (mapping && !(mapping->gpu == gpu && memcmp(mapping->handle, handle, sizeof(mapping->handle)) == 0))
        mapping = mapping->next;
    return mapping;
}

/* The manual says of memory that a context has allocated that peers reach it, and not of what it has opened:
 * so the driver is asked, in the context of each peer, by which address its kernels reach that. */
static blink_result_t check_peers(worker_t *worker, uint32_t gpu, CUdeviceptr address)
{
    for (uint32_t peer = 0; peer < worker->gpu_count; peer++) {
        CUdeviceptr found = 0;
        if (peer == gpu || !(worker->gpus[peer].facts.peers >> gpu & 1))
            continue;
        BLINK_TRY(worker_select(worker, &worker->gpus[peer]));
        CUresult asked =
            worker->cu->cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address);
        if (asked != CUDA_SUCCESS || found != address)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "GPU %u, a peer of GPU %u, does not reach what is opened by a CUDA IPC handle",
                              peer, gpu);
    }
    return BLINK_OK;
}

/* Or close it again, in the context in which it was opened. */
static blink_result_t check_handle(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                                   CUdeviceptr address)
{
    blink_result_t result = check_opened(worker, gpu, extent, address);
    if (result == BLINK_OK && (result = check_peers(worker, gpu, address)) != BLINK_OK &&
        !worker->warned_of_ipc) {
        worker->warned_of_ipc = true;
        LOG_WARNING("memory of cudaMalloc() is staged: %s", blink_error_text());
    }
    if (worker_select(worker, &worker->gpus[gpu]) == BLINK_OK && result != BLINK_OK)
        worker_log_failure(worker, "cuIpcCloseMemHandle", worker->cu->cuIpcCloseMemHandle(address));
    return result;
}

static blink_result_t open_handle(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                                  CUdeviceptr *address)
{
    CUipcMemHandle handle;
    memcpy(&handle, extent->handle, sizeof(handle));
    BLINK_TRY(worker_select(worker, &worker->gpus[gpu]));
    WORKER_IMPORT_TRY(worker, cuIpcOpenMemHandle, address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return check_handle(worker, gpu, extent, *address);
}

blink_result_t worker_open_ipc(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                               CUdeviceptr *address)
{
    struct worker_ipc *mapping = find_handle(worker, gpu, extent->handle);
    if (mapping) {
        BLINK_TRY(check_opened(worker, gpu, extent, mapping->address));
        mapping->users++;
        *address = mapping->address;
        return BLINK_OK;
    }
    mapping = calloc(1, sizeof(*mapping));
    if (!mapping)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a mapping");
    blink_result_t result = open_handle(worker, gpu, extent, &mapping->address);
    if (result != BLINK_OK) {
        free(mapping);
        return result;
    }
    memcpy(mapping->handle, extent->handle, sizeof(mapping->handle));
    mapping->gpu = gpu;
    mapping->users = 1;
    mapping->next = worker->ipc_mappings;
    worker->ipc_mappings = mapping;
    *address = mapping->address;
    return BLINK_OK;
}

void worker_close_ipc(worker_t *worker, uint32_t gpu, CUdeviceptr address)
{
    struct worker_ipc **place = &worker->ipc_mappings;
    while (*place && !((*place)->gpu == gpu && (*place)->address == address))
        place = &(*place)->next;
    struct worker_ipc *mapping = *place;
    if (!mapping || --mapping->users > 0)
        return;
    *place = mapping->next;
    free(mapping);
    if (worker_select(worker, &worker->gpus[gpu]) == BLINK_OK)
        worker_log_failure(worker, "cuIpcCloseMemHandle", worker->cu->cuIpcCloseMemHandle(address));
}
