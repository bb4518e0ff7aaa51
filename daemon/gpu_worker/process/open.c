/* The worker's start on the GPUs: what the driver says of them, a context on each, who reaches whose memory,
 * the kernels and what the run thread works with. All of it once, so that no run waits for a first time. */
#include "gpu_worker/process/open.h"

#include "base/log.h"
#include "gpu_worker/process/team.h"
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

/* Drivers before CUDA 12.3 do not say: then it is taken to be as was asked for. */
static bool shares_by_mps(const worker_t *worker, CUdevice device)
{
    int value = 0;
    CUresult result = worker->cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
    return result == CUDA_SUCCESS ? value != 0 : worker->start.is_mps;
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
    facts->has_switch = worker_has_switch(worker, gpu);
    gpu->has_domains = attribute(worker, device, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT) > 1;
    worker->is_mps |= shares_by_mps(worker, device);
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

/* Most often a build that is not for this GPU, or that is newer than the driver. */
static blink_result_t fail_image(const worker_t *worker, const worker_gpu_t *gpu, CUresult result)
{
    int version = 0;
    (void)worker->cu->cuDriverGetVersion(&version);
    blink_result_t failure = cuda_driver_fail(worker->cu, "cuModuleLoadData", result);
    return BLINK_FAIL(failure, "%s; kernels of CUDA %d.%d, driver of CUDA %d.%d, GPU of capability %u.%u",
                      blink_error_text(), CUDA_API_MAJOR(CUDA_VERSION), CUDA_API_MINOR(CUDA_VERSION),
                      CUDA_API_MAJOR(version), CUDA_API_MINOR(version), gpu->facts.capability / 10,
                      gpu->facts.capability % 10);
}

static blink_result_t load_kernels(worker_t *worker, worker_gpu_t *gpu)
{
    CUmodule module;
    int least = 0;
    CUresult loaded = worker->cu->cuModuleLoadData(&module, worker_image);
    if (loaded != CUDA_SUCCESS)
        return fail_image(worker, gpu, loaded);
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
    while (gpu->run_streams.count < WORKER_STREAMS_MAX)
        BLINK_TRY(worker_stream_create(worker, &gpu->run_streams.streams[gpu->run_streams.count++]));
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
    return worker_slots_make(worker, gpu);
}

/* ---- what the network writes to ---- */

/* Memory of the GPU as a dma-buf. */
static blink_result_t export_memory(worker_t *worker, worker_gpu_t *gpu)
{
    CUdeviceptr memory;
    if (attribute(worker, gpu->device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "its driver makes no dma-bufs");
    CUDA_DRIVER_TRY(worker->cu, cuMemAlloc, &memory, GPU_EXPORT_BYTES);
    CUresult result = worker->cu->cuMemGetHandleForAddressRange(&gpu->exported_fd, memory, GPU_EXPORT_BYTES,
                                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS) {
        cuda_driver_fail(worker->cu, "cuMemGetHandleForAddressRange", result);
        (void)worker->cu->cuMemFree(memory);
        return BLINK_ERR_UNSUPPORTED;
    }
    const uint32_t ordering =
        attribute(worker, gpu->device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
    gpu->facts.orders_for_itself = ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    gpu->facts.orders_for_all = ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;
    gpu->facts.exported_address = memory;
    return BLINK_OK;
}

/* Without it what comes lands in host memory. */
static void offer_memory(worker_t *worker, worker_gpu_t *gpu)
{
    if (export_memory(worker, gpu) != BLINK_OK)
        LOG_WARNING("[network] gpu_direct: not for GPU %u: %s", gpu->number, blink_error_text());
    else
        LOG_INFO("[network] gpu_direct: %llu MiB of GPU %u may be written to by RDMA devices; %s",
                 (unsigned long long)GPU_EXPORT_BYTES >> 20, gpu->number,
                 gpu->facts.orders_for_all      ? "nothing is flushed"
                 : gpu->facts.orders_for_itself ? "what other GPUs read is flushed"
                                                : "what comes is flushed");
}

/* Communicators on GPUs that do not reach one another meet in host memory. */
static bool are_all_peers(const worker_t *worker)
{
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (__builtin_popcount(worker->gpus[i].facts.peers) < (int)worker->gpu_count)
            return false;
    }
    return true;
}

/* Else the first application would find that the GPU is taken. MPS is one process to the driver. */
static blink_result_t check_compute_mode(const worker_t *worker, const worker_gpu_t *gpu)
{
    int mode = CU_COMPUTEMODE_DEFAULT;
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGetAttribute, &mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, gpu->device);
    if (mode != CU_COMPUTEMODE_EXCLUSIVE_PROCESS || shares_by_mps(worker, gpu->device))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                      "GPU %u is in compute mode EXCLUSIVE_PROCESS, which keeps applications off it beside "
                      "blinkd: nvidia-smi -i %s -c DEFAULT, or --gpu-sharing mps and an MPS daemon",
                      gpu->number, gpu->facts.pci);
}

/* By such a word a run tells that it has ended, and programs on the GPU wait for one in their streams. The
 * attribute is that of the calls which the headers of CUDA 12 name so, the second version of each. */
static blink_result_t check_words(const worker_t *worker, const worker_gpu_t *gpu)
{
    if (attribute(worker, gpu->device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0)
        return BLINK_OK;
    return BLINK_FAIL(
        BLINK_ERR_UNSUPPORTED,
        "GPU %u, %s at %s, neither writes nor awaits words of 64 bits in the order of a stream, as "
        "blinkd needs it to: name the others in CUDA_VISIBLE_DEVICES",
        gpu->number, gpu->facts.name, gpu->facts.pci);
}

static blink_result_t open_gpu(worker_t *worker, uint32_t number)
{
    worker_gpu_t *gpu = &worker->gpus[number];
    gpu->number = number;
    worker_say_opening(worker);
    CUDA_DRIVER_TRY(worker->cu, cuDeviceGet, &gpu->device, (int)number);
    BLINK_TRY(read_facts(worker, gpu));
    BLINK_TRY(check_compute_mode(worker, gpu));
    BLINK_TRY(check_words(worker, gpu));
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
        if (worker->start.exports)
            offer_memory(worker, &worker->gpus[i]);
    }
    return are_all_peers(worker) ? BLINK_OK : worker_slab_make(worker, 0);
}
