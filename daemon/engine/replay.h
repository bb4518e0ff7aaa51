/*
 * Stored ops (windows.h, "Graphs"): kept, replayed whenever their stream has come to them, and forgotten.
 */
#ifndef BLINK_ENGINE_REPLAY_H
#define BLINK_ENGINE_REPLAY_H

#include "engine/client.h"
#include "engine/rank.h"

/* Whether the entry is to be kept: the entries of a group all are, or none is. */
bool stream_stores(const engine_client_t *client, const comm_rank_t *rank, const ring_sqe_t *sqe);

/* Keep it. Errors, of the whole group with its last entry: INVALID_ARGUMENT, QUOTA, NO_MEMORY. */
blink_result_t stream_store(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe);

/* RING_OP_FORGET. *later: its completion comes when the replay under way has ended. Errors: NOT_FOUND. */
blink_result_t stream_forget(engine_client_t *client, const ring_sqe_t *sqe, bool *later);

/* A replay's batch has ended. */
void stream_replay_ended(stored_op_t *stored, blink_result_t result, const char *text);

/* The rank leaves: what is stored of it does nothing from now on. */
void stream_forget_rank(const comm_rank_t *rank);

/* The client is gone. */
void stream_forget_client(engine_client_t *client);

/* Start the replays that streams have come to; true if there was one. */
bool engine_poll_stored(engine_t *engine);

#endif
