/* gpu.h and stream.h where there was no CUDA to build with: there is no GPU, and nothing of streams is ever
 * reached. */
#include "context/comm.h"
#include "gpu/gpu.h"
#include "stream/stream.h"

#include "error.h"

static blink_result_t without_cuda(void)
{
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "libblinkclient was built without CUDA");
}

gpus_t *gpus_find(blink_context_t *context)
{
    (void)context;
    return NULL;
}

void gpus_fini(blink_context_t *context)
{
    (void)context;
}

void gpus_reset(blink_context_t *context)
{
    (void)context;
}

bool gpus_current_uuid(blink_context_t *context, uint8_t uuid[GPU_UUID_BYTES])
{
    (void)context;
    (void)uuid;
    return false;
}

blink_result_t gpus_refuse(blink_context_t *context, const char *what, const void *pointer)
{
    (void)context;
    (void)what;
    (void)pointer;
    return BLINK_OK;
}

gpu_t *gpu_of(blink_comm_t *comm)
{
    (void)comm;
    return NULL;
}

blink_result_t gpu_require(blink_comm_t *comm, gpu_t **gpu)
{
    (void)comm;
    *gpu = NULL;
    return without_cuda();
}

blink_result_t gpu_enter(gpu_t *gpu, gpu_visit_t *visit)
{
    *visit = (gpu_visit_t){.gpu = gpu};
    return BLINK_OK;
}

void gpu_leave(const gpu_visit_t *visit)
{
    (void)visit;
}

blink_result_t gpu_place(blink_comm_t *comm, const char *what, const void *pointer, size_t bytes,
                         gpu_place_t *place)
{
    (void)comm;
    (void)what;
    (void)pointer;
    (void)bytes;
    *place = (gpu_place_t){0};
    return BLINK_OK;
}

blink_result_t gpu_copy(gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return without_cuda();
}

blink_result_t gpu_copy_end(gpu_t *gpu)
{
    (void)gpu;
    return without_cuda();
}

bool gpu_is_lost(gpu_t *gpu)
{
    (void)gpu;
    return true;
}

blink_result_t gpu_pin(gpu_t *gpu, void *base, size_t bytes, uint64_t *address)
{
    (void)gpu;
    (void)base;
    (void)bytes;
    (void)address;
    return without_cuda();
}

void gpu_unpin(gpu_t *gpu, void *base)
{
    (void)gpu;
    (void)base;
}

blink_result_t stream_step(stream_steps_t *steps, blink_comm_t *comm, gpu_t *gpu, blink_stream_t stream,
                           stream_step_t **step)
{
    (void)steps;
    (void)comm;
    (void)gpu;
    (void)stream;
    (void)step;
    return without_cuda();
}

void stream_step_add(stream_step_t *step, ring_sqe_t *sqe, staging_transfer_t *transfer)
{
    (void)step;
    (void)sqe;
    (void)transfer;
}

bool stream_steps_stored(const stream_steps_t *steps)
{
    (void)steps;
    return false;
}

blink_result_t stream_begin(stream_steps_t *steps)
{
    (void)steps;
    return without_cuda();
}

blink_result_t stream_finish(stream_steps_t *steps)
{
    (void)steps;
    return without_cuda();
}

blink_result_t stream_capture(stream_steps_t *steps, blink_result_t stored)
{
    (void)steps;
    (void)stored;
    return without_cuda();
}

void stream_steps_release(stream_steps_t *steps)
{
    (void)steps;
}

blink_result_t streams_replay_error(blink_comm_t *comm)
{
    (void)comm;
    return BLINK_OK;
}

void streams_leave(blink_comm_t *comm)
{
    (void)comm;
}

void streams_pump(blink_context_t *context)
{
    (void)context;
}

bool streams_let_go(blink_context_t *context)
{
    (void)context;
    return false;
}

void streams_settle(blink_context_t *context)
{
    (void)context;
}

void streams_fini(blink_context_t *context)
{
    (void)context;
}
