/* Communicators made from others, and their ends. */
#include "player.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define LOOK_US 1000

static abi_result_t await_state(const player_t *p, nccl_comm_t *comm, abi_result_t passing)
{
    abi_result_t state;
    do {
        (void)usleep(LOOK_US);
        must(p, ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    } while (state == passing);
    return state;
}

void play_split(player_t *p)
{
    nccl_comm_t *half, *others, *again, *none;
    abi_config_t config = {.struct_bytes = 64,
                           .magic = ABI_MAGIC,
                           .blocking = ABI_UNDEFINED,
                           .comm_name = "half of it"}; /* an older program's: of 64 bytes */
    int rank;
    must(p, ncclCommSplit(p->comm, p->rank % 2, -p->rank, &half, &config), "ncclCommSplit");
    must(p, ncclCommUserRank(half, &rank), "ncclCommUserRank");
    if (rank != (p->rank < 2))
        fail(p, "rank %d of a half", rank);
    sum_must_work(p, half, "a half");
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclCommSplit(half, 0, 0, &again, NULL), "ncclCommSplit in a group");
    must(p, ncclGroupEnd(), "ncclGroupEnd");
    sum_must_work(p, again, "a split in a group");
    must(p, ncclCommSplit(p->comm, p->rank == 0 ? ABI_SPLIT_NO_COLOR : 0, 0, &others, NULL), "no color");
    if ((p->rank == 0) != !others)
        fail(p, "a communicator for a rank without a color, or none for one with");
    must_fail(p, ncclCommSplit(p->comm, -5, 0, &none, NULL), ABI_INVALID_ARGUMENT, "color -5", "color -5");
    must(p, ncclCommFinalize(again), "ncclCommFinalize");
    must_fail(p, ncclCommFinalize(again), ABI_INVALID_ARGUMENT, "finalized", "finalized twice");
    must(p, ncclCommDestroy(again), "ncclCommDestroy");
    must(p, ncclCommDestroy(others), "ncclCommDestroy");
    must(p, ncclCommDestroy(half), "ncclCommDestroy");
    sum_must_work(p, p->comm, "the parent");
}

/* Those that are excluded live, and do not call. */
void play_shrink(player_t *p)
{
    int last = p->rank_count - 1, first = 0, none = p->rank_count;
    nccl_comm_t *shrunk = NULL;
    for (int round = 0; round < 2 && p->rank != last; round++) {
        must(p, ncclCommShrink(p->comm, &last, 1, &shrunk, NULL, ABI_SHRINK_DEFAULT), "without the last");
        sum_must_work(p, shrunk, "without the last");
        must(p, ncclCommDestroy(shrunk), "ncclCommDestroy");
    }
    if (p->rank != 0) {
        must(p, ncclCommShrink(p->comm, &first, 1, &shrunk, NULL, ABI_SHRINK_DEFAULT), "without the first");
        sum_must_work(p, shrunk, "without the first");
        must(p, ncclCommDestroy(shrunk), "ncclCommDestroy");
    }
    must_fail(p, ncclCommShrink(p->comm, &none, 1, &shrunk, NULL, 0), ABI_INVALID_ARGUMENT, "none of",
              "a rank that is none");
    must_fail(p, ncclCommShrink(p->comm, &p->rank, 1, &shrunk, NULL, 0), ABI_INVALID_ARGUMENT, "calls",
              "oneself");
    sum_must_work(p, p->comm, "the parent");
}

void play_shrink_after_a_loss(player_t *p)
{
    int lost = 1;
    nccl_comm_t *shrunk;
    if (p->rank == lost)
        (void)kill(getpid(), SIGKILL);
    if (await_state(p, p->comm, ABI_SUCCESS) != ABI_REMOTE_ERROR)
        fail(p, "after a loss: %s", ncclGetLastError(p->comm));
    must(p, ncclCommShrink(p->comm, &lost, 1, &shrunk, NULL, ABI_SHRINK_ABORT), "ncclCommShrink");
    sum_must_work(p, shrunk, "those that are left");
    must(p, ncclCommDestroy(shrunk), "ncclCommDestroy");
}

