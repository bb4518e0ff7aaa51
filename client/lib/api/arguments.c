/* The checks of a call's arguments. */
#include "api/arguments.h"

#include "collective.h"
#include "context/comm.h"
#include "names.h"

blink_result_t call_bytes(size_t count, uint32_t blocks, blink_datatype_t datatype, size_t *bytes)
{
    uint32_t element_bytes = blink_datatype_bytes((uint32_t)datatype);
    if (element_bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "datatype %d is none", (int)datatype);
    if (blocks > 0 && count > PTRDIFF_MAX / element_bytes / blocks)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%u × %zu elements of %u bytes are more than memory can hold", blocks, count,
                          element_bytes);
    *bytes = blocks * count * element_bytes;
    return BLINK_OK;
}

blink_result_t call_check_buffer(const buffer_t *buffer, blink_datatype_t datatype)
{
    uint32_t element_bytes = blink_datatype_bytes((uint32_t)datatype);
    if (buffer->bytes == 0)
        return BLINK_OK;
    if (!buffer->pointer)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s buffer is NULL", buffer->what);
    if ((uintptr_t)buffer->pointer % element_bytes != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s buffer %p is not aligned to its elements of %u bytes", buffer->what,
                          buffer->pointer, element_bytes);
    if (buffer->bytes > UINTPTR_MAX - (uintptr_t)buffer->pointer)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s buffer %p of %zu bytes passes the end of the address space", buffer->what,
                          buffer->pointer, buffer->bytes);
    return BLINK_OK;
}

static blink_result_t set_buffer(const call_t *call, const char *what, const void *pointer, uint32_t blocks,
                                 buffer_t *buffer)
{
    *buffer = (buffer_t){.what = what};
    if (blocks == 0)
        return BLINK_OK;
    buffer->pointer = pointer;
    buffer->blocks = blocks;
    BLINK_TRY(call_bytes(call->count, blocks, call->datatype, &buffer->bytes));
    return call_check_buffer(buffer, call->datatype);
}

/* Buffers apart, or the one the other's block that the in-place form names. */
static blink_result_t check_overlap(const call_t *call, const buffer_t *in, const buffer_t *out)
{
    bool in_place = collective_has_in_place(collective_of_opcode(call->opcode));
    uintptr_t send = (uintptr_t)in->pointer, recv = (uintptr_t)out->pointer;
    if (in->bytes == 0 || out->bytes == 0 ||
        (send < recv ? recv - send >= in->bytes : send - recv >= out->bytes))
        return BLINK_OK;
    const buffer_t *large = in->blocks > out->blocks ? in : out, *small = large == in ? out : in;
    uint32_t block = large->blocks > small->blocks ? call->comm->rank : 0;
    if (in_place && (uintptr_t)small->pointer == (uintptr_t)large->pointer + block * small->bytes)
        return BLINK_OK;
    if (!in_place)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "send buffer %p and recv buffer %p of %zu bytes overlap, %s", in->pointer,
                          out->pointer, out->bytes, "which has no in-place form");
    if (large->blocks == small->blocks)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "send buffer %p and recv buffer %p of %zu bytes overlap without being equal",
                          in->pointer, out->pointer, out->bytes);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "send buffer %p and recv buffer %p overlap, but %s is not block %u of %s, %zu bytes on",
                      in->pointer, out->pointer, small->what, block, large->what, block * small->bytes);
}

/* A root that broadcasts or scatters in place. */
static bool output_is_input(const call_t *call, const buffer_t *in, const buffer_t *out)
{
    uintptr_t send = (uintptr_t)in->pointer, recv = (uintptr_t)out->pointer;
    return !collective_reduces(collective_of_opcode(call->opcode)) && out->bytes > 0 &&
           out->bytes <= in->bytes && recv >= send && recv - send <= in->bytes - out->bytes;
}

static blink_result_t check_root(const call_t *call)
{
    blink_collective_t collective = collective_of_opcode(call->opcode);
    if (collective_has_root(collective) && (call->root < 0 || (uint32_t)call->root >= call->comm->rank_count))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s %d is not among %u ranks",
                          collective_is_pair(collective) ? "peer" : "root", call->root,
                          call->comm->rank_count);
    return BLINK_OK;
}

/* The blocks of this rank's buffers. Of a pair the sender is the root, whoever submits the entry. */
static void count_blocks(const call_t *call, uint32_t *in_blocks, uint32_t *out_blocks)
{
    blink_collective_t collective = collective_of_opcode(call->opcode);
    bool is_pair = collective_is_pair(collective), is_root = (uint32_t)call->root == call->comm->rank;
    bool gives = is_pair ? call->opcode == RING_OP_SEND : is_root;
    bool gets = is_pair ? call->opcode == RING_OP_RECV : is_root;
    *in_blocks = collective_input_blocks(collective, call->comm->rank_count, gives);
    *out_blocks = collective_output_blocks(collective, call->comm->rank_count, gets);
}

blink_result_t call_check(const call_t *call, ring_sqe_t *sqe, buffer_t *in, buffer_t *out)
{
    uint32_t in_blocks, out_blocks;
    size_t bytes;
    *sqe = (ring_sqe_t){.opcode = call->opcode,
                        .datatype = (uint8_t)call->datatype,
                        .member = call->comm->member,
                        .root = (uint32_t)call->root,
                        .count = call->count};
    BLINK_TRY(call_bytes(call->count, 1, call->datatype, &bytes));
    if (collective_reduces(collective_of_opcode(call->opcode)))
        BLINK_TRY(redops_resolve(&call->comm->redops, call->redop, call->datatype, sqe));
    BLINK_TRY(check_root(call));
    count_blocks(call, &in_blocks, &out_blocks);
    BLINK_TRY(set_buffer(call, "send", call->send, in_blocks, in));
    BLINK_TRY(set_buffer(call, "recv", call->recv, out_blocks, out));
    out->is_there = output_is_input(call, in, out);
    return check_overlap(call, in, out);
}
