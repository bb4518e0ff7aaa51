/*
 * An op of several hosts, from the first submission here until nothing of it is under way.
 */
#include "base/clock.h"
#include "base/log.h"
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "error.h"
#include "names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- agreement ---- */

static op_signature_t signature_of(const begin_t *begin)
{
    return (op_signature_t){.opcode = begin->opcode,
                            .datatype = begin->datatype,
                            .redop = begin->redop,
                            .root = begin->root,
                            .peer = begin->op.peer == OP_NAME_NONE ? 0 : begin->op.peer,
                            .count = begin->count};
}

static blink_result_t fail_disagreement(const remote_comm_t *remote, const op_signature_t *own, uint32_t rank,
                                        const begin_t *begin)
{
    const char *const *hosts = remote->comm->fabric->hosts;
    char here[BLINK_ERROR_TEXT_BYTES / 3], there[BLINK_ERROR_TEXT_BYTES / 3];
    op_signature_t other = signature_of(begin);
    if (op_signature_equals(own, &other))
        return BLINK_OK;
    snprintf(here, sizeof(here), "rank %u on %s", rank, hosts[remote->host_of_rank[rank]]);
    snprintf(there, sizeof(there), "rank %u on %s", begin->rank, hosts[begin->op.host]);
    return op_signature_fail(here, own, there, &other);
}

/* ---- the run ---- */

/* The reason by which the op ends, as long as there is none. */
static void note_failure(remote_op_t *of, blink_result_t code, const char *text)
{
    of->has_failed = true;
    of->code = code;
    snprintf(of->text, sizeof(of->text), "%.*s", BLINK_ERROR_TEXT_BYTES - 1, text);
}

/* "n1: AllReduce 3 of communicator 2: …": what other hosts are told. */
static void note_own_failure(remote_op_t *of, blink_result_t code, const char *text)
{
    char told[2 * BLINK_ERROR_TEXT_BYTES];
    snprintf(told, sizeof(told), "%.64s: %.*s", of->remote->comm->fabric->hosts[of->remote->own_host],
             BLINK_ERROR_TEXT_BYTES - 1, text);
    note_failure(of, code, told);
}

static const remote_calls_t *calls_of(const remote_op_t *of)
{
    return &of->remote->comm->engine->remotes.calls;
}

/* Whether its program is for payloads that are too large for standing landings. */
static bool is_large(const remote_op_t *of)
{
    return !of->op->program->program->lands_in_slots;
}

/* Nothing of the op is under way any more once its run has ended and is settled. */
static void end_if_over(remote_op_t *of)
{
    bool aborts = atomic_load_explicit(&of->abort_posted, memory_order_acquire); /* with on_aborted() */
    if (!of->run || !of->run_ended || !of->settled || (aborts && !of->abort_taken))
        return;
    exec_end_t end = of->end;
    list_remove(&of->of_failing);
    data_run_destroy(of->run);
    of->run = NULL;
    of->remote->comm->engine->remotes.large_runs -= is_large(of);
    if (of->has_failed)
        end.result = of->code;
    calls_of(of)->over(of->op, &end, of->has_failed ? of->text : NULL);
}

static void settle(remote_op_t *of)
{
    if (!of->settles)
        data_run_settle(of->run);
    of->settles = true;
}

/* The op, which is running, fails: its run is ended, and the others are told. */
static void fail_run(remote_op_t *of, bool tell_all)
{
    if (!of->run_ended)
        exec_abort(of->op->instance->exec, of->code);
    remote_tell_hosts(of, tell_all);
    settle(of);
    if (of->failing_us > 0)
        return;
    of->failing_us = clock_us();
    list_append(&of->remote->comm->engine->remotes.failing, &of->of_failing);
}

uint64_t remotes_check_failing(engine_t *engine, uint64_t now_us)
{
    remote_op_t *of = LIST_FIRST(&engine->remotes.failing, remote_op_t, of_failing);
    if (!of)
        return UINT64_MAX;
    double silent_s = REMOTE_SILENT_TIMEOUTS * engine->config.settings->network_timeout_s;
    uint64_t deadline_us = of->failing_us + (uint64_t)(silent_s * 1e6);
    if (now_us < deadline_us)
        return deadline_us;
    list_remove(&of->of_failing);
    data_run_lose_silent(of->run, silent_s);
    return now_us; /* there may be others */
}

