/* One line for every call of the library. */
#include "submit.h"

#include "library.h"

#define SUBMIT(name, ...)                                                                                    \
    static blink_result_t name(const perf_call_t *c, blink_op_t **op)                                        \
    {                                                                                                        \
        return __VA_ARGS__;                                                                                  \
    }

SUBMIT(all_reduce, blink_all_reduce(c->send, c->recv, c->shape.count, c->datatype, c->redop, c->comm, op))
SUBMIT(broadcast,
       blink_broadcast(c->send, c->recv, c->shape.count, c->datatype, (int)c->shape.root, c->comm, op))
SUBMIT(reduce,
       blink_reduce(c->send, c->recv, c->shape.count, c->datatype, c->redop, (int)c->shape.root, c->comm, op))
SUBMIT(all_gather, blink_all_gather(c->send, c->recv, c->shape.count, c->datatype, c->comm, op))
SUBMIT(reduce_scatter,
       blink_reduce_scatter(c->send, c->recv, c->shape.count, c->datatype, c->redop, c->comm, op))
SUBMIT(gather, blink_gather(c->send, c->recv, c->shape.count, c->datatype, (int)c->shape.root, c->comm, op))
SUBMIT(scatter, blink_scatter(c->send, c->recv, c->shape.count, c->datatype, (int)c->shape.root, c->comm, op))
SUBMIT(all_to_all, blink_all_to_all(c->send, c->recv, c->shape.count, c->datatype, c->comm, op))
SUBMIT(barrier, blink_barrier(c->comm, op))

static blink_result_t all_to_all_v(const perf_call_t *c, blink_op_t **op)
{
    uint32_t n = c->shape.rank_count;
    return blink_all_to_all_v(c->send, c->lengths, c->lengths + n, c->recv, c->lengths + 2 * n,
                              c->lengths + 3 * n, c->datatype, c->comm, op);
}

/* A failure of a call in a group is the group's: blink_group_end() returns it. */
static blink_result_t send_recv(const perf_call_t *c, blink_op_t **op)
{
    uint32_t rank = c->shape.rank, n = c->shape.rank_count;
    BLINK_TRY(blink_group_start());
    blink_send(c->send, c->shape.count, c->datatype, (int)((rank + 1) % n), c->comm, NULL);
    blink_recv(c->recv, c->shape.count, c->datatype, (int)((rank + n - 1) % n), c->comm, NULL);
    return blink_group_end(op);
}

static blink_result_t (*const submit[])(const perf_call_t *call, blink_op_t **op) = {
    [PERF_ALLREDUCE] = all_reduce,
    [PERF_BROADCAST] = broadcast,
    [PERF_REDUCE] = reduce,
    [PERF_ALLGATHER] = all_gather,
    [PERF_REDUCESCATTER] = reduce_scatter,
    [PERF_GATHER] = gather,
    [PERF_SCATTER] = scatter,
    [PERF_ALLTOALL] = all_to_all,
    [PERF_ALLTOALLV] = all_to_all_v,
    [PERF_SENDRECV] = send_recv,
    [PERF_BARRIER] = barrier,
};

void perf_call_lengths(const perf_shape_t *shape, size_t *lengths)
{
    uint32_t n = shape->rank_count;
    size_t *sent = lengths, *send_at = lengths + n, *received = lengths + 2 * n, *recv_at = lengths + 3 * n;
    if (!perf_collective_is_uneven(shape->collective))
        return;
    for (uint32_t peer = 0; peer < n; peer++) {
        sent[peer] = perf_pair_count(shape, shape->rank, peer);
        received[peer] = perf_pair_count(shape, peer, shape->rank);
        send_at[peer] = peer == 0 ? 0 : send_at[peer - 1] + sent[peer - 1];
        recv_at[peer] = peer == 0 ? 0 : recv_at[peer - 1] + received[peer - 1];
    }
}

blink_result_t perf_submit(const perf_call_t *calls, uint32_t count, blink_op_t **op)
{
    perf_collective_t collective = calls[0].shape.collective;
    if (count == 1) {
        LIBRARY_TRY(submit[collective](&calls[0], op));
        return BLINK_OK;
    }
    LIBRARY_TRY(blink_group_start());
    for (uint32_t i = 0; i < count; i++)
        submit[collective](&calls[i], NULL);
    LIBRARY_TRY(blink_group_end(op));
    return BLINK_OK;
}
