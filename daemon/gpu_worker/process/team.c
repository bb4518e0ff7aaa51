/* Teams by multicast objects. One process has all GPUs, so that no handle of them is exported. */
#include "gpu_worker/process/team.h"

#include "gpu_worker/process/import.h"
#include "gpu_worker/process/worker.h"

#include <stdlib.h>

#if CUDA_API_HAS_MULTICAST

#define CAPABILITY_LEAST 90u /* that has the instructions */

static bool has_calls(const cuda_driver_t *cu)
{
    return cu->cuMulticastCreate && cu->cuMulticastAddDevice && cu->cuMulticastBindMem &&
           cu->cuMulticastUnbind && cu->cuMulticastGetGranularity;
}

bool worker_has_switch(const worker_t *worker, const worker_gpu_t *gpu)
{
    int value = 0;
    return gpu->facts.capability >= CAPABILITY_LEAST && has_calls(worker->cu) &&
           worker->cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpu->device) ==
               CUDA_SUCCESS &&
           value != 0;
}

/* ---- addresses ---- */

static void unmap(const worker_t *worker, CUdeviceptr address, uint64_t bytes)
{
    worker_log_failure(worker, "cuMemUnmap", worker->cu->cuMemUnmap(address, bytes));
    worker_log_failure(worker, "cuMemAddressFree", worker->cu->cuMemAddressFree(address, bytes));
}

/* Give memory, or an object, an address at which these GPUs find it. */
static blink_result_t map(const worker_t *worker, CUmemGenericAllocationHandle handle, uint64_t bytes,
                          const CUmemAccessDesc *access, uint32_t accessors, CUdeviceptr *address)
{
    CUdeviceptr at;
    CUDA_DRIVER_TRY(worker->cu, cuMemAddressReserve, &at, bytes, 0, 0, 0);
    CUresult mapped = worker->cu->cuMemMap(at, bytes, 0, handle, 0);
    if (mapped != CUDA_SUCCESS) {
        worker_log_failure(worker, "cuMemAddressFree", worker->cu->cuMemAddressFree(at, bytes));
        return cuda_driver_fail(worker->cu, "cuMemMap", mapped);
    }
    CUresult granted = worker->cu->cuMemSetAccess(at, bytes, access, accessors);
    if (granted != CUDA_SUCCESS) {
        unmap(worker, at, bytes);
        return cuda_driver_fail(worker->cu, "cuMemSetAccess", granted);
    }
    *address = at;
    return BLINK_OK;
}

/* ---- the pieces ---- */

static blink_result_t bind(const worker_t *worker, uint32_t gpu, CUmemGenericAllocationHandle memory,
                           worker_team_t *team)
{
    CUmemAccessDesc access[GPU_MAX];
    const uint32_t accessors = worker_accessors(worker, gpu, access);
    CUDA_DRIVER_TRY(worker->cu, cuMulticastBindMem, team->object, 0, memory, 0, team->bytes, 0);
    team->bound |= 1u << gpu;
    return map(worker, memory, team->bytes, access, accessors, &team->addresses[gpu]);
}

/* The object and the address keep the memory, so that its handle is not kept. */
static blink_result_t add_piece(const worker_t *worker, uint32_t gpu, worker_team_t *team)
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = worker->gpus[gpu].device},
    };
    CUmemGenericAllocationHandle memory;
    CUDA_DRIVER_TRY(worker->cu, cuMemCreate, &memory, team->bytes, &properties, 0);
    blink_result_t result = bind(worker, gpu, memory, team);
    worker_log_failure(worker, "cuMemRelease", worker->cu->cuMemRelease(memory));
    return result;
}

/* ---- the object ---- */

/* Of the type of handle that NCCL and CUDA's own example ask for, although it is not exported. */
static blink_result_t create_object(const worker_t *worker, uint32_t gpus, uint64_t bytes,
                                    worker_team_t *team)
{
    size_t grain = 0;
    CUmulticastObjectProp properties = {.numDevices = (unsigned)__builtin_popcount(gpus),
                                        .size = bytes,
                                        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUDA_DRIVER_TRY(worker->cu, cuMulticastGetGranularity, &grain, &properties,
                    CU_MULTICAST_GRANULARITY_MINIMUM);
    if (grain < GPU_SWITCH_GRAIN_BYTES)
        grain = GPU_SWITCH_GRAIN_BYTES;
    team->bytes = (bytes + grain - 1) / grain * grain;
    properties.size = team->bytes;
    CUDA_DRIVER_TRY(worker->cu, cuMulticastCreate, &team->object, &properties);
    return BLINK_OK;
}

/* All GPUs are added before the first piece is bound, since binding waits for them. */
static blink_result_t fill_object(const worker_t *worker, uint32_t gpus, worker_team_t *team)
{
    CUmemAccessDesc access[GPU_MAX];
    uint32_t accessors = 0;
    for (uint32_t left = gpus; left; left &= left - 1) {
        const worker_gpu_t *gpu = &worker->gpus[__builtin_ctz(left)];
        CUDA_DRIVER_TRY(worker->cu, cuMulticastAddDevice, team->object, gpu->device);
        access[accessors++] = worker_access_from(gpu);
    }
    for (uint32_t left = gpus; left; left &= left - 1)
        BLINK_TRY(add_piece(worker, (uint32_t)__builtin_ctz(left), team));
    return map(worker, team->object, team->bytes, access, accessors, &team->address);
}

void worker_team_free(const worker_t *worker, worker_team_t *team)
{
    if (team->address)
        unmap(worker, team->address, team->bytes);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (team->bound & 1u << i)
            worker_log_failure(
                worker, "cuMulticastUnbind",
                worker->cu->cuMulticastUnbind(team->object, worker->gpus[i].device, 0, team->bytes));
        if (team->addresses[i])
            unmap(worker, team->addresses[i], team->bytes);
    }
    worker_log_failure(worker, "cuMemRelease", worker->cu->cuMemRelease(team->object));
    free(team);
}

blink_result_t worker_team_make(const worker_t *worker, uint32_t gpus, uint64_t bytes, worker_team_t **team)
{
    if (!has_calls(worker->cu))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "the driver has no multicast objects");
    worker_team_t *made = calloc(1, sizeof(*made));
    if (!made)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a team of GPUs");
    blink_result_t result = create_object(worker, gpus, bytes, made);
    if (result != BLINK_OK) {
        free(made);
        return result;
    }
    result = fill_object(worker, gpus, made);
    if (result == BLINK_OK)
        *team = made;
    else
        worker_team_free(worker, made);
    return result;
}

#else

bool worker_has_switch(const worker_t *worker, const worker_gpu_t *gpu)
{
    (void)worker;
    (void)gpu;
    return false;
}

blink_result_t worker_team_make(const worker_t *worker, uint32_t gpus, uint64_t bytes, worker_team_t **team)
{
    (void)worker;
    (void)gpus;
    (void)bytes;
    (void)team;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "blinkd was built with a cuda.h before CUDA 12.1");
}

void worker_team_free(const worker_t *worker, worker_team_t *team)
{
    (void)worker;
    (void)team;
}

#endif
