/* Communicators made from others, and their ends. */
#include "comm.h"
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
    must_fail(p, ncclCommDestroy(half), ABI_INVALID_USAGE, "end the group", "the end before a split");
    must_fail(p, ncclCommAbort(half), ABI_INVALID_USAGE, "end the group", "an abort before a split");
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

/* What has begun, by a call that does not block, has gone well. */
static void must_end(const player_t *p, abi_result_t begun, nccl_comm_t *comm, const char *what)
{
    if (begun != ABI_IN_PROGRESS)
        fail(p, "%s: %d, which is not in progress: %s", what, (int)begun, ncclGetLastError(NULL));
    must(p, await_state(p, comm, ABI_IN_PROGRESS), what);
}

static void join_nonblocking(player_t *p)
{
    abi_config_t config = nonblocking();
    use_gpu(p);
    abi_result_t begun = ncclCommInitRankConfig(&p->comm, p->rank_count, p->id, p->rank, &config);
    must_end(p, begun, p->comm, "ncclCommInitRankConfig");
}

void play_nonblocking(player_t *p)
{
    abi_config_t config = nonblocking();
    nccl_comm_t *none;
    join_nonblocking(p);
    sum_must_work(p, p->comm, "a communicator that does not block");
    config.magic = 0;
    must_fail(p, ncclCommInitRankConfig(&none, p->rank_count, p->id, p->rank, &config), ABI_INVALID_ARGUMENT,
              "NCCL_CONFIG_INITIALIZER", "a configuration that is none");
}

static void split_nonblocking(player_t *p, nccl_comm_t **split)
{
    must_end(p, ncclCommSplit(p->comm, 0, 0, split, NULL), p->comm, "ncclCommSplit");
    sum_must_work(p, *split, "a split that did not block");
}

/* While a split waits for rank 0, which comes once all others have been here. */
static void nothing_else_goes(player_t *p, nccl_comm_t *other)
{
    nccl_comm_t *split;
    abi_result_t state, begun = ABI_IN_PROGRESS;
    if (p->rank != 0) {
        begun = ncclCommSplit(p->comm, 0, 0, &split, NULL);
        must(p, ncclCommGetAsyncError(p->comm, &state), "ncclCommGetAsyncError");
        if (state != ABI_IN_PROGRESS)
            fail(p, "a split that misses a rank is not in progress but %d", (int)state);
        must_fail(p, ncclAllReduce(NULL, NULL, 0, BLINK_INT32, BLINK_SUM, p->comm, p->stream),
                  ABI_INVALID_ARGUMENT, "goes on", "an op during a split");
        must_fail(p, ncclCommDestroy(p->comm), ABI_INVALID_ARGUMENT, "goes on", "the end during a split");
    }
    sum_must_work(p, other, "another one");
    if (p->rank == 0)
        begun = ncclCommSplit(p->comm, 0, 0, &split, NULL);
    must_end(p, begun, p->comm, "a split that waited");
    sum_must_work(p, split, "a split that waited");
    must(p, ncclCommDestroy(split), "ncclCommDestroy");
}

/* Two calls with one communicator in a group. */
static void group_in_progress(player_t *p)
{
    nccl_comm_t *splits[2];
    must(p, ncclGroupStart(), "ncclGroupStart");
    must(p, ncclCommSplit(p->comm, 0, 0, &splits[0], NULL), "ncclCommSplit");
    must(p, ncclCommSplit(p->comm, p->rank == 0 ? ABI_SPLIT_NO_COLOR : 0, 0, &splits[1], NULL),
         "ncclCommSplit");
    must_end(p, ncclGroupEnd(), p->comm, "ncclGroupEnd");
    sum_must_work(p, splits[0], "the first of a group");
    must(p, ncclCommDestroy(splits[0]), "ncclCommDestroy");
    if ((p->rank == 0) != !splits[1])
        fail(p, "a communicator for a rank without a color, or none for one with");
    must(p, ncclCommDestroy(splits[1]), "ncclCommDestroy");
}

/* While no stack of a thread fits into memory. */
static void shrink_without_a_thread(const player_t *p, int excluded)
{
    nccl_comm_t *none;
    pthread_attr_t usual, huge;
    (void)pthread_getattr_default_np(&usual);
    (void)pthread_getattr_default_np(&huge);
    if (pthread_attr_setstacksize(&huge, (size_t)1 << 47) != 0 || pthread_setattr_default_np(&huge) != 0)
        fail(p, "no huge stacks");
    must_fail(p, ncclCommShrink(p->comm, &excluded, 1, &none, NULL, ABI_SHRINK_DEFAULT), ABI_SYSTEM_ERROR,
              "no thread", "a shrinking without a thread");
    (void)pthread_setattr_default_np(&usual);
    (void)pthread_attr_destroy(&huge);
    (void)pthread_attr_destroy(&usual);
}

