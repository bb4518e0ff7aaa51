/* Communicators with the ranks of another one and new ones. */
#include "group.h"

#include <string.h>

/* Under the lock. Who is in the communicator knows the id by itself; new ranks are given it. */
static void derive(const nccl_comm_t *comm, blink_unique_id_t *id)
{
    nccl_id_derive(&comm->line, NCCL_LINE_GROW, comm->grow_count, 0, id);
}

abi_result_t ncclCommGetUniqueId(nccl_comm_t *comm, abi_unique_id_t *id)
{
    blink_unique_id_t inner;
    if (!id)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommGetUniqueId: uniqueId is NULL");
    NCCL_TRY(nccl_comm_enter(comm, __func__));
    pthread_mutex_lock(&comm->lock);
    bool had = comm->has_grow_id;
    comm->has_grow_id = true;
    derive(comm, &inner);
    pthread_mutex_unlock(&comm->lock);
    nccl_comm_leave(comm);
    if (had)
        return nccl_fail(
            ABI_INVALID_USAGE,
            "ncclCommGetUniqueId: the communicator's last id is still to be used, by ncclCommGrow()");
    nccl_id_write(&inner, id);
    return ABI_SUCCESS;
}

/* How a rank joins. */
typedef struct growth {
    blink_unique_id_t id;
    nccl_options_t options;
    nccl_gpu_t gpu;
    int rank;
} growth_t;

/* The communicator's next id, which is used up, whatever becomes of the growing: all its ranks count alike.
 * Only one of them has it from the program, the others give NULL. */
static abi_result_t use_id(nccl_comm_t *comm, const abi_unique_id_t *given, blink_unique_id_t *id)
{
    blink_unique_id_t inner;
    if (given)
        NCCL_TRY(nccl_id_read(given, &inner));
    pthread_mutex_lock(&comm->lock);
    derive(comm, id);
    bool is_other = given && memcmp(&inner, id, sizeof(inner)) != 0;
    if (!is_other) {
        comm->grow_count++;
        comm->has_grow_id = false;
    }
    pthread_mutex_unlock(&comm->lock);
    if (is_other)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommGrow: the ncclUniqueId is not the one that "
                                               "ncclCommGetUniqueId() has made of this communicator last");
    return ABI_SUCCESS;
}

/* A rank of the communicator keeps its number, its GPU and its device. */
static abi_result_t prepare_old(nccl_comm_t *comm, int rank_count, const abi_unique_id_t *id, int rank,
                                const abi_config_t *config, growth_t *growth)
{
    if (rank != -1)
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "ncclCommGrow: rank is %d: a rank of the communicator keeps its own, and gives -1",
                         rank);
    if (rank_count <= comm->rank_count)
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "ncclCommGrow: %d ranks are no more than the %d that the communicator has",
                         rank_count, comm->rank_count);
    NCCL_TRY(nccl_options_inherit(comm, config, &growth->options));
    NCCL_TRY(nccl_result(blink_comm_device(comm->comm, &growth->options.config.device)));
    NCCL_TRY(use_id(comm, id, &growth->id));
    growth->rank = comm->rank;
    return nccl_gpu_again(&comm->gpu, &growth->gpu);
}

static abi_result_t prepare_new(const abi_unique_id_t *id, int rank, const abi_config_t *config,
                                growth_t *growth)
{
    if (!id || rank < 0)
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "ncclCommGrow: comm is NULL, as for a new rank, which needs %s",
                         id ? "the number that it is to have" : "the ncclUniqueId of ncclCommGetUniqueId()");
    NCCL_TRY(nccl_options_take(config, &growth->options));
    NCCL_TRY(nccl_id_read(id, &growth->id));
    growth->rank = rank;
    return nccl_gpu_current(&growth->gpu);
}

/* It is not waited for in a call with the old communicator, which may be aborted and destroyed meanwhile. */
static abi_result_t grow(nccl_comm_t *comm, int rank_count, const abi_unique_id_t *id, int rank,
                         nccl_comm_t **place, const abi_config_t *config)
{
    growth_t growth;
    NCCL_TRY(nccl_group_check_plain("ncclCommGrow"));
    if (comm) {
        NCCL_TRY(nccl_comm_enter(comm, "ncclCommGrow"));
        abi_result_t result = prepare_old(comm, rank_count, id, rank, config, &growth);
        nccl_comm_leave(comm);
        NCCL_TRY(result);
    } else {
        NCCL_TRY(prepare_new(id, rank, config, &growth));
    }
    return nccl_group_join(place, rank_count, &growth.id, growth.rank, &growth.options, &growth.gpu);
}

abi_result_t ncclCommGrow(nccl_comm_t *comm, int rank_count, const abi_unique_id_t *id, int rank,
                          nccl_comm_t **place, abi_config_t *config)
{
    if (!place)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommGrow: newcomm is NULL");
    __atomic_store_n(place, NULL, __ATOMIC_RELAXED); /* as in joins */
    return nccl_group_note(grow(comm, rank_count, id, rank, place, config));
}
