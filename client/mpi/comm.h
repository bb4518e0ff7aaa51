/*
 * What the shim keeps of a communicator of MPI, as an attribute of it, and whether blinkd takes a call with
 * it.
 *
 * The ranks of a communicator must never decide differently, or they would wait for one another in two
 * libraries. So a decision rests on what MPI demands to be the same on all of them (sizes of calls, types and
 * operators of reductions, the order of calls), and on what they have told each other by MPI's own calls.
 */
#ifndef CLIENT_MPI_COMM_H
#define CLIENT_MPI_COMM_H

#include "limits.h"

#include <blink/blink.h>

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct shim_comm {
    MPI_Comm handle;
    int rank, rank_count;
    long min_bytes;       /* the largest of what the ranks' variables say; SHIM_MIN_BYTES_UNSET: nothing */
    bool is_left_to_mpi;  /* for good */
    blink_comm_t *joined; /* NULL: not yet */
    unsigned int refusals, unasked; /* see asks_all() */
    struct shim_comm *next;
} shim_comm_t;

/** The record of a communicator, which is made in the first call of all ranks. NULL: MPI does everything with
 * it. */
shim_comm_t *shim_comm_find(MPI_Comm handle);

/** Whether blinkd takes a collective of so many bytes. The ranks join when it takes the first one.
 * @param in_place  whether the buffers of this rank are memory of the daemon. */
bool shim_comm_takes(shim_comm_t *comm, shim_collective_t collective, size_t bytes, bool in_place);

/** Wait for an op, while MPI goes on, too: other ranks may need it before they come to theirs. */
blink_result_t shim_comm_wait(const shim_comm_t *comm, blink_op_t *op);

/** End the communicator for all ranks, and tell its error handler that a call has failed.
 * @return what the call returns, if the handler does. */
int shim_comm_fail(shim_comm_t *comm, const char *sentence);

#endif
