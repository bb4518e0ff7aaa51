/* Collectives whose blocks differ in length. Each is a group of ops that the daemon knows. */
#include "api/blocks.h"
#include "api/group.h"
#include "api/submission.h"
#include "context/comm.h"

/* One call, as this rank makes it. */
typedef struct uneven {
    const char *name;
    blocks_t send, recv; /* one for each rank, or one alone, which is the root's or for all */
    call_t common;       /* what all ops of the group share */
    bool has_in_place;
    bool in_place; /* this rank's own block is sent from where it is received */
} uneven_t;

/* How the group is submitted: for an op that is waited for, or on a stream. */
typedef struct way {
    blink_op_t **op;
    bool on_stream;
    blink_stream_t stream;
} way_t;

static const size_t no_offset = 0;

static blocks_t one_block(const char *what, const void *base, const size_t *count)
{
    return (blocks_t){what, base, 1, count, &no_offset};
}

static blocks_t block_of_each(const char *what, const void *base, const size_t *counts, const size_t *offsets,
                              const blink_comm_t *comm)
{
    return (blocks_t){what, base, comm ? comm->rank_count : 0, counts, offsets};
}

static blocks_t only_at_root(blocks_t blocks, int root, const blink_comm_t *comm)
{
    return comm && (uint32_t)root == comm->rank ? blocks : (blocks_t){.what = blocks.what};
}

/* ---- the ops of a group ----
 *
 * An empty block has its op, too: what the ranks expect is compared.
 */

static blink_result_t broadcast_each(const uneven_t *uneven)
{
    call_t call = uneven->common;
    call.opcode = RING_OP_BROADCAST;
    for (uint32_t root = 0; root < call.comm->rank_count; root++) {
        call.root = (int)root;
        call.count = uneven->recv.counts[root];
        call.send = root == call.comm->rank ? blocks_at(&uneven->send, 0, call.datatype) : NULL;
        call.recv = (void *)(uintptr_t)blocks_at(&uneven->recv, root, call.datatype);
        BLINK_TRY(call_enter(&call));
    }
    return BLINK_OK;
}

static blink_result_t reduce_each(const uneven_t *uneven)
{
    call_t call = uneven->common;
    call.opcode = RING_OP_REDUCE;
    for (uint32_t root = 0; root < call.comm->rank_count; root++) {
        call.root = (int)root;
        call.count = uneven->send.counts[root];
        call.send = blocks_at(&uneven->send, root, call.datatype);
        call.recv = root == call.comm->rank ? (void *)(uintptr_t)uneven->recv.base : NULL;
        BLINK_TRY(call_enter(&call));
    }
    return BLINK_OK;
}

/* One end of a transfer, if there is one with this peer. */
static blink_result_t transfer(const uneven_t *uneven, uint8_t opcode, uint32_t peer)
{
    call_t call = uneven->common;
    const blocks_t *blocks = opcode == RING_OP_SEND ? &uneven->send : &uneven->recv;
    uint32_t block = blocks->block_count > 1 ? peer : 0;
    if (blocks->block_count == 0 || (blocks->block_count == 1 && peer != (uint32_t)call.root))
        return BLINK_OK;
    call.opcode = opcode;
    call.root = (int)peer;
    if (!uneven->in_place || peer != call.comm->rank) {
        call.count = blocks->counts[block];
        call.send = blocks_at(blocks, block, call.datatype);
        call.recv = (void *)(uintptr_t)call.send;
    }
    return call_enter(&call);
}

static blink_result_t transfer_each(const uneven_t *uneven)
{
    for (uint32_t peer = 0; peer < uneven->common.comm->rank_count; peer++) {
        BLINK_TRY(transfer(uneven, RING_OP_SEND, peer));
        BLINK_TRY(transfer(uneven, RING_OP_RECV, peer));
    }
    return BLINK_OK;
}

/* ---- checks ---- */

