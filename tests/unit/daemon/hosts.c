#include "unit/daemon/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint32_t hosts_roll(hosts_t *hosts, uint32_t sides)
{
    hosts->dice = hosts->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((hosts->dice >> 33) % sides);
}

/* ---- parcels ---- */

static parcel_t *post(hosts_t *hosts, uint32_t from, uint32_t to)
{
    parcel_t *parcel = calloc(1, sizeof(*parcel));
    assert_non_null(parcel);
    parcel->from = from;
    parcel->to = to;
    *hosts->last = parcel;
    hosts->last = &parcel->next;
    hosts->under_way++;
    return parcel;
}

static void drop(hosts_t *hosts, parcel_t **place)
{
    parcel_t *parcel = *place;
    *place = parcel->next;
    if (hosts->last == &parcel->next)
        hosts->last = place;
    hosts->under_way--;
    free(parcel->ranks);
    free(parcel);
}

static void post_news(hosts_t *hosts, uint32_t dead, uint32_t to)
{
    for (const parcel_t *parcel = hosts->first; parcel; parcel = parcel->next) {
        if (parcel->is_news && parcel->from == dead && parcel->to == to)
            return;
    }
    post(hosts, dead, to)->is_news = true;
}

static void *copy_of(const void *items, size_t bytes)
{
    void *copy = malloc(bytes);
    assert_non_null(copy);
    return memcpy(copy, items, bytes);
}

static void forget_ready(hosts_t *hosts)
{
    free((void *)(uintptr_t)hosts->ready.hosts);
    free((void *)(uintptr_t)hosts->ready.seats);
}

/* Every READY of a communicator says the same. */
static void keep_ready(hosts_t *hosts, const gather_message_t *ready)
{
    if (hosts->ready.comm.number == ready->comm.number && hosts->ready.comm.home == ready->comm.home)
        return;
    for (const parcel_t *parcel = hosts->first; parcel; parcel = parcel->next)
        assert_int_not_equal(parcel->message.kind == GATHER_READY && !parcel->is_news, true);
    forget_ready(hosts);
    hosts->ready = *ready;
    hosts->ready.hosts = copy_of(ready->hosts, ready->host_count * sizeof(*ready->hosts));
    hosts->ready.seats = copy_of(ready->seats, ready->terms.rank_count * sizeof(*ready->seats));
}

static void post_message(hosts_t *hosts, uint32_t from, uint32_t to, const gather_message_t *message)
{
    if (message->kind == GATHER_READY)
        keep_ready(hosts, message);
    parcel_t *parcel = post(hosts, from, to);
    parcel->message = message->kind == GATHER_READY ? hosts->ready : *message;
    if (message->text)
        snprintf(parcel->text, sizeof(parcel->text), "%s", message->text);
    if (message->ranks)
        parcel->ranks = copy_of(message->ranks, message->rank_count * sizeof(*message->ranks));
}

/* ---- what a host is called for ---- */

static blink_result_t on_send(void *context, const gather_host_t *to, const gather_message_t *message)
{
    host_t *host = context;
    hosts_t *hosts = host->hosts;
    uint32_t from = (uint32_t)(host - hosts->hosts), number = (uint32_t)to->instance - 100;
    assert_true(number < hosts->count && number != from);
    host->sent[message->kind]++;
    if (hosts->hosts[number].is_dead) {
        post_news(hosts, number, from);
        return BLINK_OK;
    }
    if (host->unsent >> message->kind & 1) {
        post_news(hosts, from, number);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to tell %s", to->name);
    }
    if (hosts_roll(hosts, 100) >= hosts->lose_percent)
        post_message(hosts, from, number, message);
    if (hosts->double_percent > 0 && hosts_roll(hosts, 100) < hosts->double_percent)
        post_message(hosts, from, number, message);
    return BLINK_OK;
}

static void note(rank_t *rank, rank_state_t state, blink_result_t code)
{
    rank->state = state;
    rank->code = code;
    snprintf(rank->text, sizeof(rank->text), "%s", blink_error_text());
}

