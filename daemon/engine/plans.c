/*
 * Plans for the engine: made by the executor's workers so that a slow one delays only its communicators,
 * compiled, and cached for every communicator over the same devices.
 */
#include "engine/plans.h"

#include "base/log.h"
#include "collective.h"
#include "engine/comm.h"
#include "engine/gpu_worker.h"
#include "engine/loop.h"
#include "engine/op.h"
#include "engine/run.h"
#include "error.h"
#include "names.h"
#include "plan/choose.h"
#include "plan/lane/lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Programs that nothing runs are kept up to this many in all, and of each so many instances. */
#define CACHE_PROGRAMS  1024u
#define CACHE_INSTANCES 16u

/* What a program is for. Payloads within a factor of four share one; class 0 is for all sizes. */
typedef struct plan_key {
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root, peer;
    uint32_t size_class;
    uint32_t rank_count;
    const uint32_t *nodes;
} plan_key_t;

/* A program, or one that is being made. */
struct cached_program {
    cached_program_t *next; /* in its bucket */
    cached_program_t *newer, *older;
    uint32_t hash;
    uint32_t uses; /* instances lent */
    plan_key_t key;
    comm_op_t *waiting;          /* for the plan */
    lane_program_t *program;     /* NULL while it is being made */
    blink_algorithm_t algorithm; /* never AUTO */
    blink_protocol_t protocol;
    comm_instance_t *idle;
    uint32_t idle_count;
    /* Being made, by a worker until the item is posted. */
    engine_t *engine;
    mailbox_item_t item;
    blink_result_t result;
    lane_program_t *made;
    char text[BLINK_ERROR_TEXT_BYTES];
    uint32_t nodes[]; /* of the key */
};

/* ---- keys ---- */

/* Class c holds the payloads up to 4^c bytes. */
static uint32_t size_class(uint64_t bytes)
{
    return bytes > 4 ? (64u - (uint32_t)__builtin_clzll(bytes - 1) + 1u) / 2u : 1;
}

static uint64_t class_bytes(uint32_t class)
{
    return class < 32 ? 1ull << (2 * class) : UINT64_MAX;
}

bool plan_is_for_pair(const comm_op_t *op)
{
    return op->comm->engine->one_class && op_is_transfer(op);
}

static plan_key_t key_of(const comm_op_t *op, uint32_t nodes[PLAN_RANKS_MAX])
{
    const engine_comm_t *comm = op->comm;
    const op_signature_t *signature = &op->signature;
    blink_collective_t collective = collective_of_opcode(signature->opcode);
    bool by_size = comm->algorithm == BLINK_ALGORITHM_AUTO && !comm->engine->one_class;
    plan_key_t key = {.collective = collective,
                      .algorithm = comm->algorithm,
                      .size_class = by_size ? size_class(op_payload_bytes(op)) : 0,
                      .root = collective_has_root(collective) ? signature->root : PLAN_NONE,
                      .peer = PLAN_NONE,
                      .rank_count = comm->rank_count,
                      .nodes = comm->nodes};
    if (!op_is_transfer(op))
        return key;
    key.root = signature->root;
    key.peer = signature->peer;
    if (!plan_is_for_pair(op))
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
    return a->collective == b->collective && a->algorithm == b->algorithm && a->root == b->root &&
           a->peer == b->peer && a->size_class == b->size_class && a->rank_count == b->rank_count &&
           memcmp(a->nodes, b->nodes, a->rank_count * sizeof(*a->nodes)) == 0;
}

/* ---- the cache ---- */

static void age_unlink(plan_cache_t *cache, cached_program_t *cached)
{
    *(cached->newer ? &cached->newer->older : &cache->newest) = cached->older;
    *(cached->older ? &cached->older->newer : &cache->oldest) = cached->newer;
}

static void age_push(plan_cache_t *cache, cached_program_t *cached)
{
    cached->newer = NULL;
    cached->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = cached;
    cache->newest = cached;
}

static cached_program_t *cache_find(plan_cache_t *cache, const plan_key_t *key, uint32_t hash)
{
    cached_program_t *cached = cache->buckets[hash % CACHE_BUCKETS];
    while (cached && (cached->hash != hash || !key_equals(&cached->key, key)))
        cached = cached->next;
    if (cached && cached != cache->newest) {
        age_unlink(cache, cached);
        age_push(cache, cached);
    }
    return cached;
}

static void cached_program_free(cached_program_t *cached)
{
    while (cached->idle) {
        comm_instance_t *instance = cached->idle;
        cached->idle = instance->next;
        exec_instance_destroy(instance->exec);
        free(instance);
    }
    lane_program_destroy(cached->program);
    free(cached);
}