/* The block that this rank gives itself is there twice, and may be there in one place. */
static blink_result_t check_own_block(uneven_t *uneven)
{
    const blocks_t *send = &uneven->send, *recv = &uneven->recv;
    uint32_t rank = uneven->common.comm->rank;
    uint32_t sent = send->block_count > 1 ? rank : 0, received = recv->block_count > 1 ? rank : 0;
    if (!uneven->has_in_place || send->block_count == 0 || recv->block_count == 0)
        return blocks_check_overlap(send, recv, send->block_count, uneven->common.datatype);
    if (send->counts[sent] != recv->counts[received])
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s: the block of rank %u, this one, has %zu elements in send and %zu in recv",
                          uneven->name, rank, send->counts[sent], recv->counts[received]);
    uneven->in_place = blocks_coincide(send, sent, recv, received, uneven->common.datatype);
    return blocks_check_overlap(send, recv, uneven->in_place ? sent : send->block_count,
                                uneven->common.datatype);
}

static blink_result_t check(uneven_t *uneven, blink_op_t **op)
{
    const call_t *common = &uneven->common;
    BLINK_TRY(call_check_handle(uneven->name, common->comm, "comm", op));
    BLINK_TRY(comm_check_ready(common->comm, uneven->name));
    if (common->root < 0 || (uint32_t)common->root >= common->comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: root %d is not among %u ranks", uneven->name,
                          common->root, common->comm->rank_count);
    BLINK_TRY(blocks_check(uneven->name, &uneven->send, common->datatype));
    BLINK_TRY(blocks_check(uneven->name, &uneven->recv, common->datatype));
    return check_own_block(uneven);
}

/* ---- submitting ---- */

typedef blink_result_t (*submit_each_t)(const uneven_t *uneven);

static blink_result_t submit_as_group(uneven_t *uneven, submit_each_t each, blink_op_t **op)
{
    blink_result_t result = check(uneven, op);
    if (result != BLINK_OK)
        return group_note(result);
    BLINK_TRY(blink_group_start());
    result = each(uneven);
    /* If it is not the outermost end, the failure of an op has failed the group already. */
    blink_result_t ended = group_end(op);
    return result != BLINK_OK ? result : ended;
}

static blink_result_t enter(uneven_t *uneven, submit_each_t each, way_t way)
{
    uneven->common.on_stream = way.on_stream;
    uneven->common.stream = way.stream;
    if (!way.on_stream || group_active())
        return submit_as_group(uneven, each, way.op);
    /* On a stream there is no op, which a call outside of a group would have to name. */
    BLINK_TRY(blink_group_start());
    (void)submit_as_group(uneven, each, NULL);
    return group_end(NULL);
}

static blink_result_t submit(uneven_t uneven, submit_each_t each, way_t way)
{
    return debug_result(uneven.name, enter(&uneven, each, way));
}

/* ---- the interface ---- */

static blink_result_t all_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                                   const size_t *recv_offsets, blink_datatype_t datatype, blink_comm_t *comm,
                                   way_t way)
{
    return submit((uneven_t){.name = "blink_all_gather_v",
                             .send = one_block("send", send, &send_count),
                             .recv = block_of_each("recv", recv, recv_counts, recv_offsets, comm),
                             .common = {.datatype = datatype, .comm = comm},
                             .has_in_place = true},
                  broadcast_each, way);
}

blink_result_t blink_all_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                                  const size_t *recv_offsets, blink_datatype_t datatype, blink_comm_t *comm,
                                  blink_op_t **op)
{
    return all_gather_v(send, send_count, recv, recv_counts, recv_offsets, datatype, comm, (way_t){.op = op});
}

blink_result_t blink_all_gather_v_on(const void *send, size_t send_count, void *recv,
                                     const size_t *recv_counts, const size_t *recv_offsets,
                                     blink_datatype_t datatype, blink_comm_t *comm, blink_stream_t stream)
{
    return all_gather_v(send, send_count, recv, recv_counts, recv_offsets, datatype, comm,
                        (way_t){.on_stream = true, .stream = stream});
}

static blink_result_t reduce_scatter_v(const void *send, const size_t *send_counts,
                                       const size_t *send_offsets, void *recv, size_t recv_count,
                                       blink_datatype_t datatype, blink_redop_t redop, blink_comm_t *comm,
                                       way_t way)
{
    return submit((uneven_t){.name = "blink_reduce_scatter_v",
                             .send = block_of_each("send", send, send_counts, send_offsets, comm),
                             .recv = one_block("recv", recv, &recv_count),
                             .common = {.datatype = datatype, .redop = redop, .comm = comm},
                             .has_in_place = true},
                  reduce_each, way);
}

