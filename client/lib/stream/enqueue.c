/* The driver's calls. */
#include "stream/enqueue.h"

#include "stream/window.h"

blink_result_t stream_enter(const stream_step_t *step)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuCtxPushCurrent, step->window->context);
    return BLINK_OK;
}

void stream_leave(const stream_step_t *step)
{
    (void)step->gpu->driver->cuCtxPopCurrent(&(CUcontext){NULL});
}

blink_result_t stream_write(const stream_step_t *step, CUdeviceptr address, uint64_t value)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuStreamWriteValue64, step->stream, address, value,
                    CU_STREAM_WRITE_VALUE_DEFAULT);
    return BLINK_OK;
}

blink_result_t stream_wait(const stream_step_t *step, CUdeviceptr address, uint64_t least)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuStreamWaitValue64, step->stream, address, least,
                    CU_STREAM_WAIT_VALUE_GEQ);
    return BLINK_OK;
}

CUstreamBatchMemOpParams stream_to_write(CUdeviceptr address, uint64_t value)
{
    return (CUstreamBatchMemOpParams){.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                                                     .address = address,
                                                     .value64 = value,
                                                     .flags = CU_STREAM_WRITE_VALUE_DEFAULT}};
}

CUstreamBatchMemOpParams stream_to_wait(CUdeviceptr address, uint64_t least)
{
    return (CUstreamBatchMemOpParams){.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
                                                    .address = address,
                                                    .value64 = least,
                                                    .flags = CU_STREAM_WAIT_VALUE_GEQ}};
}

blink_result_t stream_batch(const stream_step_t *step, CUstreamBatchMemOpParams *operations, uint32_t count)
{
    CUDA_DRIVER_TRY(step->gpu->driver, cuStreamBatchMemOp, step->stream, count, operations, 0);
    return BLINK_OK;
}
