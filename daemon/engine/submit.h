/*
 * From a submission to its place in an op.
 */
#ifndef BLINK_ENGINE_SUBMIT_H
#define BLINK_ENGINE_SUBMIT_H

#include "engine/rank.h"
#include "engine/stream.h"

/* How a submission came, beyond its entry. */
typedef struct submission {
    stream_ticket_t
        *ticket; /* its turn on a stream; NULL: none. Taken, and set to NULL, by the entry that it gets */
    stored_op_t *replayed; /* as in op_batch_t */
} submission_t;

/* One rank's submission, already copied. Its completion follows, now or later, unless it has RING_SQE_MORE.
 */
void comm_submit(comm_rank_t *rank, const ring_sqe_t *sqe, submission_t *how);

#endif
