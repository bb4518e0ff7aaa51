/*
 * Runs of independent programs. No step waits for another, so a run is a row of items (step, chunk), and
 * every thread that takes part in it takes its items from one counter: there are no states, semaphores or
 * waits as lanes have them.
 */
#ifndef BLINK_EXEC_ITEMS_H
#define BLINK_EXEC_ITEMS_H

#include "exec/host/instance.h"

/* Whether a program can run in this way, on a pool without a pacer. */
bool items_fit(const lane_program_t *program);

/* Memory that items_create() takes for a program. */
size_t items_bytes(const lane_program_t *program);

/* What an instance needs to run a program that fits. Errors: NO_MEMORY. */
blink_result_t items_create(host_instance_t *instance, exec_items_t **items);
void items_destroy(exec_items_t *items);

/* The instance's geometry has changed. */
void items_bind(host_instance_t *instance);

/* Run, on this thread and others as its size says. Unless it is *under_way after that, returns its result. */
blink_result_t items_start(host_instance_t *instance, exec_share_t *share, bool *under_way);

#endif
