/*
 * Plans: made by the executor's workers, compiled, and kept for every communicator over the same devices.
 */
#ifndef BLINK_ENGINE_PLANS_H
#define BLINK_ENGINE_PLANS_H

#include "engine/engine.h"

typedef struct comm_op comm_op_t;

typedef struct cached_program cached_program_t; /* a compiled plan */

#define CACHE_BUCKETS 256u

/* Programs by what they are for, and by when they were last asked for. */
typedef struct plan_cache {
    cached_program_t *buckets[CACHE_BUCKETS];
    cached_program_t *newest, *oldest;
    uint32_t count;
} plan_cache_t;

/* What runs a program; lent to one op at a time. */
typedef struct comm_instance {
    struct comm_instance *next; /* among the idle ones */
    cached_program_t *program;
    exec_instance_t *exec;
} comm_instance_t;

/* An instance for this op: at once if its program is cached, else op_planned() follows and *instance is NULL.
 * Errors: NO_MEMORY. */
blink_result_t plan_find_instance(comm_op_t *op, comm_instance_t **instance);

/* Whether the op, a transfer, is planned for its two ranks alone: all communicators then share what is
 * between two devices. Not where other ranks may have to relay. */
bool plan_is_for_pair(const comm_op_t *op);

/* Give an idle instance back. */
void plan_return_instance(engine_t *engine, comm_instance_t *instance);

/* The op has run by this instance: count it for those who ask. */
void plan_note_use(comm_op_t *op, const comm_instance_t *instance);

void comm_free_plan_uses(engine_comm_t *comm);

double instance_rate_GBps(const comm_instance_t *instance);

void engine_free_cache(engine_t *engine);

#endif
