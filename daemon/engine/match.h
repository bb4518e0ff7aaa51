/*
 * Transfers that lack an end, by pair of ranks.
 */
#ifndef BLINK_ENGINE_MATCH_H
#define BLINK_ENGINE_MATCH_H

#include "engine/op.h"

/* Unmatched transfers, by source and destination. */
#define TRANSFER_BUCKETS 256u

/* Transfers that lack an end, in comm->transfers: of each pair of ranks the oldest is in its bucket's list,
 * the others hang from it. All of a pair lack the same end. Where the oldest one's link is; it is NULL if the
 * pair has none. */
comm_op_t **transfer_find(engine_comm_t *comm, uint32_t source, uint32_t destination);

/* Add one to the pair at this link; take the oldest out. */
void transfer_append(comm_op_t **first, comm_op_t *op);

void transfer_pop(comm_op_t **first);

#endif
