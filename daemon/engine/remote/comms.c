/*
 * Communicators with ranks on other hosts: their names, their hosts, and what is kept for ops to come.
 */
#include "base/clock.h"
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many communicators that have ended are remembered, for peers that still begin ops of theirs. */
#define ENDED_MOST 1024u

/* Words about ops to come that are looked at in one visit to their communicator. */
#define WORDS_AT_ONCE 64u

/* ---- all of them ---- */

void remotes_init(remotes_t *remotes, const remote_calls_t *calls)
{
    remotes->calls = *calls;
    list_init(&remotes->all);
    list_init(&remotes->with_kept);
    early_init(&remotes->early);
    list_init(&remotes->losses);
    list_init(&remotes->ended);
    list_init(&remotes->left);
    list_init(&remotes->asked);
    list_init(&remotes->failing);
}

static uint64_t hash_of_comm(uint64_t home, uint32_t number)
{
    return table_hash(home ^ table_hash(number));
}

remote_comm_t *remote_find(const remotes_t *remotes, uint64_t home, uint32_t number)
{
    table_link_t *link = table_find(&remotes->comms, hash_of_comm(home, number));
    for (; link; link = table_find_next(link)) {
        remote_comm_t *remote = CONTAINER_OF(link, remote_comm_t, of_names);
        if (remote->home == home && remote->number == number)
            return remote;
    }
    return NULL;
}

const remote_ended_t *remote_find_ended(const remotes_t *remotes, uint64_t home, uint32_t number)
{
    LIST_FOR_EACH (link, &remotes->ended) {
        const remote_ended_t *ended = CONTAINER_OF(link, remote_ended_t, link);
        if (ended->home == home && ended->number == number)
            return ended;
    }
    return NULL;
}

static void forget_oldest_ended(remotes_t *remotes)
{
    list_t *link = list_take_first(&remotes->ended);
    remotes->ended_count--;
    free(CONTAINER_OF(link, remote_ended_t, link));
}

void remotes_forget_ended(remotes_t *remotes)
{
    while (remotes->ended_count > 0)
        forget_oldest_ended(remotes);
}

/* Without memory peers that still begin ops wait until their time is up. */
void remotes_remember_ended(remotes_t *remotes, const remote_ended_t *how)
{
    remote_ended_t *ended = malloc(sizeof(*ended));
    if (!ended)
        return;
    *ended = *how;
    list_init(&ended->link);
    list_append(&remotes->ended, &ended->link);
    if (++remotes->ended_count > ENDED_MOST)
        forget_oldest_ended(remotes);
}

/* ---- one of them ---- */

void remote_end(const remote_comm_t *remote, blink_result_t reason, const char *text)
{
    remote->comm->engine->remotes.calls.end(remote->comm, ENDED_BY_ENGINE, reason, text);
}

blink_result_t remote_comm_create(engine_comm_t *comm, const engine_remote_config_t *config,
                                  remote_comm_t **created)
{
    uint32_t hosts = comm->fabric->host_count;
    remote_comm_t *remote = calloc(1, sizeof(*remote));
    if (!remote)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator on %u hosts", hosts);
    remote->comm = comm;
    remote->home = config->home;
    remote->number = config->number;
    remote->host_count = hosts;
    remote->own_host = comm->fabric->own_host;
    list_init(&remote->of_all);
    list_init(&remote->of_kept);
    list_init(&remote->kept_by_age);
    list_init(&remote->asks);
    remote->sweep = &remote->kept_by_age;
    list_init(&remote->unended);
    list_init(&remote->of_asked);
    remote->asking = calloc(hosts, sizeof(*remote->asking));
    remote->host_of_rank = calloc(comm->rank_count, sizeof(*remote->host_of_rank));
    remote->endpoints = calloc(hosts, sizeof(data_endpoint_t *));
    remote->versions = calloc(hosts, sizeof(*remote->versions));
    if (!remote->asking || !remote->host_of_rank || !remote->endpoints || !remote->versions) {
        remote_comm_destroy(remote);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a communicator on %u hosts", hosts);
    }
    blink_result_t result = data_standing_create(comm->engine->config.data, config->endpoints, hosts,
                                                 comm->tenant, &remote->standing);
    if (result != BLINK_OK) {
        remote_comm_destroy(remote);
        return result;
    }
    memcpy(remote->host_of_rank, config->host_of_rank, comm->rank_count * sizeof(*remote->host_of_rank));
    for (uint32_t host = 0; host < hosts; host++) {
        snprintf(remote->versions[host], sizeof(remote->versions[host]), "%s", config->versions[host]);
        if (!config->endpoints[host])
            continue;
        remote->endpoints[host] = config->endpoints[host];
        data_endpoint_get(config->endpoints[host]);
    }
    *created = remote;
    return BLINK_OK;
}

