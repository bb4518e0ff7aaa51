/* Waiting for ops. */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include "submit/ops.h"

/** Wait until an op, and the others of a group's chain, are over, or it is `deadline_ns` of clock_ns()
 * (UINT64_MAX: never). Whether they are over. */
bool ops_await(blink_op_t *op, uint64_t deadline_ns);

/** Wait until one of several ops, of which some may be NULL, is over with its chain; its place. `count` at
 * once if all are NULL. */
size_t ops_await_any(blink_op_t **ops, size_t count);

/** Wait until every op of the queue is over. */
void ops_await_idle(ops_t *ops, ops_queue_t *queue);

/** Wait until nothing is parked in the queue; NULL: in any. */
void ops_drain(ops_t *ops, const ops_queue_t *queue);

#endif
