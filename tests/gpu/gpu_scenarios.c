/*
 * blink-gpu-api: what applications do with GPU memory, streams and graphs, each as one scenario that forked
 * ranks play against a running daemon (tests/integration/api.c is the player). Each rank is a CUDA process of
 * its own; the driver is whatever libcuda.so.1 the loader finds, a GPU's or the stand-in.
 */
#include "gpu_scenarios.h"

#include "limit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cuda_driver_t *cu;
int ordinal; /* of this rank's GPU: there may be fewer than ranks */

void cuda_must(const player_t *p, CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    (void)cu->cuGetErrorName(result, &name);
    fail(p, "%s: %s", what, name);
}

/* ---- beginning ---- */

void use_gpu(const player_t *p)
{
    CUdevice device;
    CUcontext context;
    int count = 0;
    cu = cuda_driver_find(true);
    if (!cu)
        fail(p, "no driver");
    cuda_must(p, cu->cuInit(0), "cuInit");
    cuda_must(p, cu->cuDeviceGetCount(&count), "cuDeviceGetCount");
    ordinal = p->rank % count;
    cuda_must(p, cu->cuDeviceGet(&device, ordinal), "cuDeviceGet");
    cuda_must(p, cu->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    cuda_must(p, cu->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static blink_comm_t *join(const player_t *p, const blink_unique_id_t *id)
{
    blink_comm_t *comm = NULL;
    must(p, blink_comm_init_rank(p->context, id, p->rank_count, p->rank, NULL, &comm), "join");
    return comm;
}

blink_comm_t *begin(const player_t *p)
{
    use_gpu(p);
    return join(p, &p->id);
}

CUdeviceptr device_memory(const player_t *p, size_t count)
{
    CUdeviceptr memory = 0;
    cuda_must(p, cu->cuMemAlloc(&memory, count * sizeof(int32_t)), "cuMemAlloc");
    return memory;
}

void *as_pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

CUstream stream_of(const player_t *p)
{
    CUstream stream = NULL;
    cuda_must(p, cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void device_fill(const player_t *p, CUdeviceptr memory, size_t count, int32_t first)
{
    int32_t *values = malloc(count * sizeof(*values));
    fill(values, count, first);
    cuda_must(p, cu->cuMemcpyHtoD(memory, values, count * sizeof(*values)), "cuMemcpyHtoD");
    free(values);
}

/* first, first + step, … */
void device_must_hold(const player_t *p, CUdeviceptr memory, size_t count, int32_t first, int32_t step,
                      const char *what)
{
    int32_t *values = malloc(count * sizeof(*values));
    cuda_must(p, cu->cuMemcpyDtoH(values, memory, count * sizeof(*values)), "cuMemcpyDtoH");
    for (size_t i = 0; i < count; i++) {
        if (values[i] != first + step * (int32_t)i)
            fail(p, "%s: element %zu is %d, not %d", what, i, values[i], first + step * (int32_t)i);
    }
    free(values);
}

/* Σ over ranks of (rank + i). */
int32_t sum_of_ranks(const player_t *p)
{
    return p->rank_count * (p->rank_count - 1) / 2;
}

/* ---- memory ---- */

void reduce_and_check(const player_t *p, blink_comm_t *comm, CUdeviceptr send, CUdeviceptr recv, size_t count,
                      const char *what)
{
    blink_op_t *op;
    device_fill(p, send, count, p->rank);
    must(p, blink_all_reduce(as_pointer(send), as_pointer(recv), count, BLINK_INT32, BLINK_SUM, comm, &op),
         what);
    must_wait(p, op, what);
    device_must_hold(p, recv, count, sum_of_ranks(p), p->rank_count, what);
}

static void play_device_memory(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr send = device_memory(p, COUNT), recv = device_memory(p, 2 * COUNT);
    reduce_and_check(p, comm, send, recv, COUNT, "all_reduce");
    reduce_and_check(p, comm, send, recv + COUNT * sizeof(int32_t), COUNT, "an interior pointer");
    reduce_and_check(p, comm, send, send, COUNT, "in place");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Σ w·x, where each rank's own w is in its GPU's memory. */
static void play_weights(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr values = device_memory(p, COUNT), weight = device_memory(p, 1);
    blink_redop_t redop;
    blink_op_t *op;
    device_fill(p, values, COUNT, 0);
    device_fill(p, weight, 1, p->rank);
    must(p, blink_redop_create_pre_mul_sum(comm, as_pointer(weight), BLINK_INT32, &redop), "create");
    cuda_must(p, cu->cuMemFree(weight), "cuMemFree");
    must(p, blink_all_reduce(as_pointer(values), as_pointer(values), COUNT, BLINK_INT32, redop, comm, &op),
         "all_reduce");
    must_wait(p, op, "all_reduce");
    device_must_hold(p, values, COUNT, 0, sum_of_ranks(p), "the weighted sum");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* What was freed is not what is allocated at its address afterwards. */
static void play_reuse(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr recv = device_memory(p, COUNT);
    for (int round = 0; round < 10; round++) {
        CUdeviceptr send = device_memory(p, COUNT * (1u + (unsigned)round % 2));
        reduce_and_check(p, comm, send, recv, COUNT, "all_reduce");
        cuda_must(p, cu->cuMemFree(send), "cuMemFree");
    }
    must(p, blink_comm_destroy(comm), "destroy");
}

CUdeviceptr pool_memory(const player_t *p, CUmemAllocationHandleType type, size_t count)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = type,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
    CUmemoryPool pool;
    CUdeviceptr memory;
    cuda_must(p, cu->cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate");
    cuda_must(p, cu->cuMemAllocFromPoolAsync(&memory, count * sizeof(int32_t), pool, NULL),
              "cuMemAllocFromPoolAsync");
    cuda_must(p, cu->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    return memory;
}

static void play_pools(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr shared = pool_memory(p, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, COUNT);
    CUdeviceptr closed = pool_memory(p, CU_MEM_HANDLE_TYPE_NONE, LARGE);
    reduce_and_check(p, comm, shared, shared, COUNT, "memory of a pool that can be exported");
    reduce_and_check(p, comm, closed, closed, LARGE, "memory of a pool that cannot");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Ordinary memory, and the daemon's own, beside GPU memory. */
static void play_host_memory(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    int32_t *ordinary = malloc(LARGE * sizeof(*ordinary)), *own = memory(p, LARGE);
    CUdeviceptr recv = device_memory(p, LARGE);
    blink_op_t *op;
    fill(p->rank % 2 ? ordinary : own, LARGE, p->rank);
    must(p,
         blink_all_reduce(p->rank % 2 ? ordinary : own, as_pointer(recv), LARGE, BLINK_INT32, BLINK_SUM, comm,
                          &op),
         "all_reduce");
    must_wait(p, op, "all_reduce");
    device_must_hold(p, recv, LARGE, sum_of_ranks(p), p->rank_count, "from host memory");
    must(p, blink_comm_destroy(comm), "destroy");
    free(ordinary);
}

/* A large move, after which the communicator stays until somebody says something. */
static void play_hold(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUdeviceptr a = device_memory(p, LARGE);
    blink_op_t *op;
    device_fill(p, a, LARGE, p->rank == 1 ? 5 : 0);
    must(p, blink_broadcast(as_pointer(a), as_pointer(a), LARGE, BLINK_INT32, 1, comm, &op), "broadcast");
    must_wait(p, op, "broadcast");
    device_must_hold(p, a, LARGE, 5, 1, "broadcast");
    must(p, blink_barrier(comm, &op), "barrier");
    must_wait(p, op, "barrier");
    if (p->rank == 0) {
        printf("holding\n");
        fflush(stdout);
        (void)getchar();
    }
    must(p, blink_barrier(comm, &op), "barrier");
    must_wait(p, op, "barrier");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* ---- graphs ---- */

static CUgraphExec capture(const player_t *p, blink_comm_t *comm, CUstream stream, CUdeviceptr a,
                           CUdeviceptr b)
{
    CUgraph graph;
    CUgraphExec replayable;
    cuda_must(p, cu->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin capture");
    must(p, blink_all_reduce_on(as_pointer(a), as_pointer(b), COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
         "captured all_reduce_on");
    cuda_must(p, cu->cuMemcpyAsync(a, b, COUNT * sizeof(int32_t), stream), "captured copy");
    must(p, blink_group_start(), "group_start");
    must(p, blink_broadcast_on(as_pointer(b), as_pointer(b), COUNT, BLINK_INT32, 0, comm, stream),
         "broadcast");
    must(p, blink_barrier_on(comm, stream), "barrier");
    must(p, blink_group_end(NULL), "captured group_end");
    cuda_must(p, cu->cuStreamEndCapture(stream, &graph), "end capture");
    cuda_must(p, cu->cuGraphInstantiateWithFlags(&replayable, graph, 0), "instantiate");
    cuda_must(p, cu->cuGraphDestroy(graph), "destroy graph");
    return replayable;
}

static void play_graph(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT), b = device_memory(p, COUNT);
    must(p, blink_mem_prepare(p->context, as_pointer(a), COUNT * sizeof(int32_t)), "prepare");
    /* Once eagerly: the first use of memory registers it, unless it was prepared. */
    reduce_and_check(p, comm, a, b, COUNT, "before");
    CUgraphExec graph = capture(p, comm, stream, a, b);
    for (int round = 0; round < 4; round++) {
        int32_t factor = 1;
        device_fill(p, a, COUNT, p->rank);
        for (int replay = 0; replay < 5; replay++, factor *= p->rank_count)
            cuda_must(p, cu->cuGraphLaunch(graph, stream), "launch");
        cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
        device_must_hold(p, b, COUNT, sum_of_ranks(p) * (factor / p->rank_count), factor, "replayed");
    }
    cuda_must(p, cu->cuGraphExecDestroy(graph), "destroy");
    reduce_and_check(p, comm, a, b, COUNT, "after");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Replays and eager ops in turns on one stream, and nobody waits in between. */
static void play_graph_beside_eager(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT), b = device_memory(p, COUNT);
    CUgraphExec graph = capture(p, comm, stream, a, b);
    int32_t factor = 1;
    device_fill(p, a, COUNT, p->rank);
    for (int round = 0; round < 4; round++) {
        cuda_must(p, cu->cuGraphLaunch(graph, stream), "launch");
        must(p,
             blink_all_reduce_on(as_pointer(b), as_pointer(a), COUNT, BLINK_INT32, BLINK_MAX, comm, stream),
             "eager");
        factor *= p->rank_count;
    }
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    device_must_hold(p, a, COUNT, sum_of_ranks(p) * (factor / p->rank_count), factor, "in turns");
    cuda_must(p, cu->cuGraphExecDestroy(graph), "destroy");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* ---- faults ---- */

void await_error(const player_t *p, blink_comm_t *comm, blink_result_t expected, const char *text)
{
    blink_result_t result = BLINK_OK;
    for (unsigned i = 0; i < limit_ms() / 10 && result == BLINK_OK; i++) {
        must(p, blink_comm_async_error(comm, &result), "async_error");
        usleep(10000);
    }
    if (result != expected || !strstr(blink_last_error(), text))
        fail(p, "%s: \"%s\", not %s with \"%s\"", blink_result_name(result), blink_last_error(),
             blink_result_name(expected), text);
}

static void shrink_and_check(const player_t *p, blink_comm_t *comm, CUdeviceptr memory)
{
    player_t survivor = *p;
    blink_comm_t *shrunk = NULL;
    survivor.rank_count--; /* the last one has gone */
    must(p, blink_comm_shrink(comm, NULL, &shrunk), "shrink");
    reduce_and_check(&survivor, shrunk, memory, memory, COUNT, "all_reduce of the survivors");
    must(p, blink_comm_destroy(shrunk), "destroy");
}

/* The last rank dies while all submit; the others' streams go on, and the others among themselves. */
static void play_killed_rank(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, LARGE);
    blink_result_t result = BLINK_OK;
    for (int round = 0; round < 200 && result == BLINK_OK; round++) {
        if (p->rank == p->rank_count - 1 && round == 20)
            kill(getpid(), SIGKILL);
        result =
            blink_all_reduce_on(as_pointer(a), as_pointer(a), LARGE, BLINK_INT32, BLINK_MAX, comm, stream);
    }
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    await_error(p, comm, BLINK_ERR_PEER_LOST, "");
    shrink_and_check(p, comm, a);
    must(p, blink_comm_destroy(comm), "destroy");
}

/* A stream that never comes meets the op timeout. */
static void play_never_ready(const player_t *p)
{
    use_gpu(p);
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    blink_comm_t *comm = NULL;
    config.op_timeout_ms = limit_short_ms();
    must(p, blink_comm_init_rank(p->context, &p->id, p->rank_count, p->rank, &config, &comm), "join");
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT), gate;
    uint64_t *word = NULL;
    cuda_must(p, cu->cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP),
              "cuMemHostAlloc");
    cuda_must(p, cu->cuMemHostGetDevicePointer(&gate, word, 0), "cuMemHostGetDevicePointer");
    *word = 0;
    if (p->rank == 0)
        cuda_must(p, cu->cuStreamWaitValue64(stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ), "wait");
    must(p, blink_all_reduce_on(as_pointer(a), as_pointer(a), COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
         "never");
    await_error(p, comm, BLINK_ERR_TIMEOUT, "stream has come to it on rank 0");
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* A communicator and an op, which may fail while the worker is being replaced: then it does for all ranks. */
static blink_result_t try_again(const player_t *p, int attempt, CUdeviceptr a)
{
    blink_unique_id_t id = p->id;
    blink_comm_t *comm = NULL;
    blink_op_t *op;
    memcpy(id.bytes + sizeof(id.bytes) - sizeof(attempt), &attempt, sizeof(attempt)); /* in the nonce */
    blink_result_t result = BLINK_ERR_SYSTEM;
    for (unsigned i = 0; i < limit_ms() / 10 && result == BLINK_ERR_SYSTEM; i++, usleep(10000))
        result = blink_comm_init_rank(p->context, &id, p->rank_count, p->rank, NULL, &comm);
    must(p, result, "join again");
    device_fill(p, a, COUNT, p->rank);
    result = blink_all_reduce(as_pointer(a), as_pointer(a), COUNT, BLINK_INT32, BLINK_SUM, comm, &op);
    if (result == BLINK_OK)
        result = blink_wait(op);
    (void)blink_comm_destroy(comm);
    return result;
}

/* Says that it is under way and goes on until the GPU worker or the daemon ends or is stuck; then, if it is
 * the worker, once more from the start. The first argument of the test is on standard output. */
static void play_until_lost(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT);
    blink_result_t result = BLINK_OK, lost = BLINK_OK;
    for (int round = 0; result == BLINK_OK && lost == BLINK_OK; round++) {
        result =
            blink_all_reduce_on(as_pointer(a), as_pointer(a), COUNT, BLINK_INT32, BLINK_MAX, comm, stream);
        cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
        must(p, blink_comm_async_error(comm, &lost), "async_error");
        if (round == 10 && p->rank == 0) {
            printf("under way\n");
            fflush(stdout);
        }
    }
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    /* A call may have been refused before the notice of the loss has come. */
    for (unsigned i = 0; i < limit_ms() / 10 && lost == BLINK_OK; i++, usleep(10000))
        must(p, blink_comm_async_error(comm, &lost), "async_error");
    if (lost == BLINK_ERR_DAEMON_LOST)
        return;
    /* The worker has ended, or is stuck and will be. */
    if ((lost != BLINK_ERR_SYSTEM || !strstr(blink_last_error(), "GPU worker")) &&
        (lost != BLINK_ERR_TIMEOUT || !strstr(blink_last_error(), "it has run for")))
        fail(p, "%s: %s", blink_result_name(lost), blink_last_error());
    (void)blink_comm_destroy(comm);
    result = BLINK_ERR_SYSTEM;
    for (int attempt = 1; attempt < 20 && result != BLINK_OK; attempt++)
        result = try_again(p, attempt, a);
    must(p, result, "with another worker");
    device_must_hold(p, a, COUNT, sum_of_ranks(p), p->rank_count, "with another worker");
}

/* Replays of a graph until the daemon or its GPU worker is ended: none hangs, and none that failed goes
 * unnoticed. */
static void play_graph_until_lost(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT), b = device_memory(p, COUNT);
    blink_result_t lost = BLINK_OK;
    reduce_and_check(p, comm, a, b, COUNT, "before");
    CUgraphExec graph = capture(p, comm, stream, a, b);
    for (int round = 0; lost == BLINK_OK; round++) {
        device_fill(p, a, COUNT, p->rank);
        cuda_must(p, cu->cuMemsetD8(b, 0xee, COUNT * sizeof(int32_t)), "cuMemsetD8");
        cuda_must(p, cu->cuGraphLaunch(graph, stream), "launch");
        cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
        must(p, blink_comm_async_error(comm, &lost), "async_error");
        if (lost == BLINK_OK)
            device_must_hold(p, b, COUNT, sum_of_ranks(p), p->rank_count, "replayed");
        if (round == 10 && p->rank == 0) {
            printf("under way\n");
            fflush(stdout);
        }
    }
    cuda_must(p, cu->cuGraphLaunch(graph, stream), "launch after the loss");
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    cuda_must(p, cu->cuGraphExecDestroy(graph), "destroy");
    if (lost != BLINK_ERR_DAEMON_LOST && lost != BLINK_ERR_SYSTEM && lost != BLINK_ERR_PEER_LOST)
        fail(p, "%s: %s", blink_result_name(lost), blink_last_error());
}

static void play_bad_arguments(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT);
    blink_op_t *op = NULL;
    must_fail(
        p, blink_all_reduce_on(as_pointer(a), as_pointer(a), 2 * COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
        BLINK_ERR_OUT_OF_RANGE, "past the end", "an overrun");
    must_fail(p, blink_all_reduce_on(NULL, as_pointer(a), COUNT, BLINK_INT32, BLINK_SUM, comm, stream),
              BLINK_ERR_INVALID_ARGUMENT, "NULL", "no buffer");
    must(p, blink_group_start(), "group_start");
    must(p, blink_barrier_on(comm, stream), "barrier_on");
    must_fail(p, blink_barrier(comm, NULL), BLINK_ERR_INVALID_ARGUMENT, "group", "a plain call beside it");
    must_fail(p, blink_group_end(&op), BLINK_ERR_INVALID_ARGUMENT, "group", "group_end");
    must(p, blink_barrier_on(comm, stream), "barrier_on");
    cuda_must(p, cu->cuStreamSynchronize(stream), "synchronize");
    must(p, blink_comm_destroy(comm), "destroy");
}

/* Of a daemon that has host devices alone. */
static void play_host_devices(const player_t *p)
{
    blink_comm_t *comm = begin(p);
    CUstream stream = stream_of(p);
    CUdeviceptr a = device_memory(p, COUNT);
    blink_op_t *op;
    must_fail(p, blink_all_reduce(as_pointer(a), as_pointer(a), COUNT, BLINK_INT32, BLINK_SUM, comm, &op),
              BLINK_ERR_INVALID_ARGUMENT, "is GPU memory", "GPU memory on host devices");
    must_fail(p, blink_barrier_on(comm, stream), BLINK_ERR_UNSUPPORTED, "GPU", "a stream on host devices");
    must(p, blink_comm_destroy(comm), "destroy");
}

static const scenario_t scenarios[] = {
    {"device-memory", play_device_memory, false},
    {"legacy-taken", play_legacy_taken, false},
    {"legacy-refused", play_legacy_refused, false},
    {"weights", play_weights, false},
    {"reuse", play_reuse, false},
    {"extents", play_extents, false},
    {"many-extents", play_many_extents, false},
    {"begun-extents", play_begun_extents, false},
    {"lost-extents", play_lost_extents, false},
    {"pools", play_pools, false},
    {"released", play_released, false},
    {"released-by-several", play_released_by_several, false},
    {"pools-promised", play_pools_promised, false},
    {"freed-without-a-word", play_freed_without_a_word, false},
    {"out-of-memory", play_out_of_memory, false},
    {"host-memory", play_host_memory, false},
    {"stream", play_stream, false},
    {"two-streams", play_two_streams, false},
    {"many-streams", play_many_streams, false},
    {"many-streams-in-any-order", play_many_streams_in_any_order, false},
    {"many-streams-that-time-out", play_many_streams_that_time_out, false},
    {"stream-group", play_stream_group, false},
    {"staged-stream", play_staged_stream, false},
    {"late", play_late, false},
    {"graph", play_graph, false},
    {"killed-rank", play_killed_rank, false},
    {"never-ready", play_never_ready, false},
    {"until-lost", play_until_lost, false},
    {"graph-until-lost", play_graph_until_lost, false},
    {"graph-beside-eager", play_graph_beside_eager, false},
    {"hold", play_hold, false},
    {"bad-arguments", play_bad_arguments, false},
    {"host-devices", play_host_devices, false},
};

const scenario_t *scenario_find(const char *name)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    }
    return NULL;
}
