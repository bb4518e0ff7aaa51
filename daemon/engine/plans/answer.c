#include "engine/plans/answer.h"

#include "engine/loop.h"
#include "engine/plans/cache.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>

/* A host waits for a plan. */
typedef struct plan_ask {
    list_t of_program; /* cached_program_t.asks */
    list_t of_comm;    /* remote_comm_t.asks */
    cached_program_t *cached;
    engine_comm_t *comm;
    data_endpoint_t *endpoint; /* the communicator's */
    uint64_t number;
    uint64_t charged_bytes;
} plan_ask_t;

/* ---- what is said ---- */

static blink_result_t tell_failure(engine_t *engine, data_endpoint_t *endpoint, uint64_t number,
                                   blink_result_t code, const char *text)
{
    const plan_word_t word = {.is_answer = true, .number = number, .code = (uint32_t)code, .text = text};
    return plan_tell(engine, endpoint, &word, NULL);
}

static blink_result_t tell_made(const cached_program_t *cached, data_endpoint_t *endpoint, uint64_t number)
{
    if (cached->result != BLINK_OK)
        return tell_failure(cached->engine, endpoint, number, cached->result, cached->text);
    const plan_word_t word = {
        .is_answer = true, .number = number, .total_bytes = cached->shipped->byte_count};
    return plan_tell(cached->engine, endpoint, &word, NULL);
}

static blink_result_t tell_piece(const cached_program_t *cached, data_endpoint_t *endpoint,
                                 const plan_word_t *ask)
{
    plan_shipped_t *shipped = cached->shipped;
    if (ask->offset >= shipped->byte_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it asks for byte %u of a plan of %u", ask->offset,
                          shipped->byte_count);
    uint32_t left = shipped->byte_count - ask->offset;
    const plan_word_t word = {.is_answer = true,
                              .number = ask->number,
                              .total_bytes = shipped->byte_count,
                              .offset = ask->offset,
                              .piece = shipped->bytes + ask->offset,
                              .piece_bytes = left < PLAN_PIECE_BYTES ? left : PLAN_PIECE_BYTES};
    return plan_tell(cached->engine, endpoint, &word, shipped);
}

static blink_result_t tell_what_there_is(const cached_program_t *cached, data_endpoint_t *endpoint,
                                         const plan_word_t *ask)
{
    return ask->wants_bytes ? tell_piece(cached, endpoint, ask) : tell_made(cached, endpoint, ask->number);
}

/* ---- asks that wait ---- */

static void ask_free(plan_ask_t *ask)
{
    account_credit(&ask->comm->tenant->account, BUDGET_OP_BYTES, ask->charged_bytes);
    free(ask);
}

static void ask_end(plan_ask_t *ask)
{
    list_remove(&ask->of_program);
    list_remove(&ask->of_comm);
    ask->cached->uses--;
    ask_free(ask);
}

/* Charged with the program, too, which is perhaps kept for this ask alone. */
static blink_result_t ask_create(engine_comm_t *comm, uint32_t rank_count, plan_ask_t **created)
{
    uint64_t bytes = sizeof(**created) + sizeof(cached_program_t) + rank_count * sizeof(uint32_t);
    BLINK_TRY(account_charge(&comm->tenant->account, BUDGET_OP_BYTES, bytes));
    plan_ask_t *ask = calloc(1, sizeof(*ask));
    if (!ask) {
        account_credit(&comm->tenant->account, BUDGET_OP_BYTES, bytes);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the ask for a plan");
    }
    *ask = (plan_ask_t){.comm = comm, .charged_bytes = bytes};
    *created = ask;
    return BLINK_OK;
}

static blink_result_t ask_wait(engine_comm_t *comm, const plan_key_t *key, data_endpoint_t *endpoint,
                               uint64_t number)
{
    plan_ask_t *ask = NULL;
    BLINK_TRY(ask_create(comm, key->rank_count, &ask));
    blink_result_t result = plan_want(comm->engine, key, comm, &ask->cached);
    if (result != BLINK_OK) {
        ask_free(ask);
        return result;
    }
    ask->endpoint = endpoint;
    ask->number = number;
    list_init(&ask->of_program);
    list_init(&ask->of_comm);
    list_append(&comm->remote->asks, &ask->of_comm);
    list_append(&ask->cached->asks, &ask->of_program);
    return BLINK_OK;
}

