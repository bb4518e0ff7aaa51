/*
 * Plans: made and compiled by the planner (planner.h), and kept for every communicator over the same devices.
 */
#ifndef BLINK_ENGINE_PLANS_H
#define BLINK_ENGINE_PLANS_H

#include "base/list.h"
#include "engine/engine.h"
#include "engine/plans/planner.h"

typedef struct comm_op comm_op_t;

/* What a program is for. */
typedef struct plan_key {
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root, peer;
    uint32_t size_class; /* plan_size_class(); class 0 is for all sizes */
    uint32_t rank_count;
    const uint32_t *nodes;
} plan_key_t;

/* Size classes for which times are predicted; larger payloads are predicted from the last one. */
#define PLAN_CLASSES 21u

/* A compiled plan, or one that is being made. */
struct cached_program {
    list_t of_bucket, of_age; /* of the cache */
    uint32_t hash;
    uint32_t uses; /* ops that hold it, whether they wait for it or run an instance of it */
    plan_key_t key;
    list_t waiting;              /* ops in OP_PLANNING (op.h) */
    lane_program_t *program;     /* NULL while it is being made */
    blink_algorithm_t algorithm; /* never AUTO */
    blink_protocol_t protocol;
    double predicted_us[PLAN_CLASSES]; /* by the model (plan/predict.h), for the largest payload of a class */
    list_t idle;                       /* plan_instance_t.of_program */
    uint32_t idle_count;
    engine_t *engine;
    planner_job_t job;
    /* While it is being made these are the planner's thread's, until the item is posted. */
    mailbox_item_t item;
    blink_result_t result;
    lane_program_t *made;
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t nodes[]; /* of the key */
};

#define CACHE_BUCKETS 256u

/* Programs by what they are for, and by when they were last asked for. */
typedef struct plan_cache {
    list_t buckets[CACHE_BUCKETS];
    list_t by_age; /* newest first */
    uint32_t count;
    uint32_t in_making; /* programs that the planner has */
    planner_t *planner;
} plan_cache_t;

/* What runs a program; lent to one op at a time. */
typedef struct plan_instance {
    list_t of_program; /* its idle ones */
    cached_program_t *program;
    exec_instance_t *exec;
} plan_instance_t;

/* Lend an instance to a due op, at op->instance. If the op's plan has yet to be made, op->instance is NULL
 * and the op is in OP_PLANNING; when the plan has come it is due again, or has failed. Errors: NO_MEMORY, and
 * those of exec_instance_create(). */
blink_result_t plan_lend(comm_op_t *op);

/* Take back what the op was lent, or what it waits for. */
void plan_take_back(comm_op_t *op);

/* The model's time for a run with this payload, linear between the classes. */
double plan_predicted_us(const cached_program_t *cached, uint64_t bytes);

/* An empty cache with its planner. Errors: NO_MEMORY, SYSTEM. */
blink_result_t plan_cache_init(plan_cache_t *cache);

/* Free all programs. Nothing is lent, and none is being made. */
void plan_cache_free(plan_cache_t *cache);

#endif
