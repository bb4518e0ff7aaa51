/*
 * What is remembered of ops (comm/history.h), and told of them: to tools, and to the log when their
 * communicator is lost.
 */
#ifndef BLINK_ENGINE_RECORD_H
#define BLINK_ENGINE_RECORD_H

#include "base/events.h"
#include "engine/op/op.h"

/* The op has just ended: remember it. */
void record_ended(const comm_op_t *op);

/* Say in events that the communicator is lost what its oldest op waits for, and which op was the last to
 * end. */
void record_log(const engine_comm_t *comm, const event_of_t *lost);

#endif
