/*
 * MPI's collectives as programs call them. What is not described here goes to MPI: MPI_IN_PLACE where blinkd
 * has its blocks elsewhere, types and operators that blinkd does not reduce, arguments that are errors.
 */
#include "call.h"
#include "types.h"

static shim_view_t view_of(const void *address, size_t count, MPI_Datatype type)
{
    return (shim_view_t){.address = (char *)address, .count = count, .type = type};
}

static shim_view_t read_from(const void *address, size_t count, MPI_Datatype type)
{
    shim_view_t view = view_of(address, count, type);
    view.is_read = true;
    return view;
}

static shim_view_t write_to(void *address, size_t count, MPI_Datatype type)
{
    shim_view_t view = view_of(address, count, type);
    view.is_written = true;
    return view;
}

/* The buffer that is read, or none: then it lies in the one that is written. */
static void give(shim_call_t *call, const void *send, size_t count, MPI_Datatype type)
{
    if (send != MPI_IN_PLACE) {
        call->send = read_from(send, count, type);
        return;
    }
    call->alias = SHIM_SEND_IN_RECV;
    call->recv.is_read = true;
}

static bool is_sound(int count, MPI_Datatype type)
{
    return count >= 0 && type != MPI_DATATYPE_NULL;
}

static bool moves(shim_call_t *call, int count, MPI_Datatype type, MPI_Comm handle)
{
    if (!is_sound(count, type))
        return false;
    call->datatype = BLINK_UINT8;
    call->comm = shim_comm_find(handle);
    return call->comm && call->root >= 0 && call->root < call->comm->rank_count;
}

static bool reduces(shim_call_t *call, int count, MPI_Datatype type, MPI_Op op, MPI_Comm handle)
{
    if (!is_sound(count, type) || !shim_reduction(type, op, &call->datatype, &call->redop))
        return false;
    call->comm = shim_comm_find(handle);
    call->count = (size_t)count;
    return call->comm && call->root >= 0 && call->root < call->comm->rank_count;
}

static void align(shim_call_t *call, MPI_Datatype type)
{
    call->send.alignment_bytes = call->recv.alignment_bytes = shim_type_bytes(1, type);
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_ALLREDUCE};
    int result;
    if (!reduces(&call, count, type, op, handle))
        return PMPI_Allreduce(send, recv, count, type, op, handle);
    call.recv = write_to(recv, call.count, type);
    give(&call, send, call.count, type);
    align(&call, type);
    if (shim_call_runs(&call, shim_type_bytes(call.count, type), &result))
        return result;
    return PMPI_Allreduce(send, recv, count, type, op, handle);
}

int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_REDUCE, .root = root};
    int result;
    if (!reduces(&call, count, type, op, handle))
        return PMPI_Reduce(send, recv, count, type, op, root, handle);
    if (call.comm->rank == root)
        call.recv = write_to(recv, call.count, type);
    give(&call, send, call.count, type);
    align(&call, type);
    if (shim_call_runs(&call, shim_type_bytes(call.count, type), &result))
        return result;
    return PMPI_Reduce(send, recv, count, type, op, root, handle);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_BCAST, .root = root};
    int result;
    if (!moves(&call, count, type, handle))
        return PMPI_Bcast(buffer, count, type, root, handle);
    call.count = shim_type_bytes((size_t)count, type);
    if (call.comm->rank == root) {
        call.send = read_from(buffer, (size_t)count, type);
        call.alias = SHIM_RECV_IN_SEND;
    } else {
        call.recv = write_to(buffer, (size_t)count, type);
    }
    if (shim_call_runs(&call, call.count, &result))
        return result;
    return PMPI_Bcast(buffer, count, type, root, handle);
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                  MPI_Datatype recv_type, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_ALLGATHER};
    int result;
    if (!moves(&call, recv_count, recv_type, handle))
        return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, handle);
    size_t ranks = (size_t)call.comm->rank_count;
    call.count = shim_type_bytes((size_t)recv_count, recv_type);
    call.recv = write_to(recv, ranks * (size_t)recv_count, recv_type);
    give(&call, send, (size_t)send_count, send_type);
    if (shim_call_runs(&call, ranks * call.count, &result))
        return result;
    return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, handle);
}

static size_t sum_of(const int *counts, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (size_t)counts[i];
    return sum;
}

