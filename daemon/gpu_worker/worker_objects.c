/* Memory on the GPUs that is the worker's own: objects, which the service names and fills, and the slots by
 * which everything that is under way tells its end. All of it is made and given back in the order of each
 * GPU's object stream. */
#include "gpu_worker/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the object stream ---- */

/* Whoever uses an object from now on waits for what was enqueued before. */
static blink_result_t mark_pending(worker_t *worker, worker_gpu_t *gpu)
{
    WORKER_TRY(worker, cuEventRecord, gpu->object_stream.event, gpu->object_stream.handle);
    gpu->objects_pending = true;
    return BLINK_OK;
}

blink_result_t worker_objects_await(worker_t *worker, CUstream stream)
{
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        worker_gpu_t *gpu = &worker->gpus[i];
        if (!gpu->objects_pending)
            continue;
        CUresult result = worker->cu->cuEventQuery(gpu->object_stream.event);
        if (result == CUDA_SUCCESS)
            gpu->objects_pending = false;
        else if (result == CUDA_ERROR_NOT_READY)
            WORKER_TRY(worker, cuStreamWaitEvent, stream, gpu->object_stream.event, 0);
        else
            return worker_fail(worker, "cuEventQuery", result);
    }
    return BLINK_OK;
}

/* ---- slots ---- */

#define SLAB_SLOTS 64u
#define SLAB_STEP_BYTES                                                                                      \
    64u /* from counter to counter: atomics of different runs keep out of each other's way */

static_assert(sizeof(lane_abi_control_t) == 64, "a control block has a line of its own");

static blink_result_t map_controls(worker_t *worker, lane_abi_control_t **controls, CUdeviceptr *address)
{
    void *memory = NULL;
    const size_t bytes = SLAB_SLOTS * sizeof(lane_abi_control_t);
    WORKER_TRY(worker, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    *controls = memory;
    WORKER_TRY(worker, cuMemHostGetDevicePointer, address, memory, 0);
    return BLINK_OK;
}

static blink_result_t make_counters(worker_t *worker, worker_gpu_t *gpu, CUdeviceptr *counters)
{
    const CUstream stream = gpu->object_stream.handle;
    WORKER_TRY(worker, cuMemAllocFromPoolAsync, counters, SLAB_SLOTS * SLAB_STEP_BYTES, gpu->object_pool,
               stream);
    WORKER_TRY(worker, cuMemsetD8Async, *counters, 0, SLAB_SLOTS * SLAB_STEP_BYTES, stream);
    return mark_pending(worker, gpu);
}

/* Slabs are never given back: the ring bounds what can be under way. */
static blink_result_t grow_slots(worker_t *worker, worker_gpu_t *gpu)
{
    lane_abi_control_t *controls = NULL;
    CUdeviceptr control_address = 0, counters = 0;
    worker_slot_t *slots = calloc(SLAB_SLOTS, sizeof(*slots));
    if (!slots)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u runs", SLAB_SLOTS);
    blink_result_t result = worker_select(worker, gpu);
    if (result == BLINK_OK)
        result = map_controls(worker, &controls, &control_address);
    if (result == BLINK_OK)
        result = make_counters(worker, gpu, &counters);
    if (result != BLINK_OK)
        goto fail;
    for (uint32_t i = 0; i < SLAB_SLOTS; i++) {
        slots[i] = (worker_slot_t){
            .control = &controls[i],
            .control_address = control_address + i * sizeof(*controls),
            .blocks_left = counters + i * SLAB_STEP_BYTES,
        };
        worker_slot_put(gpu, &slots[i]);
    }
    return BLINK_OK;
fail:
    if (controls)
        worker->cu->cuMemFreeHost(controls);
    free(slots);
    return result;
}

blink_result_t worker_slot_get(worker_t *worker, worker_gpu_t *gpu, worker_slot_t **slot)
{
    if (!gpu->free_slots)
        BLINK_TRY(grow_slots(worker, gpu));
    *slot = gpu->free_slots;
    gpu->free_slots = (*slot)->next;
    memset((*slot)->control, 0, sizeof(*(*slot)->control));
    return BLINK_OK;
}

void worker_slot_put(worker_gpu_t *gpu, worker_slot_t *slot)
{
    slot->next = gpu->free_slots;
    gpu->free_slots = slot;
}

/* ---- objects ---- */

static worker_object_t **place_of(worker_t *worker, uint32_t number)
{
    worker_object_t **place = &worker->objects[number % WORKER_OBJECT_BUCKETS];
    while (*place && (*place)->number != number)
        place = &(*place)->next;
    return place;
}

worker_object_t *worker_object_find(const worker_t *worker, uint32_t number)
{
    worker_object_t *object = worker->objects[number % WORKER_OBJECT_BUCKETS];
    while (object && object->number != number)
        object = object->next;
    return object;
}

/* Memory of the object on one GPU, filled with `source` or zeros. */
static blink_result_t fill(worker_t *worker, worker_gpu_t *gpu, worker_object_t *object, const void *source,
                           size_t bytes)
{
    const CUstream stream = gpu->object_stream.handle;
    CUdeviceptr *address = &object->addresses[gpu->number];
    BLINK_TRY(worker_select(worker, gpu));
    WORKER_TRY(worker, cuMemAllocFromPoolAsync, address, bytes, gpu->object_pool, stream);
    if (source)
        WORKER_TRY(worker, cuMemcpyAsync, *address, (CUdeviceptr)(uintptr_t)source, bytes, stream);
    else
        WORKER_TRY(worker, cuMemsetD8Async, *address, 0, bytes, stream);
    return mark_pending(worker, gpu);
}

static blink_result_t make_on(worker_t *worker, worker_gpu_t *gpu, worker_object_t *object,
                              const void *source, size_t bytes, worker_job_t *job)
{
    worker_part_t *part;
    BLINK_TRY(worker_part_add(worker, job, gpu, &gpu->object_stream, &part));
    blink_result_t result = fill(worker, gpu, object, source, bytes);
    if (result == BLINK_OK)
        result = worker_part_finish(worker, job, part);
    if (result != BLINK_OK)
        worker_part_drop(job);
    return result;
}

/* Once, for all GPUs of the mask. */
static blink_result_t make_on_host(worker_t *worker, const ring_sqe_t *sqe, worker_object_t *object)
{
    CUdeviceptr address;
    BLINK_TRY(worker_select(worker, &worker->gpus[0]));
    WORKER_TRY(worker, cuMemHostAlloc, &object->host, sqe->count,
               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    memset(object->host, 0, sqe->count);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (!(sqe->root & 1u << i))
            continue;
        BLINK_TRY(worker_select(worker, &worker->gpus[i]));
        WORKER_TRY(worker, cuMemHostGetDevicePointer, &address, object->host, 0);
        object->addresses[i] = address;
    }
    return BLINK_OK;
}

static blink_result_t give_back_host(worker_t *worker, worker_object_t *object)
{
    CUresult freed = worker->cu->cuMemFreeHost(object->host);
    free(object);
    return freed == CUDA_SUCCESS ? BLINK_OK : worker_fail(worker, "cuMemFreeHost", freed);
}

/* In the stream's order, so whatever was enqueued there for the object comes first. */
static blink_result_t give_back(worker_t *worker, worker_object_t *object)
{
    blink_result_t result = BLINK_OK;
    if (object->host)
        return give_back_host(worker, object);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        worker_gpu_t *gpu = &worker->gpus[i];
        if (object->addresses[i] == 0)
            continue;
        CUresult freed = worker->cu->cuMemFreeAsync(object->addresses[i], gpu->object_stream.handle);
        if (freed != CUDA_SUCCESS)
            result = worker_fail(worker, "cuMemFreeAsync", freed);
    }
    free(object);
    return result;
}

