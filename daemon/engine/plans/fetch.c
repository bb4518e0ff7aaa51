#include "engine/plans/fetch.h"

#include "base/log.h"
#include "engine/loop.h"
#include "engine/op/op.h"
#include "engine/plans/cache.h"
#include "engine/remote/remote.h"
#include "error.h"
#include "names.h"
#include "plan/bytes/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan_fetch plan_fetch_t;

/* A host that is asked: one plan at a time is brought from there. */
typedef struct plan_source {
    list_t link;               /* cache->sources */
    data_endpoint_t *endpoint; /* held */
    uint32_t fetches;
    list_t announced;      /* plan_fetch_t.of_source: those that wait for their turn */
    plan_fetch_t *pulling; /* whose turn it is; NULL: nobody's */
} plan_source_t;

struct plan_fetch {
    table_link_t of_numbers; /* cache->fetches */
    list_t of_source;
    cached_program_t *cached;
    plan_source_t *source;
    uint64_t number;
    uint64_t home; /* the communicator in whose name the host is asked */
    uint32_t comm;
    uint8_t *bytes; /* that have come */
    uint32_t total_bytes, have_bytes;
};

/* ---- asking ---- */

static blink_result_t ask(const plan_fetch_t *fetch, bool wants_bytes)
{
    const cached_program_t *cached = fetch->cached;
    const plan_word_t word = {.number = fetch->number,
                              .home = fetch->home,
                              .comm = fetch->comm,
                              .key = cached->digest_of_key,
                              .collective = cached->key.collective,
                              .root = cached->key.root,
                              .peer = cached->key.peer,
                              .size_class = cached->key.size_class,
                              .scales_inputs = cached->key.scales_inputs,
                              .lands_in_slots = cached->key.lands_in_slots,
                              .wants_bytes = wants_bytes,
                              .offset = fetch->have_bytes};
    return plan_tell(cached->engine, fetch->source->endpoint, &word, NULL);
}

/* Whether the host is lost will be told by another way. */
static void pull(plan_fetch_t *fetch)
{
    fetch->source->pulling = fetch;
    blink_result_t result = ask(fetch, true);
    if (result != BLINK_OK)
        data_endpoint_close(fetch->source->endpoint, result);
}

static void pull_next(plan_source_t *source)
{
    list_t *first = source->pulling ? NULL : list_take_first(&source->announced);
    if (first)
        pull(CONTAINER_OF(first, plan_fetch_t, of_source));
}

/* ---- sources ---- */

static plan_source_t *source_get(plan_cache_t *cache, data_endpoint_t *endpoint)
{
    LIST_FOR_EACH (link, &cache->sources) {
        plan_source_t *source = CONTAINER_OF(link, plan_source_t, link);
        if (source->endpoint == endpoint) {
            source->fetches++;
            return source;
        }
    }
    plan_source_t *source = calloc(1, sizeof(*source));
    if (!source)
        return NULL;
    source->endpoint = endpoint;
    source->fetches = 1;
    data_endpoint_get(endpoint);
    list_init(&source->announced);
    list_append(&cache->sources, &source->link);
    return source;
}

static void source_put(plan_source_t *source)
{
    if (--source->fetches > 0)
        return;
    list_remove(&source->link);
    data_endpoint_put(source->endpoint);
    free(source);
}

/* ---- who pays ---- */

void fetch_pay_no_more(cached_program_t *cached)
{
    if (cached->payer)
        account_credit(&cached->payer->account, BUDGET_OP_BYTES, cached->paid_bytes);
    cached->payer = NULL;
    cached->paid_bytes = 0;
}

void fetch_inherit(cached_program_t *cached, const tenant_t *tenant, tenant_t *heir)
{
    uint32_t bytes = cached->paid_bytes;
    if (cached->payer != tenant)
        return;
    fetch_pay_no_more(cached);
    if (!heir || bytes == 0)
        return;
    account_add(&heir->account, BUDGET_OP_BYTES, bytes);
    cached->payer = heir;
    cached->paid_bytes = bytes;
}

static blink_result_t pay(cached_program_t *cached, uint32_t bytes)
{
    const comm_op_t *op = LIST_FIRST(&cached->waiting, comm_op_t, of_state);
    tenant_t *tenant = cached->payer ? cached->payer : op->comm->tenant;
    BLINK_TRY(account_charge(&tenant->account, BUDGET_OP_BYTES, bytes));
    cached->payer = tenant;
    cached->paid_bytes += bytes;
    return BLINK_OK;
}

/* Unless they have been handed over. */
static void drop_bytes(cached_program_t *cached, plan_fetch_t *fetch)
{
    if (!fetch->bytes)
        return;
    free(fetch->bytes);
    fetch->bytes = NULL;
    fetch_pay_no_more(cached);
}

/* ---- a fetch ---- */

static data_endpoint_t *endpoint_of(const cached_program_t *cached, const engine_comm_t *comm)
{
    return comm->remote->endpoints[plan_key_host(&cached->key)];
}

blink_result_t fetch_begin(cached_program_t *cached, engine_comm_t *comm)
{
    plan_cache_t *cache = &cached->engine->cache;
    plan_fetch_t *fetch = calloc(1, sizeof(*fetch));
    if (!fetch)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to ask for a plan");
    *fetch = (plan_fetch_t){.cached = cached,
                            .number = ++cache->fetches_begun,
                            .home = comm->remote->home,
                            .comm = comm->remote->number};
    list_init(&fetch->of_source);
    fetch->source = source_get(cache, endpoint_of(cached, comm));
    if (!fetch->source || !table_add(&cache->fetches, &fetch->of_numbers, table_hash(fetch->number))) {
        if (fetch->source)
            source_put(fetch->source);
        free(fetch);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to ask for a plan");
    }
    cached->fetch = fetch;
    LOG_DEBUG("%s is asked for the plan of %s over %u ranks", data_endpoint_peer(fetch->source->endpoint),
              blink_name_collective(cached->key.collective), cached->key.rank_count);
    blink_result_t result = ask(fetch, false);
    if (result != BLINK_OK)
        fetch_end(cached);
    return result;
}

