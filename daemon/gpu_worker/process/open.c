/* The worker's start on the GPUs: what the driver says of them, a context on each, who reaches whose memory,
 * the kernels and what the run thread works with. All of it once, so that no run waits for a first time. */
#include "gpu_worker/process/open.h"

#include "base/log.h"
#include "gpu_worker/process/worker.h"
#include "names.h"

#include <stdio.h>
#include <string.h>

/* image.c: the fatbin of kernels/, for cuModuleLoadData(). */
extern const unsigned char worker_image[];

static uint32_t attribute(const worker_t *worker, CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    return worker->cu->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value > 0
               ? (uint32_t)value
               : 0;
}

static blink_result_t read_facts(worker_t *worker, worker_gpu_t *gpu)
{
    gpu_facts_t *facts = &gpu->facts;
    const CUdevice device = gpu->device;
    CUuuid uuid;
    size_t bytes;
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGetUuid, &uuid, device);
    memcpy(facts->uuid, uuid.bytes, sizeof(facts->uuid));
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGetName, facts->name, sizeof(facts->name), device);
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGetPCIBusId, facts->pci, sizeof(facts->pci), device);
    CUDA_DRIVER_TRY(worker->cu, cuDeviceTotalMem, &bytes, device);
    facts->memory_bytes = bytes;
    facts->capability = 10 * attribute(worker, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                        attribute(worker, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    facts->multiprocessors = attribute(worker, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    facts->copy_engines = attribute(worker, device, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    /* kHz and bits; data move on both edges of the clock. */
    facts->memory_GBps = 2.0 * attribute(worker, device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                         attribute(worker, device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8 * 1e-6;
    worker->is_mps |= attribute(worker, device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED) != 0;
    return BLINK_OK;
}

/* A pair of GPUs that cannot be joined is a fact, not a failure: plans go another way. */
static bool enable_peer(worker_t *worker, const worker_gpu_t *gpu, const worker_gpu_t *peer)
{
    int is_possible = 0;
    if (gpu == peer)
        return true;
    if (worker->cu->cuDeviceCanAccessPeer(&is_possible, gpu->device, peer->device) != CUDA_SUCCESS ||
        !is_possible)
        return false;
    CUresult result = worker->cu->cuCtxEnablePeerAccess(peer->context, 0);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        return true;
    cuda_driver_fail(worker->cu, "cuCtxEnablePeerAccess", result);
    LOG_WARNING("GPU %u does without the memory of GPU %u: %s", gpu->number, peer->number,
                blink_error_text());
    return false;
}

static blink_result_t find_peers(worker_t *worker)
{
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        worker_gpu_t *gpu = &worker->gpus[i];
        BLINK_TRY(worker_select(worker, gpu));
        for (uint32_t j = 0; j < worker->gpu_count; j++) {
            if (enable_peer(worker, gpu, &worker->gpus[j]))
                gpu->facts.peers |= 1u << j;
        }
    }
    return BLINK_OK;
}

/* ---- kernels ---- */

static void name_kernels(worker_t *worker)
{
    snprintf(worker->kernels[worker->kernel_count++].name, LANE_ABI_KERNEL_NAME_BYTES, "blink_lanes_move");
    for (uint32_t type = 0; blink_datatype_bytes(type) != 0; type++) {
        for (uint32_t operation = BLINK_SUM; operation <= BLINK_MIN; operation++) {
            worker_kernel_t *kernel = &worker->kernels[worker->kernel_count++];
            snprintf(kernel->name, sizeof(kernel->name), "blink_lanes_%s_%s", blink_name_datatype(type),
                     blink_name_redop(operation));
        }
    }
}

static_assert(1 + (BLINK_FLOAT8_E5M2 + 1) * (BLINK_MIN + 1) <= WORKER_KERNELS_MAX,
              "every kernel has its place");

static blink_result_t load_kernels(worker_t *worker, worker_gpu_t *gpu)
{
    CUmodule module;
    int least = 0;
    CUDA_DRIVER_TRY(worker->cu, cuModuleLoadData, &module, worker_image);
    for (uint32_t i = 0; i < worker->kernel_count; i++) {
        int blocks;
        CUfunction *function = &worker->kernels[i].functions[gpu->number];
        CUresult result = worker->cu->cuModuleGetFunction(function, module, worker->kernels[i].name);
        if (result != CUDA_SUCCESS) {
            cuda_driver_fail(worker->cu, "cuModuleGetFunction", result);
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "kernel %s cannot be had", worker->kernels[i].name);
        }
        CUDA_DRIVER_TRY(worker->cu, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, *function,
                        (int)LANE_ABI_THREADS, 0);
        if (i == 0 || blocks < least)
            least = blocks;
    }
    gpu->facts.resident_blocks = (uint32_t)least * gpu->facts.multiprocessors;
    return BLINK_OK;
}

/* ---- what the run thread works with ---- */

static blink_result_t equip(worker_t *worker, worker_gpu_t *gpu)
{
    /* Two each, so that an engine has its next copy when it ends one. */
    const uint32_t copy_streams = gpu->facts.copy_engines > 0 ? 2 * gpu->facts.copy_engines : 1;
    while (gpu->copy_streams.count < copy_streams && gpu->copy_streams.count < WORKER_COPY_STREAMS_MAX)
        BLINK_TRY(worker_stream_create(worker, &gpu->copy_streams.streams[gpu->copy_streams.count++]));
    BLINK_TRY(worker_stream_create(worker, &gpu->object_stream));

    CUmemAccessDesc access[GPU_MAX];
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device},
    };
    CUDA_DRIVER_TRY(worker->cu, cuMemPoolCreate, &gpu->object_pool, &properties);
    const uint32_t accessors = worker_accessors(worker, gpu->number, access);
    if (accessors > 1) /* a pool's own GPU needs no leave */
        CUDA_DRIVER_TRY(worker->cu, cuMemPoolSetAccess, gpu->object_pool, access + 1, accessors - 1);
    worker_slot_t *slot; /* the first, so that the others of its slab are there when runs come */
    BLINK_TRY(worker_slot_get(worker, gpu, &slot));
    worker_slot_put(gpu, slot);
    return BLINK_OK;
}

static blink_result_t open_gpu(worker_t *worker, uint32_t number)
{
    worker_gpu_t *gpu = &worker->gpus[number];
    gpu->number = number;
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGet, &gpu->device, (int)number);
    BLINK_TRY(read_facts(worker, gpu));
    CUDA_DRIVER_TRY(worker->cu, cuDevicePrimaryCtxRetain, &gpu->context, gpu->device);
    BLINK_TRY(worker_select(worker, gpu));
    return load_kernels(worker, gpu);
}

blink_result_t worker_open_gpus(worker_t *worker)
{
    int count = 0;
    worker->cu = cuda_driver_find(true);
    if (!worker->cu)
        return BLINK_ERR_NOT_FOUND;
    CUresult result = worker->cu->cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "the CUDA driver finds no GPU");
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(worker->cu, "cuInit", result);
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGetCount, &count);
    if (count == 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "the CUDA driver finds no GPU");
    worker->gpu_count = (uint32_t)count < GPU_MAX ? (uint32_t)count : GPU_MAX;

    name_kernels(worker);
    for (uint32_t i = 0; i < worker->gpu_count; i++)
        BLINK_TRY(open_gpu(worker, i));
    BLINK_TRY(find_peers(worker));
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        BLINK_TRY(worker_select(worker, &worker->gpus[i]));
        BLINK_TRY(equip(worker, &worker->gpus[i]));
    }
    return BLINK_OK;
}