static void cache_remove(plan_cache_t *cache, cached_program_t *cached)
{
    cached_program_t **link = &cache->buckets[cached->hash % CACHE_BUCKETS];
    while (*link != cached)
        link = &(*link)->next;
    *link = cached->next;
    age_unlink(cache, cached);
    cache->count--;
    cached_program_free(cached);
}

/* The oldest that nothing runs and nobody waits for. */
static void cache_trim(plan_cache_t *cache)
{
    cached_program_t *newer;
    for (cached_program_t *cached = cache->oldest; cached && cache->count > CACHE_PROGRAMS; cached = newer) {
        newer = cached->newer;
        if (cached->uses == 0 && cached->program)
            cache_remove(cache, cached);
    }
}

void engine_free_cache(engine_t *engine)
{
    while (engine->cache.newest)
        cache_remove(&engine->cache, engine->cache.newest);
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
    memcpy(added->nodes, key->nodes, nodes_bytes);
    added->key.nodes = added->nodes;
    added->next = cache->buckets[hash % CACHE_BUCKETS];
    cache->buckets[hash % CACHE_BUCKETS] = added;
    age_push(cache, added);
    cache->count++;
    cache_trim(cache);
    return added;
}

/* ---- instances ---- */

static blink_result_t lend_instance(cached_program_t *cached, comm_instance_t **lent)
{
    comm_instance_t *instance = cached->idle;
    if (instance) {
        cached->idle = instance->next;
        cached->idle_count--;
    } else {
        instance = calloc(1, sizeof(*instance));
        if (!instance)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan's instance");
        instance->program = cached;
        blink_result_t result = exec_instance_create(engine_exec(cached->engine, cached->nodes[0]),
                                                     cached->program, cached->nodes, &instance->exec);
        if (result != BLINK_OK) {
            free(instance);
            return result;
        }
    }
    cached->uses++;
    *lent = instance;
    return BLINK_OK;
}

void plan_return_instance(engine_t *engine, comm_instance_t *instance)
{
    cached_program_t *cached = instance->program;
    cached->uses--;
    if (cached->idle_count < CACHE_INSTANCES) {
        instance->next = cached->idle;
        cached->idle = instance;
        cached->idle_count++;
    } else {
        exec_instance_destroy(instance->exec);
        free(instance);
    }
    if (cached->uses == 0)
        cache_trim(&engine->cache);
}

double instance_rate_GBps(const comm_instance_t *instance)
{
    return instance->program->program->rate_GBps;
}

/* ---- planning ---- */

static blink_result_t choose(const topo_t *topo, const plan_request_t *request, plan_t **plan)
{
    plan_choice_t choice;
    if (request->algorithm != BLINK_ALGORITHM_AUTO || request->rank_count == 1 || request->bytes == 0)
        return plan_create(topo, request, plan);
    BLINK_TRY(plan_choose(topo, request, &choice));
    *plan = plan_choice_take(&choice);
    plan_choice_fini(&choice);
    return BLINK_OK;
}

static blink_result_t plan_and_compile(cached_program_t *cached)
{
    const topo_t *topo = cached->engine->config.topo;
    const plan_key_t *key = &cached->key;
    plan_request_t request = {.collective = key->collective,
                              .algorithm = key->algorithm,
                              .rank_node = key->nodes,
                              .rank_count = key->rank_count,
                              .root = key->root,
                              .peer = key->peer,
                              .bytes = key->size_class ? class_bytes(key->size_class) : 0};
    plan_t *plan = NULL;
    BLINK_TRY(choose(topo, &request, &plan));
    if (cached->engine->config.settings->force_protocol && !cached->engine->one_class)
        plan->protocol = cached->engine->config.settings->protocol;
    if (exec_needs_flags(engine_exec(cached->engine, key->nodes[0]), key->nodes, key->rank_count))
        plan->protocol = BLINK_PROTOCOL_LL; /* whose flags cross a host's memory in one piece with the data */
    blink_result_t result = lane_compile(topo, plan, &cached->made);
    cached->algorithm = plan->algorithm;
    cached->protocol = plan->protocol;
    LOG_DEBUG("%s over %u ranks planned in %.1f ms: %s, %s, %u channels, %.1f GB/s of at most %.1f",
              blink_name_collective(key->collective), key->rank_count, plan->plan_ms,
              blink_name_algorithm(plan->algorithm), blink_name_protocol(plan->protocol), plan->channel_count,
              plan->rate_GBps, plan->bound_GBps);
    plan_destroy(plan);
    return result;
}