void remote_comm_destroy(remote_comm_t *remote)
{
    if (!remote)
        return;
    for (uint32_t host = 0; remote->endpoints && host < remote->host_count; host++) {
        if (remote->endpoints[host])
            data_endpoint_put(remote->endpoints[host]);
    }
    table_fini(&remote->live);
    table_fini(&remote->kept);
    remote_pairs_free(remote);
    free(remote->versions);
    data_standing_destroy(remote->standing);
    free(remote->endpoints);
    free(remote->host_of_rank);
    free(remote->asking);
    free(remote);
}

void remote_lose_host(const remote_comm_t *remote, uint32_t host)
{
    char name[BLINK_ERROR_TEXT_BYTES / 2], text[2 * BLINK_ERROR_TEXT_BYTES];
    remote_name_host(remote, host, name, sizeof(name));
    snprintf(text, sizeof(text), "%s, is lost: %s", name, data_endpoint_why(remote->endpoints[host]));
    text[BLINK_ERROR_TEXT_BYTES - 1] = '\0';
    remote_end(remote, BLINK_ERR_PEER_LOST, text);
}

/* An endpoint may have been lost before the engine knew the communicator. */
static void check_endpoints(const remote_comm_t *remote)
{
    uint32_t host = 0;
    while (host < remote->host_count &&
           !(remote->endpoints[host] && data_endpoint_is_lost(remote->endpoints[host])))
        host++;
    if (host < remote->host_count)
        remote_lose_host(remote, host);
}

void remote_comm_enter(remote_comm_t *remote)
{
    remotes_t *remotes = &remote->comm->engine->remotes;
    list_append(&remotes->all, &remote->of_all);
    if (!table_add(&remotes->comms, &remote->of_names, hash_of_comm(remote->home, remote->number))) {
        list_remove(&remote->of_all);
        remote_end(remote, BLINK_ERR_NO_MEMORY, "no memory for a communicator");
    } else {
        check_endpoints(remote);
    }
    early_ripen(&remotes->early, remote->home, remote->number);
}

/* What hosts hear that begin ops of it later. */
static remote_ended_t how_it_ended(const remote_comm_t *remote)
{
    const engine_comm_t *comm = remote->comm;
    remote_ended_t ended = {.home = remote->home, .number = remote->number, .code = BLINK_ERR_PEER_LOST};
    char host[BLINK_ERROR_TEXT_BYTES / 2];
    if (comm->end_reason != BLINK_OK) {
        ended.code = comm->end_reason;
        memcpy(ended.text, comm->end_text, sizeof(ended.text));
        return ended;
    }
    remote_name_host(remote, remote->own_host, host, sizeof(host));
    snprintf(ended.text, sizeof(ended.text), "%s, has left the communicator", host);
    return ended;
}