void play_nonblocking_calls(player_t *p)
{
    nccl_comm_t *other, *shrunk, *none;
    int last = p->rank_count - 1;
    join_nonblocking(p);
    split_nonblocking(p, &other);
    nothing_else_goes(p, other);
    group_in_progress(p);
    if (p->rank == 0)
        shrink_without_a_thread(p, last);
    if (p->rank != last) {
        must_end(p, ncclCommShrink(p->comm, &last, 1, &shrunk, NULL, ABI_SHRINK_DEFAULT), p->comm,
                 "ncclCommShrink");
        sum_must_work(p, shrunk, "a shrinking that did not block");
        must(p, ncclCommDestroy(shrunk), "ncclCommDestroy");
    }
    must_end(p, ncclCommFinalize(p->comm), p->comm, "ncclCommFinalize");
    must(p, ncclCommRevoke(other, 0), "ncclCommRevoke");
    if (ncclCommSplit(other, 0, 0, &none, NULL) != ABI_IN_PROGRESS ||
        await_state(p, other, ABI_IN_PROGRESS) != ABI_REMOTE_ERROR || none)
        fail(p, "a split of what is revoked: %s", ncclGetLastError(NULL));
    must(p, ncclCommAbort(other), "ncclCommAbort");
}

/* Rank 0 does not split. */
void play_nonblocking_abort(player_t *p)
{
    nccl_comm_t *split, *other;
    join_nonblocking(p);
    split_nonblocking(p, &other); /* so that all ranks have come here */
    if (p->rank != 0 && ncclCommSplit(p->comm, 0, 0, &split, NULL) != ABI_IN_PROGRESS)
        fail(p, "ncclCommSplit: %s", ncclGetLastError(NULL));
    if (p->rank != 1 && await_state(p, p->comm, p->rank ? ABI_IN_PROGRESS : ABI_SUCCESS) != ABI_REMOTE_ERROR)
        fail(p, "after an abort: %s", ncclGetLastError(NULL));
    must(p, ncclCommAbort(p->comm), "ncclCommAbort");
    if (p->rank != 0 && split)
        fail(p, "a split after an abort");
    must(p, ncclCommDestroy(other), "ncclCommDestroy");
    p->comm = NULL;
}

/* Rank 0 of the old communicator tells all ranks the id of its next growing. */
static abi_unique_id_t tell_grow_id(const player_t *p, nccl_comm_t *old)
{
    abi_unique_id_t id = {0};
    void *memory = device_memory(p, sizeof(id));
    if (p->rank == 0) {
        must(p, ncclCommGetUniqueId(old, &id), "ncclCommGetUniqueId");
        write_to(p, memory, &id, sizeof(id));
        must_fail(p, ncclCommGetUniqueId(old, &id), ABI_INVALID_USAGE, "still to be used", "another id");
    }
    must(p, ncclBcast(memory, sizeof(id), BLINK_UINT8, 0, p->comm, p->stream), "ncclBcast");
    synchronize(p);
    read_from(p, &id, memory, sizeof(id));
    free_memory(p, memory);
    return id;
}

static void wrong_growing(const player_t *p, nccl_comm_t *old, const abi_unique_id_t *id)
{
    nccl_comm_t *none;
    int count = p->rank_count;
    if (old) {
        must_fail(p, ncclCommGrow(old, count, NULL, p->rank, &none, NULL), ABI_INVALID_ARGUMENT, "gives -1",
                  "a rank that keeps its number");
        must_fail(p, ncclCommGrow(old, count - 1, NULL, -1, &none, NULL), ABI_INVALID_ARGUMENT,
                  "no more than", "as many ranks as before");
        must_fail(p, ncclCommGrow(old, count, &p->id, -1, &none, NULL), ABI_INVALID_ARGUMENT, "not the one",
                  "the id of another communicator");
    } else {
        must_fail(p, ncclCommGrow(NULL, count, NULL, count - 1, &none, NULL), ABI_INVALID_ARGUMENT,
                  "ncclUniqueId", "a new rank without an id");
        must_fail(p, ncclCommGrow(NULL, count, id, -1, &none, NULL), ABI_INVALID_ARGUMENT, "number",
                  "a new rank without a number");
    }
}

