#include "engine/plans/plans.h"

#include "base/clock.h"
#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/plans/answer.h"
#include "engine/plans/cache.h"
#include "engine/plans/fetch.h"
#include "engine/remote/remote.h"
#include "error.h"
#include "plan/lane/lane.h"

#include <stdlib.h>

/* ---- the beginning and the end ---- */

blink_result_t plan_cache_init(plan_cache_t *cache)
{
    for (uint32_t i = 0; i < CACHE_BUCKETS; i++)
        list_init(&cache->buckets[i]);
    list_init(&cache->by_age);
    list_init(&cache->sources);
    lender_init(&cache->lender);
    return planner_create(&cache->planner);
}

void plan_cache_free(plan_cache_t *cache)
{
    LIST_FOR_EACH (link, &cache->by_age) {
        cache_remove(cache, CONTAINER_OF(link, cached_program_t, of_age));
    }
    table_fini(&cache->fetches);
    planner_destroy(cache->planner);
}

/* ---- planning ---- */

static bool is_planned_here(const cached_program_t *cached)
{
    return plan_key_host(&cached->key) == cached->key.fabric->own_host;
}

static void fail_waiting(comm_op_t *op, blink_result_t code, const char *text)
{
    op->program->uses--;
    op->program = NULL;
    op_fail(op, code, text);
}

/* Everybody who waited is due again, or fails. A plan that failed is forgotten: the next op tries again. */
static void plan_return(mailbox_item_t *item)
{
    cached_program_t *cached = CONTAINER_OF(item, cached_program_t, item);
    plan_cache_t *cache = &cached->engine->cache;
    cache->in_making--;
    planner_made(cache->planner, cached);
    cached->program = cached->made;
    if (!is_planned_here(cached)) {
        plan_shipped_put(cached->shipped);
        cached->shipped = NULL;
        fetch_pay_no_more(cached);
    }
    if (cached->program)
        cache_count(cache, cached, lane_program_bytes(cached->program));
    if (cached->shipped)
        cache_count(cache, cached, cached->shipped->byte_count);
    LIST_FOR_EACH (link, &cached->waiting) {
        comm_op_t *op = CONTAINER_OF(link, comm_op_t, of_state);
        op->since_us = clock_us();
        if (cached->result == BLINK_OK)
            op_enter(op, OP_DUE);
        else
            fail_waiting(op, cached->result, cached->text);
    }
    answer_all(cached);
    if (cached->result != BLINK_OK)
        cache_remove(cache, cached);
}

void plan_queue(cached_program_t *cached, tenant_t *tenant)
{
    plan_cache_t *cache = &cached->engine->cache;
    cached->item.run = plan_return;
    cache->in_making++;
    planner_queue(cache->planner, cached, tenant);
}

void plan_fetch_failed(cached_program_t *cached, uint64_t home, uint32_t comm, blink_result_t code,
                       const char *text)
{
    LIST_FOR_EACH (link, &cached->waiting) {
        comm_op_t *op = CONTAINER_OF(link, comm_op_t, of_state);
        if (op->comm->remote->home == home && op->comm->remote->number == comm)
            fail_waiting(op, code, text);
    }
    comm_op_t *other;
    while ((other = LIST_FIRST(&cached->waiting, comm_op_t, of_state))) {
        blink_result_t result = fetch_begin(cached, other->comm);
        if (result == BLINK_OK)
            return;
        fail_waiting(other, result, blink_error_text());
    }
    cache_remove(&cached->engine->cache, cached);
}

/* The tenant of somebody who waits for the program; NULL: nobody does. */
static tenant_t *waiting_tenant(const cached_program_t *cached)
{
    const comm_op_t *op = LIST_FIRST(&cached->waiting, comm_op_t, of_state);
    return op ? op->comm->tenant : answer_waiting_tenant(cached);
}