static void on_refused(void *context, gather_rank_t *gathers, blink_result_t code)
{
    rank_t *rank = CONTAINER_OF(gathers, rank_t, gathers);
    (void)context;
    assert_int_equal(rank->state, RANK_WAITING);
    note(rank, RANK_REFUSED, code);
}

static blink_result_t on_ready(void *context, const gather_message_t *ready, uint32_t own_host, list_t *ranks)
{
    const host_t *host = context;
    assert_int_equal(ready->hosts[own_host].host.instance, host->known.instance);
    blink_result_t code = BLINK_OK;
    for (uint32_t i = 0; i < ready->host_count; i++)
        assert_int_equal(ready->hosts[i].host.topology[0], (uint8_t)ready->hosts[i].host.instance);
    if (host->begins_badly)
        code = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "%s has no memory for it", host->known.name);
    for (list_t *link; (link = list_take_first(ranks));) {
        rank_t *rank = CONTAINER_OF(link, rank_t, gathers.link);
        assert_int_equal(rank->state, RANK_WAITING);
        assert_int_equal(ready->seats[rank->gathers.rank].host, own_host);
        note(rank, code == BLINK_OK ? RANK_READY : RANK_REFUSED, code);
        rank->comm = ready->comm;
    }
    return code;
}

static void on_lost(void *context, gather_comm_t comm, blink_result_t code)
{
    const host_t *host = context;
    const hosts_t *hosts = host->hosts;
    for (uint32_t i = 0; i < hosts->rank_count; i++) {
        rank_t *rank = &hosts->ranks[i];
        bool is_here = &hosts->hosts[rank->host] == host && rank->comm.home == comm.home &&
                       rank->comm.number == comm.number;
        if (!is_here)
            continue;
        assert_int_equal(rank->state, RANK_READY); /* told once */
        note(rank, RANK_LOST, code);
    }
}

static blink_result_t on_charge(void *context, uint32_t uid, uint32_t rank_count)
{
    host_t *host = context;
    (void)uid;
    host->charged += rank_count;
    return BLINK_OK;
}

static void on_credit(void *context, uint32_t uid, uint32_t rank_count)
{
    host_t *host = context;
    (void)uid;
    assert_true(host->charged >= rank_count);
    host->charged -= rank_count;
}

static void on_remember(void *context, uint32_t uid, const unique_id_t *id, uint64_t init_timeout_ms,
                        blink_result_t code)
{
    host_t *host = context;
    (void)init_timeout_ms;
    if (host->failed_count == sizeof(host->failed) / sizeof(host->failed[0]))
        return;
    failed_id_t *failed = &host->failed[host->failed_count++];
    *failed = (failed_id_t){.id = *id, .uid = uid, .code = code};
    snprintf(failed->text, sizeof(failed->text), "%s", blink_error_text());
}

static blink_result_t on_recall(void *context, uint32_t uid, const unique_id_t *id)
{
    const host_t *host = context;
    for (uint32_t i = 0; i < host->failed_count; i++) {
        if (host->failed[i].uid == uid && memcmp(&host->failed[i].id, id, sizeof(*id)) == 0)
            return blink_error_set(host->failed[i].code, "%s", host->failed[i].text);
    }
    return BLINK_OK;
}

/* ---- what tests do ---- */

static void host_init(hosts_t *hosts, uint32_t number)
{
    host_t *host = &hosts->hosts[number];
    host->hosts = hosts;
    host->known.instance = 100 + number;
    host->known.port = 1;
    host->known.topology[0] = (uint8_t)host->known.instance;
    snprintf(host->known.name, sizeof(host->known.name), "n%u", number);
    const gather_config_t config = {
        .own = host->known,
        .calls = {on_send, on_refused, on_ready, on_lost, on_charge, on_credit, on_remember, on_recall},
        .context = host,
        .init_timeout_ms = INIT_TIMEOUT_MS,
        .acknowledge_timeout_ms = ACK_TIMEOUT_MS};
    assert_int_equal(gather_create(&config, &host->gather), BLINK_OK);
}