int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   const int *recv_counts, const int *displacements, MPI_Datatype recv_type, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_ALLGATHERV, .counts = recv_counts};
    int result;
    if (!moves(&call, 0, recv_type, handle))
        return PMPI_Allgatherv(send, send_count, send_type, recv, recv_counts, displacements, recv_type,
                               handle);
    call.recv = write_to(recv, sum_of(recv_counts, call.comm->rank_count), recv_type);
    call.recv.counts = recv_counts;
    call.recv.displacements = displacements;
    call.recv.block_count = call.comm->rank_count;
    call.unit = shim_type_bytes(1, recv_type);
    give(&call, send, (size_t)send_count, send_type);
    if (shim_call_runs(&call, shim_type_bytes(call.recv.count, recv_type), &result))
        return result;
    return PMPI_Allgatherv(send, send_count, send_type, recv, recv_counts, displacements, recv_type, handle);
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_REDUCE_SCATTER};
    int result;
    if (send == MPI_IN_PLACE || !reduces(&call, count, type, op, handle))
        return PMPI_Reduce_scatter_block(send, recv, count, type, op, handle);
    size_t all = (size_t)call.comm->rank_count * call.count;
    call.send = read_from(send, all, type);
    call.recv = write_to(recv, call.count, type);
    align(&call, type);
    if (shim_call_runs(&call, shim_type_bytes(all, type), &result))
        return result;
    return PMPI_Reduce_scatter_block(send, recv, count, type, op, handle);
}

/* A rank that gets nothing need not say MPI_IN_PLACE where others do, so this is no reason to leave it to
 * MPI. All blocks then lie in the buffer that is written, from its start on. */
int MPI_Reduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type, MPI_Op op,
                       MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_REDUCE_SCATTER, .counts = counts, .unit = 1};
    int result;
    if (!reduces(&call, 0, type, op, handle))
        return PMPI_Reduce_scatter(send, recv, counts, type, op, handle);
    size_t all = sum_of(counts, call.comm->rank_count);
    call.send = read_from(send == MPI_IN_PLACE ? recv : send, all, type);
    call.send.is_overwritten = send == MPI_IN_PLACE;
    call.recv = write_to(recv, (size_t)counts[call.comm->rank], type);
    align(&call, type);
    if (shim_call_runs(&call, shim_type_bytes(all, type), &result))
        return result;
    return PMPI_Reduce_scatter(send, recv, counts, type, op, handle);
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                 MPI_Datatype recv_type, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_ALLTOALL};
    int result;
    if (send == MPI_IN_PLACE || !moves(&call, recv_count, recv_type, handle))
        return PMPI_Alltoall(send, send_count, send_type, recv, recv_count, recv_type, handle);
    size_t ranks = (size_t)call.comm->rank_count;
    call.count = shim_type_bytes((size_t)recv_count, recv_type);
    call.send = read_from(send, ranks * (size_t)send_count, send_type);
    call.recv = write_to(recv, ranks * (size_t)recv_count, recv_type);
    if (shim_call_runs(&call, ranks * call.count, &result))
        return result;
    return PMPI_Alltoall(send, send_count, send_type, recv, recv_count, recv_type, handle);
}

/* Only the root's arguments are known to be good for the root's buffer, and so on: whose bytes count depends
 * on the rank, but they are the same number. */
int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
               MPI_Datatype recv_type, int root, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_GATHER, .root = root};
    int result;
    if (!moves(&call, 0, MPI_BYTE, handle))
        return PMPI_Gather(send, send_count, send_type, recv, recv_count, recv_type, root, handle);
    size_t ranks = (size_t)call.comm->rank_count;
    if (call.comm->rank == root) {
        call.recv = write_to(recv, ranks * (size_t)recv_count, recv_type);
        call.count = shim_type_bytes((size_t)recv_count, recv_type);
    } else {
        call.count = shim_type_bytes((size_t)send_count, send_type);
    }
    give(&call, send, (size_t)send_count, send_type);
    if (shim_call_runs(&call, ranks * call.count, &result))
        return result;
    return PMPI_Gather(send, send_count, send_type, recv, recv_count, recv_type, root, handle);
}

int MPI_Scatter(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                MPI_Datatype recv_type, int root, MPI_Comm handle)
{
    shim_call_t call = {.collective = SHIM_SCATTER, .root = root};
    int result;
    if (!moves(&call, 0, MPI_BYTE, handle))
        return PMPI_Scatter(send, send_count, send_type, recv, recv_count, recv_type, root, handle);
    size_t ranks = (size_t)call.comm->rank_count;
    if (call.comm->rank == root) {
        call.send = read_from(send, ranks * (size_t)send_count, send_type);
        call.count = shim_type_bytes((size_t)send_count, send_type);
    } else {
        call.count = shim_type_bytes((size_t)recv_count, recv_type);
    }
    if (recv == MPI_IN_PLACE)
        call.alias = SHIM_RECV_IN_SEND;
    else
        call.recv = write_to(recv, (size_t)recv_count, recv_type);
    if (shim_call_runs(&call, ranks * call.count, &result))
        return result;
    return PMPI_Scatter(send, send_count, send_type, recv, recv_count, recv_type, root, handle);
}
