/*
 * One user of the machine and what the user makes the daemon keep: for whom budgets are, and between whom
 * time is shared. With tenants_by = cgroup a tenant is one user in one cgroup. The control thread and the
 * engine thread both see a tenant; what is below without a word about the engine is the control thread's
 * alone.
 *
 * The control thread makes and frees tenants, by counts of its own: each session and each roster holds its
 * tenant. The engine's pointers to a tenant are in its clients, which are gone when engine_client_remove() is
 * done, and in its communicators, which do not follow them any more when the last engine_comm_leave() is
 * done. A session ends after the first, a roster after the second.
 */
#ifndef BLINK_TENANT_H
#define BLINK_TENANT_H

#include "base/bag.h"
#include "base/budget.h"
#include "base/events.h"
#include "base/fair.h"
#include "base/list.h"
#include "base/log.h"
#include "base/settings.h"

#include <sys/types.h>

#define TENANT_NAME_BYTES 112

typedef struct tenant {
    list_t link; /* on tenants->all */
    uint32_t holders;
    list_t failed_ids; /* failed_ids.c's, as the next: ids that are remembered for it */
    uint32_t failed_id_count;
    uid_t uid;       /* never changes: the engine reads it too */
    uint32_t weight; /* its share of time beside the others'; never changes, the engine reads it */
    char name[TENANT_NAME_BYTES]; /* for messages: "user 1000", or "user 1000 in /job/7"; never changes */
    account_t account;            /* both threads charge it, each its own resources (budget.h) */
    log_budget_t log;
    uint64_t refused_ns;    /* the control thread's: the last event of a refusal for a limit */
    list_t works;           /* of the control thread's turns: what is done for the tenant, slice by slice */
    list_t of_turn;         /* the tenants that have works */
    uint32_t unclaimed_fds; /* the control thread's: that have come with frames which have not come whole */
    bag_t rosters, clients; /* the control thread's: roster_t.of_tenant, client_t.of_tenant */
    /* The engine's, for the planner (engine/plans/planner.h). */
    list_t of_planner;     /* planner->tenants */
    list_t plans;          /* planner_job_t.link: of plans to be made */
    uint32_t plans_handed; /* being made, or about to be */
    /* The engine thread's, until its pointers are gone. */
    list_t of_active;       /* among the tenants that have active clients */
    list_t active_clients;  /* engine_client_t.of_active */
    uint32_t active_count;  /* of these */
    fair_share_t turn;      /* of the engine's turns, while it has communicators that are due */
    fair_round_t due_comms; /* engine_comm_t.turn */

    /* Ops of its communicators that have ended, and the payload of those that succeeded. counter.h: the
     * engine is the writer. */
    _Atomic uint64_t op_count, failed_op_count, payload_bytes;

    /* The engine's, for runs that wait for scratch (engine/plans/lend.h). */
    list_t of_lender;   /* lender_t.tenants */
    list_t queued_runs; /* ops in OP_QUEUED, the longest waiting first */

    char cgroup[]; /* "": the tenant is the user in all cgroups */
} tenant_t;

/* What a tenant, and a communicator, may have done before the engine attends to the next: payload in bytes.
 * An op counts for at least TURN_LEAST_BYTES, however small it is. */
#define TURN_QUANTUM_BYTES (1 << 20)
#define TURN_LEAST_BYTES   (16u << 10)

typedef struct tenants {
    list_t all;
    const settings_weight_t *weights; /* borrowed; of users that are not named it is 1 */
    uint32_t weight_count;
    budget_t budget;
} tenants_t;

void tenants_init(tenants_t *tenants, const budget_limit_t limits[BUDGET_KINDS]);

/* The tenant, made if there is none, held once more. NULL: no memory. */
tenant_t *tenant_get(tenants_t *tenants, uid_t uid, const char *cgroup);

/* Hold it once more. */
void tenant_hold(tenant_t *tenant);

/* Hold it once less; with the last hold it goes. */
void tenant_put(tenant_t *tenant);

/* Log what the tenant has caused, as long as its budget of lines lasts. What is withheld is counted, and the
 * next line is preceded by the number. */
void tenant_log(tenant_t *tenant, log_level_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Remember that a request of `subject` was refused for a limit, as the last failure says: once a second. */
void tenant_refused(tenant_t *tenant, const char *subject);

/* An event of the tenant's, as long as the same budget lasts: logged as "SUBJECT: TEXT" and remembered. The
 * communicator's number is 0 for none. */
void tenant_event(tenant_t *tenant, event_kind_t kind, uint32_t comm, const char *subject, log_level_t level,
                  const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
