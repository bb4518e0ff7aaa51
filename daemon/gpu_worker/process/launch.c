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
    run->host_scratch = memory->addresses[gpu];
    run->host_semaphores = memory->addresses[gpu] + request->host_semaphores_offset;
    return BLINK_OK;
}

/* Where each rank's scratch and semaphores are, and where a switch reaches them. */
static blink_result_t find_memory(const worker_t *worker, gpu_run_t *request, lane_abi_run_t *run)
{
    run->by_switch = 0;
    if (request->memory == 0)
        return BLINK_OK;
    const worker_object_t *memory = worker_object_find(worker, request->memory);
    if (!memory)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the run's memory, object %u: there is none",
                          request->memory);
    run->by_switch = memory->team ? memory->team->address : 0;
    for (uint32_t i = 0; i < request->rank_count; i++) {
        const uint32_t gpu = request->rank_gpu[i];
        if (gpu >= worker->gpu_count)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u of the run is on GPU %u of %u", i, gpu,
                              worker->gpu_count);
        request->ranks[i].scratch = memory->addresses[gpu];
        request->ranks[i].semaphores = memory->addresses[gpu] + request->semaphores_offset;
    }
    return BLINK_OK;
}

/* Kernels read the ranks among their arguments, or in the arena, if these are many: the request stays there
 * until the run has ended. */
static blink_result_t enter_ranks(const worker_t *worker, gpu_run_t *request, lane_abi_run_t *run)
{
    BLINK_TRY(find_memory(worker, request, run));
    run->rank_count = request->rank_count;
    run->ranks = 0;
    if (request->rank_count <= LANE_ABI_RANKS_SENT)
        memcpy(run->sent_ranks, request->ranks, request->rank_count * sizeof(request->ranks[0]));
    else
        run->ranks = worker->arena_address + (uint64_t)((char *)request->ranks - worker->arena);
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
static_assert(LANE_ABI_RANKS_SENT <= LANE_ABI_RANKS_MAX, "a run may have as many ranks as are sent");

/* A run on its way to its GPUs: the kernels' arguments come from the run's, which all launches share. */
typedef struct beginning {
    worker_t *worker;
    const gpu_run_t *request;
    worker_job_t *job; /* a part for each launch */
    const worker_kernel_t *kernel;
    lane_abi_run_t run;
    uint32_t gpus; /* mask */
} beginning_t;

static blink_result_t add_launches(beginning_t *beginning)
{
    worker_t *worker = beginning->worker;
    for (uint32_t i = 0; i < beginning->request->launch_count; i++) {
        const uint32_t gpu = beginning->request->launches[i].gpu;
        if (gpu >= worker->gpu_count || beginning->gpus & 1u << gpu)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a launch on GPU %u of %u, or two there", gpu,
                              worker->gpu_count);
        beginning->gpus |= 1u << gpu;
        worker_stream_t *stream = pick_stream(&worker->gpus[gpu]);
        (void)worker_part_add(beginning->job, &worker->gpus[gpu], stream);
        BLINK_TRY(worker_objects_await(worker, stream->handle));
    }
    return BLINK_OK;
}

