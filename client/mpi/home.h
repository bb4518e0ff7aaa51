/*
 * The process's connection to the daemon, and the memory that MPI_Alloc_mem() gives from it. The connection
 * is opened when something needs it first and closed in MPI_Finalize(). A daemon that could not be reached,
 * or was lost, is not tried again. Thread-safe.
 */
#ifndef CLIENT_MPI_HOME_H
#define CLIENT_MPI_HOME_H

#include <blink/blink.h>

#include <stdbool.h>

/** The connection; NULL: there is none, and none is to be had. */
blink_context_t *shim_home_open(void);

/** Do without the daemon from now on: it is lost. */
void shim_home_give_up(void);

/** Close the connection, unless memory of it is in use still. Nothing opens it again. */
void shim_home_close(void);

/** Whether MPI_Alloc_mem() gave the memory at this address from the daemon. */
bool shim_home_has(const void *address);

#endif
