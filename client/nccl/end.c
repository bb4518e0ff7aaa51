/* What becomes of communicators. */
#include "comm.h"
#include "group.h"

#include <stdlib.h>

static abi_result_t run_finalize(nccl_task_t *task)
{
    return nccl_result(blink_comm_finalize(task->comm->comm));
}

static abi_result_t finalize(nccl_comm_t *comm)
{
    NCCL_TRY(nccl_group_check_plain("ncclCommFinalize"));
    if (atomic_load(&comm->is_revoked))
        return nccl_fail(ABI_INVALID_USAGE, "ncclCommFinalize: the communicator has been revoked");
    if (atomic_exchange(&comm->is_finalized, true))
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommFinalize: the communicator has been finalized");
    nccl_task_t *task = calloc(1, sizeof(*task));
    if (!task)
        return nccl_fail(ABI_SYSTEM_ERROR, "no memory to finalize a communicator");
    task->comm = comm;
    task->run = run_finalize;
    return nccl_group_do(task);
}

abi_result_t ncclCommFinalize(nccl_comm_t *comm)
{
    NCCL_TRY(nccl_group_note(nccl_comm_enter(comm, __func__)));
    abi_result_t result = nccl_group_note(finalize(comm));
    nccl_comm_leave(comm);
    return result;
}

abi_result_t ncclCommDestroy(nccl_comm_t *comm)
{
    if (!comm)
        return ABI_SUCCESS;
    NCCL_TRY(nccl_group_check_free(comm, __func__));
    NCCL_TRY(nccl_comm_check_idle(comm, __func__));
    NCCL_TRY(nccl_comm_close(comm, __func__));
    nccl_comm_await_calls(comm);
    return nccl_comm_discard(comm);
}

abi_result_t ncclCommAbort(nccl_comm_t *comm)
{
    if (!comm)
        return ABI_SUCCESS;
    NCCL_TRY(nccl_group_check_free(comm, __func__));
    NCCL_TRY(nccl_comm_close(comm, __func__));
    (void)blink_comm_abort(comm->comm); /* if the daemon is lost, that ends the calls, too */
    nccl_comm_abort_children(comm);
    nccl_comm_await_calls(comm);
    (void)nccl_comm_discard(comm);
    return ABI_SUCCESS;
}

abi_result_t ncclCommRevoke(nccl_comm_t *comm, int flags)
{
    if (flags != 0)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommRevoke: flags are %#x, and not 0", (unsigned)flags);
    NCCL_TRY(nccl_comm_enter_any_time(comm, __func__));
    atomic_store(&comm->is_revoked, true);
    abi_result_t result = nccl_result(blink_comm_revoke(comm->comm));
    nccl_comm_leave(comm);
    return result;
}

/* What a communicator that this rank has revoked fails with is no news. */
static abi_result_t state(nccl_comm_t *comm)
{
    bool ready;
    NCCL_TRY(nccl_comm_outcome(comm));
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
    NCCL_TRY(nccl_comm_enter_any_time(comm, __func__));
    *error = state(comm);
    nccl_comm_leave(comm);
    return ABI_SUCCESS;
}