/* The last rank is new to a communicator of the others. */
void play_grow(player_t *p)
{
    const int last = p->rank_count - 1, color = p->rank == last ? ABI_SPLIT_NO_COLOR : 0;
    const int given = p->rank == last ? last : -1;
    abi_config_t config = nonblocking();
    nccl_comm_t *old, *grown;
    int rank;
    must(p, ncclCommSplit(p->comm, color, 0, &old, NULL), "ncclCommSplit");
    abi_unique_id_t id = tell_grow_id(p, old), *told = p->rank == 0 || p->rank == last ? &id : NULL;
    wrong_growing(p, old, &id);
    must(p, ncclCommGrow(old, p->rank_count, told, given, &grown, NULL), "ncclCommGrow");
    must(p, ncclCommUserRank(grown, &rank), "ncclCommUserRank");
    if (rank != p->rank)
        fail(p, "rank %d of the grown communicator", rank);
    sum_must_work(p, grown, "a grown communicator");
    must(p, ncclCommDestroy(grown), "ncclCommDestroy");
    id = tell_grow_id(p, old);
    abi_result_t begun = ncclCommGrow(old, p->rank_count, told, given, &grown, &config);
    must(p, ncclCommDestroy(old), "ncclCommDestroy");
    must_end(p, begun, grown, "ncclCommGrow that does not block");
    sum_must_work(p, grown, "one that grew without blocking");
    must(p, ncclCommDestroy(grown), "ncclCommDestroy");
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
    abi_result_t begun = ABI_SUCCESS;
    if (p->rank != 0)
        begun = ncclAllReduce(memory, memory, 1, BLINK_INT32, BLINK_SUM, p->comm, p->stream);
    if (begun != ABI_REMOTE_ERROR) /* it may come after the abort */
        must(p, begun, "ncclAllReduce");
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

static void *abort_place(void *place)
{
    nccl_comm_t *comm;
    while (!(comm = __atomic_load_n((nccl_comm_t **)place, __ATOMIC_ACQUIRE)))
        (void)usleep(LOOK_US);
    return abort_it(comm);
}

/* The last rank never comes, and a thread ends the waiting of rank 0. */
void play_abort_of_a_blocking_join(player_t *p)
{
    pthread_t thread;
    use_gpu(p);
    if (p->rank == 0)
        (void)pthread_create(&thread, NULL, abort_place, &p->comm);
    must_fail(p, ncclCommInitRank(&p->comm, p->rank_count + 1, p->id, p->rank), ABI_REMOTE_ERROR, "gave up",
              "a join that is given up");
    if (p->rank == 0)
        abort_and_join(p, thread);
}

/* Once another thread is in a call with it, in which the handle lives on. */
static void *abort_in_a_call(void *argument)
{
    nccl_comm_t *comm = argument;
    while (atomic_load(&comm->users) == 0)
        (void)usleep(LOOK_US);
    return abort_it(comm);
}

/* A call of ranks that wait for one that never comes, until a thread of rank 1 aborts their communicator. */
static void make_in_vain(player_t *p, abi_result_t (*make)(nccl_comm_t *comm, nccl_comm_t **made))
{
    nccl_comm_t *made;
    pthread_t thread;
    if (p->rank == 1)
        (void)pthread_create(&thread, NULL, abort_in_a_call, p->comm);
    if (make(p->comm, &made) == ABI_SUCCESS || made)
        fail(p, "a communicator was made of one that is aborted");
    if (p->rank == 1)
        abort_and_join(p, thread);
    else
        must(p, ncclCommAbort(p->comm), "ncclCommAbort");
    p->comm = NULL;
}

static abi_result_t split_all(nccl_comm_t *comm, nccl_comm_t **made)
{
    return ncclCommSplit(comm, 0, 0, made, NULL);
}

/* Rank 0 tells the others that it takes part, as blink_comm_split() does, and does not join. */
void play_abort_of_a_split(player_t *p)
{
    struct {
        int32_t color, key;
        blink_unique_id_t id;
    } choices[8], choice = {.key = 1};
    blink_op_t *op;
    if (p->rank != 0) {
        make_in_vain(p, split_all);
        return;
    }
    if (blink_all_gather(&choice, choices, sizeof(choice), BLINK_UINT8, p->comm->comm, &op) == BLINK_OK)
        (void)blink_wait(op); /* which may be too late, on a busy machine */
    if (await_state(p, p->comm, ABI_SUCCESS) != ABI_REMOTE_ERROR)
        fail(p, "after an abort: %s", ncclGetLastError(p->comm));
}

static abi_result_t shrink_by_one(nccl_comm_t *comm, nccl_comm_t **made)
{
    return ncclCommShrink(comm, &(int){2}, 1, made, NULL, ABI_SHRINK_DEFAULT);
}

/* Rank 2 is left out, and rank 0 does not call. */
void play_abort_of_a_shrink(player_t *p)
{
    if (p->rank == 1)
        make_in_vain(p, shrink_by_one);
    else if (await_state(p, p->comm, ABI_SUCCESS) != ABI_REMOTE_ERROR)
        fail(p, "after an abort: %s", ncclGetLastError(p->comm));
}
