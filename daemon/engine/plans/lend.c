#include "engine/plans/lend.h"

#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdlib.h>

/* Instances freed in one turn: each takes a few microseconds. */
#define FREED_PER_TURN 16u

void lender_init(lender_t *lender)
{
    list_init(&lender->idle);
    list_init(&lender->tenants);
}

static lender_t *lender_of(const cached_program_t *cached)
{
    return &cached->engine->cache.lender;
}

/* ---- idle instances ---- */

static void keep(plan_instance_t *instance)
{
    lender_t *lender = lender_of(instance->program);
    instance->idle_since_us = instance->program->engine->now_us;
    list_prepend(&instance->program->idle, &instance->of_program);
    list_prepend(&lender->idle, &instance->of_age);
    lender->idle_bytes += instance->need.bytes;
}

static void keep_no_more(plan_instance_t *instance)
{
    list_remove(&instance->of_program);
    list_remove(&instance->of_age);
    lender_of(instance->program)->idle_bytes -= instance->need.bytes;
}

static void free_idle(plan_instance_t *instance)
{
    keep_no_more(instance);
    exec_instance_destroy(instance->exec);
    free(instance);
}

static plan_instance_t *oldest(const lender_t *lender)
{
    return list_is_empty(&lender->idle) ? NULL : CONTAINER_OF(lender->idle.previous, plan_instance_t, of_age);
}

bool lend_expire(lender_t *lender, uint64_t since_us)
{
    plan_instance_t *instance;
    for (uint32_t freed = 0; (instance = oldest(lender)) && instance->idle_since_us <= since_us; freed++) {
        if (freed == FREED_PER_TURN)
            return true;
        free_idle(instance);
    }
    return false;
}

void lend_forget(cached_program_t *cached)
{
    LIST_FOR_EACH (link, &cached->idle) {
        free_idle(CONTAINER_OF(link, plan_instance_t, of_program));
    }
}

/* What the program's ops left, or a new one. */
static blink_result_t find_instance(cached_program_t *cached, plan_instance_t **found)
{
    plan_instance_t *instance = LIST_FIRST(&cached->idle, plan_instance_t, of_program);
    if (instance) {
        keep_no_more(instance);
        *found = instance;
        return BLINK_OK;
    }
    instance = calloc(1, sizeof(*instance));
    if (!instance)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan's instance");
    list_init(&instance->of_program);
    list_init(&instance->of_age);
    instance->program = cached;
    uint32_t own[PLAN_RANKS_MAX];
    const plan_key_t *key = &cached->key;
    for (uint32_t i = 0; i < key->rank_count; i++)
        own[i] = engine_own_node(cached->engine, key->fabric, key->nodes[i]);
    blink_result_t result =
        exec_instance_create(engine_exec(cached->engine, key->fabric, key->nodes, key->rank_count),
                             cached->program, own, &instance->exec);
    if (result != BLINK_OK)
        free(instance);
    else
        *found = instance;
    return result;
}

/* ---- lending ---- */

/* A run that would not find enough even if nothing was lent must not wait for ever: if its tenant has nothing
 * else, it is lent its instance beyond the budget. */
static bool charge(lender_t *lender, account_t *account, plan_instance_t *instance)
{
    const exec_need_t *need = &instance->need;
    /* Who needs nothing of GPUs does not wait for those who do. */
    bool fits =
        account_has_left(account, BUDGET_SCRATCH_BYTES, need->bytes) &&
        (need->gpu_bytes == 0 || account_has_left(account, BUDGET_GPU_SCRATCH_BYTES, need->gpu_bytes));
    bool has_some = account_used(account, BUDGET_SCRATCH_BYTES) > 0; /* every instance takes some */
    if (!fits && (lender->oversize || has_some))
        return false;
    instance->oversize = !fits;
    lender->oversize |= !fits;
    account_add(account, BUDGET_SCRATCH_BYTES, need->bytes);
    account_add(account, BUDGET_GPU_SCRATCH_BYTES, need->gpu_bytes);
    return true;
}

/* Whether the tenant has runs that have waited for longer than this one. */
static bool is_preceded(const comm_op_t *op)
{
    const comm_op_t *first = LIST_FIRST(&op->comm->tenant->queued_runs, comm_op_t, of_state);
    return first && first != op;
}

/* An op of several hosts must not wait for scratch: others might have what it waits for here, and wait on
 * another host for what the op has there (docs/network.md). What the budget does not hold it gets all the
 * same, with one slot for each edge, and those who can wait do so. */
static blink_result_t lend_at_once(comm_op_t *op, uint64_t block_bytes)
{
    plan_instance_t *instance;
    account_t *account = &op->comm->tenant->account;
    BLINK_TRY(find_instance(op->program, &instance));
    exec_limit_slots(instance->exec, 0);
    blink_result_t result = exec_bind(instance->exec, block_bytes, &instance->need);
    if (result == BLINK_OK && !account_has_left(account, BUDGET_SCRATCH_BYTES, instance->need.bytes)) {
        exec_limit_slots(instance->exec, 1);
        result = exec_bind(instance->exec, block_bytes, &instance->need);
    }
    if (result != BLINK_OK) {
        keep(instance);
        return result;
    }
    instance->oversize = false;
    account_add(account, BUDGET_SCRATCH_BYTES, instance->need.bytes);
    account_add(account, BUDGET_GPU_SCRATCH_BYTES, instance->need.gpu_bytes);
    op->instance = instance;
    return BLINK_OK;
}

blink_result_t lend(comm_op_t *op, uint64_t block_bytes)
{
    plan_instance_t *instance;
    if (remote_crosses(op))
        return lend_at_once(op, block_bytes);
    if (!is_preceded(op)) {
        BLINK_TRY(find_instance(op->program, &instance));
        blink_result_t result = exec_bind(instance->exec, block_bytes, &instance->need);
        if (result == BLINK_OK && charge(lender_of(op->program), &op->comm->tenant->account, instance)) {
            op->instance = instance;
            return BLINK_OK;
        }
        keep(instance);
        BLINK_TRY(result);
    }
    if (op->state != OP_QUEUED)
        op_enter(op, OP_QUEUED);
    return BLINK_OK;
}

void lend_back(comm_op_t *op)
{
    plan_instance_t *instance = op->instance;
    if (!instance)
        return;
    lender_t *lender = lender_of(instance->program);
    account_credit(&op->comm->tenant->account, BUDGET_SCRATCH_BYTES, instance->need.bytes);
    account_credit(&op->comm->tenant->account, BUDGET_GPU_SCRATCH_BYTES, instance->need.gpu_bytes);
    if (instance->oversize)
        lender->oversize = false;
    lender->returned = true;
    op->instance = NULL;
    keep(instance);
    uint64_t most = op->comm->engine->config.settings->idle_scratch_bytes;
    for (uint32_t freed = 0; lender->idle_bytes > most && freed < FREED_PER_TURN; freed++)
        free_idle(oldest(lender));
}

/* ---- waiting ---- */

comm_op_t *lend_next(lender_t *lender)
{
    tenant_t *tenant = LIST_FIRST(&lender->tenants, tenant_t, of_lender);
    list_remove(&tenant->of_lender);
    list_append(&lender->tenants, &tenant->of_lender);
    return LIST_FIRST(&tenant->queued_runs, comm_op_t, of_state);
}
