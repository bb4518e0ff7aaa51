/*
 * Runs of independent programs: nothing waits for anything, so a run is a row of items (step, chunk) that
 * whoever comes takes from one counter. Apart from the lanes, which need a state each, a semaphore for every
 * edge, and a turn on the queue for every wait.
 */
#ifndef BLINK_EXEC_ITEMS_H
#define BLINK_EXEC_ITEMS_H

#include "exec/host/instance.h"

/* Whether a program can run in this way, on a pool without a pacer. */
bool items_fit(const lane_program_t *program);

/* What an instance needs to run a program that fits. Errors: NO_MEMORY. */
blink_result_t items_create(exec_instance_t *instance, exec_items_t **items);
void items_destroy(exec_items_t *items);

/* The instance's geometry has changed. */
void items_bind(exec_instance_t *instance);

/* Run, on this thread and others as its size says. When it is over on this thread already, *ended, and the
 * result is returned; else it is BLINK_OK. */
blink_result_t items_start(exec_instance_t *instance, bool *ended);

#endif
