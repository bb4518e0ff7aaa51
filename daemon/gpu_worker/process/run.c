/* The run thread takes submissions from the ring, watches what is under way and completes it. It looks at
 * words in host memory; only now and then it asks the driver whether a context is lost. */
#include "gpu_worker/process/run.h"

#include "base/clock.h"
#include "base/log.h"
#include "gpu_worker/process/launch.h"
#include "gpu_worker/process/worker.h"

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

/* In one turn: then a request about memory may come. */
#define TURN_SUBMISSIONS 64u

/* Work that has not come to an end for so long takes a while longer: leave the core to others in between. */
#define PATIENCE_NS 2000000u
#define NAP_NS      50000u

/* ---- jobs ---- */

static void complete(worker_t *worker, uint64_t user_data, blink_result_t result, const char *text)
{
    if (ring_complete(&worker->ring, user_data, result, text))
        ring_raise_event(worker->completion_fd);
}

static worker_job_t *job_get(worker_t *worker, uint64_t user_data)
{
    list_t *spare = list_take_first(&worker->free_jobs);
    worker_job_t *job = spare ? CONTAINER_OF(spare, worker_job_t, link) : malloc(sizeof(*job));
    if (!job)
        return NULL;
    memset(job, 0, offsetof(worker_job_t, parts)); /* parts are made one by one */
    job->user_data = user_data;
    job->number = 1;
    list_init(&job->link);
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
    list_prepend(&worker->free_jobs, &job->link);
}

static void part_end(worker_job_t *job, worker_part_t *part)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    part->is_finished = true;
    part->stream->users--;
    job->parts_left--;
    /* Relaxed: the kernel wrote `failed` before `finished`, which has been loaded with acquire
     * (is_finished()). */
    if (!__atomic_load_n(&part->slot->control->failed, __ATOMIC_RELAXED))
        return;
    snprintf(text, sizeof(text), "a lane on GPU %u waited for another for %" PRIu64 " ms", part->gpu->number,
             job->wait_limit_ns / 1000000);
    worker_job_fail(job, BLINK_ERR_TIMEOUT, text);
    worker_job_abort(job); /* the others would only wait for this one */
}

static bool is_finished(const worker_job_t *job, const worker_part_t *part)
{
    /* Acquire: pairs with the kernel's store_release() (lane.cuh), or the stream's write
     * (worker_part_finish()), which come after all else that the kernel or the stream wrote. */
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

/* The service looks at semaphores of wires by itself, but sleeps until it hears that one has changed. */
static void job_watch(const worker_t *worker, worker_job_t *job)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < job->watched_count; i++) /* relaxed: the service loads it again, with acquire */
        sum += __atomic_load_n(&job->watched[i * (LANE_ABI_SEMAPHORE_BYTES / sizeof(uint64_t))],
                               __ATOMIC_RELAXED);
    if (sum == job->watched_sum)
        return;
    job->watched_sum = sum;
    ring_raise_event(worker->completion_fd);
}

/* Whether a job ended. */
static bool poll_jobs(worker_t *worker, bool is_query)
{
    bool ended = false;
    LIST_FOR_EACH (link, &worker->jobs) {
        worker_job_t *job = CONTAINER_OF(link, worker_job_t, link);
        job_watch(worker, job);
        if (!job_poll(worker, job, is_query))
            continue;
        list_remove(link);
        job_end(worker, job);
        ended = true;
    }
    return ended;
}

/* ---- submissions ---- */

static void abort_run(worker_t *worker, uint64_t number)
{
    LIST_FOR_EACH (link, &worker->jobs) {
        worker_job_t *job = CONTAINER_OF(link, worker_job_t, link);
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
    list_prepend(&worker->jobs, &job->link);
}

/* In its turn, which comes once a request about memory has been served. What is under way is looked at
 * meanwhile. Returns whether there were any. */
static bool take_submissions(worker_t *worker)
{
    ring_sqe_t sqe;
    if (worker_is_lost(worker) || !ring_has_submission(&worker->ring))
        return false;
    if (!worker->has_drawn)
        worker->turn = worker_turn_draw(&worker->turns);
    worker->has_drawn = !worker_turn_has_come(&worker->turns, worker->turn);
    if (worker->has_drawn) {
        sched_yield();
        return false;
    }
    for (uint32_t i = 0; i < TURN_SUBMISSIONS && !worker_is_lost(worker) && ring_take(&worker->ring, &sqe);
         i++)
        submit(worker, &sqe);
    worker_turn_end(&worker->turns);
    return true;
}

/* ---- the loop ---- */

/* A context is lost, and with it all that this process has on that GPU: complete what is under way and end
 * the process. */
static _Noreturn void end_lost(worker_t *worker)
{
    LOG_ERROR("GPU worker ends: %s", worker->lost_text);
    LIST_FOR_EACH (link, &worker->jobs) {
        const worker_job_t *job = CONTAINER_OF(link, worker_job_t, link);
        complete(worker, job->user_data, BLINK_ERR_SYSTEM, worker->lost_text);
    }
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
    if (list_is_empty(&worker->jobs)) {
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
    uint64_t changed_ns = clock_ns(), queried_ns = changed_ns;
    prctl(PR_SET_NAME, "blinkd-gpu-run");
    prctl(PR_SET_TIMERSLACK, 1ul);                           /* a nap is as short as the usual slack */
    if (worker_select(worker, &worker->gpus[0]) != BLINK_OK) /* calls about streams want some context */
        LOG_WARNING("GPU worker: %s", blink_error_text());
    for (;;) {
        bool changed = take_submissions(worker);
        const uint64_t now = clock_ns();
        const bool is_query = now - queried_ns >= QUERY_NS;
        if (is_query)
            queried_ns = now;
        changed |= poll_jobs(worker, is_query);
        if (worker_is_lost(worker))
            end_lost(worker);
        if (changed)
            changed_ns = now;
        else if (pause_looking(worker, now - changed_ns))
            changed_ns = clock_ns();
    }
    return NULL;
}
