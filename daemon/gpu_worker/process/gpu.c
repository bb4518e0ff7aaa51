/* What the worker's files do with one GPU, and with what the driver says of it. */
#include "gpu_worker/process/gpu.h"

#include "gpu_worker/process/worker.h"

#include <stdio.h>

/* ---- what is lost ---- */

/* Errors that leave the context as it was. After any other one the context answers nothing but that error. */
static bool is_harmless(CUresult result)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_INVALID_VALUE ||
           result == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

blink_result_t worker_fail(worker_t *worker, const char *call, CUresult result)
{
    blink_result_t failure = cuda_driver_fail(worker->cu, call, result);
    if (is_harmless(result))
        return failure;
    BLINK_FAIL(failure, "the GPU worker lost its context: %s", blink_error_text());
    /* Relaxed: it only chooses who writes the text. */
    if (!atomic_flag_test_and_set_explicit(&worker->has_lost_text, memory_order_relaxed)) {
        snprintf(worker->lost_text, sizeof(worker->lost_text), "%s", blink_error_text());
        /* Release: pairs with worker_is_lost(). */
        atomic_store_explicit(&worker->is_lost, true, memory_order_release);
    }
    return failure;
}

blink_result_t worker_select(worker_t *worker, const worker_gpu_t *gpu)
{
    CUDA_DRIVER_TRY(worker->cu, cuCtxSetCurrent, gpu->context);
    return BLINK_OK;
}

blink_result_t worker_stream_create(worker_t *worker, worker_stream_t *stream)
{
    WORKER_TRY(worker, cuStreamCreate, &stream->handle, CU_STREAM_NON_BLOCKING);
    CUresult result = worker->cu->cuEventCreate(&stream->event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        return BLINK_OK;
    worker->cu->cuStreamDestroy(stream->handle);
    return worker_fail(worker, "cuEventCreate", result);
}

/* ---- the object stream ---- */

blink_result_t worker_objects_changed(worker_t *worker, worker_gpu_t *gpu)
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

/* ---- who reaches whose memory ---- */

CUmemAccessDesc worker_access_from(const worker_gpu_t *gpu)
{
    return (CUmemAccessDesc){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
}

uint32_t worker_accessors(const worker_t *worker, uint32_t gpu, CUmemAccessDesc access[GPU_MAX])
{
    uint32_t count = 0;
    access[count++] = worker_access_from(&worker->gpus[gpu]);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        if (i != gpu && worker->gpus[i].facts.peers & 1u << gpu)
            access[count++] = worker_access_from(&worker->gpus[i]);
    }
    return count;
}
