#include "gpu_worker/process/job.h"

#include "gpu_worker/process/worker.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

void worker_job_fail(worker_job_t *job, blink_result_t result, const char *text)
{
    if (job->result != BLINK_OK)
        return;
    job->result = result;
    snprintf(job->text, sizeof(job->text), "%s", text);
}

void worker_job_abort(worker_job_t *job)
{
    for (uint32_t i = 0; i < job->part_count; i++) {
        /* Relaxed: nothing is published with it; the kernel looks at it again and again. */
        __atomic_store_n(&job->parts[i].slot->control->abort, 1, __ATOMIC_RELAXED);
    }
}

void *worker_range(const worker_t *worker, const ring_sqe_t *sqe)
{
    if (sqe->in_offset_bytes % _Alignof(gpu_run_t) != 0 || sqe->in_offset_bytes > worker->start.arena_bytes ||
        sqe->count > worker->start.arena_bytes - sqe->in_offset_bytes) {
        blink_error_set(BLINK_ERR_INVALID_ARGUMENT,
                        "%" PRIu64 " bytes at %" PRIu64 " do not lie in the arena of %" PRIu64, sqe->count,
                        sqe->in_offset_bytes, worker->start.arena_bytes);
        return NULL;
    }
    return worker->arena + sqe->in_offset_bytes;
}

/* ---- parts ---- */

worker_part_t *worker_part_add(worker_job_t *job, worker_gpu_t *gpu, worker_stream_t *stream)
{
    worker_part_t *part = &job->parts[job->part_count++];
    *part = (worker_part_t){.gpu = gpu, .slot = worker_slot_get(gpu), .stream = stream};
    stream->users++;
    job->parts_left++;
    return part;
}

void worker_part_drop(worker_job_t *job, uint32_t number)
{
    worker_part_t *part = &job->parts[number];
    part->stream->users--;
    job->parts_left--;
    worker_slot_put(part->gpu, part->slot);
    *part = job->parts[--job->part_count];
}

blink_result_t worker_part_finish(worker_t *worker, const worker_job_t *job, const worker_part_t *part)
{
    WORKER_TRY(worker, cuStreamWriteValue64, part->stream->handle,
               part->slot->control_address + offsetof(lane_abi_control_t, finished), job->number,
               CU_STREAM_WRITE_VALUE_DEFAULT);
    return BLINK_OK;
}
