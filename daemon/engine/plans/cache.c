#include "engine/plans/cache.h"

#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/remote/remote.h"
#include "error.h"
#include "names.h"
#include "plan/lane/lane.h"

#include <stdlib.h>
#include <string.h>

/* Programs looked at in one turn, to find those that have grown old. */
#define LOOKED_AT_PER_TURN 16u

/* ---- keys ---- */

static bool is_by_size(const engine_comm_t *comm)
{
    return comm->algorithm == BLINK_ALGORITHM_AUTO && !comm->fabric->one_class;
}

/* Who names the algorithm has agreed to what a switch makes of floats. */
static bool may_switch(const comm_op_t *op)
{
    const engine_comm_t *comm = op->comm;
    const engine_config_t *config = &comm->engine->config;
    settings_nvswitch_t setting = config->settings->gpu_nvswitch;
    bool exactly = setting != SETTINGS_NVSWITCH_ALL && comm->algorithm != BLINK_ALGORITHM_MULTICAST;
    return comm->on_gpus && !op->remote && op->shape.collective == BLINK_ALLREDUCE &&
           setting != SETTINGS_NVSWITCH_NO &&
           exec_cuda_may_switch(config->cuda, comm->nodes, comm->rank_count, op->signature.datatype,
                                op->signature.redop, exactly);
}

plan_key_t plan_key_of(const comm_op_t *op, uint32_t nodes[2])
{
    const engine_comm_t *comm = op->comm;
    const op_signature_t *signature = &op->signature;
    const bool switches = may_switch(op);
    plan_key_t key = {.fabric = comm->fabric,
                      .collective = remote_is_barrier(op) ? BLINK_ALLREDUCE : op->shape.collective,
                      .scales_inputs = op->remote && signature->redop == BLINK_PRE_MUL_SUM,
                      .lands_in_slots = op->remote && !op->shape.is_transfer &&
                                        op->shape.payload_bytes <= LANE_LANDS_IN_SLOTS_BYTES,
                      .may_switch = switches,
                      .narrow = switches && exec_cuda_switches_narrowly(signature->datatype),
                      .algorithm = comm->algorithm,
                      .size_class = is_by_size(comm) ? plan_size_class(op->shape.payload_bytes) : 0,
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

/* Whether it is a rank, if the collective has one in this place. */
static bool is_end(const engine_comm_t *comm, bool has_it, uint32_t rank)
{
    return has_it ? rank < comm->rank_count : rank == PLAN_NONE;
}

blink_result_t plan_key_of_word(const engine_comm_t *comm, const plan_word_t *word, plan_key_t *key)
{
    if (!collective_valid(word->collective))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it asks for a plan of collective %u", word->collective);
    blink_collective_t collective = (blink_collective_t)word->collective;
    uint32_t last_class = plan_size_class(UINT64_MAX);
    bool is_class =
        is_by_size(comm) ? word->size_class >= 1 && word->size_class <= last_class : word->size_class == 0;
    if (!is_end(comm, collective_has_root(collective), word->root) ||
        !is_end(comm, collective_is_pair(collective), word->peer) || !is_class)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it asks for a plan of %s with root %u, peer %u and class %u",
                          blink_name_collective(collective), word->root, word->peer, word->size_class);
    *key = (plan_key_t){.fabric = comm->fabric,
                        .collective = collective,
                        .scales_inputs = word->scales_inputs,
                        .lands_in_slots = word->lands_in_slots,
                        .algorithm = comm->algorithm,
                        .size_class = word->size_class,
                        .root = word->root,
                        .peer = word->peer,
                        .rank_count = comm->rank_count,
                        .nodes = comm->nodes};
    return BLINK_OK;
}

uint32_t plan_key_host(const plan_key_t *key)
{
    if (!fabric_spans_hosts(key->fabric))
        return key->fabric->own_host;
    uint32_t rank = key->peer != PLAN_NONE ? key->root : 0;
    return key->fabric->host_of_node[key->nodes[rank]];
}

/* FNV-1a, a word at a time. */
static uint64_t add_word(uint64_t digest, uint32_t word)
{
    return (digest ^ word) * 0x100000001b3u;
}

/* Other hosts, whose daemons may be older, must come to the same: no key of theirs has may_switch or narrow.
 */
uint64_t plan_key_digest(const plan_key_t *key)
{
    uint64_t digest = key->fabric->digest;
    const uint32_t words[] = {key->collective, key->algorithm,  key->root,          key->peer,
                              key->size_class, key->rank_count, key->scales_inputs, key->lands_in_slots};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        digest = add_word(digest, words[i]);
    for (uint32_t i = 0; i < key->rank_count; i++)
        digest = add_word(digest, key->nodes[i]);
    return digest;
}

static bool key_equals(const plan_key_t *a, const plan_key_t *b)
{
    return a->fabric == b->fabric && a->scales_inputs == b->scales_inputs &&
           a->lands_in_slots == b->lands_in_slots && a->may_switch == b->may_switch &&
           a->narrow == b->narrow && a->collective == b->collective && a->algorithm == b->algorithm &&
           a->root == b->root && a->peer == b->peer && a->size_class == b->size_class &&
           a->rank_count == b->rank_count &&
           memcmp(a->nodes, b->nodes, a->rank_count * sizeof(*a->nodes)) == 0;
}

/* ---- the cache ---- */

static list_t *bucket_of(plan_cache_t *cache, uint64_t digest)
{
    return &cache->buckets[(digest ^ digest >> 32) % CACHE_BUCKETS];
}

/* It is asked for. */
static void touch(plan_cache_t *cache, cached_program_t *cached)
{
    list_remove(&cached->of_age);
    list_prepend(&cache->by_age, &cached->of_age);
    cached->asked_us = cached->engine->now_us;
}

cached_program_t *cache_find(plan_cache_t *cache, const plan_key_t *key, uint64_t digest)
{
    LIST_FOR_EACH (link, bucket_of(cache, digest)) {
        cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_bucket);
        if (cached->digest_of_key != digest || !key_equals(&cached->key, key))
            continue;
        touch(cache, cached);
        return cached;
    }
    return NULL;
}

