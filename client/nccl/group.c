/* Groups of a thread. */
#include "group.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct join {
    struct join *next;
    nccl_comm_t *comm;
    nccl_comm_t **place;
} join_t;

/* NCCL's calls name no group, so it is the thread's. */
typedef struct group {
    unsigned int depth;
    bool has_collectives; /* libblinkclient's group has begun */
    bool has_default;     /* there are calls on a default stream, of this GPU */
    nccl_gpu_t of_default;
    join_t *joins;
    nccl_task_t *tasks;
    abi_result_t failed;
    char sentence[NCCL_SENTENCE_BYTES];
} group_t;

static _Thread_local group_t group;

abi_result_t nccl_group_note(abi_result_t result)
{
    if (result != ABI_SUCCESS && group.depth > 0 && group.failed == ABI_SUCCESS) {
        group.failed = result;
        snprintf(group.sentence, sizeof(group.sentence), "%s", nccl_sentence());
    }
    return result;
}

/* Which default stream is meant depends on what is current, also at the end of the group. */
static abi_result_t note_default(const nccl_gpu_t *gpu)
{
    if (group.has_default && group.of_default.context != gpu->context)
        return nccl_fail(
            ABI_INVALID_USAGE,
            "a group has calls on the default streams of CUDA devices %d and %d: give each device a "
            "stream of its own",
            group.of_default.ordinal, gpu->ordinal);
    group.has_default = true;
    group.of_default = *gpu;
    return ABI_SUCCESS;
}

static bool is_default(blink_stream_t stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

abi_result_t nccl_group_enter(const nccl_gpu_t *gpu, blink_stream_t stream)
{
    if (group.depth == 0)
        return ABI_SUCCESS;
    if (is_default(stream))
        NCCL_TRY(note_default(gpu));
    if (group.has_collectives)
        return ABI_SUCCESS;
    NCCL_TRY(nccl_result(blink_group_start()));
    group.has_collectives = true;
    return ABI_SUCCESS;
}

abi_result_t nccl_group_check_plain(const char *call)
{
    if (group.has_collectives)
        return nccl_fail(ABI_INVALID_USAGE, "%s cannot be in a group with collectives", call);
    return ABI_SUCCESS;
}

/* ---- joins ---- */

static abi_result_t await(nccl_comm_t *comm, nccl_comm_t **place)
{
    abi_result_t result = nccl_comm_await(comm);
    if (result != ABI_SUCCESS)
        *place = NULL;
    return result;
}

abi_result_t nccl_group_await(nccl_comm_t *comm, nccl_comm_t **place)
{
    if (group.depth == 0)
        return await(comm, place);
    join_t *join = malloc(sizeof(*join));
    if (!join) {
        (void)nccl_comm_discard(comm);
        *place = NULL;
        return nccl_fail(ABI_SYSTEM_ERROR, "no memory for a communicator of a group");
    }
    *join = (join_t){.next = group.joins, .comm = comm, .place = place};
    group.joins = join;
    return ABI_SUCCESS;
}

static void await_joins(void)
{
    for (join_t *join = group.joins, *next; join; join = next) {
        next = join->next;
        (void)nccl_group_note(await(join->comm, join->place));
        free(join);
    }
    group.joins = NULL;
}

/* ---- tasks ---- */

static void run(nccl_task_t *task)
{
    task->result = task->run(task);
    snprintf(task->sentence, sizeof(task->sentence), "%s", nccl_sentence());
}

static void *run_in_thread(void *task)
{
    run(task);
    return NULL;
}

static abi_result_t finish(nccl_task_t *task)
{
    abi_result_t result = task->result;
    if (result != ABI_SUCCESS)
        (void)nccl_fail(result, "%s", task->sentence);
    free(task);
    return result;
}

abi_result_t nccl_group_do(nccl_task_t *task)
{
    if (group.depth == 0) {
        run(task);
        return finish(task);
    }
    task->next = group.tasks;
    group.tasks = task;
    return ABI_SUCCESS;
}

/* The thread does the first one itself. Others, each for another rank, may be waiting for that one. */
static void do_tasks(nccl_task_t *tasks)
{
    pthread_t thread;
    if (!tasks)
        return;
    nccl_task_t *rest = tasks->next;
    int error = rest ? pthread_create(&thread, NULL, run_in_thread, tasks) : 0;
    if (error) {
        tasks->result =
            nccl_fail(ABI_SYSTEM_ERROR, "no thread for a communicator of a group: error %d", error);
        snprintf(tasks->sentence, sizeof(tasks->sentence), "%s", nccl_sentence());
    } else if (!rest) {
        run(tasks);
    }
    do_tasks(rest);
    if (rest && !error)
        (void)pthread_join(thread, NULL);
    (void)nccl_group_note(finish(tasks));
}

/* ---- the end ---- */

/* A group that has failed here must not be submitted there: a call that fails is what libblinkclient has for
 * that. */
static void end_collectives(void)
{
    bool entered = false;
    if (!group.has_collectives)
        return;
    if (group.has_default)
        (void)nccl_group_note(nccl_gpu_enter(&group.of_default, &entered));
    if (group.failed != ABI_SUCCESS)
        (void)blink_barrier_on(NULL, NULL);
    (void)nccl_group_note(nccl_result(blink_group_end(NULL)));
    nccl_gpu_leave(entered);
}

abi_result_t ncclGroupStart(void)
{
    if (group.depth == UINT_MAX)
        return nccl_fail(ABI_INVALID_USAGE, "groups nest too deep");
    group.depth++;
    return ABI_SUCCESS;
}

abi_result_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        return nccl_fail(ABI_INVALID_USAGE, "ncclGroupEnd: this thread has started no group");
    if (group.depth > 1) {
        group.depth--;
        return ABI_SUCCESS;
    }
    end_collectives();
    await_joins();
    do_tasks(group.tasks);
    abi_result_t result = group.failed;
    if (result != ABI_SUCCESS)
        (void)nccl_fail(result, "%s", group.sentence);
    group = (group_t){0};
    return result;
}

abi_result_t ncclGroupSimulateEnd(abi_sim_info_t *info)
{
    (void)info; /* nothing is told */
    abi_result_t refused = nccl_group_note(
        nccl_refuse(__func__, "predictions are blinkctl explain's, and the group has not been submitted"));
    if (group.depth > 0)
        (void)ncclGroupEnd();
    return refused;
}
