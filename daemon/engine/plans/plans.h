/*
 * Plans: made and compiled by the planner (planner.h), and kept for every communicator over the same devices.
 * Of several hosts one makes a plan and ships it to the others (word.h), and all compile it.
 */
#ifndef BLINK_ENGINE_PLANS_H
#define BLINK_ENGINE_PLANS_H

#include "base/list.h"
#include "base/table.h"
#include "engine/engine.h"
#include "engine/plans/lend.h"
#include "engine/plans/planner.h"
#include "engine/plans/tell.h"

/* What a program is for. */
typedef struct plan_key {
    fabric_t *fabric; /* whose topology has the nodes */
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root, peer;
    uint32_t size_class; /* plan_size_class(); class 0 is for all sizes */
    uint32_t rank_count;
    bool scales_inputs;  /* of several hosts: PRE_MUL_SUM takes another program, */
    bool lands_in_slots; /* and so do collectives of small payloads */
    bool may_switch;     /* on GPUs: the plan may have switches reduce and copy; */
    bool narrow;         /* and what they reduce are integers of 4 bytes */
    const uint32_t *nodes;
} plan_key_t;

/* Size classes for which times are predicted; larger payloads are predicted from the last one. */
#define PLAN_CLASSES 21u

/* A compiled plan, or one that is being made. */
struct cached_program {
    list_t of_bucket, of_age; /* of the cache */
    uint64_t digest_of_key;
    uint32_t uses; /* ops that hold it, whether they wait for it or run an instance of it, and asks */
    plan_key_t key;
    list_t waiting;           /* ops in OP_PLANNING (op.h) */
    list_t asks;              /* answer.c: of other hosts that wait for it */
    struct plan_fetch *fetch; /* fetch.c: another host is asked for it; NULL: none is */
    tenant_t *payer;          /* of bytes that have come from there; NULL: nobody, there are none */
    uint32_t paid_bytes;
    lane_program_t *program;     /* NULL while it is being made */
    blink_algorithm_t algorithm; /* never AUTO */
    blink_protocol_t protocol;
    uint64_t digest;                   /* of the program of a plan for several hosts, and … */
    uint64_t plan_digest;              /* … of that plan; 0: it is for one host */
    double predicted_us[PLAN_CLASSES]; /* by the model (plan/predict.h), for the largest payload of a class */
    /* Of its latest op: as long as the last piece of it ran, turns of others included, times its pieces; and
     * its payload. 0: there was none. */
    uint64_t took_us, took_bytes;
    list_t idle;       /* plan_instance_t.of_program */
    uint64_t asked_us; /* when an op last asked for it */
    uint64_t bytes;    /* that it keeps, without instances */
    engine_t *engine;
    planner_job_t job;
    /* While it is being made these are the planner's thread's, until the item is posted. */
    mailbox_item_t item;
    blink_result_t result;
    lane_program_t *made;
    plan_shipped_t *shipped; /* the plan as bytes, on the host that has made it as long as it is kept; else
                                until it is compiled. NULL: it is of one host, or still to be planned */
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t nodes[]; /* of the key */
};

#define CACHE_BUCKETS 256u

/* Programs (cache.h), and what is under way to and from other hosts. */
typedef struct plan_cache {
    list_t buckets[CACHE_BUCKETS];
    list_t by_age;      /* newest first */
    uint64_t bytes;     /* of all programs */
    uint32_t in_making; /* programs that the planner has */
    planner_t *planner;
    table_t fetches; /* fetch.c: by number */
    uint64_t fetches_begun;
    _Atomic uint32_t untold; /* tell.c: words that the control thread has not sent */
    list_t sources;          /* fetch.c: hosts that are asked */
    lender_t lender;
    uint64_t tidy_us; /* when to look for what has grown old */
    uint32_t swept;   /* buckets that have been looked at since */
    bool worked;      /* the engine had work since memory was last given back to the system */
} plan_cache_t;

/* Find the program for a due op, at op->program. If it has yet to be made, the op is in OP_PLANNING; when the
 * plan has come it is due again, or has failed. Errors: NO_MEMORY, QUOTA. */
blink_result_t plan_find(comm_op_t *op);

/* Take back what the op was lent, its program, or what it waits for. */
void plan_release(comm_op_t *op);

/* From which host an op in OP_PLANNING awaits its plan; NULL: it is made here. */
const char *plan_awaited_from(const comm_op_t *op);

/* The communicator has left (remote_comm_leave()): other hosts hear so that wait for plans of it. */
void plan_asks_leave(engine_comm_t *comm);

/* The model's time for a run with this payload, linear between the classes. */
double plan_predicted_us(const cached_program_t *cached, uint64_t bytes);

/* An empty cache with its planner. Errors: NO_MEMORY, SYSTEM. */
blink_result_t plan_cache_init(plan_cache_t *cache);

/* Free what has been idle for as long as the settings say, a slice of it, and now and then, while no op is
 * under way, have free memory given back to the system. Returns when to look again (µs), or UINT64_MAX. */
uint64_t plan_cache_tidy(engine_t *engine);

/* Free all programs. Nothing is lent, and none is being made. */
void plan_cache_free(plan_cache_t *cache);

/* ---- between the files of this folder ---- */

/* Somebody of the communicator wants the program, and holds it from now on: it is there, or is being made or
 * fetched. Errors: NO_MEMORY, QUOTA. */
blink_result_t plan_want(engine_t *engine, const plan_key_t *key, engine_comm_t *comm,
                         cached_program_t **wanted);

/* Somebody of this tenant does not wait for it any more, and has left its list. The program may be gone. */
void plan_await_no_more(cached_program_t *cached, const tenant_t *tenant);

/* Have a thread plan it, or compile what has been shipped, on a turn of this tenant. */
void plan_queue(cached_program_t *cached, tenant_t *tenant);

/* It could not be fetched in the name of this communicator, whose ops fail; others may wait for it still. The
 * program may be gone. */
void plan_fetch_failed(cached_program_t *cached, uint64_t home, uint32_t comm, blink_result_t code,
                       const char *text);

#endif
