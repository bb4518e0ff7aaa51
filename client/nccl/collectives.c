/* Collectives, sends and receives: those of libblinkclient in the order of a stream. */
#include "comm.h"
#include "group.h"

typedef enum kind {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    SEND,
    RECV
} kind_t;

typedef struct call {
    const char *name;
    kind_t kind;
    const void *send;
    void *recv;
    size_t count;
    blink_datatype_t datatype;
    blink_redop_t redop;
    int root; /* or peer */
    nccl_comm_t *comm;
    blink_stream_t stream;
} call_t;

static blink_result_t hand_over(const call_t *c, blink_redop_t redop)
{
    blink_comm_t *comm = c->comm->comm;
    switch (c->kind) {
    case ALL_REDUCE:
        return blink_all_reduce_on(c->send, c->recv, c->count, c->datatype, redop, comm, c->stream);
    case BROADCAST:
        return blink_broadcast_on(c->send, c->recv, c->count, c->datatype, c->root, comm, c->stream);
    case REDUCE:
        return blink_reduce_on(c->send, c->recv, c->count, c->datatype, redop, c->root, comm, c->stream);
    case ALL_GATHER:
        return blink_all_gather_on(c->send, c->recv, c->count, c->datatype, comm, c->stream);
    case REDUCE_SCATTER:
        return blink_reduce_scatter_on(c->send, c->recv, c->count, c->datatype, redop, comm, c->stream);
    case GATHER:
        return blink_gather_on(c->send, c->recv, c->count, c->datatype, c->root, comm, c->stream);
    case SCATTER:
        return blink_scatter_on(c->send, c->recv, c->count, c->datatype, c->root, comm, c->stream);
    case ALL_TO_ALL:
        return blink_all_to_all_on(c->send, c->recv, c->count, c->datatype, comm, c->stream);
    case SEND:
        return blink_send_on(c->send, c->count, c->datatype, c->root, comm, c->stream);
    case RECV:
        break;
    }
    return blink_recv_on(c->recv, c->count, c->datatype, c->root, comm, c->stream);
}

/* With the rank's GPU current. */
static abi_result_t submit_there(const call_t *call)
{
    blink_redop_t redop;
    bool made;
    NCCL_TRY(nccl_group_enter(&call->comm->gpu, call->stream));
    NCCL_TRY(nccl_redop_resolve(call->comm, call->redop, call->stream, &redop, &made));
    abi_result_t result = nccl_result(hand_over(call, redop));
    if (made)
        (void)blink_redop_destroy(call->comm->comm, redop); /* what was submitted keeps the scalar */
    return result;
}

static abi_result_t submit_entered(const call_t *call)
{
    bool entered;
    NCCL_TRY(nccl_gpu_enter(&call->comm->gpu, &entered));
    abi_result_t result = submit_there(call);
    nccl_gpu_leave(entered);
    return result;
}

static abi_result_t submit(const call_t *call)
{
    NCCL_TRY(nccl_group_note(nccl_comm_enter(call->comm, call->name)));
    abi_result_t result = nccl_group_note(submit_entered(call));
    nccl_comm_leave(call->comm);
    return result;
}

abi_result_t ncclAllReduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                           blink_redop_t redop, nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, ALL_REDUCE, send, recv, count, datatype, redop, 0, comm, stream});
}

abi_result_t ncclBroadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                           nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, BROADCAST, send, recv, count, datatype, 0, root, comm, stream});
}

abi_result_t ncclBcast(void *buffer, size_t count, blink_datatype_t datatype, int root, nccl_comm_t *comm,
                       blink_stream_t stream)
{
    return submit(&(call_t){__func__, BROADCAST, buffer, buffer, count, datatype, 0, root, comm, stream});
}

abi_result_t ncclReduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                        blink_redop_t redop, int root, nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, REDUCE, send, recv, count, datatype, redop, root, comm, stream});
}

abi_result_t ncclAllGather(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                           nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, ALL_GATHER, send, recv, count, datatype, 0, 0, comm, stream});
}

abi_result_t ncclReduceScatter(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               blink_redop_t redop, nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, REDUCE_SCATTER, send, recv, count, datatype, redop, 0, comm, stream});
}

abi_result_t ncclGather(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                        nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, GATHER, send, recv, count, datatype, 0, root, comm, stream});
}

abi_result_t ncclScatter(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                         nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, SCATTER, send, recv, count, datatype, 0, root, comm, stream});
}

abi_result_t ncclAlltoAll(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                          nccl_comm_t *comm, blink_stream_t stream)
{
    return submit(&(call_t){__func__, ALL_TO_ALL, send, recv, count, datatype, 0, 0, comm, stream});
}

abi_result_t ncclSend(const void *send, size_t count, blink_datatype_t datatype, int peer, nccl_comm_t *comm,
                      blink_stream_t stream)
{
    return submit(&(call_t){__func__, SEND, send, NULL, count, datatype, 0, peer, comm, stream});
}

abi_result_t ncclRecv(void *recv, size_t count, blink_datatype_t datatype, int peer, nccl_comm_t *comm,
                      blink_stream_t stream)
{
    return submit(&(call_t){__func__, RECV, NULL, recv, count, datatype, 0, peer, comm, stream});
}