static blink_result_t check_new(const worker_t *worker, const ring_sqe_t *sqe)
{
    const uint64_t all = (UINT64_C(1) << worker->gpu_count) - 1;
    if (sqe->member == 0 || worker_object_find(worker, sqe->member))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "object %u: the number is %s", sqe->member,
                          sqe->member == 0 ? "none" : "taken");
    if (sqe->root == 0 || (sqe->root & ~all) != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "object %u: GPUs 0x%x, there are %u", sqe->member,
                          sqe->root, worker->gpu_count);
    if (sqe->count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "object %u: of 0 bytes", sqe->member);
    return BLINK_OK;
}

static blink_result_t make_on_gpus(worker_t *worker, const ring_sqe_t *sqe, worker_object_t *object,
                                   const void *source, worker_job_t *job)
{
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (!(sqe->root & 1u << i))
            continue;
        blink_result_t result = make_on(worker, &worker->gpus[i], object, source, sqe->count, job);
        if (result != BLINK_OK)
            return blink_error_set(result, "object %u, %" PRIu64 " bytes on GPU %u: %s", sqe->member,
                                   sqe->count, i, blink_error_text());
    }
    return BLINK_OK;
}

blink_result_t worker_object_make(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job)
{
    const void *source = NULL;
    BLINK_TRY(check_new(worker, sqe));
    if (sqe->opcode == GPU_LOAD) {
        source = worker_range(worker, sqe);
        if (!source)
            return BLINK_ERR_INVALID_ARGUMENT;
    }
    worker_object_t *object = calloc(1, sizeof(*object));
    if (!object)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "object %u", sqe->member);
    object->number = sqe->member;
    blink_result_t result = sqe->opcode == GPU_ALLOC && (sqe->flags & GPU_ALLOC_HOST)
                                ? make_on_host(worker, sqe, object)
                                : make_on_gpus(worker, sqe, object, source, job);
    if (result != BLINK_OK) {
        give_back(worker, object);
        return result;
    }
    *place_of(worker, sqe->member) = object;
    return BLINK_OK;
}

blink_result_t worker_object_free(worker_t *worker, uint32_t number)
{
    worker_object_t **place = place_of(worker, number), *object = *place;
    if (!object)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "object %u: there is none", number);
    *place = object->next;
    return give_back(worker, object);
}
