#include "engine/plans/plans.h"

#include "base/clock.h"
#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/remote/remote.h"
#include "error.h"
#include "plan/lane/lane.h"

#include <stdlib.h>
#include <string.h>

/* Programs looked at in one turn, to find those that have grown old. */
#define LOOKED_AT_PER_TURN 16u

/* ---- keys ---- */

static plan_key_t key_of(const comm_op_t *op, uint32_t nodes[PLAN_RANKS_MAX])
{
    const engine_comm_t *comm = op->comm;
    const op_signature_t *signature = &op->signature;
    bool by_size = comm->algorithm == BLINK_ALGORITHM_AUTO && !comm->fabric->one_class;
    plan_key_t key = {.fabric = comm->fabric,
                      .collective = remote_is_barrier(op) ? BLINK_ALLREDUCE : op->shape.collective,
                      .scales_inputs = op->remote && signature->redop == BLINK_PRE_MUL_SUM,
                      .algorithm = comm->algorithm,
                      .size_class = by_size ? plan_size_class(op->shape.payload_bytes) : 0,
                      .root = op->shape.has_root ? signature->root : PLAN_NONE,
                      .peer = PLAN_NONE,
                      .rank_count = comm->rank_count,
                      .nodes = comm->nodes};
    if (!op->shape.is_transfer)
        return key;
    key.root = signature->root;
    key.peer = signature->peer;
    if (!op->for_pair)
        return key;
    bool to_itself = signature->root == signature->peer;
    nodes[0] = comm->nodes[signature->root];
    nodes[1] = comm->nodes[signature->peer];
    key.root = 0;
    key.peer = to_itself ? 0 : 1;
    key.rank_count = to_itself ? 1 : 2;
    key.nodes = nodes;
    return key;
}

static uint32_t hash_of(const plan_key_t *key)
{
    uint32_t hash = 2166136261u;
    const uint32_t words[] = {key->collective, key->algorithm,  key->root,
                              key->peer,       key->size_class, key->rank_count};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        hash = (hash ^ words[i]) * 16777619u;
    for (uint32_t i = 0; i < key->rank_count; i++)
        hash = (hash ^ key->nodes[i]) * 16777619u;
    return hash;
}

static bool key_equals(const plan_key_t *a, const plan_key_t *b)
{
    return a->fabric == b->fabric && a->scales_inputs == b->scales_inputs && a->collective == b->collective &&
           a->algorithm == b->algorithm && a->root == b->root && a->peer == b->peer &&
           a->size_class == b->size_class && a->rank_count == b->rank_count &&
           memcmp(a->nodes, b->nodes, a->rank_count * sizeof(*a->nodes)) == 0;
}

/* ---- the cache ---- */

blink_result_t plan_cache_init(plan_cache_t *cache)
{
    for (uint32_t i = 0; i < CACHE_BUCKETS; i++)
        list_init(&cache->buckets[i]);
    list_init(&cache->by_age);
    lender_init(&cache->lender);
    return planner_create(&cache->planner);
}

static cached_program_t *cache_find(plan_cache_t *cache, const plan_key_t *key, uint32_t hash)
{
    LIST_FOR_EACH (link, &cache->buckets[hash % CACHE_BUCKETS]) {
        cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_bucket);
        if (cached->hash != hash || !key_equals(&cached->key, key))
            continue;
        list_remove(&cached->of_age);
        list_prepend(&cache->by_age, &cached->of_age);
        cached->asked_us = cached->engine->now_us;
        return cached;
    }
    return NULL;
}

static void cache_remove(plan_cache_t *cache, cached_program_t *cached)
{
    list_remove(&cached->of_bucket);
    list_remove(&cached->of_age);
    cache->bytes -= cached->bytes;
    lend_forget(cached);
    lane_program_destroy(cached->program);
    fabric_put(cached->key.fabric);
    free(cached);
}

/* Remove the oldest that nothing runs and nobody waits for, until the rest is no more than that. */
static void cache_trim(plan_cache_t *cache, uint64_t most_bytes)
{
    list_t *previous;
    for (list_t *link = cache->by_age.previous; link != &cache->by_age && cache->bytes > most_bytes;
         link = previous) {
        cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_age);
        previous = link->previous;
        if (cached->uses == 0 && cached->program)
            cache_remove(cache, cached);
    }
}

/* Remove programs that nobody has asked for since then. True if there may be more. */
static bool cache_expire(plan_cache_t *cache, uint64_t since_us)
{
    list_t *link = cache->by_age.previous, *previous;
    for (uint32_t looked_at = 0; link != &cache->by_age; looked_at++, link = previous) {
        cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_age);
        previous = link->previous;
        if (cached->asked_us > since_us)
            return false;
        if (looked_at == LOOKED_AT_PER_TURN)
            return true;
        if (cached->uses == 0 && cached->program)
            cache_remove(cache, cached);
    }
    return false;
}

static uint64_t before(uint64_t now_us, double seconds)
{
    uint64_t age_us = (uint64_t)(seconds * 1e6);
    return now_us > age_us ? now_us - age_us : 0;
}

