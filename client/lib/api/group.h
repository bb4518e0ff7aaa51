/*
 * Groups: what a thread submits between blink_group_start() and blink_group_end(), kept until the outermost
 * end and then submitted at once, as one run per communicator.
 */
#ifndef CLIENT_GROUP_H
#define CLIENT_GROUP_H

#include "stream/step.h"
#include "submit/ops.h"

/** Whether this thread has begun a group. */
bool group_active(void);

/** The steps of this thread's group, for a call on a stream. */
stream_steps_t *group_steps(void);

/** Keep a submission for the end of this thread's group.
 * @param step  where it was entered, if it is on a stream.
 * Errors: INVALID_ARGUMENT (the group is full, or has calls of the other kind), NO_MEMORY; the transfers are
 * then still the caller's. */
blink_result_t group_add(ops_t *ops, ops_queue_t *queue, ring_sqe_t *sqe, staging_transfer_t *transfer,
                         stream_step_t *step);

/** Pass on the result of a submission; a failure in a group fails the whole of it, with the sentence
 * recorded. */
blink_result_t group_note(blink_result_t result);

/** blink_group_end(), for calls that are groups themselves. */
blink_result_t group_end(blink_op_t **op);

/** For calls that wait for others: fail within a group. Errors: INVALID_ARGUMENT. */
blink_result_t group_refuse(const char *what);

#endif
