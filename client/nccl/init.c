/* Ids, and joining. */
#include "comm.h"
#include "group.h"
#include "home.h"

#include <string.h>

static abi_result_t make_id(blink_unique_id_t *id)
{
    blink_context_t *context;
    NCCL_TRY(nccl_home_get(&context));
    abi_result_t result = nccl_result(blink_get_unique_id(context, id));
    nccl_home_put(context);
    return result;
}

abi_result_t ncclGetUniqueId(abi_unique_id_t *id)
{
    blink_unique_id_t inner;
    if (!id)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclGetUniqueId: uniqueId is NULL");
    NCCL_TRY(make_id(&inner));
    nccl_id_write(&inner, id);
    return ABI_SUCCESS;
}

static abi_result_t init(const char *call, nccl_comm_t **comm, int rank_count, const abi_unique_id_t *id,
                         int rank, const abi_config_t *config)
{
    nccl_options_t options;
    blink_unique_id_t inner;
    nccl_gpu_t gpu;
    if (!comm)
        return nccl_fail(ABI_INVALID_ARGUMENT, "%s: comm is NULL", call);
    __atomic_store_n(comm, NULL, __ATOMIC_RELAXED); /* another thread may wait for the handle, to abort it */
    NCCL_TRY(nccl_group_check_plain(call));
    NCCL_TRY(nccl_options_take(config, &options));
    NCCL_TRY(nccl_id_read(id, &inner));
    NCCL_TRY(nccl_gpu_current(&gpu));
    return nccl_group_join(comm, rank_count, &inner, rank, &options, &gpu);
}

abi_result_t ncclCommInitRank(nccl_comm_t **comm, int rank_count, abi_unique_id_t id, int rank)
{
    return nccl_group_note(init(__func__, comm, rank_count, &id, rank, NULL));
}

abi_result_t ncclCommInitRankConfig(nccl_comm_t **comm, int rank_count, abi_unique_id_t id, int rank,
                                    abi_config_t *config)
{
    return nccl_group_note(init(__func__, comm, rank_count, &id, rank, config));
}

abi_result_t ncclCommInitRankScalable(nccl_comm_t **comm, int rank_count, int rank, int id_count,
                                      abi_unique_id_t *ids, abi_config_t *config)
{
    if (id_count < 1 || !ids)
        return nccl_group_note(
            nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommInitRankScalable: %d ids at %p", id_count, (void *)ids));
    /* The daemon gathers any number of ranks under one of them. */
    return nccl_group_note(init(__func__, comm, rank_count, &ids[0], rank, config));
}

static abi_result_t join_all(nccl_comm_t **comms, int count, const int *devices)
{
    nccl_options_t options;
    blink_unique_id_t id;
    NCCL_TRY(nccl_options_take(NULL, &options));
    NCCL_TRY(make_id(&id));
    for (int rank = 0; rank < count; rank++) {
        nccl_gpu_t gpu;
        NCCL_TRY(nccl_gpu_numbered(devices ? devices[rank] : rank, &gpu));
        NCCL_TRY(nccl_group_join(&comms[rank], count, &id, rank, &options, &gpu));
    }
    return ABI_SUCCESS;
}

/* If a rank cannot join, the others would wait for it. */
static void give_up(nccl_comm_t **comms, int count)
{
    for (int rank = 0; rank < count; rank++) {
        if (comms[rank])
            (void)blink_comm_abort(comms[rank]->comm);
    }
}

abi_result_t ncclCommInitAll(nccl_comm_t **comms, int count, const int *devices)
{
    if (!comms || count < 1)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommInitAll: %d communicators at %p", count,
                         (void *)comms);
    NCCL_TRY(nccl_group_check_plain(__func__));
    memset(comms, 0, (size_t)count * sizeof(*comms));
    NCCL_TRY(ncclGroupStart());
    abi_result_t result = nccl_group_note(join_all(comms, count, devices));
    if (result != ABI_SUCCESS)
        give_up(comms, count);
    abi_result_t ended = ncclGroupEnd();
    return result != ABI_SUCCESS ? result : ended;
}