void answer_all(cached_program_t *cached)
{
    plan_ask_t *ask;
    while ((ask = LIST_FIRST(&cached->asks, plan_ask_t, of_program))) {
        blink_result_t result = tell_made(cached, ask->endpoint, ask->number);
        if (result != BLINK_OK)
            data_endpoint_close(ask->endpoint, result);
        ask_end(ask);
    }
}

tenant_t *answer_waiting_tenant(const cached_program_t *cached)
{
    const plan_ask_t *ask = LIST_FIRST(&cached->asks, plan_ask_t, of_program);
    return ask ? ask->comm->tenant : NULL;
}

static blink_result_t tell_ended(engine_t *engine, data_endpoint_t *endpoint, uint64_t number,
                                 const remote_ended_t *ended)
{
    return tell_failure(engine, endpoint, number, ended ? ended->code : BLINK_ERR_PEER_LOST,
                        ended ? ended->text : "the communicator has ended where its plans are made");
}

void plan_asks_leave(engine_comm_t *comm)
{
    const remote_comm_t *remote = comm->remote;
    const remote_ended_t *ended = remote_find_ended(&comm->engine->remotes, remote->home, remote->number);
    plan_ask_t *ask;
    while ((ask = LIST_FIRST(&remote->asks, plan_ask_t, of_comm))) {
        cached_program_t *cached = ask->cached;
        blink_result_t result = tell_ended(comm->engine, ask->endpoint, ask->number, ended);
        if (result != BLINK_OK)
            data_endpoint_close(ask->endpoint, result);
        ask_end(ask);
        plan_await_no_more(cached, comm->tenant);
    }
}

/* ---- asks that come ---- */

/* The communicator has left, or is not known yet. A host may be late to an op that this one has ended: what
 * is there is shipped all the same. */
static blink_result_t heed_unknown(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word,
                                   bool *is_early)
{
    const remote_ended_t *ended = remote_find_ended(&engine->remotes, word->home, word->comm);
    const cached_program_t *cached = cache_find_shipped(&engine->cache, word->key);
    if (cached)
        return tell_what_there_is(cached, endpoint, word);
    if (ended || !is_early)
        return tell_ended(engine, endpoint, word->number, ended);
    *is_early = true;
    return BLINK_OK;
}

/* Errors: PROTOCOL (the host is none of the communicator's, or this one does not plan that). INTERNAL: the
 * two hosts see different things by the same name. */
static blink_result_t find_key(const remote_comm_t *remote, const data_endpoint_t *endpoint,
                               const plan_word_t *word, plan_key_t *key)
{
    if (remote_host_of(remote, endpoint) == UINT32_MAX)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it asks for a plan of communicator %u, and has no part in it",
                          remote->comm->comm);
    BLINK_TRY(plan_key_of_word(remote->comm, word, key));
    if (plan_key_host(key) != remote->own_host)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "it asks for a plan that host %s makes",
                          key->fabric->hosts[plan_key_host(key)]);
    if (plan_key_digest(key) != word->key)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "%s sees other hosts or devices of the communicator than %s",
                          data_endpoint_peer(endpoint), key->fabric->hosts[remote->own_host]);
    return BLINK_OK;
}

/* The plan, or an ask that waits for it. */
static blink_result_t find_or_wait(remote_comm_t *remote, data_endpoint_t *endpoint, const plan_word_t *word,
                                   const cached_program_t **cached)
{
    engine_comm_t *comm = remote->comm;
    plan_key_t key;
    BLINK_TRY(find_key(remote, endpoint, word, &key));
    if (comm->end_reason != BLINK_OK)
        return BLINK_FAIL(comm->end_reason, "%s", comm->end_text);
    *cached = cache_find_shipped(&comm->engine->cache, word->key);
    return *cached ? BLINK_OK : ask_wait(comm, &key, endpoint, word->number);
}

/* What keeps the plan from being made is said to who asks. */
static blink_result_t heed_known(remote_comm_t *remote, data_endpoint_t *endpoint, const plan_word_t *word)
{
    const cached_program_t *cached = NULL;
    blink_result_t result = find_or_wait(remote, endpoint, word, &cached);
    if (result == BLINK_ERR_PROTOCOL)
        return result;
    if (result != BLINK_OK)
        return tell_failure(remote->comm->engine, endpoint, word->number, result, blink_error_text());
    return cached ? tell_what_there_is(cached, endpoint, word) : BLINK_OK;
}

blink_result_t answer_heed(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word,
                           bool *is_early)
{
    remote_comm_t *remote = remote_find(&engine->remotes, word->home, word->comm);
    return remote ? heed_known(remote, endpoint, word) : heed_unknown(engine, endpoint, word, is_early);
}
