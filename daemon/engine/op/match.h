/*
 * Transfers that lack an end, by pair of ranks. All of a pair that are kept here lack the same end, and the
 * other rank's next submission belongs to the oldest of them. (Collectives need no search: a rank's n-th
 * belongs to the communicator's n-th.)
 */
#ifndef BLINK_ENGINE_MATCH_H
#define BLINK_ENGINE_MATCH_H

#include "engine/op/op.h"

/* Take out the transfer that this end belongs to; *op is NULL if a new one must begin. Errors: NO_MEMORY. */
blink_result_t match_take(engine_comm_t *comm, const op_signature_t *signature, bool receives,
                          comm_op_t **op);

/* Keep a new transfer until its other end comes. match_take() has been called for it. */
void match_keep(comm_op_t *op);

/* The transfer ends: if it is kept, nobody finds it from now on. */
void match_forget(comm_op_t *op);

#endif
