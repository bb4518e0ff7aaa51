/* Collectives: the checks that the library can make by itself, and their submission. */
#include "comm.h"
#include "context.h"
#include "names.h"

/* One buffer of a collective; NULL with 0 bytes where it is not used. */
typedef struct buffer {
    const char *what;
    const void *pointer;
    size_t bytes;
} buffer_t;

static blink_result_t check_buffer(const buffer_t *buffer, uint32_t element_bytes)
{
    if (buffer->bytes == 0)
        return BLINK_OK;
    if (!buffer->pointer)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s buffer is NULL", buffer->what);
    if ((uintptr_t)buffer->pointer % element_bytes != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s buffer %p is not aligned to its elements of %u bytes", buffer->what,
                          buffer->pointer, element_bytes);
    return BLINK_OK;
}

/* Whether two different buffers share bytes. */
static bool overlap(const buffer_t *first, const buffer_t *second)
{
    uintptr_t a = (uintptr_t)first->pointer, b = (uintptr_t)second->pointer;
    return a != b && (a < b ? b - a < first->bytes : a - b < second->bytes);
}

static blink_result_t payload_bytes(size_t count, blink_datatype_t datatype, size_t *bytes)
{
    uint32_t element_bytes = blink_datatype_bytes((uint32_t)datatype);
    if (element_bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "datatype %d is none", (int)datatype);
    if (count > SIZE_MAX / element_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%zu elements of %u bytes are more than memory can hold", count, element_bytes);
    *bytes = count * element_bytes;
    return BLINK_OK;
}

static blink_result_t submit(blink_comm_t *comm, const buffer_t *in, const buffer_t *out, ring_sqe_t *sqe,
                             blink_op_t **op)
{
    regions_t *regions = &comm->context->regions;
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    BLINK_TRY(check_buffer(in, element_bytes));
    BLINK_TRY(check_buffer(out, element_bytes));
    if (overlap(in, out))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "send buffer %p and recv buffer %p of %zu bytes overlap without being equal",
                          in->pointer, out->pointer, out->bytes);
    if (in->bytes > 0)
        BLINK_TRY(regions_resolve(regions, in->what, in->pointer, in->bytes, &sqe->in_region,
                                  &sqe->in_offset_bytes));
    if (out->bytes > 0)
        BLINK_TRY(regions_resolve(regions, out->what, out->pointer, out->bytes, &sqe->out_region,
                                  &sqe->out_offset_bytes));
    sqe->member = comm->member;
    return ops_submit(&comm->context->ops, &comm->queue, sqe, op);
}

blink_result_t blink_all_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_redop_t redop, blink_comm_t *comm, blink_op_t **op)
{
    size_t bytes = 0;
    if (!comm || !op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_all_reduce: %s is NULL", comm ? "op" : "comm");
    BLINK_TRY(payload_bytes(count, datatype, &bytes));
    if (!blink_redop_valid((uint32_t)redop))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %d is none", (int)redop);
    ring_sqe_t sqe = {
        .opcode = RING_OP_ALLREDUCE, .datatype = (uint8_t)datatype, .redop = (uint8_t)redop, .count = count};
    return submit(comm, &(buffer_t){"send", send, bytes}, &(buffer_t){"recv", recv, bytes}, &sqe, op);
}

blink_result_t blink_broadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_op_t **op)
{
    size_t bytes = 0;
    if (!comm || !op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_broadcast: %s is NULL", comm ? "op" : "comm");
    BLINK_TRY(payload_bytes(count, datatype, &bytes));
    if (root < 0 || (uint32_t)root >= comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "root %d is not among %u ranks", root,
                          comm->rank_count);
    ring_sqe_t sqe = {
        .opcode = RING_OP_BROADCAST, .datatype = (uint8_t)datatype, .root = (uint32_t)root, .count = count};
    bool reads_send = comm->rank == (uint32_t)root;
    return submit(comm, &(buffer_t){"send", reads_send ? send : NULL, reads_send ? bytes : 0},
                  &(buffer_t){"recv", recv, bytes}, &sqe, op);
}

blink_result_t blink_nop(blink_context_t *context, blink_op_t **op)
{
    if (!context || !op)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_nop: %s is NULL", context ? "op" : "context");
    ring_sqe_t sqe = {.opcode = RING_OP_NOP};
    return ops_submit(&context->ops, &context->ops.nops, &sqe, op);
}