static void note_why(remote_op_t *of, blink_result_t code, const char *why)
{
    char text[2 * BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s %lu: %s", collective_op_name(of->op->signature.opcode),
             (unsigned long)of->name.number + 1, why);
    note_own_failure(of, code, text);
}

static void fail_own_run(remote_op_t *of, blink_result_t code, const char *why)
{
    if (of->has_failed)
        return;
    note_why(of, code, why);
    fail_run(of, true);
}

static void take_settled(mailbox_item_t *item)
{
    remote_op_t *of = CONTAINER_OF(item, remote_op_t, settled_item);
    of->settled = true;
    end_if_over(of);
}

static void take_aborted(mailbox_item_t *item)
{
    remote_op_t *of = CONTAINER_OF(item, remote_op_t, aborted_item);
    of->abort_taken = true;
    fail_own_run(of, of->abort_code, of->abort_text);
    end_if_over(of);
}

void engine_data_settled(engine_t *engine, void *run_context)
{
    remote_op_t *of = run_context;
    mailbox_post(&engine->mailbox, &of->settled_item);
}

void engine_data_aborted(engine_t *engine, void *run_context, blink_result_t code)
{
    remote_op_t *of = run_context;
    of->abort_code = code;
    snprintf(of->abort_text, sizeof(of->abort_text), "%s", blink_error_text());
    atomic_store_explicit(&of->abort_posted, true, memory_order_release); /* with end_if_over() */
    mailbox_post(&engine->mailbox, &of->aborted_item);
}

/* ---- what others say ---- */

static data_offer_t offer_of(const begin_t *begin)
{
    data_offer_t offer = {.first_flow = begin->first_flow,
                          .flow_count = begin->flow_count,
                          .slots = begin->slots,
                          .stands = begin->stands,
                          .address = begin->address,
                          .round = begin->round};
    memcpy(offer.keys.all, begin->keys, sizeof(begin->keys));
    memcpy(offer.keys.all + BEGIN_KEYS, begin->more_keys, sizeof(begin->more_keys));
    return offer;
}

/* The host's BEGIN agrees, and the op is running. */
static void agree(remote_op_t *of, const begin_t *begin)
{
    uint32_t host = begin->op.host;
    const data_offer_t offer = offer_of(begin);
    of->flags[host] |= REMOTE_HEARD_BEGIN;
    of->heard_count++;
    of->op->since_us = clock_us(); /* from here its run may take as long as any */
    blink_result_t result = data_run_agree(of->run, host, &offer);
    if (result != BLINK_OK)
        fail_own_run(of, result, blink_error_text());
}

/* They have the same plan, and compile it to different programs. */
static blink_result_t fail_digest(const remote_op_t *of, const begin_t *begin)
{
    const remote_comm_t *remote = of->remote;
    const char *const *hosts = remote->comm->fabric->hosts;
    uint32_t there = begin->op.host, here = remote->own_host;
    return BLINK_FAIL(BLINK_ERR_INTERNAL,
                      "%s (blinkd %s) has another program for it, %016lx, than %s (blinkd %s), %016lx; hosts "
                      "of one communicator need the same version of blinkd",
                      hosts[there], remote->versions[there], (unsigned long)begin->digest, hosts[here],
                      remote->versions[here], (unsigned long)of->op->program->digest);
}

static blink_result_t check_begin(const remote_op_t *of, const begin_t *begin)
{
    const comm_op_t *op = of->op;
    const char *host = of->remote->comm->fabric->hosts[begin->op.host];
    BLINK_TRY(fail_disagreement(of->remote, &op->signature, op->first_rank, begin));
    if (!of->run)
        return BLINK_OK;
    if (begin->digest != op->program->digest)
        return fail_digest(of, begin);
    if (!(of->flags[begin->op.host] & REMOTE_JOINED) || of->flags[begin->op.host] & REMOTE_HEARD_BEGIN)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s begins it though it has no part in it, or has begun it",
                          host);
    return BLINK_OK;
}

/* The op has begun here, and may be running. */
static void heed_begin_of(remote_op_t *of, const begin_t *begin)
{
    blink_result_t result = check_begin(of, begin);
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", result != BLINK_OK ? blink_error_text() : "");
    if (result == BLINK_OK && of->run)
        agree(of, begin);
    else if (result == BLINK_OK)
        remote_keep(of->remote, begin, BLINK_OK, NULL);
    else if (of->run)
        fail_own_run(of, result, text);
    else
        calls_of(of)->fail(of->op, result, text);
}

