/* Groups of a thread. */
#include "group.h"

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
    bool is_in_progress; /* something goes on after the group */
    abi_result_t failed;
    char sentence[NCCL_SENTENCE_BYTES];
} group_t;

static _Thread_local group_t group;

abi_result_t nccl_group_note(abi_result_t result)
{
    if (result == ABI_IN_PROGRESS) {
        group.is_in_progress = group.depth > 0;
    } else if (result != ABI_SUCCESS && group.depth > 0 && group.failed == ABI_SUCCESS) {
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

static bool group_has(const nccl_comm_t *comm)
{
    for (const join_t *join = group.joins; join; join = join->next) {
        if (join->comm == comm)
            return true;
    }
    for (const nccl_task_t *task = group.tasks; task; task = task->next) {
        if (task->comm == comm)
            return true;
    }
    return false;
}

abi_result_t nccl_group_check_free(const nccl_comm_t *comm, const char *call)
{
    NCCL_TRY(nccl_group_check_plain(call));
    if (group_has(comm))
        return nccl_fail(ABI_INVALID_USAGE,
                         "%s: the group has a call with the communicator, which ncclGroupEnd() is to do: end "
                         "the group before",
                         call);
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

/* Without memory it is given up: others would wait for this thread, which has more to join first. */
static abi_result_t await_later(nccl_comm_t *comm, nccl_comm_t **place)
{
    join_t *join = malloc(sizeof(*join));
    if (!join) {
        (void)blink_comm_abort(comm->comm);
        (void)await(comm, place);
        return nccl_fail(ABI_SYSTEM_ERROR, "no memory for a communicator of a group");
    }
    *join = (join_t){.next = group.joins, .comm = comm, .place = place};
    group.joins = join;
    return ABI_SUCCESS;
}

abi_result_t nccl_group_join(nccl_comm_t **place, int rank_count, const blink_unique_id_t *id, int rank,
                             const nccl_options_t *options, const nccl_gpu_t *gpu)
{
    nccl_comm_t *joining;
    NCCL_TRY(nccl_comm_begin(id, rank_count, rank, options, gpu, &joining));
    if (options->is_blocking)
        nccl_comm_enter_again(joining); /* until it has been waited for */
    /* Release: another thread may abort it. */
    __atomic_store_n(place, joining, __ATOMIC_RELEASE);
    if (!options->is_blocking)
        return ABI_IN_PROGRESS;
    return group.depth > 0 ? await_later(joining, place) : await(joining, place);
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

/* All of a communicator, whatever becomes of one: other ranks do theirs. The first one gets the first
 * failure.
 */
static void run(nccl_task_t *first)
{
    for (nccl_task_t *task = first; task; task = task->then) {
        abi_result_t result = task->run(task);
        if (result == ABI_SUCCESS || first->result != ABI_SUCCESS)
            continue;
        first->result = result;
        snprintf(first->sentence, sizeof(first->sentence), "%s", nccl_sentence());
    }
}

static void *run_in_thread(void *first)
{
    run(first);
    return NULL;
}

static abi_result_t result_of(const nccl_task_t *first)
{
    return first->result == ABI_SUCCESS ? ABI_SUCCESS : nccl_fail(first->result, "%s", first->sentence);
}

static void discard(nccl_task_t *first)
{
    for (nccl_task_t *task = first, *then; task; task = then) {
        then = task->then;
        nccl_comm_leave(task->comm);
        free(task);
    }
}

static abi_result_t finish(nccl_task_t *first)
{
    abi_result_t result = result_of(first);
    discard(first);
    return result;
}

static void *run_in_background(void *argument)
{
    nccl_task_t *first = argument;
    run(first);
    nccl_comm_end(first->comm, result_of(first));
    discard(first);
    return NULL;
}

/* Of a communicator that does not block. */
static abi_result_t go_on(nccl_task_t *first)
{
    pthread_t thread;
    nccl_comm_go_on(first->comm);
    int error = pthread_create(&thread, NULL, run_in_background, first);
    if (!error) {
        (void)pthread_detach(thread);
        return ABI_IN_PROGRESS;
    }
    abi_result_t result =
        nccl_fail(ABI_SYSTEM_ERROR, "no thread for a communicator that does not block: error %d", error);
    nccl_comm_end(first->comm, result);
    discard(first);
    return result;
}

/* Behind those of the same communicator, whose calls have an order. */
static void queue(nccl_task_t *task)
{
    nccl_task_t **place = &group.tasks;
    while (*place && (*place)->comm != task->comm)
        place = &(*place)->next;
    while (*place)
        place = &(*place)->then;
    *place = task;
}

abi_result_t nccl_group_do(nccl_task_t *task)
{
    nccl_comm_enter_again(task->comm); /* until the task is done */
    if (group.depth > 0) {
        queue(task);
        return ABI_SUCCESS;
    }
    if (!task->comm->is_blocking)
        return go_on(task);
    run(task);
    return finish(task);
}

static void do_tasks(nccl_task_t *tasks);

/* The thread does the last one itself. Others, each for another rank, may be waiting for that one. */
static void do_blocking(nccl_task_t *first)
{
    pthread_t thread;
    nccl_task_t *rest = first->next;
    int error = rest ? pthread_create(&thread, NULL, run_in_thread, first) : 0;
    if (error) {
        first->result =
            nccl_fail(ABI_SYSTEM_ERROR, "no thread for a communicator of a group: error %d", error);
        snprintf(first->sentence, sizeof(first->sentence), "%s", nccl_sentence());
    } else if (!rest) {
        run(first);
    }
    do_tasks(rest);
    if (rest && !error)
        (void)pthread_join(thread, NULL);
    (void)nccl_group_note(finish(first));
}

static void do_tasks(nccl_task_t *tasks)
{
    if (!tasks)
        return;
    if (tasks->comm->is_blocking) {
        do_blocking(tasks);
        return;
    }
    nccl_task_t *rest = tasks->next;
    (void)nccl_group_note(go_on(tasks));
    do_tasks(rest);
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
    else if (group.is_in_progress)
        result = ABI_IN_PROGRESS;
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
