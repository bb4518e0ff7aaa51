/* From how many bytes on blinkd takes a collective, and what has been taken. Thread-safe. */
#ifndef CLIENT_MPI_LIMITS_H
#define CLIENT_MPI_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum shim_collective {
    SHIM_ALLREDUCE,
    SHIM_BCAST,
    SHIM_REDUCE,
    SHIM_ALLGATHER,
    SHIM_ALLGATHERV,
    SHIM_REDUCE_SCATTER,
    SHIM_ALLTOALL,
    SHIM_GATHER,
    SHIM_SCATTER,
    SHIM_COLLECTIVES
} shim_collective_t;

/** Bytes are those of a whole vector: of all blocks, where ranks have blocks. */
typedef struct shim_limit {
    size_t in_place_bytes; /* in memory of the daemon */
    size_t staged_bytes;   /* in any other; not less than the former */
} shim_limit_t;

/** As measured: docs/results/mpi.md. */
shim_limit_t shim_limit(shim_collective_t collective);

/** Count a call that blinkd or MPI does. */
void shim_count(shim_collective_t collective, size_t bytes, bool by_blinkd);

/** Tell what was counted, a line for each collective that was called. */
void shim_tell_counts(void);

#endif
