/* Objects are made and given back in the order of each GPU's object stream. */
#include "gpu_worker/process/objects.h"

#include "gpu_worker/process/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_BYTES (UINT64_C(32) << 20)

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

/* Memory of the object on one GPU, which is made if there is none, filled with `source` or zeros. */
static blink_result_t fill(worker_t *worker, worker_gpu_t *gpu, worker_object_t *object, const void *source,
                           size_t bytes)
{
    const CUstream stream = gpu->object_stream.handle;
    CUdeviceptr *address = &object->addresses[gpu->number];
    BLINK_TRY(worker_select(worker, gpu));
    if (*address == 0)
        WORKER_TRY(worker, cuMemAllocFromPoolAsync, address, bytes, gpu->object_pool, stream);
    if (source)
        WORKER_TRY(worker, cuMemcpyAsync, *address, (CUdeviceptr)(uintptr_t)source, bytes, stream);
    else
        WORKER_TRY(worker, cuMemsetD8Async, *address, 0, bytes, stream);
    return worker_objects_changed(worker, gpu);
}

static blink_result_t make_on(worker_t *worker, worker_gpu_t *gpu, worker_object_t *object,
                              const void *source, size_t bytes, worker_job_t *job)
{
    const worker_part_t *part = worker_part_add(job, gpu, &gpu->object_stream);
    blink_result_t result = fill(worker, gpu, object, source, bytes);
    if (result == BLINK_OK)
        result = worker_part_finish(worker, job, part);
    if (result != BLINK_OK)
        worker_part_drop(job, job->part_count - 1);
    return result;
}

/* ---- in host memory ---- */

/* Of the slab that an object of so many bytes is made of: slabs of few sizes are used again. */
static uint64_t slab_bytes(uint64_t bytes)
{
    uint64_t size = SLAB_BYTES;
    while (size < bytes)
        size *= 2;
    return size;
}

static blink_result_t map_slab(worker_t *worker, worker_slab_t *slab, uint64_t bytes)
{
    void *memory;
    BLINK_TRY(worker_select(worker, &worker->gpus[0]));
    WORKER_TRY(worker, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    slab->memory = memory;
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        BLINK_TRY(worker_select(worker, &worker->gpus[i]));
        WORKER_TRY(worker, cuMemHostGetDevicePointer, &slab->addresses[i], memory, 0);
    }
    return gpu_arena_init(&slab->arena, memory, bytes);
}

blink_result_t worker_slab_make(worker_t *worker, uint64_t bytes)
{
    worker_slab_t *slab = calloc(1, sizeof(*slab));
    if (!slab)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a slab");
    blink_result_t result = map_slab(worker, slab, slab_bytes(bytes));
    if (result != BLINK_OK) {
        if (slab->memory)
            worker->cu->cuMemFreeHost(slab->memory);
        free(slab);
        return result;
    }
    slab->next = worker->slabs;
    worker->slabs = slab;
    return BLINK_OK;
}

static bool take(worker_t *worker, worker_object_t *object)
{
    for (worker_slab_t *slab = worker->slabs; slab; slab = slab->next) {
        if (slab->arena.bytes == slab_bytes(object->bytes) &&
            gpu_arena_take(&slab->arena, object->bytes, &object->offset) == BLINK_OK) {
            object->slab = slab;
            return true;
        }
    }
    return false;
}

/* Once, for all GPUs of the mask. */
static blink_result_t make_on_host(worker_t *worker, const ring_sqe_t *sqe, worker_object_t *object)
{
    if (!take(worker, object)) {
        BLINK_TRY(worker_slab_make(worker, object->bytes));
        if (!take(worker, object))
            return BLINK_ERR_NO_MEMORY; /* gpu_arena_take() has said why */
    }
    memset(object->slab->memory + object->offset, 0, object->bytes);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (sqe->root & 1u << i)
            object->addresses[i] = object->slab->addresses[i] + object->offset;
    }
    return BLINK_OK;
}

/* ---- giving back ---- */

/* The zeros that the object began with may be on their way still, if no run has waited for them. Nothing on
 * an object stream waits for a run. */
