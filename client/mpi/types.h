/* Reductions of MPI that blinkd has. */
#ifndef CLIENT_MPI_TYPES_H
#define CLIENT_MPI_TYPES_H

#include <blink/blink.h>

#include <mpi.h>
#include <stdbool.h>

/** Whether blinkd has such a reduction: a basic type of integers of 8, 32 or 64 bits or floats of 32 or 64,
 * and the sum, product, maximum or minimum. All ranks give the same type and operator, as MPI demands. */
bool shim_reduction(MPI_Datatype type, MPI_Op op, blink_datatype_t *datatype, blink_redop_t *redop);

#endif
