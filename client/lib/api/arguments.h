/*
 * The checks of a call's arguments against what the collective is (collective.h), once for every function of
 * the interface.
 */
#ifndef CLIENT_ARGUMENTS_H
#define CLIENT_ARGUMENTS_H

#include "blink/blink.h"
#include "ring.h"

/** A call of the interface, as the application made it. What a collective does not take is 0. */
typedef struct call {
    uint8_t opcode; /* ring_opcode_t */
    const void *send;
    void *recv;
    size_t count;
    blink_datatype_t datatype;
    blink_redop_t redop;
    int root; /* or peer */
    blink_comm_t *comm;
    blink_op_t **op;
    bool on_stream; /* the op is in the order of `stream`, and there is no `op` */
    blink_stream_t stream;
} call_t;

/** One buffer of a call as this rank uses it; 0 bytes where it does not. */
typedef struct buffer {
    const char *what; /* "send" or "recv" */
    const void *pointer;
    uint32_t blocks;
    size_t bytes;
    bool is_there; /* what is to come there lies there already: it may be memory that cannot be written */
} buffer_t;

/** Check everything that this rank can know; enter opcode, datatype, operator, root and count in the SQE, and
 * say what buffers remain to be found. Errors: INVALID_ARGUMENT. */
blink_result_t call_check(const call_t *call, ring_sqe_t *sqe, buffer_t *in, buffer_t *out);

/** Bytes of `count` elements in each of `blocks` blocks. Errors: INVALID_ARGUMENT (no such datatype; more
 * than memory can hold). */
blink_result_t call_bytes(size_t count, uint32_t blocks, blink_datatype_t datatype, size_t *bytes);

/** A pointer that is used must not be NULL, and be aligned to its elements. Errors: INVALID_ARGUMENT. */
blink_result_t call_check_buffer(const buffer_t *buffer, blink_datatype_t datatype);

#endif
