/* Operators whose scalar is in memory of the GPU, to be read when a collective comes to it. Operators with a
 * scalar of the host are libblinkclient's own. */
#ifndef CLIENT_NCCL_REDOP_H
#define CLIENT_NCCL_REDOP_H

#include "calls.h"

typedef struct nccl_redop {
    const void *scalar; /* NULL: the place is free */
    blink_datatype_t datatype;
} nccl_redop_t;

/** Those of one communicator, under its lock. All zero: none. */
typedef struct nccl_redops {
    nccl_redop_t *items;
    size_t count;
} nccl_redops_t;

void nccl_redops_fini(nccl_redops_t *redops);

/** What libblinkclient knows as this operator. If *made, it is to be destroyed when the call has been
 * submitted. Errors: INVALID_USAGE (the stream is being captured), INVALID_ARGUMENT, CUDA_ERROR. */
abi_result_t nccl_redop_resolve(nccl_comm_t *comm, blink_redop_t redop, blink_stream_t stream,
                                blink_redop_t *resolved, bool *made);

#endif
