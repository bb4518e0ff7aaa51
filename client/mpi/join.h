/* How the ranks of a communicator of MPI make one of blinkd's. */
#ifndef CLIENT_MPI_JOIN_H
#define CLIENT_MPI_JOIN_H

#include "comm.h"

/** Join: a collective call by MPI's means. Either all ranks have `joined` afterwards, or all leave the
 * communicator to MPI; rank 0 tells why, if lines are asked for. */
void shim_join(shim_comm_t *comm);

/** Let MPI go on for a moment. `handle`: a communicator of several ranks. */
void shim_progress(MPI_Comm handle);

#endif
