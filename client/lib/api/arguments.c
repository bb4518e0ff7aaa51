/* The table of collectives and the checks of arguments. */
#include "api/arguments.h"

#include "api/redop.h"
#include "context/comm.h"
#include "names.h"

/* How many blocks of `count` elements a buffer has, and on which ranks. */
typedef enum extent {
    NOTHING,
    ONE,          /* a block on every rank */
    EACH,         /* a block per rank, on every rank */
    ONE_AT_ROOT,  /* a block, on the root only */
    EACH_AT_ROOT, /* a block per rank, on the root only */
} extent_t;

typedef enum partner {
    NO_PARTNER,
    ROOT,
    PEER,
} partner_t;

typedef struct facts {
    const char *name;
    extent_t in, out;
    partner_t partner;
    bool reduces;
    bool in_place; /* the smaller buffer may be this rank's block of the larger one, or all of an equal one */
} facts_t;

static const facts_t table[] = {
    [RING_OP_NOP] = {.name = "blink_nop"},
    [RING_OP_ALLREDUCE] = {"blink_all_reduce", ONE, ONE, NO_PARTNER, true, true},
    [RING_OP_BROADCAST] = {"blink_broadcast", ONE_AT_ROOT, ONE, ROOT, false, true},
    [RING_OP_REDUCE] = {"blink_reduce", ONE, ONE_AT_ROOT, ROOT, true, true},
    [RING_OP_ALLGATHER] = {"blink_all_gather", ONE, EACH, NO_PARTNER, false, true},
    [RING_OP_REDUCESCATTER] = {"blink_reduce_scatter", EACH, ONE, NO_PARTNER, true, true},
    [RING_OP_GATHER] = {"blink_gather", ONE, EACH_AT_ROOT, ROOT, false, true},
    [RING_OP_SCATTER] = {"blink_scatter", EACH_AT_ROOT, ONE, ROOT, false, true},
    [RING_OP_ALLTOALL] = {"blink_all_to_all", EACH, EACH, NO_PARTNER, false, false},
    [RING_OP_SEND] = {"blink_send", ONE, NOTHING, PEER, false, false},
    [RING_OP_RECV] = {"blink_recv", NOTHING, ONE, PEER, false, false},
    [RING_OP_BARRIER] = {.name = "blink_barrier"},
};

const char *call_name(uint32_t opcode)
{
    return table[opcode].name;
}

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

static blink_result_t set_buffer(const call_t *call, const char *what, const void *pointer, extent_t extent,
                                 buffer_t *buffer)
{
    const blink_comm_t *comm = call->comm;
    bool used = extent == ONE || extent == EACH ||
                ((extent == ONE_AT_ROOT || extent == EACH_AT_ROOT) && (uint32_t)call->root == comm->rank);
    *buffer = (buffer_t){.what = what};
    if (!used)
        return BLINK_OK;
    buffer->pointer = pointer;
    buffer->blocks = extent == EACH || extent == EACH_AT_ROOT ? comm->rank_count : 1;
    BLINK_TRY(call_bytes(call->count, buffer->blocks, call->datatype, &buffer->bytes));
    return call_check_buffer(buffer, call->datatype);
}

/* Buffers apart, or the one the other's block that the in-place form names. */
static blink_result_t check_overlap(const call_t *call, const facts_t *facts, const buffer_t *in,
                                    const buffer_t *out)
{
    uintptr_t send = (uintptr_t)in->pointer, recv = (uintptr_t)out->pointer;
    if (in->bytes == 0 || out->bytes == 0 ||
        (send < recv ? recv - send >= in->bytes : send - recv >= out->bytes))
        return BLINK_OK;
    const buffer_t *large = in->blocks > out->blocks ? in : out, *small = large == in ? out : in;
    uint32_t block = large->blocks > small->blocks ? call->comm->rank : 0;
    if (facts->in_place && (uintptr_t)small->pointer == (uintptr_t)large->pointer + block * small->bytes)
        return BLINK_OK;
    if (!facts->in_place)
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

static blink_result_t check_partner(const call_t *call, const facts_t *facts)
{
    if (facts->partner != NO_PARTNER && (call->root < 0 || (uint32_t)call->root >= call->comm->rank_count))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s %d is not among %u ranks",
                          facts->partner == PEER ? "peer" : "root", call->root, call->comm->rank_count);
    return BLINK_OK;
}

blink_result_t call_check(const call_t *call, ring_sqe_t *sqe, buffer_t *in, buffer_t *out)
{
    const facts_t *facts = &table[call->opcode];
    size_t bytes;
    *sqe = (ring_sqe_t){.opcode = call->opcode,
                        .datatype = (uint8_t)call->datatype,
                        .member = call->comm->member,
                        .root = (uint32_t)call->root,
                        .count = call->count};
    BLINK_TRY(call_bytes(call->count, 1, call->datatype, &bytes));
    if (facts->reduces)
        BLINK_TRY(redop_resolve(call->comm, call->redop, call->datatype, sqe));
    BLINK_TRY(check_partner(call, facts));
    BLINK_TRY(set_buffer(call, "send", call->send, facts->in, in));
    BLINK_TRY(set_buffer(call, "recv", call->recv, facts->out, out));
    return check_overlap(call, facts, in, out);
}