bool remote_forget_some(remote_comm_t *remote)
{
    const remote_ended_t ended = how_it_ended(remote);
    kept_t *kept;
    for (uint32_t i = 0; i < WORDS_AT_ONCE; i++) {
        kept = LIST_FIRST(&remote->kept_by_age, kept_t, of_age);
        if (!kept)
            return true;
        if (kept->is_begin)
            remote_answer(remote->endpoints[kept->begin.op.host], &kept->begin.op, remote->own_host,
                          ended.code, ended.text);
        remote_forget_kept(remote, kept);
    }
    engine_count(remote->comm->engine, WORDS_AT_ONCE);
    return false;
}

void remote_comm_leave(remote_comm_t *remote)
{
    remotes_t *remotes = &remote->comm->engine->remotes;
    const remote_ended_t ended = how_it_ended(remote);
    remote_leave_landings(remote);
    if (!list_is_empty(&remote->of_all)) /* else there was no memory for it */
        table_remove(&remotes->comms, &remote->of_names);
    list_remove(&remote->of_all);
    remotes_remember_ended(remotes, &ended);
}

uint32_t remote_host_of(const remote_comm_t *remote, const data_endpoint_t *endpoint)
{
    for (uint32_t host = 0; host < remote->host_count; host++) {
        if (remote->endpoints[host] == endpoint)
            return host;
    }
    return UINT32_MAX;
}

const char *remote_network(const remote_comm_t *remote)
{
    static const char *const names[] = {"",
                                        "TCP",
                                        "RDMA",
                                        "TCP and RDMA",
                                        [DATA_BY_GPUS | DATA_BY_RDMA] = "RDMA to GPUs",
                                        [DATA_BY_GPUS | DATA_BY_RDMA | DATA_BY_TCP] = "TCP and RDMA to GPUs"};
    unsigned used = DATA_BY_NONE;
    for (uint32_t host = 0; host < remote->host_count; host++) {
        if (remote->endpoints[host])
            used |= (unsigned)data_endpoint_by(remote->endpoints[host]);
    }
    return names[used];
}

void remote_name_host(const remote_comm_t *remote, uint32_t host, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s", remote->comm->fabric->hosts[host]);
    const char *before = ", with rank ";
    for (uint32_t rank = 0; rank < remote->comm->rank_count && used + 24 < bytes; rank++) {
        if (remote->host_of_rank[rank] != host)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", before, rank);
        before = ", ";
    }
}

/* ---- words about ops that have not begun here ---- */

kept_t *remote_find_kept(const remote_comm_t *remote, const op_name_t *name, const kept_t *after)
{
    table_link_t *link =
        after ? table_find_next(&after->of_ops) : table_find(&remote->kept, remote_name_hash(name));
    while (link && !remote_name_equals(&CONTAINER_OF(link, kept_t, of_ops)->begin.op, name))
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, kept_t, of_ops) : NULL;
}

static account_t *account_of(const remote_comm_t *remote)
{
    return &remote->comm->tenant->account;
}

static size_t kept_bytes(const char *text)
{
    return sizeof(kept_t) + strlen(text) + 1;
}

void remote_forget_kept(remote_comm_t *remote, kept_t *kept)
{
    table_remove(&remote->kept, &kept->of_ops);
    if (remote->sweep == &kept->of_age)
        remote->sweep = kept->of_age.next;
    list_remove(&kept->of_age);
    account_credit(account_of(remote), BUDGET_OP_BYTES, kept_bytes(kept->text));
    free(kept);
    if (list_is_empty(&remote->kept_by_age))
        list_remove(&remote->of_kept);
}

static blink_result_t kept_create(remote_comm_t *remote, const begin_t *begin, const char *text,
                                  kept_t **created)
{
    size_t bytes = kept_bytes(text);
    BLINK_TRY(account_charge(account_of(remote), BUDGET_OP_BYTES, bytes));
    kept_t *kept = malloc(bytes);
    if (!kept || !table_add(&remote->kept, &kept->of_ops, remote_name_hash(&begin->op))) {
        account_credit(account_of(remote), BUDGET_OP_BYTES, bytes);
        free(kept);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ops that other hosts have begun");
    }
    memcpy(kept->text, text, bytes - sizeof(*kept));
    *created = kept;
    return BLINK_OK;
}

