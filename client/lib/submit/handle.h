/* The handles of ops. Part of ops.h's world, for ops.c and wait.c. */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include "submit/ops.h"

/** Errors: NO_MEMORY. */
blink_result_t handles_init(ops_t *ops);
void handles_fini(ops_t *ops);

/** Under submit_lock. NULL, with the sentence recorded, if memory ran out. */
blink_op_t *handle_get(ops_t *ops);

/** By any thread, without locks. */
void handle_put(blink_op_t *op);

/** The handle with this index, in use or not; NULL if there is none (yet). By any thread. */
blink_op_t *handle_at(ops_t *ops, uint32_t index);

#endif
