/*
 * Sources in place: memory of the executor's instances that the devices of an endpoint may read, so that what
 * is written to the peer's memory need not be copied first. It is registered with the devices when the first
 * move goes from there, and stays so for later runs of the instance. With the turn.
 *
 * What is pinned has no bound of its own. The memory is of the instances' scratch, which is charged to a
 * tenant (BUDGET_SCRATCH_BYTES) while an op has it, and kept up to settings.idle_scratch_bytes after that;
 * but each endpoint that moves go to pins it once more, and the kernel counts the same pages again each time.
 * What limits that is how much memory the daemon may lock (RLIMIT_MEMLOCK): beyond it source_find() returns
 * NULL, and moves are copied.
 */
#ifndef BLINK_DATA_SOURCE_H
#define BLINK_DATA_SOURCE_H

#include "net/data/endpoint.h"

/* The keys by which the endpoint's devices may read the send slots of a run that is under way. Valid as long
 * as the run, unless its connections are closed. NULL: they may not. */
const data_keys_t *source_find(data_endpoint_t *endpoint, exec_instance_t *instance);

/* The endpoint's connections are closed. */
void sources_forget(data_endpoint_t *endpoint);

/* The instance's memory is about to go. */
void sources_forget_instance(exec_instance_t *instance);

#endif