void remote_keep(remote_comm_t *remote, const begin_t *begin, blink_result_t code, const char *text)
{
    kept_t *kept;
    blink_result_t result = kept_create(remote, begin, text ? text : "", &kept);
    if (result != BLINK_OK) {
        char why[BLINK_ERROR_TEXT_BYTES];
        snprintf(why, sizeof(why), "%s", blink_error_text());
        remote_end(remote, result, why);
        return;
    }
    kept->since_us = clock_us();
    kept->is_begin = code == BLINK_OK;
    kept->begin = *begin;
    kept->code = code;
    if (list_is_empty(&remote->kept_by_age))
        list_append(&remote->comm->engine->remotes.with_kept, &remote->of_kept);
    list_append(&remote->kept_by_age, &kept->of_age);
}

void remote_rank_leaves(remote_comm_t *remote)
{
    remote->sweep = remote->kept_by_age.next;
}

bool remote_sweep(remote_comm_t *remote)
{
    for (uint32_t i = 0; i < WORDS_AT_ONCE; i++) {
        if (remote->sweep == &remote->kept_by_age)
            return true;
        kept_t *kept = CONTAINER_OF(remote->sweep, kept_t, of_age);
        remote->sweep = remote->sweep->next;
        if (kept->is_begin && !remote_has_begun(remote, &kept->begin.op) &&
            remote_refuse_begin(remote, &kept->begin))
            remote_forget_kept(remote, kept);
    }
    engine_count(remote->comm->engine, WORDS_AT_ONCE);
    return false;
}

/* ---- time-outs ---- */

/* Ranks of this host have not come at all to an op that others have begun. (Where some have come, the op is
 * there, and has a time-out of its own.) */
static void time_out(const remote_comm_t *remote, const kept_t *kept)
{
    const engine_comm_t *comm = remote->comm;
    const op_name_t *op = &kept->begin.op;
    bool is_transfer = op->root != OP_NAME_NONE;
    char host[BLINK_ERROR_TEXT_BYTES / 4], unmatched[OP_UNMATCHED_BYTES], text[BLINK_ERROR_TEXT_BYTES];
    remote_name_host(remote, remote->own_host, host, sizeof(host));
    snprintf(text, sizeof(text), "%s %lu of %s: %s%s within %g s", collective_op_name(kept->begin.opcode),
             (unsigned long)op->number + 1, comm->title, is_transfer ? "" : "no submission from ",
             is_transfer
                 ? op_signature_tell_unmatched(op->root, op->peer, kept->begin.rank == op->peer, unmatched)
                 : host,
             (double)comm->op_timeout_us / 1e6);
    remote_end(remote, BLINK_ERR_TIMEOUT, text);
}

uint64_t remotes_check_timeouts(engine_t *engine, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    LIST_FOR_EACH (link, &engine->remotes.with_kept) {
        const remote_comm_t *remote = CONTAINER_OF(link, remote_comm_t, of_kept);
        const engine_comm_t *comm = remote->comm;
        const kept_t *oldest = LIST_FIRST(&remote->kept_by_age, kept_t, of_age);
        /* Of the first op that is not done; ranks that work on it are not late for the next one. */
        if (comm->end_reason != BLINK_OK || !oldest->is_begin || !list_is_empty(&comm->ops))
            continue;
        uint64_t since_us =
            oldest->since_us > comm->oldest_since_us ? oldest->since_us : comm->oldest_since_us;
        uint64_t deadline_us = since_us + comm->op_timeout_us;
        if (now_us >= deadline_us)
            time_out(remote, oldest);
        else if (deadline_us < next_us)
            next_us = deadline_us;
    }
    return next_us;
}
