/* Communicators made from others. */
#include "comm.h"
#include "group.h"

#include <stdlib.h>

typedef struct making {
    nccl_task_t task; /* first: it is freed as this. Of the parent */
    nccl_comm_t **place;
    nccl_options_t options;
    blink_unique_id_t line; /* of a split, as what follows */
    int color, key;
    uint64_t who; /* goes, as a number: of a shrinking, as what follows */
    int rank, rank_count;
} making_t;

/* The name was copied with the rest, the pointer to it still goes elsewhere. */
static making_t *create_making(nccl_comm_t *parent, nccl_comm_t **place, const nccl_options_t *options,
                               abi_result_t (*run)(nccl_task_t *task))
{
    making_t *making = calloc(1, sizeof(*making));
    if (!making) {
        (void)nccl_fail(ABI_SYSTEM_ERROR, "no memory for a communicator");
        return NULL;
    }
    making->task.run = run;
    making->task.comm = parent;
    making->place = place;
    making->options = *options;
    if (options->config.name)
        making->options.config.name = making->options.name;
    return making;
}

/* Who aborts the parent does not know that it has a child by now, and nobody would take that. */
static abi_result_t hand_over(const making_t *making, nccl_comm_t *made)
{
    if (atomic_load(&making->task.comm->is_leaving)) {
        (void)blink_comm_abort(made->comm);
        (void)nccl_comm_discard(made);
        return nccl_fail(ABI_INVALID_USAGE,
                         "the communicator of which another one was made is being aborted");
    }
    /* Release: a program may look at the handle without asking whether the call has ended. */
    __atomic_store_n(making->place, made, __ATOMIC_RELEASE);
    return ABI_SUCCESS;
}

/* ---- splitting ---- */

static abi_result_t run_split(nccl_task_t *task)
{
    making_t *making = (making_t *)task;
    blink_comm_t *inner = NULL;
    nccl_comm_t *made;
    NCCL_TRY(nccl_result(
        blink_comm_split(task->comm->comm, making->color, making->key, &making->options.config, &inner)));
    if (!inner)
        return ABI_SUCCESS;
    NCCL_TRY(nccl_comm_wrap(task->comm, inner, &making->line, &making->options, &made));
    return hand_over(making, made);
}

/* All ranks split in the same order, so that all count the same. */
static void derive_split(nccl_comm_t *parent, making_t *making)
{
    pthread_mutex_lock(&parent->lock);
    uint64_t number = parent->split_count++;
    pthread_mutex_unlock(&parent->lock);
    nccl_id_derive(&parent->line, NCCL_LINE_SPLIT, number, (uint64_t)(int64_t)making->color, &making->line);
}

static abi_result_t split(nccl_comm_t *comm, int color, int key, nccl_comm_t **place,
                          const abi_config_t *config)
{
    nccl_options_t options;
    NCCL_TRY(nccl_group_check_plain("ncclCommSplit"));
    NCCL_TRY(nccl_options_inherit(comm, config, &options));
    if (color < 0 && color != ABI_SPLIT_NO_COLOR)
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "ncclCommSplit: color %d is negative and not NCCL_SPLIT_NOCOLOR", color);
    making_t *making = create_making(comm, place, &options, run_split);
    if (!making)
        return ABI_SYSTEM_ERROR;
    making->color = color;
    making->key = key;
    derive_split(comm, making);
    return nccl_group_do(&making->task);
}

abi_result_t ncclCommSplit(nccl_comm_t *comm, int color, int key, nccl_comm_t **place, abi_config_t *config)
{
    if (!place)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommSplit: newcomm is NULL");
    *place = NULL;
    NCCL_TRY(nccl_group_note(nccl_comm_enter(comm, __func__)));
    abi_result_t result = nccl_group_note(split(comm, color, key, place, config));
    nccl_comm_leave(comm);
    return result;
}

/* ---- shrinking ---- */

/* Add to *number how often the same ranks have been excluded before. Errors: SYSTEM_ERROR. */
static abi_result_t count(nccl_comm_t *comm, uint64_t who, uint64_t *number)
{
    pthread_mutex_lock(&comm->lock);
    uint64_t *shrunk = realloc(comm->shrunk, (comm->shrunk_count + 1) * sizeof(*shrunk));
    if (shrunk) {
        comm->shrunk = shrunk;
        for (size_t i = 0; i < comm->shrunk_count; i++)
            *number += shrunk[i] == who;
        shrunk[comm->shrunk_count++] = who;
    }
    pthread_mutex_unlock(&comm->lock);
    return shrunk ? ABI_SUCCESS : nccl_fail(ABI_SYSTEM_ERROR, "no memory for another shrinking");
}

static void uncount(nccl_comm_t *comm, uint64_t who)
{
    pthread_mutex_lock(&comm->lock);
    size_t place = comm->shrunk_count - 1;
    while (comm->shrunk[place] != who)
        place--;
    comm->shrunk[place] = comm->shrunk[--comm->shrunk_count];
    pthread_mutex_unlock(&comm->lock);
}