/* The scratch on a part's GPU; the first one has that of the host to do, too. */
static blink_result_t scrub_part(const beginning_t *beginning, uint32_t number)
{
    worker_t *worker = beginning->worker;
    const gpu_run_t *request = beginning->request;
    const worker_part_t *part = &beginning->job->parts[number];
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
static blink_result_t scrub(const beginning_t *beginning)
{
    worker_t *worker = beginning->worker;
    const worker_job_t *job = beginning->job;
    if (beginning->request->scrub_bytes == 0 && beginning->request->host_scrub_bytes == 0)
        return BLINK_OK;
    for (uint32_t i = 0; i < job->part_count; i++)
        BLINK_TRY(scrub_part(beginning, i));
    for (uint32_t i = 0; i < job->part_count; i++) {
        for (uint32_t j = 0; j < job->part_count; j++) {
            if (i != j)
                WORKER_TRY(worker, cuStreamWaitEvent, job->parts[i].stream->handle,
                           job->parts[j].stream->event, 0);
        }
    }
    return BLINK_OK;
}

static blink_result_t fill_launch(const beginning_t *beginning, uint32_t number)
{
    worker_t *worker = beginning->worker;
    const gpu_run_t *request = beginning->request;
    const gpu_launch_t *asked = &request->launches[number];
    const worker_part_t *part = &beginning->job->parts[number];
    worker_launch_t *launch = &worker->launchers[asked->gpu].launch;
    CUdeviceptr program, binding;
    BLINK_TRY(address_of(worker, "program", request->program, asked->gpu, &program));
    BLINK_TRY(address_of(worker, "binding", request->binding, asked->gpu, &binding));
    *launch = (worker_launch_t){.function = beginning->kernel->functions[asked->gpu],
                                .stream = part->stream->handle,
                                .blocks = asked->blocks,
                                .is_cooperative = request->cooperative && asked->blocks > 1,
                                .run = beginning->run};
    BLINK_TRY(enter_host(worker, request, asked->gpu, &launch->run));
    launch->run.program = program;
    launch->run.binding = binding;
    launch->run.control = part->slot->control_address;
    launch->run.blocks_left = part->slot->blocks_left;
    launch->run.lane_first = asked->lane_first;
    launch->run.lane_count = asked->lane_count;
    return BLINK_OK;
}

/* All failures show whether a context is lost; that of the first launch that has one is said. */
static blink_result_t check_launches(const beginning_t *beginning)
{
    worker_t *worker = beginning->worker;
    blink_result_t result = BLINK_OK;
    for (uint32_t i = beginning->request->launch_count; i-- > 0;) {
        const worker_launch_t *launch = &worker->launchers[beginning->request->launches[i].gpu].launch;
        if (launch->result != CUDA_SUCCESS)
            result = worker_fail(worker, "launch a kernel", launch->result);
    }
    return result;
}

/* Those that were launched may wait for one that was not. */
static void keep_launched(const beginning_t *beginning)
{
    worker_job_t *job = beginning->job;
    for (uint32_t i = job->part_count; i-- > 0;)
        if (!beginning->worker->launchers[job->parts[i].gpu->number].launch.is_made)
            worker_part_drop(job, i);
    worker_job_abort(job);
}

static blink_result_t begin_launches(worker_t *worker, gpu_run_t *request, worker_job_t *job)
{
    beginning_t beginning = {.worker = worker, .request = request, .job = job, .run = request->run};
    blink_result_t result = find_kernel(worker, request, &beginning.kernel);
    if (result == BLINK_OK)
        result = pin_wires(worker, request);
    if (result == BLINK_OK)
        result = enter_ranks(worker, request, &beginning.run);
    if (result == BLINK_OK)
        result = add_launches(&beginning);
    if (result == BLINK_OK)
        result = scrub(&beginning);
    for (uint32_t i = 0; i < request->launch_count && result == BLINK_OK; i++)
        result = fill_launch(&beginning, i);
    if (result != BLINK_OK) {
        while (job->part_count > 0)
            worker_part_drop(job, job->part_count - 1);
        return result;
    }
    worker_launchers_make(worker, beginning.gpus);
    result = check_launches(&beginning);
    if (result != BLINK_OK)
        keep_launched(&beginning);
    return result;
}

/* ---- copies ---- */

static worker_stream_t *copy_stream(worker_gpu_t *gpu, uint32_t number)
{
    return &gpu->copy_streams.streams[number % gpu->copy_streams.count];
}

/* Those that are the GPU's to make; *count: how many streams have been given one. */
static blink_result_t enqueue_copies(worker_t *worker, worker_gpu_t *gpu, const gpu_run_t *request,
                                     uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < request->copy_count; i++) {
        const gpu_copy_t *copy = &request->copies[i];
        if (copy->gpu != gpu->number || copy->bytes == 0)
            continue;
        WORKER_TRY(worker, cuMemcpyAsync, copy->dst, copy->src, copy->bytes,
                   copy_stream(gpu, gpu->copies_made + *count)->handle);
        (*count)++;
    }
    return BLINK_OK;
}

/* The part ends once the copy streams that it used have come to here. */
static blink_result_t join_copies(worker_t *worker, worker_gpu_t *gpu, uint32_t count,
                                  const worker_job_t *job, const worker_part_t *part)
{
    for (uint32_t i = 0; i < count && i < gpu->copy_streams.count; i++) {
        const worker_stream_t *stream = copy_stream(gpu, gpu->copies_made + i);
        WORKER_TRY(worker, cuEventRecord, stream->event, stream->handle);
        WORKER_TRY(worker, cuStreamWaitEvent, part->stream->handle, stream->event, 0);
    }
    gpu->copies_made += count;
    return worker_part_finish(worker, job, part);
}

static blink_result_t begin_copies_of(worker_t *worker, worker_gpu_t *gpu, const gpu_run_t *request,
                                      worker_job_t *job)
{
    uint32_t count;
    BLINK_TRY(worker_select(worker, gpu));
    const worker_part_t *part = worker_part_add(job, gpu, pick_stream(gpu));
    blink_result_t result = enqueue_copies(worker, gpu, request, &count);
    if (result != BLINK_OK) /* what was enqueued before comes to its end all the same */
        worker_job_fail(job, result, blink_error_text());
    result = join_copies(worker, gpu, count, job, part);
    if (result != BLINK_OK)
        worker_part_drop(job, job->part_count - 1);
    return result;
}

/* After a failure the job ends when the copies of the GPUs before have been made. */
static blink_result_t begin_copies(worker_t *worker, const gpu_run_t *request, worker_job_t *job)
{
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < request->copy_count; i++) {
        if (request->copies[i].gpu >= worker->gpu_count)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "copies of GPU %u of %u", request->copies[i].gpu,
                              worker->gpu_count);
        gpus |= 1u << request->copies[i].gpu;
    }
    for (; gpus; gpus &= gpus - 1)
        BLINK_TRY(begin_copies_of(worker, &worker->gpus[__builtin_ctz(gpus)], request, job));
    return BLINK_OK;
}

blink_result_t worker_launch(worker_t *worker, const ring_sqe_t *sqe, worker_job_t *job)
{
    gpu_run_t *request = worker_range(worker, sqe);
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
