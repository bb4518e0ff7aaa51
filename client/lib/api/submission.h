/* The way of every submission, from a call of the interface to its op. */
#ifndef CLIENT_SUBMISSION_H
#define CLIENT_SUBMISSION_H

#include "api/arguments.h"
#include "submit/ops.h"

/** Check a call and submit it, or keep it for the end of this thread's group. */
blink_result_t call_submit(const call_t *call);

/** The same for calls that are made of others, whose failures are told of those. */
blink_result_t call_enter(const call_t *call);

/** Check the object that a call is about, and where its handle goes: in a group that is blink_group_end()'s
 * business. Errors: INVALID_ARGUMENT. */
blink_result_t call_check_handle(const char *name, const void *object, const char *what, blink_op_t **op);

/** Submit one entry, or add it to this thread's group. A transfer is given back if that fails. */
blink_result_t call_hand_over(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, staging_transfer_t *transfer,
                              blink_op_t **op);

#endif