/* The op has ended here: a host that has begun something else hears so. */
static void heed_late_begin(const remote_comm_t *remote, const begin_t *begin)
{
    remote_past_t past;
    if (!remote_find_past(remote, begin, &past))
        return;
    blink_result_t result = fail_disagreement(remote, &past.signature, past.rank, begin);
    if (result != BLINK_OK)
        remote_answer_begin(remote, begin, result, blink_error_text());
}

/* Why the op will not begin here. Errors: those of the communicator's end; PEER_LOST, which names a rank of
 * this host that the op takes and that has left. */
static blink_result_t check_may_begin(const remote_comm_t *remote, const op_name_t *name)
{
    const engine_comm_t *comm = remote->comm;
    if (comm->end_reason != BLINK_OK)
        return BLINK_FAIL(comm->end_reason, "%s", comm->end_text);
    for (uint32_t i = 0; comm->leaving_count + comm->left_count > 0 && i < comm->member_count; i++) {
        const comm_rank_t *rank = &comm->members[i];
        bool takes_part = name->root == OP_NAME_NONE || rank->rank == name->root || rank->rank == name->peer;
        if (takes_part && (rank->leaving || rank->left))
            return BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u has left the communicator", rank->rank);
    }
    return BLINK_OK;
}

bool remote_refuse_begin(const remote_comm_t *remote, const begin_t *begin)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    blink_result_t result = check_may_begin(remote, &begin->op);
    if (result == BLINK_OK)
        return false;
    snprintf(text, sizeof(text), "%s", blink_error_text());
    remote_answer_begin(remote, begin, result, text);
    return true;
}

blink_result_t remote_heed_begin(remote_comm_t *remote, const begin_t *begin)
{
    const data_offer_t offer = offer_of(begin);
    if (begin->op.root == OP_NAME_NONE)
        BLINK_TRY(
            data_standing_heed(remote->standing, begin->op.host, begin->op.number, &offer, begin->ended));
    remote_op_t *of = remote_find_live(remote, &begin->op);
    if (of)
        heed_begin_of(of, begin);
    else if (remote_has_begun(remote, &begin->op) && remote->comm->end_reason == BLINK_OK)
        heed_late_begin(remote, begin);
    else if (!remote_refuse_begin(remote, begin))
        remote_keep(remote, begin, BLINK_OK, NULL);
    return BLINK_OK;
}

/* The op has begun here. */
static void heed_fail_of(remote_op_t *of, const fail_t *fail, const uint32_t *sent, const char *text)
{
    uint32_t host = fail->op.host;
    if (of->flags[host] & REMOTE_HEARD_FAIL)
        return;
    of->flags[host] |= REMOTE_HEARD_FAIL;
    of->heard_fail = true;
    if (!of->has_failed)
        note_failure(of, (blink_result_t)fail->code, text);
    if (!of->run) {
        remote_tell_fail(of, host);
        calls_of(of)->fail_as(of->op, of->code, of->text);
        return;
    }
    bool is_known = fail->flags & FAIL_IS_ANSWER && of->flags[host] & REMOTE_HEARD_BEGIN;
    if (of->flags[host] & REMOTE_JOINED && !is_known)
        (void)data_run_fail(of->run, host, sent, fail->sent_count); /* on an error the endpoint is closed */
    fail_run(of, false);
    remote_tell_fail(of, host);
    end_if_over(of);
}

void remote_heed_fail(remote_comm_t *remote, const fail_t *fail, const uint32_t *sent, const char *text)
{
    remote_op_t *of = remote_find_live(remote, &fail->op);
    if (of) {
        heed_fail_of(of, fail, sent, text);
        return;
    }
    begin_t begin = {.op = fail->op};
    if (!(fail->flags & FAIL_IS_ANSWER))
        remote_answer_begin(remote, &begin, (blink_result_t)fail->code, text);
    if (!remote_has_begun(remote, &fail->op) && check_may_begin(remote, &fail->op) == BLINK_OK)
        remote_keep(remote, &begin, (blink_result_t)fail->code, text);
}

/* ---- for ops ---- */

