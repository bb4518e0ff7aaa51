/* The run thread: takes submissions from the ring, looks after what is under way, completes it. It looks at
 * words in host memory and asks the driver only now and then, whether a context is lost. */
#include "gpu_worker/worker.h"

#include "base/log.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* How long an idle thread looks for work before it sleeps: about as long as waking it would take. */
#define IDLE_SPIN_NS 100000u

/* From one question to the driver to the next: each costs about as much as a hundred looks. */
#define QUERY_NS 50000u

/* Work that has not come to an end for so long takes a while longer: leave the core to others in between. */
#define PATIENCE_NS 2000000u
#define NAP_NS      50000u

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- what is lost ---- */

/* Errors that leave the context as it was; after any other it answers nothing but that error. */
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
    if (!worker->is_lost)
        snprintf(worker->lost_text, sizeof(worker->lost_text), "the GPU worker lost its context: %s",
                 blink_error_text());
    worker->is_lost = true;
    return BLINK_FAIL(failure, "%s", worker->lost_text);
}

/* ---- jobs ---- */

static void complete(worker_t *worker, uint64_t user_data, blink_result_t result, const char *text)
{
    if (ring_complete(&worker->ring, user_data, result, text))
        ring_raise_event(worker->completion_fd);
}

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

static worker_job_t *job_get(worker_t *worker, uint64_t user_data)
{
    worker_job_t *job = worker->free_jobs;
    if (job)
        worker->free_jobs = job->next;
    else
        job = malloc(sizeof(*job));
    if (!job)
        return NULL;
    memset(job, 0, offsetof(worker_job_t, parts)); /* parts are made one by one */
    job->user_data = user_data;
    job->number = 1;
    job->next = NULL;
    return job;
}

/* All of the job's parts have ended. */
static void job_end(worker_t *worker, worker_job_t *job)
{
    if (job->is_aborted)
        complete(worker, job->user_data, BLINK_ERR_ABORTED, "the run was aborted");
    else
        complete(worker, job->user_data, job->result, job->text);
    for (uint32_t i = 0; i < job->part_count; i++)
        worker_slot_put(job->parts[i].gpu, job->parts[i].slot);
    job->next = worker->free_jobs;
    worker->free_jobs = job;
}

static void part_end(worker_job_t *job, worker_part_t *part)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    part->is_finished = true;
    part->stream->users--;
    job->parts_left--;
    /* Relaxed: the kernel wrote it before `finished`, whose load came before. */
    if (!__atomic_load_n(&part->slot->control->failed, __ATOMIC_RELAXED))
        return;
    snprintf(text, sizeof(text), "a lane on GPU %u waited for another for %" PRIu64 " ms", part->gpu->number,
             job->wait_limit_ns / 1000000);
    worker_job_fail(job, BLINK_ERR_TIMEOUT, text);
    worker_job_abort(job); /* the others would only wait for this one */
}

static bool is_finished(const worker_job_t *job, const worker_part_t *part)
{
    /* Acquire: pairs with the kernel's or the stream's write, after all else they wrote. */
    return __atomic_load_n(&part->slot->control->finished, __ATOMIC_ACQUIRE) == job->number;
}

/* Ask the driver about a part that has not told its end. */
static void query(worker_t *worker, worker_job_t *job, worker_part_t *part)
{
    CUresult result = worker->cu->cuStreamQuery(part->stream->handle);
    if (result == CUDA_ERROR_NOT_READY || (result == CUDA_SUCCESS && is_finished(job, part)))
        return;
    blink_result_t failure =
        result != CUDA_SUCCESS
            ? worker_fail(worker, "cuStreamQuery", result)
            : BLINK_FAIL(BLINK_ERR_INTERNAL, "a kernel on GPU %u ended without a word", part->gpu->number);
    worker_job_fail(job, failure, blink_error_text());
    worker_job_abort(job);
    part_end(job, part);
}

static bool job_poll(worker_t *worker, worker_job_t *job, bool is_query)
{
    for (uint32_t i = 0; i < job->part_count; i++) {
        worker_part_t *part = &job->parts[i];
        if (part->is_finished)
            continue;
        if (is_finished(job, part))
            part_end(job, part);
        else if (is_query)
            query(worker, job, part);
    }
    return job->parts_left == 0;
}

