/* Operators that programs make. */
#include "redop.h"

#include "comm.h"

#include <stdlib.h>

/* libblinkclient's handles begin above these. */
#define FIRST 0x100
#define PAST  0x10000

void nccl_redops_fini(nccl_redops_t *redops)
{
    free(redops->items);
}

/* Under the lock. */
static abi_result_t add(nccl_redops_t *redops, const nccl_redop_t *redop, blink_redop_t *handle)
{
    size_t place = 0;
    while (place < redops->count && redops->items[place].scalar)
        place++;
    if (FIRST + place >= PAST)
        return nccl_fail(ABI_INVALID_USAGE,
                         "a communicator has at most %d operators with a scalar on the GPU", PAST - FIRST);
    if (place == redops->count) {
        nccl_redop_t *items = realloc(redops->items, (place + 1) * sizeof(*items));
        if (!items)
            return nccl_fail(ABI_SYSTEM_ERROR, "no memory for an operator");
        redops->items = items;
        redops->count = place + 1;
    }
    redops->items[place] = *redop;
    *handle = (blink_redop_t)(FIRST + place);
    return ABI_SUCCESS;
}

static abi_result_t create(nccl_comm_t *comm, void *scalar, blink_datatype_t datatype,
                           abi_residence_t residence, blink_redop_t *redop)
{
    if (residence == ABI_SCALAR_HOST)
        return nccl_result(blink_redop_create_pre_mul_sum(comm->comm, scalar, datatype, redop));
    if (residence != ABI_SCALAR_DEVICE)
        return nccl_fail(ABI_INVALID_ARGUMENT,
                         "residence %d is neither ncclScalarDevice nor "
                         "ncclScalarHostImmediate",
                         (int)residence);
    if (blink_datatype_bytes((uint32_t)datatype) == 0)
        return nccl_fail(ABI_INVALID_ARGUMENT, "datatype %d is none", (int)datatype);
    pthread_mutex_lock(&comm->lock);
    abi_result_t result = add(&comm->redops, &(nccl_redop_t){scalar, datatype}, redop);
    pthread_mutex_unlock(&comm->lock);
    return result;
}

abi_result_t ncclRedOpCreatePreMulSum(blink_redop_t *redop, void *scalar, blink_datatype_t datatype,
                                      abi_residence_t residence, nccl_comm_t *comm)
{
    if (!redop || !scalar)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclRedOpCreatePreMulSum: %s is NULL",
                         redop ? "scalar" : "op");
    NCCL_TRY(nccl_comm_enter(comm, __func__));
    abi_result_t result = create(comm, scalar, datatype, residence, redop);
    nccl_comm_leave(comm);
    return result;
}

static bool is_ours(blink_redop_t redop)
{
    return (int)redop >= FIRST && (int)redop < PAST;
}

/* Under the lock; NULL, and that has been said: there is none. */
static nccl_redop_t *find(nccl_comm_t *comm, blink_redop_t redop)
{
    size_t place = (size_t)redop - FIRST;
    if (place < comm->redops.count && comm->redops.items[place].scalar)
        return &comm->redops.items[place];
    (void)nccl_fail(ABI_INVALID_ARGUMENT, "operator %#x is none of this communicator", (unsigned)redop);
    return NULL;
}

static abi_result_t forget(nccl_comm_t *comm, blink_redop_t redop)
{
    if (!is_ours(redop))
        return nccl_result(blink_redop_destroy(comm->comm, redop));
    pthread_mutex_lock(&comm->lock);
    nccl_redop_t *found = find(comm, redop);
    if (found)
        *found = (nccl_redop_t){0};
    pthread_mutex_unlock(&comm->lock);
    return found ? ABI_SUCCESS : ABI_INVALID_ARGUMENT;
}

abi_result_t ncclRedOpDestroy(blink_redop_t redop, nccl_comm_t *comm)
{
    NCCL_TRY(nccl_comm_enter(comm, __func__));
    abi_result_t result = forget(comm, redop);
    nccl_comm_leave(comm);
    return result;
}

/* The scalar as it is when the stream has come there: the thread waits for the stream. */
static abi_result_t read_scalar(const nccl_redop_t *redop, blink_stream_t stream, uint64_t *bits)
{
    const cuda_driver_t *driver;
    CUstreamCaptureStatus status;
    NCCL_TRY(nccl_driver(&driver));
    NCCL_CUDA_TRY(driver, cuStreamIsCapturing, stream, &status);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE)
        return nccl_fail(ABI_INVALID_USAGE, "an operator's scalar in memory of the GPU cannot be read while "
                                            "its stream is being captured: use ncclScalarHostImmediate");
    NCCL_CUDA_TRY(driver, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)bits, (CUdeviceptr)(uintptr_t)redop->scalar,
                  blink_datatype_bytes((uint32_t)redop->datatype), stream);
    NCCL_CUDA_TRY(driver, cuStreamSynchronize, stream);
    return ABI_SUCCESS;
}

abi_result_t nccl_redop_resolve(nccl_comm_t *comm, blink_redop_t redop, blink_stream_t stream,
                                blink_redop_t *resolved, bool *made)
{
    uint64_t bits = 0;
    nccl_redop_t copy = {0};
    *resolved = redop;
    *made = false;
    if (!is_ours(redop))
        return ABI_SUCCESS;
    pthread_mutex_lock(&comm->lock);
    const nccl_redop_t *found = find(comm, redop);
    if (found)
        copy = *found;
    pthread_mutex_unlock(&comm->lock);
    if (!found)
        return ABI_INVALID_ARGUMENT;
    NCCL_TRY(read_scalar(&copy, stream, &bits));
    NCCL_TRY(nccl_result(blink_redop_create_pre_mul_sum(comm->comm, &bits, copy.datatype, resolved)));
    *made = true;
    return ABI_SUCCESS;
}
