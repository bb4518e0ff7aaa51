/*
 * Ops that may start, until they have ended.
 */
#ifndef BLINK_ENGINE_RUN_H
#define BLINK_ENGINE_RUN_H

#include "engine/op.h"

/* The op may start; comm_advance() starts it. */
void op_make_due(comm_op_t *op);

/* Start what is due, as much as one turn allows (the engine comes back for the rest), then let leavers go.
 * The last of these takes the communicator along: callers do not touch it afterwards. */
void comm_advance(engine_comm_t *comm);

/* Give a planned op's instance back; it then ends one way or the other. */
void op_release_instance(comm_op_t *op);

/* Take an op from those that await copies. */
void op_stop_awaiting(comm_op_t *op);

/* Give the next communicator that has more to start a turn; true if there was one. */
bool engine_serve_due(engine_t *engine);

/* The plan has come, or failed. Called by plans.c on the engine thread. */
void op_planned(comm_op_t *op, blink_result_t result, const char *text, comm_instance_t *instance);

/* End ops whose runs the GPU worker has ended; true if there was one. */
bool engine_poll_runs(engine_t *engine);

/* Go on with ops whose clients have copied their pieces; true if one did. */
bool engine_poll_awaiting(engine_t *engine);

/* Whether engine_poll_awaiting() would find one. Sequentially consistent: the second look before sleeping. */
bool engine_has_awaited(engine_t *engine);

#endif