hosts_t *hosts_create(uint32_t count, uint32_t rank_count, uint32_t per_host)
{
    hosts_t *hosts = calloc(1, sizeof(*hosts));
    assert_non_null(hosts);
    hosts->count = count;
    hosts->rank_count = rank_count;
    hosts->hosts = calloc(count, sizeof(*hosts->hosts));
    hosts->ranks = calloc(rank_count, sizeof(*hosts->ranks));
    assert_true(hosts->hosts && hosts->ranks);
    hosts->terms.rank_count = rank_count;
    hosts->id = (unique_id_t){.version = UNIQUE_ID_VERSION, .port = 1, .instance = 100, .nonce = {1}};
    hosts->last = &hosts->first;
    hosts->now_ms = 1000;
    for (uint32_t i = 0; i < count; i++)
        host_init(hosts, i);
    for (uint32_t i = 0; i < rank_count; i++) {
        hosts->ranks[i].host = i / per_host;
        hosts->ranks[i].gathers.rank = i;
        hosts->ranks[i].gathers.device = i % per_host;
    }
    return hosts;
}

void hosts_destroy(hosts_t *hosts)
{
    while (hosts->first)
        drop(hosts, &hosts->first);
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (!hosts->hosts[i].is_dead)
            gather_destroy(hosts->hosts[i].gather);
    }
    forget_ready(hosts);
    free(hosts->hosts);
    free(hosts->ranks);
    free(hosts);
}

void hosts_leave(hosts_t *hosts, uint32_t number)
{
    rank_t *rank = &hosts->ranks[number];
    gather_t *gather = hosts->hosts[rank->host].gather;
    rank_state_t state = rank->state;
    rank->state = RANK_GONE;
    BLINK_FAIL(BLINK_ERR_PEER_LOST, "rank %u disconnected", number);
    if (state == RANK_WAITING)
        gather_leave(gather, &rank->gathers, BLINK_ERR_PEER_LOST);
    if (state != RANK_READY)
        return;
    for (uint32_t i = 0; i < hosts->rank_count; i++) {
        rank_t *other = &hosts->ranks[i];
        if (other->host == rank->host && other->state == RANK_READY)
            note(other, RANK_LOST, BLINK_ERR_PEER_LOST);
    }
    gather_comm_lost(gather, rank->comm, BLINK_ERR_PEER_LOST);
}

void hosts_kill(hosts_t *hosts, uint32_t number, uint32_t keep)
{
    host_t *host = &hosts->hosts[number];
    if (host->is_dead)
        return;
    host->is_dead = true;
    gather_destroy(host->gather);
    for (uint32_t i = 0; i < hosts->rank_count; i++) {
        if (hosts->ranks[i].host == number)
            hosts->ranks[i].state = RANK_GONE;
    }
    for (parcel_t **place = &hosts->first; *place;) {
        bool is_lost = (*place)->to == number || ((*place)->from == number && keep == 0);
        keep -= (*place)->from == number && keep > 0;
        if (is_lost)
            drop(hosts, place);
        else
            place = &(*place)->next;
    }
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (!hosts->hosts[i].is_dead)
            post_news(hosts, number, i);
    }
}

/* Whether nothing between the same two hosts comes before. */
static bool may_arrive(const hosts_t *hosts, const parcel_t *parcel)
{
    for (const parcel_t *other = hosts->first; other != parcel; other = other->next) {
        if (!hosts->any_order && other->from == parcel->from && other->to == parcel->to)
            return false;
    }
    return true;
}

uint32_t hosts_choices(const hosts_t *hosts)
{
    uint32_t count = 0;
    for (const parcel_t *parcel = hosts->first; parcel; parcel = parcel->next)
        count += may_arrive(hosts, parcel);
    return count;
}

