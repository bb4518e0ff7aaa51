/* Beginning a run: its launches on their GPUs, or its copies on the copy engines, each ending with a word in
 * host memory. Nothing here waits. */
#include "gpu_worker/process/launch.h"

#include "gpu_worker/process/worker.h"

#include <inttypes.h>
#include <string.h>

/* ---- streams ---- */

/*
 * A stream without work if there can be one, else the one with the least. Sharing one cannot make runs wait
 * in a circle: a run is enqueued on all its GPUs before the next, so it is only ever behind earlier ones.
 */
static worker_stream_t *pick_stream(worker_gpu_t *gpu)
{
    worker_streams_t *pool = &gpu->run_streams;
    worker_stream_t *best = &pool->streams[0];
    for (uint32_t i = 1; i < pool->count && best->users > 0; i++) {
        if (pool->streams[i].users < best->users)
            best = &pool->streams[i];
    }
    return best;
}

/* ---- what a run needs ---- */

static blink_result_t address_of(const worker_t *worker, const char *what, uint32_t number, uint32_t gpu,
                                 CUdeviceptr *address)
{
    const worker_object_t *object = worker_object_find(worker, number);
    *address = object ? object->addresses[gpu] : 0;
    if (*address == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the run's %s, object %u, is not on GPU %u", what,
                          number, gpu);
    return BLINK_OK;
}

/* Enter where a GPU finds memory of the host. */
static blink_result_t enter_host(const worker_t *worker, const gpu_run_t *request, uint32_t gpu,
                                 lane_abi_run_t *run)
{
    const worker_object_t *memory = worker_object_find(worker, request->host_memory);
    if (request->host_memory == 0)
        return BLINK_OK;
    if (!memory || !memory->slab || memory->addresses[gpu] == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the run's memory on the host, object %u: there is none for GPU %u",
                          request->host_memory, gpu);
    run->ranks[LANE_ABI_HOST].scratch = memory->addresses[gpu];
    run->ranks[LANE_ABI_HOST].semaphores = memory->addresses[gpu] + request->host_semaphores_offset;
    return BLINK_OK;
}

/* Enter where each rank's scratch and semaphores are. */
static blink_result_t enter_ranks(const worker_t *worker, const gpu_run_t *request, lane_abi_run_t *run)
{
    if (request->memory == 0)
        return BLINK_OK;
    const worker_object_t *memory = worker_object_find(worker, request->memory);
    if (!memory)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the run's memory, object %u: there is none",
                          request->memory);
    for (uint32_t i = 0; i < request->rank_count; i++) {
        const uint32_t gpu = request->rank_gpu[i];
        if (gpu >= worker->gpu_count)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u of the run is on GPU %u of %u", i, gpu,
                              worker->gpu_count);
        run->ranks[i].scratch = memory->addresses[gpu];
        run->ranks[i].semaphores = memory->addresses[gpu] + request->semaphores_offset;
    }
    return BLINK_OK;
}

/* ---- what GPUs and the network share ---- */

static blink_result_t pin_segment(worker_t *worker, uint32_t segment)
{
    char *host = worker->wires + segment * GPU_WIRE_SEGMENT_BYTES;
    WORKER_TRY(worker, cuMemHostRegister, host, GPU_WIRE_SEGMENT_BYTES,
               CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        CUdeviceptr address;
        BLINK_TRY(worker_select(worker, &worker->gpus[i]));
        WORKER_TRY(worker, cuMemHostGetDevicePointer, &address, host, 0);
        if (address != (CUdeviceptr)(uintptr_t)host)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "GPU %u finds host memory elsewhere than the host, and the network needs it",
                              i);
    }
    worker->wires_pinned[segment / 64] |= UINT64_C(1) << segment % 64;
    return BLINK_OK;
}

static blink_result_t pin_wires(worker_t *worker, const gpu_run_t *request)
{
    for (uint32_t word = 0; word < GPU_WIRE_SEGMENTS / 64; word++) {
        uint64_t missing = request->wire_segments[word] & ~worker->wires_pinned[word];
        for (; missing; missing &= missing - 1)
            BLINK_TRY(pin_segment(worker, word * 64 + (uint32_t)__builtin_ctzll(missing)));
    }
    return BLINK_OK;
}

static blink_result_t find_kernel(const worker_t *worker, const gpu_run_t *request,
                                  const worker_kernel_t **kernel)
{
    for (uint32_t i = 0; i < worker->kernel_count; i++) {
        *kernel = &worker->kernels[i];
        if (strncmp((*kernel)->name, request->kernel, sizeof(request->kernel)) == 0)
            return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "kernel %.*s: there is none", (int)sizeof(request->kernel),
                      request->kernel);
}

