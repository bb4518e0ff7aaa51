/* The GPU through CUDA's driver, which is loaded when one is opened. */
#include "memory/gpu.h"

#include "base/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 256

struct perf_gpu {
    const cuda_driver_t *driver;
    CUdevice device;
    CUcontext context;
    CUmemoryPool pool; /* NULL until memory of it is asked for */
    char name[NAME_BYTES];
};

/* ---- opening ---- */

static blink_result_t find_device(const cuda_driver_t *driver, const perf_gpu_choice_t *choice,
                                  CUdevice *device)
{
    int count;
    CUDA_DRIVER_TRY(driver, cuDeviceGetCount, &count);
    if (choice->ordinal >= count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "--gpus: no GPU %d, CUDA sees %d", choice->ordinal, count);
    if (choice->ordinal >= 0) {
        CUDA_DRIVER_TRY(driver, cuDeviceGet, device, choice->ordinal);
        return BLINK_OK;
    }
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        CUDA_DRIVER_TRY(driver, cuDeviceGet, device, i);
        CUDA_DRIVER_TRY(driver, cuDeviceGetUuid, &uuid, *device);
        if (memcmp(uuid.bytes, choice->uuid, PERF_GPU_UUID_BYTES) == 0)
            return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                      "--device-memory: CUDA sees %d GPUs in this process, and the GPU of the rank's device "
                      "is none of them (CUDA_VISIBLE_DEVICES?)",
                      count);
}

static blink_result_t open_device(perf_gpu_t *gpu, const perf_gpu_choice_t *choice)
{
    const cuda_driver_t *driver = gpu->driver;
    CUDA_DRIVER_TRY(driver, cuInit, 0);
    BLINK_TRY(find_device(driver, choice, &gpu->device));
    CUDA_DRIVER_TRY(driver, cuDeviceGetName, gpu->name, (int)sizeof(gpu->name), gpu->device);
    CUDA_DRIVER_TRY(driver, cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
    CUDA_DRIVER_TRY(driver, cuCtxSetCurrent, gpu->context);
    return BLINK_OK;
}

static blink_result_t without_driver(void)
{
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "--device-memory: %s", blink_error_text());
}

blink_result_t perf_gpu_open(const perf_gpu_choice_t *choice, perf_gpu_t **gpu)
{
    perf_gpu_t *made = calloc(1, sizeof(*made));
    if (!made)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a GPU");
    made->driver = cuda_driver_find(true);
    blink_result_t result = made->driver ? open_device(made, choice) : without_driver();
    if (result != BLINK_OK) {
        perf_gpu_close(made);
        return result;
    }
    *gpu = made;
    return BLINK_OK;
}

void perf_gpu_close(perf_gpu_t *gpu)
{
    if (!gpu)
        return;
    if (gpu->pool)
        gpu->driver->cuMemPoolDestroy(gpu->pool);
    if (gpu->context)
        gpu->driver->cuDevicePrimaryCtxRelease(gpu->device);
    free(gpu);
}

const char *perf_gpu_name(const perf_gpu_t *gpu)
{
    return gpu->name;
}

/* ---- memory ---- */

static CUdeviceptr pointer(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

static blink_result_t allocate_plain(perf_gpu_t *gpu, size_t bytes, CUdeviceptr *memory)
{
    CUDA_DRIVER_TRY(gpu->driver, cuMemAlloc, memory, bytes);
    return BLINK_OK;
}

static CUmemLocation location_of(const perf_gpu_t *gpu)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device};
}

static CUmemAllocationProp shareable(const perf_gpu_t *gpu)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = location_of(gpu)};
}

static blink_result_t round_up(const perf_gpu_t *gpu, size_t *bytes)
{
    CUmemAllocationProp prop = shareable(gpu);
    size_t unit;
    CUDA_DRIVER_TRY(gpu->driver, cuMemGetAllocationGranularity, &unit, &prop,
                    CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    *bytes = (*bytes + unit - 1) / unit * unit;
    return BLINK_OK;
}

static blink_result_t map(perf_gpu_t *gpu, size_t bytes, CUmemGenericAllocationHandle handle,
                          CUdeviceptr *memory)
{
    CUmemAccessDesc access = {.location = location_of(gpu), .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUDA_DRIVER_TRY(gpu->driver, cuMemAddressReserve, memory, bytes, 0, 0, 0);
    CUDA_DRIVER_TRY(gpu->driver, cuMemMap, *memory, bytes, 0, handle, 0);
    CUDA_DRIVER_TRY(gpu->driver, cuMemSetAccess, *memory, bytes, &access, 1);
    return BLINK_OK;
}

static blink_result_t allocate_vmm(perf_gpu_t *gpu, size_t bytes, CUdeviceptr *memory)
{
    CUmemAllocationProp prop = shareable(gpu);
    CUmemGenericAllocationHandle handle;
    BLINK_TRY(round_up(gpu, &bytes));
    CUDA_DRIVER_TRY(gpu->driver, cuMemCreate, &handle, bytes, &prop, 0);
    blink_result_t result = map(gpu, bytes, handle, memory);
    gpu->driver->cuMemRelease(handle); /* the mapping keeps it */
    return result;
}

static blink_result_t allocate_from_pool(perf_gpu_t *gpu, size_t bytes, CUdeviceptr *memory)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = location_of(gpu)};
    if (!gpu->pool)
        CUDA_DRIVER_TRY(gpu->driver, cuMemPoolCreate, &gpu->pool, &props);
    CUDA_DRIVER_TRY(gpu->driver, cuMemAllocFromPoolAsync, memory, bytes, gpu->pool, NULL);
    CUDA_DRIVER_TRY(gpu->driver, cuStreamSynchronize, NULL);
    return BLINK_OK;
}

