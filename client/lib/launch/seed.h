/*
 * The ids of the communicators of a launch. The ranks of a launch share one id, the seed, from the first time
 * that they need it to the end of their processes; the n-th communicator's id follows from it and n.
 */
#ifndef CLIENT_SEED_H
#define CLIENT_SEED_H

#include "context/context.h"
#include "launch/launch.h"

/** The id of the next communicator of this process, whose number counts whether this succeeds or not. Blocks
 * until the ranks share the seed, `timeout_ms` at most for each thing that is waited for. Errors: those of
 * the ways. */
blink_result_t seed_next(blink_context_t *context, const launch_t *launch, unsigned int timeout_ms,
                         blink_unique_id_t *id);

/** All ranks have joined the communicator, or one has failed to: nobody needs any more what rank 0 has left
 * for the others. */
void seed_settled(const launch_t *launch);

#endif
