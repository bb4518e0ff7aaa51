/* Collectives, sends and receives, and the empty operation. */
#include "api/submission.h"

#include "api/group.h"
#include "context/context.h"

blink_result_t blink_all_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_redop_t redop, blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_ALLREDUCE, send, recv, count, datatype, redop, 0, comm, op, false, NULL});
}

blink_result_t blink_broadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_BROADCAST, send, recv, count, datatype, 0, root, comm, op, false, NULL});
}

blink_result_t blink_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                            blink_redop_t redop, int root, blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_REDUCE, send, recv, count, datatype, redop, root, comm, op, false, NULL});
}

blink_result_t blink_all_gather(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_ALLGATHER, send, recv, count, datatype, 0, 0, comm, op, false, NULL});
}

blink_result_t blink_reduce_scatter(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                    blink_redop_t redop, blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_REDUCESCATTER, send, recv, count, datatype, redop, 0, comm, op, false, NULL});
}

blink_result_t blink_gather(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                            blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_GATHER, send, recv, count, datatype, 0, root, comm, op, false, NULL});
}

blink_result_t blink_scatter(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                             blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(
        &(call_t){RING_OP_SCATTER, send, recv, count, datatype, 0, root, comm, op, false, NULL});
}

blink_result_t blink_all_to_all(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(&(call_t){RING_OP_ALLTOALL, send, recv, count, datatype, 0, 0, comm, op, false, NULL});
}

blink_result_t blink_send(const void *send, size_t count, blink_datatype_t datatype, int peer,
                          blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(&(call_t){RING_OP_SEND, send, NULL, count, datatype, 0, peer, comm, op, false, NULL});
}

blink_result_t blink_recv(void *recv, size_t count, blink_datatype_t datatype, int peer, blink_comm_t *comm,
                          blink_op_t **op)
{
    return call_submit(&(call_t){RING_OP_RECV, NULL, recv, count, datatype, 0, peer, comm, op, false, NULL});
}

blink_result_t blink_barrier(blink_comm_t *comm, blink_op_t **op)
{
    return call_submit(&(call_t){.opcode = RING_OP_BARRIER, .comm = comm, .op = op});
}

/* ---- in the order of streams ---- */

blink_result_t blink_all_reduce_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                   blink_redop_t redop, blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_ALLREDUCE, send, recv, count, datatype, redop, 0, comm, NULL, true, stream});
}

blink_result_t blink_broadcast_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                  int root, blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_BROADCAST, send, recv, count, datatype, 0, root, comm, NULL, true, stream});
}

blink_result_t blink_reduce_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               blink_redop_t redop, int root, blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_REDUCE, send, recv, count, datatype, redop, root, comm, NULL, true, stream});
}

blink_result_t blink_all_gather_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                   blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_ALLGATHER, send, recv, count, datatype, 0, 0, comm, NULL, true, stream});
}

blink_result_t blink_reduce_scatter_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                       blink_redop_t redop, blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_REDUCESCATTER, send, recv, count, datatype, redop, 0, comm, NULL, true, stream});
}

blink_result_t blink_gather_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_GATHER, send, recv, count, datatype, 0, root, comm, NULL, true, stream});
}

blink_result_t blink_scatter_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                int root, blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_SCATTER, send, recv, count, datatype, 0, root, comm, NULL, true, stream});
}

blink_result_t blink_all_to_all_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                   blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_ALLTOALL, send, recv, count, datatype, 0, 0, comm, NULL, true, stream});
}

blink_result_t blink_send_on(const void *send, size_t count, blink_datatype_t datatype, int peer,
                             blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_SEND, send, NULL, count, datatype, 0, peer, comm, NULL, true, stream});
}

blink_result_t blink_recv_on(void *recv, size_t count, blink_datatype_t datatype, int peer,
                             blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){RING_OP_RECV, NULL, recv, count, datatype, 0, peer, comm, NULL, true, stream});
}

blink_result_t blink_barrier_on(blink_comm_t *comm, blink_stream_t stream)
{
    return call_submit(
        &(call_t){.opcode = RING_OP_BARRIER, .comm = comm, .on_stream = true, .stream = stream});
}

/* ---- of the context ---- */

static blink_result_t submit_nop(blink_context_t *context, blink_op_t **op)
{
    ring_sqe_t sqe = {.opcode = RING_OP_NOP};
    BLINK_TRY(call_check_handle("blink_nop", context, "context", op));
    return call_hand_over(&context->ops, &context->ops.nops, &sqe, NULL, op);
}

blink_result_t blink_nop(blink_context_t *context, blink_op_t **op)
{
    return CALL_RESULT(group_note(submit_nop(context, op)));
}