void plan_await_no_more(cached_program_t *cached, const tenant_t *tenant)
{
    plan_cache_t *cache = &cached->engine->cache;
    tenant_t *heir = waiting_tenant(cached);
    fetch_inherit(cached, tenant, heir);
    if (cached->fetch) {
        if (heir)
            return;
        fetch_end(cached);
        cache_remove(cache, cached);
    } else if (cached->job.tenant == tenant && planner_leave(cache->planner, cached, heir)) {
        cache->in_making--;
        cache_remove(cache, cached);
    }
}

/* A plan that this host has made for a key which differs in how plans are compiled alone; NULL: there is
 * none.
 */
static plan_shipped_t *find_same_plan(plan_cache_t *cache, const plan_key_t *key)
{
    for (uint32_t other = 0; other < 4 && fabric_spans_hosts(key->fabric); other++) {
        plan_key_t same = *key;
        same.scales_inputs = other & 1;
        same.lands_in_slots = other & 2;
        const cached_program_t *cached = cache_find(cache, &same, plan_key_digest(&same));
        if (cached && cached->program && cached->shipped)
            return plan_shipped_get(cached->shipped);
    }
    return NULL;
}

/* What is there of the plan need not be made. */
static void plan_here(cached_program_t *cached, tenant_t *tenant)
{
    cached->shipped = find_same_plan(&cached->engine->cache, &cached->key);
    plan_queue(cached, tenant);
}

blink_result_t plan_want(engine_t *engine, const plan_key_t *key, engine_comm_t *comm,
                         cached_program_t **wanted)
{
    plan_cache_t *cache = &engine->cache;
    uint64_t digest = plan_key_digest(key);
    cached_program_t *cached = cache_find(cache, key, digest);
    bool is_new = !cached;
    blink_result_t result = BLINK_OK;
    if (is_new)
        cached = cache_add(engine, key, digest);
    if (!cached)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to keep a plan of %u ranks", key->rank_count);
    if (is_new && is_planned_here(cached))
        plan_here(cached, comm->tenant);
    else if (is_new)
        result = fetch_begin(cached, comm);
    else if (cached->fetch)
        result = fetch_share(cached, comm);
    else if (!cached->program)
        planner_share(cache->planner, cached, comm->tenant);
    if (result != BLINK_OK && is_new)
        cache_remove(cache, cached);
    if (result == BLINK_OK) {
        cached->uses++;
        *wanted = cached;
    }
    return result;
}

double plan_predicted_us(const cached_program_t *cached, uint64_t bytes)
{
    uint32_t class = plan_size_class(bytes);
    if (class >= PLAN_CLASSES)
        class = PLAN_CLASSES - 1;
    double least = (double)plan_class_bytes(class - 1), most = (double)plan_class_bytes(class);
    double least_us = cached->predicted_us[class - 1], most_us = cached->predicted_us[class];
    return least_us + ((double)bytes - least) / (most - least) * (most_us - least_us);
}

/* ---- for ops ---- */

blink_result_t plan_find(comm_op_t *op)
{
    uint32_t nodes[2];
    if (op->program)
        return BLINK_OK; /* it has come */
    plan_key_t key = plan_key_of(op, nodes);
    BLINK_TRY(plan_want(op->comm->engine, &key, op->comm, &op->program));
    if (!op->program->program)
        op_enter(op, OP_PLANNING);
    return BLINK_OK;
}

void plan_release(comm_op_t *op)
{
    cached_program_t *cached = op->program;
    lend_back(op);
    if (!cached)
        return;
    cached->uses--;
    if (op->state == OP_PLANNING) {
        list_remove(&op->of_state);
        plan_await_no_more(cached, op->comm->tenant);
    } else if (cached->uses == 0) {
        cache_trim(cached->engine);
    }
    op->program = NULL;
}

const char *plan_awaited_from(const comm_op_t *op)
{
    const plan_key_t *key = &op->program->key;
    return op->program->fetch ? key->fabric->hosts[plan_key_host(key)] : NULL;
}
