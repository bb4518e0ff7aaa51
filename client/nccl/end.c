/* What becomes of communicators. */
#include "comm.h"
#include "group.h"

#include <unistd.h>

/* How often an abort looks whether other threads have come out of their calls, which it has ended. */
#define LOOK_US 100

static abi_result_t finalize(nccl_comm_t *comm)
{
    NCCL_TRY(nccl_group_check_plain("ncclCommFinalize"));
    if (atomic_load(&comm->is_revoked))
        return nccl_fail(ABI_INVALID_USAGE, "ncclCommFinalize: the communicator has been revoked");
    if (atomic_exchange(&comm->is_finalized, true))
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommFinalize: the communicator has been finalized");
    return nccl_result(blink_comm_finalize(comm->comm));
}

abi_result_t ncclCommFinalize(nccl_comm_t *comm)
{
    NCCL_TRY(nccl_comm_enter(comm, __func__));
    abi_result_t result = finalize(comm);
    nccl_comm_leave(comm);
    return result;
}

/* From now on nobody enters. Errors: INVALID_USAGE (another thread has done so). */
static abi_result_t close_door(nccl_comm_t *comm, const char *call)
{
    NCCL_TRY(nccl_group_check_plain(call));
    if (atomic_exchange(&comm->is_leaving, true))
        return nccl_fail(ABI_INVALID_USAGE, "%s: the communicator is being aborted or destroyed", call);
    return ABI_SUCCESS;
}

static void await_users(nccl_comm_t *comm)
{
    while (atomic_load(&comm->users) > 0)
        (void)usleep(LOOK_US);
}

abi_result_t ncclCommDestroy(nccl_comm_t *comm)
{
    if (!comm)
        return ABI_SUCCESS;
    NCCL_TRY(close_door(comm, __func__));
    await_users(comm);
    return nccl_comm_discard(comm);
}

abi_result_t ncclCommAbort(nccl_comm_t *comm)
{
    if (!comm)
        return ABI_SUCCESS;
    NCCL_TRY(close_door(comm, __func__));
    (void)blink_comm_abort(comm->comm); /* if the daemon is lost, that ends the calls, too */
    await_users(comm);
    (void)nccl_comm_discard(comm);
    return ABI_SUCCESS;
}

abi_result_t ncclCommRevoke(nccl_comm_t *comm, int flags)
{
    if (flags != 0)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommRevoke: flags are %#x, and not 0", (unsigned)flags);
    NCCL_TRY(nccl_comm_enter(comm, __func__));
    atomic_store(&comm->is_revoked, true);
    abi_result_t result = nccl_result(blink_comm_revoke(comm->comm));
    nccl_comm_leave(comm);
    return result;
}

/* What a communicator that this rank has revoked fails with is no news. */
static abi_result_t state(nccl_comm_t *comm)
{
    bool ready;
    blink_result_t result = blink_comm_init_wait(comm->comm, 0, &ready);
    if (result != BLINK_OK)
        return nccl_result(result);
    if (!ready)
        return ABI_IN_PROGRESS;
    (void)blink_comm_async_error(comm->comm, &result);
    if (result == BLINK_ERR_ABORTED && atomic_load(&comm->is_revoked))
        return ABI_SUCCESS;
    return nccl_result(result);
}

abi_result_t ncclCommGetAsyncError(nccl_comm_t *comm, abi_result_t *error)
{
    if (!error)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommGetAsyncError: asyncError is NULL");
    NCCL_TRY(nccl_comm_enter(comm, __func__));
    *error = state(comm);
    nccl_comm_leave(comm);
    return ABI_SUCCESS;
}
