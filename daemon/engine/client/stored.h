/*
 * Stored ops (windows.h, "Graphs"): a client's graph replays them. Here they are kept and forgotten, and
 * hear of the end of a replay; replay.c starts the replays.
 */
#ifndef BLINK_ENGINE_STORED_H
#define BLINK_ENGINE_STORED_H

#include "base/vec.h"
#include "engine/client/client.h"
#include "engine/client/stream.h"

struct stored_op {
    list_t of_client, of_rank;
    engine_client_t *client;
    comm_rank_t *rank; /* NULL: it has left, replays do nothing */
    engine_region_t *region;
    uint32_t window;
    VEC(ring_sqe_t) entries;
    size_t submitted; /* of these, by the replay under way */
    bool running;
    bool forgotten;   /* it is freed when the replay under way, if any, has ended */
    bool forget_owed; /* the completion of the client's RING_OP_FORGET follows then */
    uint64_t forget_user_data;
    blink_result_t failed; /* result of a replay that failed, for which the communicator is to be ended */
    char failed_text[BLINK_ERROR_TEXT_BYTES];
};

/* Whether the submission is to be kept: the entries of a group all are, or none is. */
static inline bool stored_takes(const engine_client_t *client, const comm_rank_t *rank, const ring_sqe_t *sqe)
{
    if (client->storing && client->storing->rank == rank)
        return true;
    return (sqe->flags & RING_SQE_STORED) && !rank_in_group(rank);
}

/* Keep the submission. Errors, of the whole group with its last entry: INVALID_ARGUMENT, QUOTA, NO_MEMORY. */
blink_result_t stored_keep(engine_client_t *client, comm_rank_t *rank, const ring_sqe_t *sqe);

/* RING_OP_FORGET. *later: its completion comes when the replay under way has ended. Errors: NOT_FOUND. */
blink_result_t stored_forget(engine_client_t *client, const ring_sqe_t *sqe, bool *later);

/* A replay of nothing is done, or a replay's batch has ended. */
void stored_replay_done(const stored_op_t *stored, blink_result_t result);
void stored_replay_ended(stored_op_t *stored, blink_result_t result, const char *text);

/* The rank leaves: what is stored of it does nothing from now on. A slice of that; true once it is all done.
 */
bool stored_forget_some(comm_rank_t *rank);

/* The client is gone: forget what is stored of it. As above. */
bool stored_forget_client_some(engine_client_t *client);

#endif
