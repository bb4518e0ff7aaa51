/*
 * From a client's ring to a place in an op.
 */
#ifndef BLINK_ENGINE_SUBMIT_H
#define BLINK_ENGINE_SUBMIT_H

#include "engine/comm/rank.h"

/* Take and handle a few submissions of the client's ring; true if there was one. */
bool submit_poll(engine_client_t *client);

/* Submit an entry of a stored op. The stored op hears of the end, with the last entry. */
void submit_stored(comm_rank_t *rank, const ring_sqe_t *sqe, stored_op_t *stored);

#endif