cached_program_t *cache_find_shipped(plan_cache_t *cache, uint64_t digest)
{
    LIST_FOR_EACH (link, bucket_of(cache, digest)) {
        cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_bucket);
        if (cached->digest_of_key != digest || !cached->program || !cached->shipped)
            continue;
        touch(cache, cached);
        return cached;
    }
    return NULL;
}

void cache_remove(plan_cache_t *cache, cached_program_t *cached)
{
    list_remove(&cached->of_bucket);
    list_remove(&cached->of_age);
    cache->bytes -= cached->bytes;
    lend_forget(cached);
    lane_program_destroy(cached->program);
    plan_shipped_put(cached->shipped);
    fabric_put(cached->key.fabric);
    free(cached);
}

void cache_trim(engine_t *engine)
{
    plan_cache_t *cache = &engine->cache;
    uint64_t most_bytes = engine->config.settings->cached_plan_bytes;
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

/* Remove programs that nothing runs, and that nobody will ask for: a host of their fabric has gone. True if
 * there may be more. */
static bool cache_sweep(plan_cache_t *cache)
{
    uint32_t looked_at = 0;
    if (list_is_empty(&cache->by_age))
        return false;
    while (cache->swept < CACHE_BUCKETS && looked_at < LOOKED_AT_PER_TURN) {
        LIST_FOR_EACH (link, &cache->buckets[cache->swept]) {
            looked_at++;
            cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_bucket);
            /* Relaxed: it stays true, and whoever sees it late sweeps late. */
            bool is_gone = atomic_load_explicit(&cached->key.fabric->is_gone, memory_order_relaxed);
            if (is_gone && cached->uses == 0 && cached->program)
                cache_remove(cache, cached);
        }
        cache->swept++;
    }
    return cache->swept < CACHE_BUCKETS;
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
    more |= cache_sweep(cache);
    if (more)
        return now_us;
    if (cache->worked && list_is_empty(&engine->busy_comms)) {
        planner_trim(cache->planner);
        cache->worked = false;
    }
    cache->swept = 0;
    cache->tidy_us = now_us + (uint64_t)(settings->idle_scratch_s * 1e6);
    bool has_any = cache->worked || !list_is_empty(&cache->by_age);
    return has_any ? cache->tidy_us : UINT64_MAX;
}

cached_program_t *cache_add(engine_t *engine, const plan_key_t *key, uint64_t digest)
{
    plan_cache_t *cache = &engine->cache;
    size_t nodes_bytes = key->rank_count * sizeof(*key->nodes);
    cached_program_t *added = calloc(1, sizeof(*added) + nodes_bytes);
    if (!added)
        return NULL;
    added->engine = engine;
    added->digest_of_key = digest;
    added->key = *key;
    fabric_get(key->fabric);
    memcpy(added->nodes, key->nodes, nodes_bytes);
    added->key.nodes = added->nodes;
    list_init(&added->waiting);
    list_init(&added->asks);
    list_init(&added->idle);
    list_prepend(bucket_of(cache, digest), &added->of_bucket);
    list_prepend(&cache->by_age, &added->of_age);
    added->asked_us = engine->now_us;
    cache_count(cache, added, sizeof(*added) + nodes_bytes);
    cache_trim(engine);
    return added;
}

void cache_count(plan_cache_t *cache, cached_program_t *cached, uint64_t bytes)
{
    cached->bytes += bytes;
    cache->bytes += bytes;
}
