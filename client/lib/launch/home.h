/*
 * Where the ranks of a launch gather, if all that is known is a host.
 */
#ifndef CLIENT_HOME_H
#define CLIENT_HOME_H

#include "context/context.h"

/**
 * What ids of the daemon on a host begin with, which is a name or an address, maybe with a port; without one
 * the daemon there listens at the port at which this host's daemon listens. The nonce is of zeros. Waits for
 * the look-up of the name and for the daemon's answer. Errors: NOT_FOUND (the name has no address),
 * UNSUPPORTED (this host's daemon does not listen for others), PERMISSION, CONNECT (nobody is found there),
 * INVALID_ARGUMENT.
 */
blink_result_t home_find(blink_context_t *context, const char *where, unique_id_t *home);

#endif