static abi_result_t join_shrunk(const making_t *making, uint64_t number)
{
    nccl_comm_t *parent = making->task.comm, *made;
    blink_unique_id_t id;
    nccl_gpu_t gpu;
    nccl_id_derive(&parent->line, NCCL_LINE_SHRINK, making->who, number, &id);
    NCCL_TRY(nccl_gpu_again(&parent->gpu, &gpu));
    NCCL_TRY(nccl_comm_begin(&id, making->rank_count, making->rank, &making->options, &gpu, &made));
    NCCL_TRY(nccl_comm_await_child(parent, made));
    return hand_over(making, made);
}

/* Who calls knows who is left, and hears nothing of the others, dead or alive: so the id under which those
 * that are left gather follows from what they know. A rank that fails by itself may try again, and the others
 * still wait under that id; once a rank has gone or given up, the id is of no use to any of them. */
static abi_result_t run_shrink(nccl_task_t *task)
{
    making_t *making = (making_t *)task;
    uint64_t number = 0;
    NCCL_TRY(count(task->comm, making->who, &number));
    abi_result_t result = join_shrunk(making, number);
    if (result != ABI_SUCCESS && result != ABI_REMOTE_ERROR)
        uncount(task->comm, making->who);
    return result;
}

/* Mark those that go. How many stay; less than 1: an argument is wrong, and that has been said. */
static int mark_excluded(const nccl_comm_t *comm, const int *excluded, int excluded_count, bool *goes)
{
    int left = comm->rank_count;
    for (int i = 0; i < excluded_count; i++) {
        int rank = excluded[i];
        if (rank < 0 || rank >= comm->rank_count || rank == comm->rank || goes[rank]) {
            (void)nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommShrink: excluded rank %d is %s", rank,
                            rank == comm->rank                     ? "the one that calls"
                            : rank < 0 || rank >= comm->rank_count ? "none of the communicator's"
                                                                   : "named twice");
            return 0;
        }
        goes[rank] = true;
        left--;
    }
    return left;
}

static void note_who(const nccl_comm_t *comm, const bool *goes, making_t *making)
{
    making->who = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (int rank = 0; rank < comm->rank_count; rank++)
        making->who = (making->who ^ goes[rank]) * UINT64_C(0x100000001b3);
    for (int rank = 0; rank < comm->rank; rank++)
        making->rank += !goes[rank];
}

static abi_result_t begin_shrink(nccl_comm_t *comm, const bool *goes, making_t *making, int flags)
{
    int device;
    NCCL_TRY(nccl_result(blink_comm_device(comm->comm, &device)));
    making->options.config.device = device;
    note_who(comm, goes, making);
    return flags == ABI_SHRINK_ABORT ? nccl_result(blink_comm_abort(comm->comm)) : ABI_SUCCESS;
}

static abi_result_t shrink(nccl_comm_t *comm, const bool *goes, int left, nccl_comm_t **place,
                           const abi_config_t *config, int flags)
{
    nccl_options_t options;
    NCCL_TRY(nccl_options_inherit(comm, config, &options));
    making_t *making = create_making(comm, place, &options, run_shrink);
    if (!making)
        return ABI_SYSTEM_ERROR;
    making->rank_count = left;
    abi_result_t result = begin_shrink(comm, goes, making, flags);
    if (result != ABI_SUCCESS) {
        free(making);
        return result;
    }
    return nccl_group_do(&making->task);
}

static abi_result_t check_and_shrink(nccl_comm_t *comm, const int *excluded, int excluded_count,
                                     nccl_comm_t **place, const abi_config_t *config, int flags)
{
    NCCL_TRY(nccl_group_check_plain("ncclCommShrink"));
    if (excluded_count < 1 || !excluded)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommShrink: %d excluded ranks at %p", excluded_count,
                         (const void *)excluded);
    if (flags != ABI_SHRINK_DEFAULT && flags != ABI_SHRINK_ABORT)
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "ncclCommShrink: flags are %#x, and neither NCCL_SHRINK_DEFAULT nor "
                         "NCCL_SHRINK_ABORT",
                         (unsigned)flags);
    bool *goes = calloc((size_t)comm->rank_count, sizeof(*goes));
    if (!goes)
        return nccl_fail(ABI_SYSTEM_ERROR, "no memory for %d ranks", comm->rank_count);
    int left = mark_excluded(comm, excluded, excluded_count, goes);
    abi_result_t result = left < 1 ? ABI_INVALID_ARGUMENT : shrink(comm, goes, left, place, config, flags);
    free(goes);
    return result;
}

abi_result_t ncclCommShrink(nccl_comm_t *comm, int *excluded, int excluded_count, nccl_comm_t **place,
                            abi_config_t *config, int flags)
{
    if (!place)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommShrink: newcomm is NULL");
    *place = NULL;
    NCCL_TRY(nccl_group_note(nccl_comm_enter(comm, __func__)));
    abi_result_t result =
        nccl_group_note(check_and_shrink(comm, excluded, excluded_count, place, config, flags));
    nccl_comm_leave(comm);
    return result;
}
