/*
 * Instances: what it takes to run a program once at a time, in memory of the daemon and of GPUs. One is lent
 * to an op for each of its runs, and charged to the op's tenant for as long as it is lent. A run that finds
 * no scratch left in the budget waits its turn in OP_QUEUED, behind the runs that its tenant began to wait
 * for before; tenants that wait have their turns in rotation. An op has nothing while it waits, for scratch
 * or for clients, so whatever is lent comes back.
 *
 * An instance that is not lent belongs to the node, which keeps it for the next run of its program: up to
 * settings.idle_scratch_bytes in all, and each for no longer than settings.idle_scratch_s.
 */
#ifndef BLINK_ENGINE_LEND_H
#define BLINK_ENGINE_LEND_H

#include "base/list.h"
#include "base/tenant.h"
#include "engine/engine.h"

typedef struct cached_program cached_program_t;
typedef struct comm_op comm_op_t;

typedef struct plan_instance {
    list_t of_program; /* its idle ones */
    list_t of_age;     /* lender_t.idle */
    cached_program_t *program;
    exec_instance_t *exec;
    exec_need_t need; /* while lent: charged; while idle: what it keeps */
    uint64_t idle_since_us;
    bool oversize; /* lent although the budget does not hold it */
} plan_instance_t;

typedef struct lender {
    list_t idle;    /* plan_instance_t.of_age, the last one lent first */
    list_t tenants; /* tenant_t.of_lender: that have ops in OP_QUEUED, in rotation */
    uint32_t tenant_count;
    uint64_t idle_bytes;
    bool returned; /* since the queues were last looked at, scratch has come back or an op has left one */
    bool oversize; /* an instance is lent that the budget does not hold: one at a time, so that every run gets
                      its turn however large it is */
} lender_t;

void lender_init(lender_t *lender);

/* Lend an op whose program is there an instance for its next run, of blocks of this size, at op->instance; or
 * leave that NULL, and the op is in OP_QUEUED. Errors: NO_MEMORY, and those of exec_instance_create(). */
blink_result_t lend(comm_op_t *op, uint64_t block_bytes);

/* Take back what the op was lent, if anything. */
void lend_back(comm_op_t *op);

/* Whether a queued op may find scratch now. */
static inline bool lend_has_news(const lender_t *lender)
{
    return lender->returned && lender->tenant_count > 0;
}

/* The longest queued op of the tenant whose turn it is. There is one. */
comm_op_t *lend_next(lender_t *lender);

/* Free the program's idle instances. */
void lend_forget(cached_program_t *cached);

/* Free instances that have been idle since before then, as many as one turn may. True if there are more. */
bool lend_expire(lender_t *lender, uint64_t since_us);

#endif
