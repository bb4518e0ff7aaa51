/* streams.h and step.h where there was no CUDA to build with: nothing of streams is ever reached. */
#include "stream/step.h"

static blink_result_t without_cuda(void)
{
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "libblinkclient was built without CUDA");
}

void stream_rank_init(stream_rank_t *rank, streams_t *streams, rank_gpu_t *gpu)
{
    *rank = (stream_rank_t){.streams = streams, .gpu = gpu};
}

void stream_rank_prepare(stream_rank_t *rank, gpu_t *gpu)
{
    (void)rank, (void)gpu;
}

void stream_rank_fini(stream_rank_t *rank)
{
    (void)rank;
}

blink_result_t stream_rank_replay_error(const stream_rank_t *rank)
{
    (void)rank;
    return BLINK_OK;
}

void streams_fini(streams_t *streams)
{
    (void)streams;
}

void streams_pump(streams_t *streams)
{
    (void)streams;
}

bool streams_let_go(streams_t *streams)
{
    (void)streams;
    return false;
}

void streams_settle(streams_t *streams)
{
    (void)streams;
}

blink_result_t stream_step_find(stream_steps_t *steps, stream_rank_t *rank, gpu_t *gpu, blink_stream_t stream,
                                stream_step_t *fresh, stream_step_t **step)
{
    (void)steps, (void)rank, (void)gpu, (void)stream, (void)fresh, (void)step;
    return without_cuda();
}

blink_result_t stream_step_add(stream_steps_t *steps, const stream_step_t *fresh, uint32_t member,
                               stream_step_t **step)
{
    (void)steps, (void)fresh, (void)member, (void)step;
    return without_cuda();
}

void stream_step_enter(stream_step_t *step, ring_sqe_t *sqe, staging_transfer_t *transfer)
{
    (void)step, (void)sqe, (void)transfer;
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
    (void)steps, (void)stored;
    return without_cuda();
}

void stream_steps_release(stream_steps_t *steps)
{
    (void)steps;
}
