/* One line for every call of the library. */
#include "ranks/submit.h"

#include "library.h"

/* A call and its form on a stream: the same arguments but the last. */
#define SUBMIT(name, ...)                                                                                    \
    static blink_result_t name(const perf_call_t *c, const perf_way_t *way)                                  \
    {                                                                                                        \
        return way->on_stream ? blink_##name##_on(__VA_ARGS__, way->stream)                                  \
                              : blink_##name(__VA_ARGS__, way->op);                                          \
    }

SUBMIT(all_reduce, c->send, c->recv, c->shape.count, c->datatype, c->redop, c->comm)
SUBMIT(broadcast, c->send, c->recv, c->shape.count, c->datatype, (int)c->shape.root, c->comm)
SUBMIT(reduce, c->send, c->recv, c->shape.count, c->datatype, c->redop, (int)c->shape.root, c->comm)
SUBMIT(all_gather, c->send, c->recv, c->shape.count, c->datatype, c->comm)
SUBMIT(reduce_scatter, c->send, c->recv, c->shape.count, c->datatype, c->redop, c->comm)
SUBMIT(gather, c->send, c->recv, c->shape.count, c->datatype, (int)c->shape.root, c->comm)
SUBMIT(scatter, c->send, c->recv, c->shape.count, c->datatype, (int)c->shape.root, c->comm)
SUBMIT(all_to_all, c->send, c->recv, c->shape.count, c->datatype, c->comm)
SUBMIT(barrier, c->comm)
SUBMIT(send, c->send, c->shape.count, c->datatype, (int)((c->shape.rank + 1) % c->shape.rank_count), c->comm)
SUBMIT(recv, c->recv, c->shape.count, c->datatype,
       (int)((c->shape.rank + c->shape.rank_count - 1) % c->shape.rank_count), c->comm)

/* Lengths, as perf_call_lengths() has them. */
SUBMIT(all_gather_v, c->send, c->lengths[c->shape.rank], c->recv, c->lengths,
       c->lengths + c->shape.rank_count, c->datatype, c->comm)
SUBMIT(reduce_scatter_v, c->send, c->lengths, c->lengths + c->shape.rank_count, c->recv,
       c->lengths[c->shape.rank], c->datatype, c->redop, c->comm)
SUBMIT(gather_v, c->send, c->lengths[c->shape.rank], c->recv, c->lengths, c->lengths + c->shape.rank_count,
       c->datatype, (int)c->shape.root, c->comm)
SUBMIT(scatter_v, c->send, c->lengths, c->lengths + c->shape.rank_count, c->recv, c->lengths[c->shape.rank],
       c->datatype, (int)c->shape.root, c->comm)
SUBMIT(all_to_all_v, c->send, c->lengths, c->lengths + c->shape.rank_count, c->recv,
       c->lengths + 2 * c->shape.rank_count, c->lengths + 3 * c->shape.rank_count, c->datatype, c->comm)

static perf_way_t within_group(const perf_way_t *way)
{
    return (perf_way_t){.on_stream = way->on_stream, .stream = way->stream};
}

/* A failure of a call in a group is the group's: blink_group_end() returns it. */
static blink_result_t send_recv(const perf_call_t *c, const perf_way_t *way)
{
    perf_way_t within = within_group(way);
    BLINK_TRY(blink_group_start());
    send(c, &within);
    recv(c, &within);
    return blink_group_end(way->op);
}

static blink_result_t (*const submit[])(const perf_call_t *call, const perf_way_t *way) = {
    [PERF_ALLREDUCE] = all_reduce,
    [PERF_BROADCAST] = broadcast,
    [PERF_REDUCE] = reduce,
    [PERF_ALLGATHER] = all_gather,
    [PERF_REDUCESCATTER] = reduce_scatter,
    [PERF_GATHER] = gather,
    [PERF_SCATTER] = scatter,
    [PERF_ALLTOALL] = all_to_all,
    [PERF_SENDRECV] = send_recv,
    [PERF_BARRIER] = barrier,
    [PERF_ALLGATHERV] = all_gather_v,
    [PERF_REDUCESCATTERV] = reduce_scatter_v,
    [PERF_GATHERV] = gather_v,
    [PERF_SCATTERV] = scatter_v,
    [PERF_ALLTOALLV] = all_to_all_v,
};

static void all_to_all_v_lengths(const perf_shape_t *shape, size_t *lengths)
{
    uint32_t n = shape->rank_count;
    size_t *sent = lengths, *send_at = lengths + n, *received = lengths + 2 * n, *recv_at = lengths + 3 * n;
    for (uint32_t peer = 0; peer < n; peer++) {
        sent[peer] = perf_pair_count(shape, shape->rank, peer);
        received[peer] = perf_pair_count(shape, peer, shape->rank);
        send_at[peer] = peer == 0 ? 0 : send_at[peer - 1] + sent[peer - 1];
        recv_at[peer] = peer == 0 ? 0 : recv_at[peer - 1] + received[peer - 1];
    }
}

void perf_call_lengths(const perf_shape_t *shape, size_t *lengths)
{
    if (shape->collective == PERF_ALLTOALLV) {
        all_to_all_v_lengths(shape, lengths);
        return;
    }
    for (uint32_t rank = 0; rank < shape->rank_count; rank++) {
        lengths[rank] = perf_block_count(shape, rank);
        lengths[shape->rank_count + rank] = perf_block_start(shape, rank);
    }
}

blink_result_t perf_submit(const perf_call_t *calls, uint32_t count, const perf_way_t *way)
{
    perf_collective_t collective = calls[0].shape.collective;
    if (count == 1) {
        LIBRARY_TRY(submit[collective](&calls[0], way));
        return BLINK_OK;
    }
    perf_way_t within = within_group(way);
    LIBRARY_TRY(blink_group_start());
    for (uint32_t i = 0; i < count; i++)
        submit[collective](&calls[i], &within);
    LIBRARY_TRY(blink_group_end(way->op));
    return BLINK_OK;
}
