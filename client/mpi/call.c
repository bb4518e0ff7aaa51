/* Submitting a call, and waiting for it. */
#include "call.h"

#include "home.h"

#include <stdint.h>
#include <stdlib.h>

/* Counts and offsets of blocks that differ. */
static void fill_blocks(const shim_call_t *call, size_t *counts, size_t *offsets)
{
    size_t before = 0;
    for (int i = 0; i < call->comm->rank_count; i++) {
        counts[i] = (size_t)call->counts[i] * call->unit;
        offsets[i] = call->collective == SHIM_ALLGATHERV ? shim_view_offset(&call->recv, i) : before;
        before += counts[i];
    }
}

static blink_result_t submit_uneven(const shim_call_t *call, blink_op_t **op)
{
    int ranks = call->comm->rank_count, rank = call->comm->rank;
    size_t *counts = calloc((size_t)ranks * 2, sizeof(*counts)), *offsets = counts + ranks;
    blink_result_t result = BLINK_ERR_NO_MEMORY;
    if (!counts)
        return result;
    fill_blocks(call, counts, offsets);
    const char *recv = call->recv.bytes;
    if (call->collective == SHIM_ALLGATHERV)
        result = blink_all_gather_v(
            call->alias == SHIM_SEND_IN_RECV ? recv + offsets[rank] : call->send.bytes, counts[rank],
            call->recv.bytes, counts, offsets, call->datatype, call->comm->joined, op);
    else
        result = blink_reduce_scatter_v(call->send.bytes, counts, offsets, call->recv.bytes, counts[rank],
                                        call->datatype, call->redop, call->comm->joined, op);
    free(counts);
    return result;
}

/* Where in a buffer of all ranks' blocks the one is that this rank gives or gets. */
static size_t own_block(const shim_call_t *call)
{
    switch (call->collective) {
    case SHIM_ALLGATHER:
    case SHIM_GATHER:
    case SHIM_SCATTER:
        return (size_t)call->comm->rank * call->count;
    default:
        return 0;
    }
}

static blink_result_t submit_even(const shim_call_t *call, blink_op_t **op)
{
    blink_comm_t *comm = call->comm->joined;
    char *send = call->send.bytes, *recv = call->recv.bytes;
    if (call->alias == SHIM_SEND_IN_RECV)
        send = recv + own_block(call);
    else if (call->alias == SHIM_RECV_IN_SEND)
        recv = send + own_block(call);
    switch (call->collective) {
    case SHIM_ALLREDUCE:
        return blink_all_reduce(send, recv, call->count, call->datatype, call->redop, comm, op);
    case SHIM_BCAST:
        return blink_broadcast(send, recv, call->count, call->datatype, call->root, comm, op);
    case SHIM_REDUCE:
        return blink_reduce(send, recv, call->count, call->datatype, call->redop, call->root, comm, op);
    case SHIM_ALLGATHER:
        return blink_all_gather(send, recv, call->count, call->datatype, comm, op);
    case SHIM_REDUCE_SCATTER:
        return blink_reduce_scatter(send, recv, call->count, call->datatype, call->redop, comm, op);
    case SHIM_ALLTOALL:
        return blink_all_to_all(send, recv, call->count, call->datatype, comm, op);
    case SHIM_GATHER:
        return blink_gather(send, recv, call->count, call->datatype, call->root, comm, op);
    case SHIM_SCATTER:
        return blink_scatter(send, recv, call->count, call->datatype, call->root, comm, op);
    case SHIM_ALLGATHERV:
    case SHIM_COLLECTIVES:
        break;
    }
    return BLINK_ERR_INTERNAL;
}

static int perform(shim_call_t *call)
{
    blink_op_t *op;
    blink_result_t result = BLINK_ERR_NO_MEMORY;
    const char *sentence =
        "blinkd: a buffer could not be packed: out of memory, or of a type that MPI does not pack";
    bool begun = shim_view_begin(&call->send) && shim_view_begin(&call->recv);
    if (begun) {
        result = call->counts ? submit_uneven(call, &op) : submit_even(call, &op);
        if (result == BLINK_OK)
            result = shim_comm_wait(call->comm, op);
        sentence = result == BLINK_OK ? sentence : blink_last_error();
        if (result == BLINK_ERR_DAEMON_LOST)
            shim_home_give_up();
    }
    bool ended = shim_view_end(&call->send, result == BLINK_OK);
    ended = shim_view_end(&call->recv, result == BLINK_OK) && ended;
    return result == BLINK_OK && ended ? MPI_SUCCESS : shim_comm_fail(call->comm, sentence);
}

/* Whether it needs no staging. */
static bool is_in_place(const shim_view_t *view)
{
    return (!view->is_read && !view->is_written) ||
           (shim_view_is_plain(view) && shim_home_has(view->address));
}

bool shim_call_runs(shim_call_t *call, size_t bytes, int *result)
{
    bool in_place = bytes >= shim_limit(call->collective).in_place_bytes && is_in_place(&call->send) &&
                    is_in_place(&call->recv);
    bool taken = shim_comm_takes(call->comm, call->collective, bytes, in_place);
    shim_count(call->collective, bytes, taken);
    if (taken)
        *result = perform(call);
    return taken;
}