blink_result_t perf_gpu_alloc(perf_gpu_t *gpu, perf_gpu_memory_t kind, size_t bytes, void **address)
{
    static blink_result_t (*const allocate[])(perf_gpu_t * gpu, size_t bytes, CUdeviceptr * memory) = {
        [PERF_GPU_MALLOC] = allocate_plain,
        [PERF_GPU_VMM] = allocate_vmm,
        [PERF_GPU_POOL] = allocate_from_pool,
    };
    CUdeviceptr memory;
    BLINK_TRY(allocate[kind](gpu, bytes, &memory));
    *address = (void *)(uintptr_t)memory;
    return BLINK_OK;
}

void perf_gpu_free(perf_gpu_t *gpu, perf_gpu_memory_t kind, size_t bytes, void *address)
{
    if (!address)
        return;
    switch (kind) {
    case PERF_GPU_MALLOC:
        gpu->driver->cuMemFree(pointer(address));
        return;
    case PERF_GPU_VMM:
        if (round_up(gpu, &bytes) == BLINK_OK &&
            gpu->driver->cuMemUnmap(pointer(address), bytes) == CUDA_SUCCESS)
            gpu->driver->cuMemAddressFree(pointer(address), bytes);
        return;
    case PERF_GPU_POOL:
        gpu->driver->cuMemFreeAsync(pointer(address), NULL);
        gpu->driver->cuStreamSynchronize(NULL);
        return;
    }
}

/* A copy from pageable memory may return before it has arrived. */
blink_result_t perf_gpu_write(const perf_gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    CUDA_DRIVER_TRY(gpu->driver, cuMemcpyHtoD, pointer(to), from, bytes);
    CUDA_DRIVER_TRY(gpu->driver, cuStreamSynchronize, NULL);
    return BLINK_OK;
}

blink_result_t perf_gpu_read(const perf_gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    CUDA_DRIVER_TRY(gpu->driver, cuMemcpyDtoH, to, pointer(from), bytes);
    return BLINK_OK;
}

/* ---- streams and graphs ---- */

blink_result_t perf_stream_create(const perf_gpu_t *gpu, blink_stream_t *stream)
{
    CUDA_DRIVER_TRY(gpu->driver, cuStreamCreate, stream, CU_STREAM_NON_BLOCKING);
    return BLINK_OK;
}

void perf_stream_destroy(const perf_gpu_t *gpu, blink_stream_t stream)
{
    if (stream)
        gpu->driver->cuStreamDestroy(stream);
}

blink_result_t perf_stream_wait(const perf_gpu_t *gpu, blink_stream_t stream)
{
    CUDA_DRIVER_TRY(gpu->driver, cuStreamSynchronize, stream);
    return BLINK_OK;
}

/* A perf_graph_t is what CUDA calls an executable graph. */
static CUgraphExec executable(perf_graph_t *graph)
{
    return (CUgraphExec)(void *)graph;
}

/* Of this thread only: other ranks may be threads of this process. */
blink_result_t perf_graph_begin(const perf_gpu_t *gpu, blink_stream_t stream)
{
    CUDA_DRIVER_TRY(gpu->driver, cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    return BLINK_OK;
}

blink_result_t perf_graph_end(const perf_gpu_t *gpu, blink_stream_t stream, perf_graph_t **graph)
{
    CUgraph captured;
    CUgraphExec made = NULL;
    CUDA_DRIVER_TRY(gpu->driver, cuStreamEndCapture, stream, &captured);
    CUresult result = gpu->driver->cuGraphInstantiateWithFlags(&made, captured, 0);
    gpu->driver->cuGraphDestroy(captured);
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(gpu->driver, "cuGraphInstantiateWithFlags", result);
    *graph = (perf_graph_t *)(void *)made;
    return BLINK_OK;
}

blink_result_t perf_graph_launch(const perf_gpu_t *gpu, perf_graph_t *graph, blink_stream_t stream)
{
    CUDA_DRIVER_TRY(gpu->driver, cuGraphLaunch, executable(graph), stream);
    return BLINK_OK;
}

void perf_graph_destroy(const perf_gpu_t *gpu, perf_graph_t *graph)
{
    if (graph)
        gpu->driver->cuGraphExecDestroy(executable(graph));
}