/* What has been said of the op already: of those that have begun it the words stay until its run begins. */
static void heed_kept(remote_op_t *of)
{
    remote_comm_t *remote = of->remote;
    kept_t *next;
    for (kept_t *kept = remote_find_kept(remote, &of->name, NULL); kept; kept = next) {
        next = remote_find_kept(remote, &of->name, kept);
        if (kept->is_begin) {
            blink_result_t result = check_begin(of, &kept->begin);
            if (result == BLINK_OK || of->has_failed)
                continue;
            note_why(of, result, blink_error_text());
        } else if (!of->has_failed) {
            of->flags[kept->begin.op.host] |= REMOTE_HEARD_FAIL | REMOTE_TOLD_FAIL;
            of->heard_fail = true;
            note_failure(of, kept->code, kept->text);
        }
    }
}

/* What a barrier adds up: two bytes for each rank of this host. */
static size_t barrier_bytes(const comm_op_t *op)
{
    return op->shape.collective == COLLECTIVE_BARRIER ? 2u * op->entry_count : 0;
}

static size_t bytes_of(const comm_op_t *op)
{
    return sizeof(remote_op_t) + op->comm->remote->host_count + barrier_bytes(op);
}

/* In no table any more, or in none yet. */
static void free_op(remote_op_t *of)
{
    const comm_op_t *op = of->op;
    account_credit(&op->comm->tenant->account, BUDGET_OP_BYTES, bytes_of(op));
    free(of);
}

static blink_result_t alloc_op(comm_op_t *op, remote_op_t **allocated)
{
    remote_comm_t *remote = op->comm->remote;
    BLINK_TRY(account_charge(&op->comm->tenant->account, BUDGET_OP_BYTES, bytes_of(op)));
    remote_op_t *of = calloc(1, bytes_of(op));
    if (!of) {
        account_credit(&op->comm->tenant->account, BUDGET_OP_BYTES, bytes_of(op));
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
    }
    of->op = op;
    of->remote = remote;
    list_init(&of->of_unended);
    list_init(&of->of_failing);
    of->settled_item.run = take_settled;
    of->aborted_item.run = take_aborted;
    *allocated = of;
    return BLINK_OK;
}

blink_result_t remote_op_create(comm_op_t *op)
{
    remote_op_t *of;
    BLINK_TRY(alloc_op(op, &of));
    blink_result_t result = remote_name_op(of);
    if (result != BLINK_OK) {
        free_op(of);
        return result;
    }
    if (!op->shape.is_transfer)
        list_append(&of->remote->unended, &of->of_unended);
    op->remote = of;
    heed_kept(of);
    return BLINK_OK;
}

blink_result_t remote_op_check(const comm_op_t *op)
{
    const remote_op_t *of = op->remote;
    return of && of->has_failed ? BLINK_FAIL(of->code, "%s", of->text) : BLINK_OK;
}

static void forget_words(remote_op_t *of)
{
    kept_t *kept;
    while ((kept = remote_find_kept(of->remote, &of->name, NULL)))
        remote_forget_kept(of->remote, kept);
}

bool remote_holds(const comm_op_t *op)
{
    const remote_op_t *of = op->remote;
    return of && !op->shape.is_transfer &&
           data_standing_holds(remote_count_ended(of->remote), of->name.number);
}

/* Collectives that were held may be due now. */
static void release_held(const remote_comm_t *remote)
{
    LIST_FOR_EACH (link, &remote->unended) {
        comm_op_t *op = CONTAINER_OF(link, remote_op_t, of_unended)->op;
        if (remote_holds(op))
            return;
        if (op->state == OP_GATHERING && op->active_count == op->entry_count)
            remote->comm->engine->remotes.calls.due(op);
    }
}

void remote_op_end(comm_op_t *op, blink_result_t code, const char *text)
{
    remote_op_t *of = op->remote;
    if (!of)
        return;
    remote_comm_t *remote = of->remote;
    assert(!of->run);
    bool is_own = code != BLINK_OK && !of->heard_fail && op->comm->end_reason == BLINK_OK;
    if (is_own && !of->has_failed)
        note_own_failure(of, code, text);
    if (is_own)
        remote_tell_hosts(of, true);
    remote_remember(of, code);
    forget_words(of);
    table_remove(&remote->live, &of->of_live);
    list_remove(&of->of_unended);
    free_op(of);
    op->remote = NULL;
    release_held(remote);
}

bool remote_crosses(const comm_op_t *op)
{
    return op->remote && op->program->program->wire_count > 0;
}

bool remote_is_barrier(const comm_op_t *op)
{
    return op->remote && op->shape.collective == COLLECTIVE_BARRIER;
}

