/*
 * Who makes plans, and in what order: threads that move no data, so that a slow plan delays only those who
 * wait for it. Tenants have their turns in rotation, and of each tenant one plan is made at a time: however
 * many plans one tenant wants, another one's first plan waits for no more than one of them.
 *
 * The calls below are the engine thread's.
 */
#ifndef BLINK_ENGINE_PLANNER_H
#define BLINK_ENGINE_PLANNER_H

#include "base/tenant.h"
#include "engine/engine.h"

typedef struct cached_program cached_program_t;
typedef struct planner planner_t;

/* What stands in a program while it is planned. */
typedef struct planner_job {
    list_t link;      /* on its tenant's plans, or handed to the threads */
    tenant_t *tenant; /* on whose turn it is made: some op of that tenant waits for it. NULL: nobody does */
    bool handed;      /* a thread makes it, or is about to */
} planner_job_t;

/* Errors: NO_MEMORY, SYSTEM. */
blink_result_t planner_create(planner_t **planner);

/* Nothing is being made. NULL is ignored. */
void planner_destroy(planner_t *planner);

/* Have a program planned, on a turn of this tenant, an op of which waits for it. The program's item is posted
 * to its engine when it is made. */
void planner_queue(planner_t *planner, cached_program_t *cached, tenant_t *tenant);

/* Another tenant's op waits for the program too: it is made on that tenant's turn if that comes earlier. */
void planner_share(planner_t *planner, cached_program_t *cached, tenant_t *tenant);

/* An op of the tenant on whose turn the program is made waits no more; `heir` is the tenant of another op
 * that does, or NULL. True if nobody waits and no thread has begun: the program is out of the queue, and the
 * caller's to remove. */
bool planner_leave(planner_t *planner, cached_program_t *cached, tenant_t *heir);

/* The program has been made, and its item has been run. */
void planner_made(planner_t *planner, cached_program_t *cached);

/* Whether every thread has come by since the last call that returned true, or is at a plan for no longer than
 * `plan_s`. Asks them anew if so. On any thread, but one. */
bool planner_turns(planner_t *planner, double plan_s);

/* Have a thread of the planner's give free memory of the process back to the system. */
void planner_trim(planner_t *planner);

#endif