/* ---- launches ---- */

static_assert(sizeof(lane_abi_run_t) <= 4096, "a kernel's arguments have 4 KiB");

/* A launch on its way: the kernel's arguments come from the run's, which all launches share. */
typedef struct launcher {
    worker_t *worker;
    const gpu_run_t *request;
    worker_job_t *job;
    const worker_kernel_t *kernel;
    lane_abi_run_t run;
} launcher_t;

static blink_result_t add_launches(launcher_t *launcher)
{
    worker_t *worker = launcher->worker;
    for (uint32_t i = 0; i < launcher->request->launch_count; i++) {
        const uint32_t gpu = launcher->request->launches[i].gpu;
        if (gpu >= worker->gpu_count)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a launch on GPU %u of %u", gpu, worker->gpu_count);
        worker_stream_t *stream = pick_stream(&worker->gpus[gpu]);
        (void)worker_part_add(launcher->job, &worker->gpus[gpu], stream);
        BLINK_TRY(worker_objects_await(worker, stream->handle));
    }
    return BLINK_OK;
}

/* The scratch on a part's GPU; the first one has that of the host to do, too. */
static blink_result_t scrub_part(const launcher_t *launcher, uint32_t number)
{
    worker_t *worker = launcher->worker;
    const gpu_run_t *request = launcher->request;
    const worker_part_t *part = &launcher->job->parts[number];
    const CUstream stream = part->stream->handle;
    CUdeviceptr scratch;
    BLINK_TRY(worker_select(worker, part->gpu));
    if (request->scrub_bytes > 0) {
        BLINK_TRY(address_of(worker, "memory", request->memory, part->gpu->number, &scratch));
        WORKER_TRY(worker, cuMemsetD8Async, scratch, 0, request->scrub_bytes, stream);
    }
    if (request->host_scrub_bytes > 0 && number == 0) {
        BLINK_TRY(
            address_of(worker, "memory on the host", request->host_memory, part->gpu->number, &scratch));
        WORKER_TRY(worker, cuMemsetD8Async, scratch, 0, request->host_scrub_bytes, stream);
    }
    WORKER_TRY(worker, cuEventRecord, part->stream->event, stream);
    return BLINK_OK;
}

/* All scratch is zero before any kernel starts, since each writes into that of the others. */
static blink_result_t scrub(const launcher_t *launcher)
{
    worker_t *worker = launcher->worker;
    const worker_job_t *job = launcher->job;
    if (launcher->request->scrub_bytes == 0 && launcher->request->host_scrub_bytes == 0)
        return BLINK_OK;
    for (uint32_t i = 0; i < job->part_count; i++)
        BLINK_TRY(scrub_part(launcher, i));
    for (uint32_t i = 0; i < job->part_count; i++) {
        for (uint32_t j = 0; j < job->part_count; j++) {
            if (i != j)
                WORKER_TRY(worker, cuStreamWaitEvent, job->parts[i].stream->handle,
                           job->parts[j].stream->event, 0);
        }
    }
    return BLINK_OK;
}

static blink_result_t launch(launcher_t *launcher, const gpu_launch_t *request, const worker_part_t *part)
{
    worker_t *worker = launcher->worker;
    lane_abi_run_t *run = &launcher->run;
    const CUfunction function = launcher->kernel->functions[part->gpu->number];
    const CUstream stream = part->stream->handle;
    CUdeviceptr program, binding;
    BLINK_TRY(address_of(worker, "program", launcher->request->program, part->gpu->number, &program));
    BLINK_TRY(address_of(worker, "binding", launcher->request->binding, part->gpu->number, &binding));
    BLINK_TRY(enter_host(worker, launcher->request, part->gpu->number, run));
    run->program = program;
    run->binding = binding;
    run->control = part->slot->control_address;
    run->blocks_left = part->slot->blocks_left;
    run->lane_first = request->lane_first;
    run->lane_count = request->lane_count;
    BLINK_TRY(worker_select(worker, part->gpu));
    void *arguments[] = {run};
    if (launcher->request->cooperative && request->blocks > 1)
        WORKER_TRY(worker, cuLaunchCooperativeKernel, function, request->blocks, 1, 1, LANE_ABI_THREADS, 1, 1,
                   0, stream, arguments);
    else
        WORKER_TRY(worker, cuLaunchKernel, function, request->blocks, 1, 1, LANE_ABI_THREADS, 1, 1, 0, stream,
                   arguments, NULL);
    return BLINK_OK;
}