uint8_t *remote_barrier_bytes(const comm_op_t *op, const op_entry_t *entry)
{
    return op->remote->flags + op->comm->remote->host_count + 2 * (entry - op->entries);
}

bool remotes_poll(engine_t *engine)
{
    return engine->remotes.watches && data_poll(engine->config.data);
}

void remotes_rest(engine_t *engine)
{
    if (engine->remotes.watches)
        data_watch(engine->config.data, false);
    engine->remotes.watches = false;
}

/* Whoever waits for small ops spins; large ones are for the proxy's thread, beside this one. */
static void choose_who_watches(const remote_op_t *of)
{
    engine_t *engine = of->op->comm->engine;
    remotes_t *remotes = &engine->remotes;
    if (is_large(of)) {
        remotes->large_runs++;
        remotes_rest(engine);
    } else if (remotes->large_runs == 0 && !remotes->watches) {
        data_watch(engine->config.data, true);
        remotes->watches = true;
    }
}

static void find_joined(remote_op_t *of)
{
    const lane_program_t *program = of->op->program->program;
    of->joined_count = of->heard_count = 0;
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const lane_landing_t *landing = &program->landings[i];
        uint32_t host = landing->from_host == of->remote->own_host ? landing->to_host : landing->from_host;
        of->joined_count += !(of->flags[host] & REMOTE_JOINED);
        of->flags[host] |= REMOTE_JOINED;
    }
}

blink_result_t remote_begin(comm_op_t *op, void *const *outputs, const uint64_t *output_bytes,
                            const exec_wires_t **wires)
{
    remote_op_t *of = op->remote;
    const data_run_config_t config = {.instance = op->instance->exec,
                                      .endpoints = of->remote->endpoints,
                                      .outputs = op->comm->on_gpus ? NULL : outputs,
                                      .output_bytes = output_bytes,
                                      .tenant = op->comm->tenant,
                                      .context = of,
                                      .standing = op->shape.is_transfer ? NULL : of->remote->standing,
                                      .number = of->name.number,
                                      .ended = remote_count_ended(of->remote),
                                      .is_crowded = op->comm->engine->crowded};
    data_t *data = op->comm->engine->config.data;
    BLINK_TRY(data_run_create(data, &config, &of->run));
    choose_who_watches(of);
    find_joined(of);
    of->begun_us = clock_us();
    data_soon(data);
    for (uint32_t host = 0; host < of->remote->host_count; host++) {
        if (of->flags[host] & REMOTE_JOINED)
            remote_tell_begin(of, host);
    }
    *wires = data_run_start(of->run);
    return BLINK_OK;
}

void remote_started(comm_op_t *op, const exec_end_t *end)
{
    remote_op_t *of = op->remote;
    data_t *data = op->comm->engine->config.data;
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", blink_error_text());
    if (end)
        remote_run_ended(op, end, text); /* the op lives until the data plane has posted that it is settled */
    kept_t *kept;
    while ((kept = remote_find_kept(of->remote, &of->name, NULL))) {
        begin_t begin = kept->begin;
        remote_forget_kept(of->remote, kept);
        heed_begin_of(of, &begin);
    }
    data_turn(data);
}

void remote_run_ended(comm_op_t *op, const exec_end_t *end, const char *text)
{
    remote_op_t *of = op->remote;
    of->run_ended = true;
    of->end = *end;
    data_run_ended(of->run);
    if (end->result != BLINK_OK)
        fail_own_run(of, end->result, text ? text : "its run failed");
    settle(of);
    end_if_over(of);
}

void remote_cancel(comm_op_t *op, blink_result_t code, const char *text)
{
    remote_op_t *of = op->remote;
    if (of->has_failed)
        return;
    note_failure(of, code, text);
    fail_run(of, false);
    end_if_over(of);
}

uint64_t remote_waits_since_us(const comm_op_t *op)
{
    const remote_op_t *of = op->remote;
    return of && of->run && of->heard_count < of->joined_count ? of->begun_us : UINT64_MAX;
}

void remote_name_missing(const comm_op_t *op, char *text, size_t bytes)
{
    const remote_op_t *of = op->remote;
    uint32_t host = 0;
    while (host < of->remote->host_count &&
           (of->flags[host] & (REMOTE_JOINED | REMOTE_HEARD_BEGIN)) != REMOTE_JOINED)
        host++;
    if (host < of->remote->host_count)
        remote_name_host(of->remote, host, text, bytes);
    else
        snprintf(text, bytes, "another host");
}
