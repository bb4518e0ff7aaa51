/* Memory, graphs, what is refused, and one thread with all ranks. */
#include "player.h"

#define THREAD_RANKS 4

void play_memory(player_t *p)
{
    void *memory = NULL, *handle = NULL;
    int32_t value = 1;
    must(p, ncclMemAlloc(&memory, 3 << 20), "ncclMemAlloc");
    must(p, ncclCommRegister(p->comm, memory, 3 << 20, &handle), "ncclCommRegister");
    write_to(p, memory, &value, sizeof(value));
    must(p, ncclAllReduce(memory, memory, 1, BLINK_INT32, BLINK_SUM, p->comm, p->stream), "ncclAllReduce");
    synchronize(p);
    read_from(p, &value, memory, sizeof(value));
    if (value != p->rank_count)
        fail(p, "in memory of ncclMemAlloc the sum is %d", value);
    must(p, ncclCommDeregister(p->comm, handle), "ncclCommDeregister");
    must_fail(p, ncclMemFree((char *)memory + 4096), ABI_INVALID_ARGUMENT, "begins", "the middle of it");
    must(p, ncclMemFree(memory), "ncclMemFree");
    must(p, ncclMemFree(NULL), "ncclMemFree(NULL)");
}

/* In a graph, which runs twice; an operator whose scalar is on the GPU cannot be in one. */
void play_capture(player_t *p)
{
    void *memory = NULL;
    int32_t value = 1;
    CUgraph graph;
    CUgraphExec step;
    blink_redop_t redop;
    must(p, ncclMemAlloc(&memory, sizeof(value)), "ncclMemAlloc");
    write_to(p, memory, &value, sizeof(value));
    must(p, ncclRedOpCreatePreMulSum(&redop, memory, BLINK_INT32, ABI_SCALAR_DEVICE, p->comm), "create");
    cuda_must(p, cu->cuStreamBeginCapture(p->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
    must(p, ncclAllReduce(memory, memory, 1, BLINK_INT32, BLINK_SUM, p->comm, p->stream), "captured");
    must_fail(p, ncclAllReduce(memory, memory, 1, BLINK_INT32, redop, p->comm, p->stream), ABI_INVALID_USAGE,
              "ncclScalarHostImmediate", "a scalar on the GPU, captured");
    cuda_must(p, cu->cuStreamEndCapture(p->stream, &graph), "end");
    cuda_must(p, cu->cuGraphInstantiateWithFlags(&step, graph, 0), "cuGraphInstantiate");
    for (int round = 0; round < 2; round++)
        cuda_must(p, cu->cuGraphLaunch(step, p->stream), "cuGraphLaunch");
    synchronize(p);
    read_from(p, &value, memory, sizeof(value));
    if (value != p->rank_count * p->rank_count)
        fail(p, "two replays come to %d", value);
    cuda_must(p, cu->cuGraphExecDestroy(step), "cuGraphExecDestroy");
    cuda_must(p, cu->cuGraphDestroy(graph), "cuGraphDestroy");
    must(p, ncclMemFree(memory), "ncclMemFree");
}

/* Of those that exports.txt has, with what the build has made of them. */
abi_result_t ncclPutSignal(const void *local, size_t count, blink_datatype_t datatype, int peer, void *window,
                           size_t offset, int signal, int context, unsigned int flags, nccl_comm_t *comm,
                           blink_stream_t stream);
abi_result_t ncclCommWindowRegister(nccl_comm_t *comm, void *address, size_t bytes, void **window, int flags);
abi_result_t pncclCommCount(const nccl_comm_t *comm, int *count);

void play_refused(player_t *p)
{
    abi_properties_t properties = {.struct_bytes = sizeof(properties), .magic = ABI_MAGIC};
    abi_unique_id_t foreign = {0};
    abi_sim_info_t info = {.struct_bytes = sizeof(info)};
    nccl_comm_t *comm;
    void *window;
    int version, count;
    must(p, ncclGetVersion(&version), "ncclGetVersion");
    must(p, pncclCommCount(p->comm, &count), "pncclCommCount");
    if (version != 23007 || count != p->rank_count)
        fail(p, "version %d, %d ranks", version, count);
    must_fail(p, ncclPutSignal(NULL, 0, BLINK_INT8, 0, NULL, 0, 0, 0, 0, p->comm, p->stream),
              ABI_INVALID_USAGE, "ncclPutSignal(): there are no one-sided", "ncclPutSignal");
    must_fail(p, ncclCommWindowRegister(p->comm, NULL, 0, &window, 0), ABI_INVALID_USAGE, "no windows",
              "ncclCommWindowRegister");
    must(p, ncclGroupStart(), "ncclGroupStart");
    must_fail(p, ncclGroupSimulateEnd(&info), ABI_INVALID_USAGE, "blinkctl explain", "ncclGroupSimulateEnd");
    must_fail(p, ncclGroupEnd(), ABI_INVALID_USAGE, "no group", "the simulation's end is an end");
    must_fail(p, ncclCommInitRank(&comm, 2, foreign, 0), ABI_INVALID_ARGUMENT, "all ranks have to be run",
              "an id that is none");
    must_fail(p, ncclAllReduce(NULL, NULL, 1, (blink_datatype_t)77, BLINK_SUM, p->comm, p->stream),
              ABI_INVALID_ARGUMENT, "77", "a type that is none");
    must(p, ncclCommQueryProperties(p->comm, &properties), "ncclCommQueryProperties");
    if (properties.rank != p->rank || properties.rank_count != p->rank_count || properties.has_device_api)
        fail(p, "rank %d of %d", properties.rank, properties.rank_count);
    if (ncclTeamRankToWorld(p->comm, ncclTeamWorld(p->comm), 1) != 1)
        fail(p, "rank 1 of the world is another one");
}

void play_without_daemon(player_t *p)
{
    abi_unique_id_t id;
    must_fail(p, ncclGetUniqueId(&id), ABI_SYSTEM_ERROR, "start a daemon with", "ncclGetUniqueId");
}

/* ---- one thread with all ranks, each on a GPU of its own ---- */

static void sum_in_a_group(const player_t *p, nccl_comm_t **comms, player_t *ranks, int32_t expected)
{
    int32_t *memory[THREAD_RANKS], value;
    for (int rank = 0; rank < THREAD_RANKS; rank++) {
        use_gpu(&ranks[rank]);
        memory[rank] = device_memory(p, sizeof(value));
        value = rank;
        write_to(p, memory[rank], &value, sizeof(value));
    }
    must(p, ncclGroupStart(), "ncclGroupStart");
    for (int rank = 0; rank < THREAD_RANKS; rank++)
        must(p,
             ncclAllReduce(memory[rank], memory[rank], 1, BLINK_INT32, BLINK_SUM, comms[rank],
                           ranks[rank].stream),
             "ncclAllReduce");
    must(p, ncclGroupEnd(), "ncclGroupEnd");
    for (int rank = 0; rank < THREAD_RANKS; rank++) {
        synchronize(&ranks[rank]);
        read_from(p, &value, memory[rank], sizeof(value));
        if (value != expected)
            fail(p, "rank %d has %d, not %d", rank, value, expected);
        free_memory(p, memory[rank]);
    }
}

/* Default streams of two GPUs: which one is meant could not be told at the end. */
static void default_streams_are_refused(const player_t *p, nccl_comm_t **comms)
{
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclAllReduce(NULL, NULL, 0, BLINK_INT32, BLINK_SUM, comms[0], NULL), "a default stream");
    must_fail(p, ncclAllReduce(NULL, NULL, 0, BLINK_INT32, BLINK_SUM, comms[1], NULL), ABI_INVALID_USAGE,
              "devices 0 and 1", "another one");
    must_fail(p, ncclGroupEnd(), ABI_INVALID_USAGE, "default streams", "the group");
}

void play_one_thread(player_t *p)
{
    nccl_comm_t *comms[THREAD_RANKS], *splits[THREAD_RANKS];
    player_t ranks[THREAD_RANKS];
    must(p, ncclGroupStart(), "ncclGroupStart");
    for (int rank = 0; rank < THREAD_RANKS; rank++) {
        int device;
        ranks[rank] = (player_t){.rank = rank, .rank_count = THREAD_RANKS};
        use_gpu(&ranks[rank]);
        must(p, ncclCommInitRank(&comms[rank], THREAD_RANKS, p->id, rank), "ncclCommInitRank");
        must(p, ncclCommCuDevice(comms[rank], &device), "ncclCommCuDevice");
        if (device != rank)
            fail(p, "rank %d is on GPU %d", rank, device);
    }
    must(p, ncclGroupEnd(), "ncclGroupEnd");
    default_streams_are_refused(p, comms);
    sum_in_a_group(p, comms, ranks, 6);
    must(p, ncclGroupStart(), "ncclGroupStart");
    for (int rank = 0; rank < THREAD_RANKS; rank++)
        must(p, ncclCommSplit(comms[rank], 0, -rank, &splits[rank], NULL), "ncclCommSplit");
    must(p, ncclGroupEnd(), "ncclGroupEnd");
    sum_in_a_group(p, splits, ranks, 6);
    for (int rank = 0; rank < THREAD_RANKS; rank++) {
        must(p, ncclCommDestroy(comms[rank]), "ncclCommDestroy");
        must(p, ncclCommAbort(splits[rank]), "ncclCommAbort");
    }
}