static blink_result_t begin_launches(worker_t *worker, const gpu_run_t *request, worker_job_t *job)
{
    launcher_t launcher = {.worker = worker, .request = request, .job = job, .run = request->run};
    uint32_t launched = 0;
    blink_result_t result = find_kernel(worker, request, &launcher.kernel);
    if (result == BLINK_OK)
        result = pin_wires(worker, request);
    if (result == BLINK_OK)
        result = enter_ranks(worker, request, &launcher.run);
    if (result == BLINK_OK)
        result = add_launches(&launcher);
    if (result == BLINK_OK)
        result = scrub(&launcher);
    while (result == BLINK_OK && launched < request->launch_count) {
        result = launch(&launcher, &request->launches[launched], &job->parts[launched]);
        launched += result == BLINK_OK;
    }
    /* Those that were launched may wait for one that was not. */
    if (result != BLINK_OK) {
        while (job->part_count > launched)
            worker_part_drop(job);
        worker_job_abort(job);
    }
    return result;
}

/* ---- copies ---- */

static worker_stream_t *copy_stream(worker_gpu_t *gpu, uint32_t number)
{
    return &gpu->copy_streams.streams[number % gpu->copy_streams.count];
}

static blink_result_t enqueue_copies(worker_t *worker, worker_gpu_t *gpu, const gpu_run_t *request)
{
    for (uint32_t i = 0; i < request->copy_count; i++) {
        const gpu_copy_t *copy = &request->copies[i];
        if (copy->bytes > 0)
            WORKER_TRY(worker, cuMemcpyAsync, copy->dst, copy->src, copy->bytes,
                       copy_stream(gpu, gpu->copies_made + i)->handle);
    }
    return BLINK_OK;
}

/* The part ends once the copy streams that it used have come to here. */
static blink_result_t join_copies(worker_t *worker, worker_gpu_t *gpu, const gpu_run_t *request,
                                  const worker_job_t *job, const worker_part_t *part)
{
    for (uint32_t i = 0; i < request->copy_count && i < gpu->copy_streams.count; i++) {
        const worker_stream_t *stream = copy_stream(gpu, gpu->copies_made + i);
        WORKER_TRY(worker, cuEventRecord, stream->event, stream->handle);
        WORKER_TRY(worker, cuStreamWaitEvent, part->stream->handle, stream->event, 0);
    }
    gpu->copies_made += request->copy_count;
    return worker_part_finish(worker, job, part);
}

static blink_result_t begin_copies(worker_t *worker, const gpu_run_t *request, worker_job_t *job)
{
    if (request->copy_gpu >= worker->gpu_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "copies of GPU %u of %u", request->copy_gpu,
                          worker->gpu_count);
    worker_gpu_t *gpu = &worker->gpus[request->copy_gpu];
    BLINK_TRY(worker_select(worker, gpu));
    const worker_part_t *part = worker_part_add(job, gpu, pick_stream(gpu));
    blink_result_t result = enqueue_copies(worker, gpu, request);
    if (result != BLINK_OK) /* what was enqueued before comes to its end all the same */
        worker_job_fail(job, result, blink_error_text());
    result = join_copies(worker, gpu, request, job, part);
    if (result != BLINK_OK)
        worker_part_drop(job);
    return result;
}

blink_result_t worker_launch(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job)
{
    const gpu_run_t *request = worker_range(worker, sqe);
    if (!request)
        return BLINK_ERR_INVALID_ARGUMENT;
    if (sqe->in_offset_bytes % _Alignof(gpu_run_t) != 0 || sqe->count < sizeof(*request))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a run of %" PRIu64 " bytes at %" PRIu64 " is none",
                          sqe->count, sqe->in_offset_bytes);
    if (request->launch_count > GPU_MAX || request->rank_count > LANE_ABI_RANKS_MAX ||
        request->copy_count > (sqe->count - sizeof(*request)) / sizeof(request->copies[0]))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "a run of %u launches, %u ranks and %u copies does not fit its range",
                          request->launch_count, request->rank_count, request->copy_count);
    job->number = request->run.number;
    job->run_number = request->run.number;
    job->wait_limit_ns = request->run.wait_limit_ns;
    job->watched = (const uint64_t *)(uintptr_t)request->watched_address;
    job->watched_count = request->watched_count;
    return request->copy_count > 0 ? begin_copies(worker, request, job)
                                   : begin_launches(worker, request, job);
}
