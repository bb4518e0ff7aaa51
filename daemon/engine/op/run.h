/*
 * Ops that may start, until they have ended: their runs on the executor, piece by piece where clients copy.
 */
#ifndef BLINK_ENGINE_RUN_H
#define BLINK_ENGINE_RUN_H

#include "engine/op/op.h"

/* Start an op that is due of the communicator, if there is one. */
void run_next_due(engine_comm_t *comm);

/* End ops whose runs the GPU worker has ended; true if there was one. */
bool run_poll_ended(engine_t *engine);

/* Go on with an op whose clients have copied their pieces, and whose streams have come. */
void run_proceed(comm_op_t *op);

/* Go on with ops that waited for scratch, if some may have come back; true if so. */
bool run_serve_queued(engine_t *engine);

/* The run of an op of several hosts has ended, and nothing of it is under way any more. text: why it has
 * failed; NULL: it has not. */
void run_over(comm_op_t *op, const exec_end_t *end, const char *text);

/* End an op that does not run. The text is what its ranks hear, whole, or its reason. */
void run_fail_as(comm_op_t *op, blink_result_t code, const char *text);
void run_fail(comm_op_t *op, blink_result_t code, const char *reason);

/* All ranks have come to an op of several hosts, and it is not held any more. */
void run_due(comm_op_t *op);

/* End an op, whatever its state, with its communicator's reason, as soon as nothing of it runs any more. */
void run_cancel(comm_op_t *op);

#endif
