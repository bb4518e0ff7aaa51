/* One call of a collective, and how blinkd does it. */
#ifndef CLIENT_MPI_CALL_H
#define CLIENT_MPI_CALL_H

#include "comm.h"
#include "view.h"

/** Buffers that are one: MPI_IN_PLACE, and the root's of a broadcast. */
typedef enum shim_alias { SHIM_APART, SHIM_SEND_IN_RECV, SHIM_RECV_IN_SEND } shim_alias_t;

typedef struct shim_call {
    shim_collective_t collective;
    shim_comm_t *comm;
    int root;
    shim_view_t send, recv;
    shim_alias_t alias;
    blink_datatype_t datatype; /* BLINK_UINT8 where nothing is reduced */
    blink_redop_t redop;
    size_t count;      /* of a block, or of the whole vector if there are no blocks */
    const int *counts; /* of blocks that differ, in units of `unit` elements; NULL: they do not */
    size_t unit;
} shim_call_t;

/** Have blinkd do it, if it is of so many bytes that blinkd takes it; then `result` is what the call returns.
 * False: MPI has to do it, which is so on all ranks. */
bool shim_call_runs(shim_call_t *call, size_t bytes, int *result);

#endif