/* Serve everybody who waited. A plan that failed is forgotten: the next op tries again. */
static void plan_return(mailbox_item_t *item)
{
    cached_program_t *cached = CONTAINER_OF(item, cached_program_t, item);
    comm_op_t *waiting = cached->waiting;
    blink_result_t planned = cached->result;
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", cached->text);
    cached->waiting = NULL;
    cached->program = cached->made;
    if (planned != BLINK_OK)
        cache_remove(&cached->engine->cache, cached);
    else
        cached->uses++; /* not trimmed while it is given out */
    for (comm_op_t *next; waiting; waiting = next) {
        comm_instance_t *instance = NULL;
        blink_result_t result = planned;
        next = waiting->next_due;
        if (planned == BLINK_OK) {
            result = lend_instance(cached, &instance);
            snprintf(text, sizeof(text), "%s", result != BLINK_OK ? blink_error_text() : "");
        }
        op_planned(waiting, result, text, instance);
    }
    if (planned == BLINK_OK)
        cached->uses--;
}

/* On a worker thread. */
static void plan_run(void *argument)
{
    cached_program_t *cached = argument;
    cached->result = plan_and_compile(cached);
    if (cached->result != BLINK_OK)
        snprintf(cached->text, sizeof(cached->text), "%s", blink_error_text());
    plan_thread_release();
    mailbox_post(&cached->engine->mailbox, &cached->item);
}

blink_result_t plan_find_instance(comm_op_t *op, comm_instance_t **instance)
{
    engine_t *engine = op->comm->engine;
    uint32_t nodes[PLAN_RANKS_MAX];
    plan_key_t key = key_of(op, nodes);
    uint32_t hash = hash_of(&key);
    *instance = NULL;
    cached_program_t *cached = cache_find(&engine->cache, &key, hash);
    if (cached && cached->program)
        return lend_instance(cached, instance);
    if (!cached) {
        cached = cache_add(engine, &key, hash);
        if (!cached)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to keep a plan of %u ranks", key.rank_count);
        cached->item.run = plan_return;
        blink_result_t result = exec_host_post(engine->config.exec, plan_run, cached);
        if (result != BLINK_OK) {
            cache_remove(&engine->cache, cached);
            return result;
        }
    }
    op->next_due = cached->waiting;
    cached->waiting = op;
    return BLINK_OK;
}

/* ---- what ran ---- */

static engine_plan_use_t *find_use(engine_comm_t *comm, const comm_op_t *op, const comm_instance_t *instance)
{
    const cached_program_t *program = instance->program;
    const char *transport = exec_transport(instance->exec);
    /* Relaxed: only this thread adds entries. */
    engine_plan_use_t *first = atomic_load_explicit(&comm->plan_uses, memory_order_relaxed), *use = first;
    while (use && (use->opcode != op->signature.opcode || use->algorithm != program->algorithm ||
                   use->protocol != program->protocol || strcmp(use->transport, transport) != 0))
        use = use->next;
    if (use)
        return use;
    use = calloc(1, sizeof(*use));
    if (!use)
        return NULL;
    use->opcode = op->signature.opcode;
    use->algorithm = program->algorithm;
    use->protocol = program->protocol;
    use->transport = transport;
    use->next = first;
    atomic_init(&use->bytes_least, UINT64_MAX);
    /* Release: pairs with the load in engine_comm_plan_uses(). */
    atomic_store_explicit(&comm->plan_uses, use, memory_order_release);
    return use;
}

void plan_note_use(comm_op_t *op, const comm_instance_t *instance)
{
    engine_plan_use_t *use = find_use(op->comm, op, instance);
    uint64_t bytes = op_payload_bytes(op);
    if (!use)
        return; /* without memory the op is only not shown */
    /* Relaxed: counters of one writer. */
    if (bytes < atomic_load_explicit(&use->bytes_least, memory_order_relaxed))
        atomic_store_explicit(&use->bytes_least, bytes, memory_order_relaxed);
    if (bytes > atomic_load_explicit(&use->bytes_most, memory_order_relaxed))
        atomic_store_explicit(&use->bytes_most, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&use->op_count, 1, memory_order_relaxed);
}

const engine_plan_use_t *engine_comm_plan_uses(const engine_comm_t *comm)
{
    /* Acquire: pairs with the store in find_use(). */
    return atomic_load_explicit(&comm->plan_uses, memory_order_acquire);
}

void comm_free_plan_uses(engine_comm_t *comm)
{
    engine_plan_use_t *use = atomic_load_explicit(&comm->plan_uses, memory_order_relaxed);
    while (use) {
        engine_plan_use_t *next = use->next;
        free(use);
        use = next;
    }
}
