/* Collectives, sends and receives: the functions of the interface, and the one way by which they are submitted. */
#include "collective.h"

#include "comm.h"
#include "context.h"
#include "group.h"

/* In a group the handle is blink_group_end()'s. */
static blink_result_t check_handle(const char *name, const void *object, const char *what, blink_op_t **op)
{
    if (!object)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: %s is NULL", name, what);
    if (!op && !group_active())
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: op is NULL", name);
    if (op && group_active())
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: op is not NULL in a group", name);
    return BLINK_OK;
}

/* Find the regions of the buffers, and a window for those that lie in none. */
static blink_result_t place_buffers(blink_comm_t *comm, const buffer_t *in, const buffer_t *out,
                                    ring_sqe_t *sqe, staging_transfer_t **transfer)
{
    regions_t *regions = &comm->context->regions;
    staging_side_t in_side = {0}, out_side = {0};
    if (in->bytes > 0)
        BLINK_TRY(regions_resolve(regions, in->what, in->pointer, in->bytes, &sqe->in_region,
                                  &sqe->in_offset_bytes));
    if (out->bytes > 0)
        BLINK_TRY(regions_resolve(regions, out->what, out->pointer, out->bytes, &sqe->out_region,
                                  &sqe->out_offset_bytes));
    if (in->bytes > 0 && sqe->in_region == 0)
        in_side = (staging_side_t){.user = (char *)(uintptr_t)in->pointer, .blocks = in->blocks};
    if (out->bytes > 0 && sqe->out_region == 0)
        out_side = (staging_side_t){.user = (char *)(uintptr_t)out->pointer, .blocks = out->blocks};
    if (!in_side.user && !out_side.user)
        return BLINK_OK;
    return staging_reserve(comm->context, comm->rank_count, &in_side, &out_side, sqe, transfer);
}

static blink_result_t hand_over(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, staging_transfer_t *transfer,
                                blink_op_t **op)
{
    blink_result_t result;
    if (group_active()) {
        result = group_add(ops, queue, sqe, transfer);
    } else {
        staging_fill(transfer);
        result = ops_submit(ops, queue, &(ops_run_t){.sqes = sqe, .count = 1, .transfers = transfer}, op);
    }
    if (result != BLINK_OK && transfer)
        staging_release(&ops->staging, transfer);
    return result;
}

static blink_result_t submit(const call_t *call)
{
    blink_comm_t *comm = call->comm;
    ring_sqe_t sqe;
    buffer_t in, out;
    staging_transfer_t *transfer = NULL;
    BLINK_TRY(check_handle(call_name(call->opcode), comm, "comm", call->op));
    /* Acquire: pairs with the store in blink_comm_finalize(). */
    if (atomic_load_explicit(&comm->finalized, memory_order_acquire))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: the communicator has been finalized",
                          call_name(call->opcode));
    BLINK_TRY(call_check(call, &sqe, &in, &out));
    BLINK_TRY(place_buffers(comm, &in, &out, &sqe, &transfer));
    return hand_over(&comm->context->ops, &comm->queue, &sqe, transfer, call->op);
}

blink_result_t collective_submit(const call_t *call)
{
    return group_note(submit(call));
}

blink_result_t blink_all_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_redop_t redop, blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_ALLREDUCE, send, recv, count, datatype, redop, 0, comm, op});
}

blink_result_t blink_broadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_BROADCAST, send, recv, count, datatype, 0, root, comm, op});
}

blink_result_t blink_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                            blink_redop_t redop, int root, blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_REDUCE, send, recv, count, datatype, redop, root, comm, op});
}

blink_result_t blink_all_gather(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_ALLGATHER, send, recv, count, datatype, 0, 0, comm, op});
}

blink_result_t blink_reduce_scatter(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                    blink_redop_t redop, blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(
        &(call_t){RING_OP_REDUCESCATTER, send, recv, count, datatype, redop, 0, comm, op});
}

blink_result_t blink_gather(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                            blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_GATHER, send, recv, count, datatype, 0, root, comm, op});
}

blink_result_t blink_scatter(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                             blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_SCATTER, send, recv, count, datatype, 0, root, comm, op});
}

blink_result_t blink_all_to_all(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_ALLTOALL, send, recv, count, datatype, 0, 0, comm, op});
}

blink_result_t blink_send(const void *send, size_t count, blink_datatype_t datatype, int peer,
                          blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_SEND, send, NULL, count, datatype, 0, peer, comm, op});
}

blink_result_t blink_recv(void *recv, size_t count, blink_datatype_t datatype, int peer, blink_comm_t *comm,
                          blink_op_t **op)
{
    return collective_submit(&(call_t){RING_OP_RECV, NULL, recv, count, datatype, 0, peer, comm, op});
}

blink_result_t blink_barrier(blink_comm_t *comm, blink_op_t **op)
{
    return collective_submit(&(call_t){.opcode = RING_OP_BARRIER, .comm = comm, .op = op});
}

static blink_result_t submit_nop(blink_context_t *context, blink_op_t **op)
{
    ring_sqe_t sqe = {.opcode = RING_OP_NOP};
    BLINK_TRY(check_handle("blink_nop", context, "context", op));
    return hand_over(&context->ops, &context->ops.nops, &sqe, NULL, op);
}

blink_result_t blink_nop(blink_context_t *context, blink_op_t **op)
{
    return group_note(submit_nop(context, op));
}
