/* This process's connection to the daemon, which all of its communicators share. */
#ifndef CLIENT_NCCL_HOME_H
#define CLIENT_NCCL_HOME_H

#include "abi.h"

/** The connection, which is made if there is none. nccl_home_put() gives it back. Thread-safe. */
abi_result_t nccl_home_get(blink_context_t **context);

/** The connection if there is one, to be given back; NULL if there is none. */
blink_context_t *nccl_home_find(void);

/** Whoever is the last closes it. A context of the parent process is left alone. */
void nccl_home_put(blink_context_t *context);

#endif