void play_revoke(player_t *p)
{
    int last = p->rank_count - 1;
    abi_result_t state;
    nccl_comm_t *shrunk;
    must_fail(p, ncclCommRevoke(p->comm, 1), ABI_INVALID_ARGUMENT, "flags", "flags");
    if (p->rank == 0)
        must(p, ncclCommRevoke(p->comm, 0), "ncclCommRevoke");
    else if (await_state(p, p->comm, ABI_SUCCESS) != ABI_REMOTE_ERROR)
        fail(p, "after a revocation: %s", ncclGetLastError(p->comm));
    if (p->rank == 0) {
        must(p, ncclCommGetAsyncError(p->comm, &state), "ncclCommGetAsyncError");
        must(p, state, "who has revoked");
        must_fail(p, ncclCommFinalize(p->comm), ABI_INVALID_USAGE, "revoked", "ncclCommFinalize");
    }
    if (p->rank != last) {
        must(p, ncclCommShrink(p->comm, &last, 1, &shrunk, NULL, ABI_SHRINK_DEFAULT), "ncclCommShrink");
        sum_must_work(p, shrunk, "shrunk after a revocation");
        must(p, ncclCommDestroy(shrunk), "ncclCommDestroy");
    }
}

static abi_config_t nonblocking(void)
{
    return (abi_config_t){.struct_bytes = sizeof(abi_config_t), .magic = ABI_MAGIC, .version = ABI_VERSION};
}

void play_nonblocking(player_t *p)
{
    abi_config_t config = nonblocking();
    nccl_comm_t *none;
    use_gpu(p);
    abi_result_t begun = ncclCommInitRankConfig(&p->comm, p->rank_count, p->id, p->rank, &config);
    if (begun != ABI_IN_PROGRESS)
        must(p, begun, "ncclCommInitRankConfig");
    must(p, await_state(p, p->comm, ABI_IN_PROGRESS), "the join");
    sum_must_work(p, p->comm, "a communicator that does not block");
    config.magic = 0;
    must_fail(p, ncclCommInitRankConfig(&none, p->rank_count, p->id, p->rank, &config), ABI_INVALID_ARGUMENT,
              "NCCL_CONFIG_INITIALIZER", "a configuration that is none");
}

static void *abort_it(void *comm)
{
    (void)usleep(50 * LOOK_US);
    return (void *)(intptr_t)ncclCommAbort(comm);
}

static void abort_and_join(const player_t *p, pthread_t thread)
{
    void *result;
    pthread_join(thread, &result);
    must(p, (abi_result_t)(intptr_t)result, "ncclCommAbort");
}

/* Rank 0 submits nothing; a thread of rank 1 ends the waiting. */
void play_abort_from_a_thread(player_t *p)
{
    pthread_t thread;
    use_gpu(p);
    must(p, ncclCommInitRank(&p->comm, p->rank_count, p->id, p->rank), "ncclCommInitRank");
    void *memory = device_memory(p, sizeof(int32_t));
    if (p->rank != 0)
        must(p, ncclAllReduce(memory, memory, 1, BLINK_INT32, BLINK_SUM, p->comm, p->stream),
             "ncclAllReduce");
    if (p->rank == 1) {
        (void)pthread_create(&thread, NULL, abort_it, p->comm);
        synchronize(p);
        abort_and_join(p, thread);
        p->comm = NULL;
    } else {
        synchronize(p);
        if (await_state(p, p->comm, ABI_SUCCESS) != ABI_REMOTE_ERROR)
            fail(p, "after an abort: %s", ncclGetLastError(p->comm));
        must(p, ncclCommAbort(p->comm), "ncclCommAbort");
        p->comm = NULL;
    }
    free_memory(p, memory);
}

/* The last rank never comes. */
void play_abort_of_a_join(player_t *p)
{
    abi_config_t config = nonblocking();
    use_gpu(p);
    (void)ncclCommInitRankConfig(&p->comm, p->rank_count + 1, p->id, p->rank, &config);
    if (p->rank != 0) {
        if (await_state(p, p->comm, ABI_IN_PROGRESS) != ABI_REMOTE_ERROR)
            fail(p, "after a rank gave up: %s", ncclGetLastError(p->comm));
        return;
    }
    must(p, ncclCommAbort(p->comm), "ncclCommAbort");
    p->comm = NULL;
}