static blink_result_t free_team(worker_t *worker, worker_object_t *object)
{
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (object->addresses[i] == 0)
            continue;
        CUresult ended = worker->cu->cuStreamSynchronize(worker->gpus[i].object_stream.handle);
        if (ended != CUDA_SUCCESS)
            result = worker_fail(worker, "cuStreamSynchronize", ended);
    }
    worker_team_free(worker, object->team);
    return result;
}

/* In the object stream's order: whatever was enqueued there for the object comes before. */
static blink_result_t free_memory(worker_t *worker, worker_object_t *object)
{
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (object->addresses[i] == 0)
            continue;
        CUresult freed =
            worker->cu->cuMemFreeAsync(object->addresses[i], worker->gpus[i].object_stream.handle);
        if (freed != CUDA_SUCCESS)
            result = worker_fail(worker, "cuMemFreeAsync", freed);
    }
    return result;
}

static blink_result_t give_back(worker_t *worker, worker_object_t *object)
{
    blink_result_t result = BLINK_OK;
    if (object->team)
        result = free_team(worker, object);
    else if (object->slab)
        gpu_arena_give(&object->slab->arena, object->offset, object->bytes);
    else
        result = free_memory(worker, object);
    free(object);
    return result;
}

/* ---- making ---- */

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

/* Zeros where a switch reaches them: the memory that the object has, if it has some, is given back only once
 * there is other. If that cannot be had the zeros are where a switch does not reach, and the job tells why.
 */
static blink_result_t make_by_switch(worker_t *worker, const ring_sqe_t *sqe, worker_object_t *object,
                                     worker_job_t *job)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    worker_team_t *team;
    blink_result_t made = worker_team_make(worker, sqe->root, sqe->count, &team);
    if (made == BLINK_OK) {
        made = free_memory(worker, object);
        object->team = team;
        memcpy(object->addresses, team->addresses, sizeof(object->addresses));
        BLINK_TRY(made);
        return make_on_gpus(worker, sqe, object, NULL, job);
    }
    snprintf(text, sizeof(text), "%s", blink_error_text());
    BLINK_TRY(make_on_gpus(worker, sqe, object, NULL, job));
    worker_job_fail(job, BLINK_ERR_UNSUPPORTED, text);
    return BLINK_OK;
}

static bool wants_switch(const ring_sqe_t *sqe)
{
    return sqe->opcode == GPU_ALLOC && (sqe->flags & GPU_ALLOC_SWITCH);
}

static blink_result_t make(worker_t *worker, const ring_sqe_t *sqe, worker_object_t *object,
                           const void *source, worker_job_t *job)
{
    if (sqe->opcode == GPU_ALLOC && (sqe->flags & GPU_ALLOC_HOST))
        return make_on_host(worker, sqe, object);
    if (wants_switch(sqe))
        return make_by_switch(worker, sqe, object, job);
    return make_on_gpus(worker, sqe, object, source, job);
}

/* Whether it is this object that is asked for again, since no switch has reached it. */
static bool is_asked_again(const worker_t *worker, const ring_sqe_t *sqe, const worker_object_t *object)
{
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < worker->gpu_count; i++)
        gpus |= object->addresses[i] != 0 ? 1u << i : 0;
    return wants_switch(sqe) && !object->team && !object->slab && object->bytes == sqe->count &&
           gpus == sqe->root;
}

blink_result_t worker_object_make(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job)
{
    const void *source = NULL;
    worker_object_t *object = worker_object_find(worker, sqe->member);
    if (object && is_asked_again(worker, sqe, object))
        return make_by_switch(worker, sqe, object, job);
    BLINK_TRY(check_new(worker, sqe));
    if (sqe->opcode == GPU_LOAD) {
        source = worker_range(worker, sqe);
        if (!source)
            return BLINK_ERR_INVALID_ARGUMENT;
    }
    object = calloc(1, sizeof(*object));
    if (!object)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "object %u", sqe->member);
    object->number = sqe->member;
    object->bytes = sqe->count;
    blink_result_t result = make(worker, sqe, object, source, job);
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