uint64_t plan_cache_tidy(engine_t *engine)
{
    plan_cache_t *cache = &engine->cache;
    const settings_t *settings = engine->config.settings;
    uint64_t now_us = engine->now_us;
    if (now_us < cache->tidy_us)
        return cache->tidy_us;
    bool more = lend_expire(&cache->lender, before(now_us, settings->idle_scratch_s));
    more |= cache_expire(cache, before(now_us, settings->cached_plan_s));
    if (more)
        return now_us;
    if (cache->worked && list_is_empty(&engine->busy_comms)) {
        planner_trim(cache->planner);
        cache->worked = false;
    }
    cache->tidy_us = now_us + (uint64_t)(settings->idle_scratch_s * 1e6);
    bool has_any = cache->worked || !list_is_empty(&cache->by_age);
    return has_any ? cache->tidy_us : UINT64_MAX;
}

void plan_cache_free(plan_cache_t *cache)
{
    LIST_FOR_EACH (link, &cache->by_age) {
        cache_remove(cache, CONTAINER_OF(link, cached_program_t, of_age));
    }
    planner_destroy(cache->planner);
}

static cached_program_t *cache_add(engine_t *engine, const plan_key_t *key, uint32_t hash)
{
    plan_cache_t *cache = &engine->cache;
    size_t nodes_bytes = key->rank_count * sizeof(*key->nodes);
    cached_program_t *added = calloc(1, sizeof(*added) + nodes_bytes);
    if (!added)
        return NULL;
    added->engine = engine;
    added->hash = hash;
    added->key = *key;
    fabric_get(key->fabric);
    memcpy(added->nodes, key->nodes, nodes_bytes);
    added->key.nodes = added->nodes;
    list_init(&added->waiting);
    list_init(&added->idle);
    list_prepend(&cache->buckets[hash % CACHE_BUCKETS], &added->of_bucket);
    list_prepend(&cache->by_age, &added->of_age);
    added->asked_us = engine->now_us;
    added->bytes = sizeof(*added) + nodes_bytes;
    cache->bytes += added->bytes;
    cache_trim(cache, engine->config.settings->cached_plan_bytes);
    return added;
}

/* ---- planning ---- */

/* Everybody who waited is due again, or fails. A plan that failed is forgotten: the next op tries again. */
static void plan_return(mailbox_item_t *item)
{
    cached_program_t *cached = CONTAINER_OF(item, cached_program_t, item);
    plan_cache_t *cache = &cached->engine->cache;
    cache->in_making--;
    planner_made(cache->planner, cached);
    cached->program = cached->made;
    if (cached->program) {
        cached->bytes += lane_program_bytes(cached->program);
        cache->bytes += lane_program_bytes(cached->program);
    }
    LIST_FOR_EACH (link, &cached->waiting) {
        comm_op_t *op = CONTAINER_OF(link, comm_op_t, of_state);
        op->since_us = clock_us();
        if (cached->result == BLINK_OK) {
            op_enter(op, OP_DUE);
        } else {
            op->program = NULL;
            op_fail(op, cached->result, cached->text);
        }
    }
    if (cached->result != BLINK_OK)
        cache_remove(cache, cached);
}

/* The program for the op; *is_new: it has yet to be made. */
static blink_result_t find_program(const comm_op_t *op, cached_program_t **found, bool *is_new)
{
    engine_t *engine = op->comm->engine;
    uint32_t nodes[PLAN_RANKS_MAX];
    plan_key_t key = key_of(op, nodes);
    uint32_t hash = hash_of(&key);
    *found = cache_find(&engine->cache, &key, hash);
    *is_new = !*found;
    if (*is_new)
        *found = cache_add(engine, &key, hash);
    if (!*found)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to keep a plan of %u ranks", key.rank_count);
    return BLINK_OK;
}

/* The op waits until the program is made. */
static void await_plan(comm_op_t *op, bool is_new)
{
    cached_program_t *cached = op->program;
    planner_t *planner = op->comm->engine->cache.planner;
    op_enter(op, OP_PLANNING);
    if (!is_new) {
        planner_share(planner, cached, op->comm->tenant);
        return;
    }
    cached->item.run = plan_return;
    cached->engine->cache.in_making++;
    planner_queue(planner, cached, op->comm->tenant);
}

/* The op does not wait for its plan any more. A plan that nobody waits for is not begun. */
static void await_plan_no_more(comm_op_t *op)
{
    cached_program_t *cached = op->program;
    plan_cache_t *cache = &cached->engine->cache;
    list_remove(&op->of_state);
    const comm_op_t *other = LIST_FIRST(&cached->waiting, comm_op_t, of_state);
    if (cached->job.tenant == op->comm->tenant &&
        planner_leave(cache->planner, cached, other ? other->comm->tenant : NULL)) {
        cache->in_making--;
        cache_remove(cache, cached);
    }
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
    bool is_new = false;
    if (!op->program) {
        BLINK_TRY(find_program(op, &op->program, &is_new));
        op->program->uses++;
    }
    if (!op->program->program)
        await_plan(op, is_new);
    return BLINK_OK;
}

void plan_release(comm_op_t *op)
{
    cached_program_t *cached = op->program;
    lend_back(op);
    if (!cached)
        return;
    cached->uses--;
    if (op->state == OP_PLANNING)
        await_plan_no_more(op);
    else if (cached->uses == 0)
        cache_trim(&cached->engine->cache, cached->engine->config.settings->cached_plan_bytes);
    op->program = NULL;
}