static void work(hosts_t *hosts, host_t *host)
{
    while (!host->is_dead && gather_work(host->gather, hosts->now_ms))
        continue;
}

blink_result_t hosts_come(hosts_t *hosts, uint32_t number)
{
    rank_t *rank = &hosts->ranks[number];
    rank->state = RANK_WAITING;
    blink_result_t code = gather_join(hosts->hosts[rank->host].gather, &hosts->id, USER, &hosts->terms,
                                      &rank->gathers, hosts->now_ms);
    if (code != BLINK_OK)
        note(rank, RANK_REFUSED, code);
    return code;
}

blink_result_t hosts_join(hosts_t *hosts, uint32_t number)
{
    blink_result_t code = hosts_come(hosts, number);
    work(hosts, &hosts->hosts[hosts->ranks[number].host]);
    return code;
}

void hosts_join_all(hosts_t *hosts)
{
    for (uint32_t i = 0; i < hosts->rank_count; i++)
        hosts_come(hosts, i);
    for (uint32_t i = 0; i < hosts->count; i++)
        work(hosts, &hosts->hosts[i]);
}

static void arrive(hosts_t *hosts, parcel_t **place)
{
    parcel_t *parcel = *place;
    host_t *host = &hosts->hosts[parcel->to];
    const host_t *from = &hosts->hosts[parcel->from];
    gather_message_t message = parcel->message;
    gather_join_rank_t *ranks = parcel->ranks;
    gather_host_t sender = from->known;
    char text[BLINK_ERROR_TEXT_BYTES];
    bool is_news = parcel->is_news;
    memcpy(text, parcel->text, sizeof(text));
    message.text = text;
    message.ranks = ranks;
    parcel->ranks = NULL;
    drop(hosts, place);
    if (is_news) {
        BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s closed the connection", from->known.name);
        gather_peer_lost(host->gather, from->known.instance);
    } else {
        host->received[message.kind]++;
        if (message.kind != GATHER_JOIN)
            memset(sender.topology, 0, sizeof(sender.topology));
        gather_receive(host->gather, &sender, &message, hosts->now_ms);
    }
    free(ranks);
    work(hosts, host);
}

void hosts_step(hosts_t *hosts, uint32_t choice)
{
    parcel_t **place = &hosts->first;
    while (!may_arrive(hosts, *place) || choice-- > 0)
        place = &(*place)->next;
    arrive(hosts, place);
}

void hosts_settle(hosts_t *hosts)
{
    while (hosts->first) {
        parcel_t **place = &hosts->first;
        for (uint32_t skip = hosts_roll(hosts, hosts->under_way); skip > 0; skip--)
            place = &(*place)->next;
        if (may_arrive(hosts, *place))
            arrive(hosts, place);
    }
}

/* The next moment at which a host has something to do; UINT64_MAX: never. */
static uint64_t next_ms(const hosts_t *hosts)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < hosts->count; i++) {
        uint64_t due = hosts->hosts[i].is_dead ? UINT64_MAX : gather_due_ms(hosts->hosts[i].gather);
        if (due < next)
            next = due;
    }
    return next;
}

void hosts_run(hosts_t *hosts)
{
    hosts_settle(hosts);
    for (uint64_t next; (next = next_ms(hosts)) != UINT64_MAX; hosts_settle(hosts)) {
        if (next > hosts->now_ms)
            hosts->now_ms = next;
        for (uint32_t i = 0; i < hosts->count; i++)
            work(hosts, &hosts->hosts[i]);
    }
}

gather_counts_t hosts_left(const hosts_t *hosts)
{
    gather_counts_t sum = {0};
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (hosts->hosts[i].is_dead)
            continue;
        gather_counts_t counts = gather_count(hosts->hosts[i].gather);
        sum.homes += counts.homes;
        sum.locals += counts.locals;
        sum.trees += counts.trees;
        sum.peers += counts.peers;
    }
    return sum;
}