/* Whether a job ended. */
static bool poll_jobs(worker_t *worker, bool is_query)
{
    bool ended = false;
    worker_job_t **place = &worker->jobs;
    while (*place) {
        worker_job_t *job = *place;
        if (job_poll(worker, job, is_query)) {
            *place = job->next;
            job_end(worker, job);
            ended = true;
        } else {
            place = &job->next;
        }
    }
    return ended;
}

/* ---- submissions ---- */

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

static void abort_run(worker_t *worker, uint64_t number)
{
    for (worker_job_t *job = worker->jobs; job; job = job->next) {
        if (job->run_number == number && number != 0) {
            job->is_aborted = true;
            worker_job_abort(job);
        }
    }
}

static blink_result_t begin(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job)
{
    switch (sqe->opcode) {
    case GPU_LOAD:
    case GPU_ALLOC:
        return worker_object_make(worker, sqe, job);
    case GPU_FREE:
        return worker_object_free(worker, sqe->member);
    case GPU_RUN:
        return worker_launch(worker, sqe, job);
    case GPU_ABORT:
        abort_run(worker, sqe->count);
        return BLINK_OK;
    default:
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "GPU worker: opcode %u", sqe->opcode);
    }
}

static void submit(worker_t *worker, const ring_sqe_t *sqe)
{
    worker_job_t *job = job_get(worker, sqe->user_data);
    if (!job) {
        complete(worker, sqe->user_data, BLINK_ERR_NO_MEMORY, "no memory for a run");
        return;
    }
    blink_result_t result = begin(worker, sqe, job);
    if (result != BLINK_OK)
        worker_job_fail(job, result, blink_error_text());
    if (job->parts_left == 0) {
        job_end(worker, job);
        return;
    }
    job->next = worker->jobs;
    worker->jobs = job;
}

/* ---- the loop ---- */

/* A context is lost, and with it whatever its process has on that GPU: complete what is under way and leave.
 */
static _Noreturn void end_lost(worker_t *worker)
{
    LOG_ERROR("GPU worker ends: %s", worker->lost_text);
    for (worker_job_t *job = worker->jobs; job; job = job->next)
        complete(worker, job->user_data, BLINK_ERR_SYSTEM, worker->lost_text);
    _exit(1);
}

static void sleep_on_doorbell(worker_t *worker)
{
    struct epoll_event event;
    ring_set_engine_sleeping(&worker->ring, true);
    if (!ring_has_submission(&worker->ring))
        epoll_wait(worker->epoll_fd, &event, 1, -1);
    ring_set_engine_sleeping(&worker->ring, false);
}

/* What to do with the time until the next look. Returns whether it slept for want of work. */
static bool pause_looking(worker_t *worker, uint64_t unchanged_ns)
{
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    if (!worker->jobs) {
        if (unchanged_ns < IDLE_SPIN_NS)
            return false;
        sleep_on_doorbell(worker);
        return true;
    }
    if (unchanged_ns < PATIENCE_NS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
    return false;
}

void *worker_run_main(void *argument)
{
    worker_t *worker = argument;
    uint64_t changed_ns = now_ns(), queried_ns = changed_ns;
    ring_sqe_t sqe;
    prctl(PR_SET_NAME, "blinkd-gpu-run");
    prctl(PR_SET_TIMERSLACK, 1ul);                           /* a nap is as short as the usual slack */
    if (worker_select(worker, &worker->gpus[0]) != BLINK_OK) /* calls about streams want some context */
        LOG_WARNING("GPU worker: %s", blink_error_text());
    for (;;) {
        bool changed = false;
        while (!worker->is_lost && ring_take(&worker->ring, &sqe)) {
            submit(worker, &sqe);
            changed = true;
        }
        const uint64_t now = now_ns();
        const bool is_query = now - queried_ns >= QUERY_NS;
        if (is_query)
            queried_ns = now;
        changed |= poll_jobs(worker, is_query);
        if (worker->is_lost)
            end_lost(worker);
        if (changed)
            changed_ns = now;
        else if (pause_looking(worker, now - changed_ns))
            changed_ns = now_ns();
    }
    return NULL;
}
