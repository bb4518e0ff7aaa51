/*
 * Ops that may start, until they have ended: their runs on the executor, piece by piece where clients copy.
 */
#ifndef BLINK_ENGINE_RUN_H
#define BLINK_ENGINE_RUN_H

#include "engine/op/op.h"

/* Start what is due of a communicator, up to its quantum. */
void run_due(engine_comm_t *comm);

/* End ops whose runs the GPU worker has ended; true if there was one. */
bool run_poll_ended(engine_t *engine);

/* Go on with an op whose clients have copied their pieces, or whose streams have come; true if there was one.
 */
bool run_poll_awaiting(engine_t *engine);

/* Whether run_poll_awaiting() would find one. Sequentially consistent: the second look before sleeping. */
bool run_has_awaited(const engine_t *engine);

/* End an op, whatever its state, with its communicator's reason, as soon as nothing of it runs any more. */
void run_cancel(comm_op_t *op);

#endif