blink_result_t fetch_share(cached_program_t *cached, engine_comm_t *comm)
{
    if (cached->fetch->source->endpoint == endpoint_of(cached, comm))
        return BLINK_OK;
    plan_fetch_t *before = cached->fetch;
    blink_result_t result = fetch_begin(cached, comm);
    plan_fetch_t *begun = cached->fetch;
    cached->fetch = before;
    if (result != BLINK_OK)
        return result;
    fetch_end(cached);
    cached->fetch = begun;
    return BLINK_OK;
}

void fetch_end(cached_program_t *cached)
{
    plan_fetch_t *fetch = cached->fetch;
    plan_source_t *source = fetch->source;
    cached->fetch = NULL;
    table_remove(&cached->engine->cache.fetches, &fetch->of_numbers);
    list_remove(&fetch->of_source);
    if (source->pulling == fetch)
        source->pulling = NULL;
    pull_next(source);
    source_put(source);
    drop_bytes(cached, fetch);
    free(fetch);
}

/* ---- answers ---- */

static plan_fetch_t *find(const plan_cache_t *cache, uint64_t number)
{
    table_link_t *link = table_find(&cache->fetches, table_hash(number));
    while (link && CONTAINER_OF(link, plan_fetch_t, of_numbers)->number != number)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, plan_fetch_t, of_numbers) : NULL;
}

static void fail(plan_fetch_t *fetch, blink_result_t code, const char *text)
{
    cached_program_t *cached = fetch->cached;
    uint64_t home = fetch->home;
    uint32_t comm = fetch->comm;
    fetch_end(cached);
    plan_fetch_failed(cached, home, comm, code, text);
}

static blink_result_t heed_failure(plan_fetch_t *fetch, const plan_word_t *word)
{
    if (!blink_name_result_constant(word->code))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan that failed with code %u", word->code);
    fail(fetch, (blink_result_t)word->code, word->text);
    return BLINK_OK;
}

/* The plan is there. If pieces of it have come already, the host has made it anew. */
static blink_result_t heed_announcement(plan_fetch_t *fetch, const plan_word_t *word)
{
    if (word->total_bytes == 0 || word->total_bytes > PLAN_BYTES_MOST)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a plan of %u bytes", word->total_bytes);
    drop_bytes(fetch->cached, fetch);
    fetch->total_bytes = word->total_bytes;
    fetch->have_bytes = 0;
    if (fetch->source->pulling == fetch) {
        pull(fetch);
    } else {
        list_remove(&fetch->of_source);
        list_append(&fetch->source->announced, &fetch->of_source);
        pull_next(fetch->source);
    }
    return BLINK_OK;
}

/* Have it compiled. */
static void hand_over(plan_fetch_t *fetch)
{
    cached_program_t *cached = fetch->cached;
    const comm_op_t *op = LIST_FIRST(&cached->waiting, comm_op_t, of_state);
    cached->shipped = plan_shipped_create(fetch->bytes, fetch->total_bytes);
    fetch->bytes = NULL;
    if (!cached->shipped) {
        fetch_pay_no_more(cached);
        fail(fetch, BLINK_ERR_NO_MEMORY, "no memory for the plan of another host");
        return;
    }
    fetch_end(cached);
    plan_queue(cached, op->comm->tenant);
}

/* Memory grows with what has come. Errors: QUOTA, NO_MEMORY. */
static blink_result_t grow(plan_fetch_t *fetch, uint32_t bytes)
{
    BLINK_TRY(pay(fetch->cached, bytes));
    uint8_t *grown = realloc(fetch->bytes, fetch->have_bytes + bytes);
    if (grown)
        fetch->bytes = grown;
    else if (!fetch->bytes)
        fetch_pay_no_more(fetch->cached);
    return grown ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the plan of another host");
}

static blink_result_t heed_piece(plan_fetch_t *fetch, const plan_word_t *word)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    if (fetch->source->pulling != fetch || word->total_bytes != fetch->total_bytes ||
        word->offset != fetch->have_bytes || word->piece_bytes > fetch->total_bytes - fetch->have_bytes)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%u bytes of a plan at %u of %u, of which %u of %u have come",
                          word->piece_bytes, word->offset, word->total_bytes, fetch->have_bytes,
                          fetch->total_bytes);
    blink_result_t result = grow(fetch, word->piece_bytes);
    if (result != BLINK_OK) {
        snprintf(text, sizeof(text), "%s", blink_error_text());
        fail(fetch, result, text);
        return BLINK_OK;
    }
    memcpy(fetch->bytes + fetch->have_bytes, word->piece, word->piece_bytes);
    fetch->have_bytes += word->piece_bytes;
    if (fetch->have_bytes < fetch->total_bytes)
        pull(fetch);
    else
        hand_over(fetch);
    return BLINK_OK;
}

blink_result_t fetch_heed(engine_t *engine, const data_endpoint_t *endpoint, const plan_word_t *word)
{
    plan_fetch_t *fetch = find(&engine->cache, word->number);
    if (!fetch || fetch->source->endpoint != endpoint)
        return BLINK_OK; /* nobody waits for it any more */
    if (word->code != BLINK_OK)
        return heed_failure(fetch, word);
    return word->piece_bytes == 0 ? heed_announcement(fetch, word) : heed_piece(fetch, word);
}