blink_result_t blink_reduce_scatter_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                      void *recv, size_t recv_count, blink_datatype_t datatype,
                                      blink_redop_t redop, blink_comm_t *comm, blink_op_t **op)
{
    return reduce_scatter_v(send, send_counts, send_offsets, recv, recv_count, datatype, redop, comm,
                            (way_t){.op = op});
}

blink_result_t blink_reduce_scatter_v_on(const void *send, const size_t *send_counts,
                                         const size_t *send_offsets, void *recv, size_t recv_count,
                                         blink_datatype_t datatype, blink_redop_t redop, blink_comm_t *comm,
                                         blink_stream_t stream)
{
    return reduce_scatter_v(send, send_counts, send_offsets, recv, recv_count, datatype, redop, comm,
                            (way_t){.on_stream = true, .stream = stream});
}

static blink_result_t gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                               const size_t *recv_offsets, blink_datatype_t datatype, int root,
                               blink_comm_t *comm, way_t way)
{
    const blocks_t each = block_of_each("recv", recv, recv_counts, recv_offsets, comm);
    return submit((uneven_t){.name = "blink_gather_v",
                             .send = one_block("send", send, &send_count),
                             .recv = only_at_root(each, root, comm),
                             .common = {.datatype = datatype, .root = root, .comm = comm},
                             .has_in_place = true},
                  transfer_each, way);
}

blink_result_t blink_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                              const size_t *recv_offsets, blink_datatype_t datatype, int root,
                              blink_comm_t *comm, blink_op_t **op)
{
    return gather_v(send, send_count, recv, recv_counts, recv_offsets, datatype, root, comm,
                    (way_t){.op = op});
}

blink_result_t blink_gather_v_on(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                                 const size_t *recv_offsets, blink_datatype_t datatype, int root,
                                 blink_comm_t *comm, blink_stream_t stream)
{
    return gather_v(send, send_count, recv, recv_counts, recv_offsets, datatype, root, comm,
                    (way_t){.on_stream = true, .stream = stream});
}

static blink_result_t scatter_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                void *recv, size_t recv_count, blink_datatype_t datatype, int root,
                                blink_comm_t *comm, way_t way)
{
    const blocks_t each = block_of_each("send", send, send_counts, send_offsets, comm);
    return submit((uneven_t){.name = "blink_scatter_v",
                             .send = only_at_root(each, root, comm),
                             .recv = one_block("recv", recv, &recv_count),
                             .common = {.datatype = datatype, .root = root, .comm = comm},
                             .has_in_place = true},
                  transfer_each, way);
}

blink_result_t blink_scatter_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                               void *recv, size_t recv_count, blink_datatype_t datatype, int root,
                               blink_comm_t *comm, blink_op_t **op)
{
    return scatter_v(send, send_counts, send_offsets, recv, recv_count, datatype, root, comm,
                     (way_t){.op = op});
}

blink_result_t blink_scatter_v_on(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                  void *recv, size_t recv_count, blink_datatype_t datatype, int root,
                                  blink_comm_t *comm, blink_stream_t stream)
{
    return scatter_v(send, send_counts, send_offsets, recv, recv_count, datatype, root, comm,
                     (way_t){.on_stream = true, .stream = stream});
}

static blink_result_t all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                   void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                   blink_datatype_t datatype, blink_comm_t *comm, way_t way)
{
    return submit((uneven_t){.name = "blink_all_to_all_v",
                             .send = block_of_each("send", send, send_counts, send_offsets, comm),
                             .recv = block_of_each("recv", recv, recv_counts, recv_offsets, comm),
                             .common = {.datatype = datatype, .comm = comm}},
                  transfer_each, way);
}

blink_result_t blink_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                  void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                  blink_datatype_t datatype, blink_comm_t *comm, blink_op_t **op)
{
    return all_to_all_v(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, datatype, comm,
                        (way_t){.op = op});
}

blink_result_t blink_all_to_all_v_on(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                     void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                     blink_datatype_t datatype, blink_comm_t *comm, blink_stream_t stream)
{
    return all_to_all_v(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, datatype, comm,
                        (way_t){.on_stream = true, .stream = stream});
}
