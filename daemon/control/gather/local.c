#include "control/gather/local.h"

#include <stdlib.h>
#include <string.h>

/* ---- which there are ---- */

static local_t *find(const gather_t *gather, const unique_id_t *id, uint32_t uid)
{
    for (table_link_t *link = table_find(&gather->locals, gather_hash_id(gather, id)); link;
         link = table_find_next(link)) {
        local_t *local = CONTAINER_OF(link, local_t, of_ids);
        if (local->uid == uid && memcmp(&local->id, id, sizeof(*id)) == 0)
            return local;
    }
    return NULL;
}

static local_t *find_attempt(const gather_t *gather, const peer_t *home, uint64_t attempt)
{
    table_link_t *link = table_find(&gather->attempts, table_hash(attempt));
    while (link && CONTAINER_OF(link, local_t, of_attempts)->attempt != attempt)
        link = table_find_next(link);
    local_t *local = link ? CONTAINER_OF(link, local_t, of_attempts) : NULL;
    return local && local->home == home ? local : NULL;
}

/* Who an id names as home. An id without one is for ranks of one host: that is this one. */
static gather_host_t home_of(const gather_t *gather, const unique_id_t *id)
{
    if (id->port == 0 || id->instance == gather->config.own.instance)
        return gather->config.own;
    gather_host_t home = {.instance = id->instance, .port = id->port};
    memcpy(home.addresses, id->addresses, sizeof(home.addresses));
    return home;
}

/* What is kept while the home is waited for, whoever still waits here, is the user's. */
static blink_result_t charge(gather_t *gather, uint32_t uid, const gather_host_t *home)
{
    const gather_config_t *config = &gather->config;
    bool is_own = home->instance == config->own.instance;
    return is_own ? BLINK_OK : config->calls.charge(config->context, uid, 1);
}

static void credit(gather_t *gather, uint32_t uid, const gather_host_t *home)
{
    const gather_config_t *config = &gather->config;
    if (home->instance != config->own.instance)
        config->calls.credit(config->context, uid, 1);
}

static blink_result_t create(gather_t *gather, const unique_id_t *id, uint32_t uid, const terms_t *terms,
                             local_t **created)
{
    const gather_host_t host = home_of(gather, id);
    BLINK_TRY(charge(gather, uid, &host));
    local_t *local = calloc(1, sizeof(*local));
    peer_t *home = local ? peer_get(gather, &host) : NULL;
    if (!home)
        goto no_memory;
    *local =
        (local_t){.attempt = gather->last_attempt + 1, .id = *id, .uid = uid, .terms = *terms, .home = home};
    if (!table_add(&gather->locals, &local->of_ids, gather_hash_id(gather, id)))
        goto no_memory;
    if (!table_add(&gather->attempts, &local->of_attempts, table_hash(local->attempt))) {
        table_remove(&gather->locals, &local->of_ids);
        goto no_memory;
    }
    gather->last_attempt++;
    list_init(&local->unsent);
    list_init(&local->sent);
    list_init(&local->of_peer);
    list_init(&local->joins);
    list_init(&local->gives_up.link);
    list_append(&gather->all_locals, &local->of_all);
    list_append(&home->locals, &local->of_peer);
    if (!home->is_own) /* else the home's own time is enough */
        gather->steps +=
            deadline_set(&gather->local_deadlines, &local->gives_up,
                         gather->now_ms + gather_init_timeout_ms(gather, terms) + GATHER_GRACE_MS);
    *created = local;
    return BLINK_OK;
no_memory:
    if (home)
        peer_put(gather, home);
    free(local);
    credit(gather, uid, &host);
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ranks that gather");
}

void local_destroy(gather_t *gather, local_t *local)
{
    table_remove(&gather->locals, &local->of_ids);
    table_remove(&gather->attempts, &local->of_attempts);
    list_remove(&local->of_all);
    list_remove(&local->of_peer);
    list_remove(&local->joins);
    list_remove(&local->gives_up.link);
    credit(gather, local->uid, &local->home->host);
    peer_put(gather, local->home);
    free(local);
}

/* The rank waits no longer, and is the caller's. */
static void release(gather_t *gather, gather_rank_t *rank)
{
    local_t *local = rank->local;
    list_remove(&rank->link);
    if (rank->ticket == 0)
        local->unsent_count--;
    else
        local->sent_count--;
    rank->local = NULL;
    credit(gather, local->uid, &local->home->host);
}

static void refuse(gather_t *gather, gather_rank_t *rank, blink_result_t code)
{
    release(gather, rank);
    gather->config.calls.refused(gather->config.context, rank, code);
}

/* Nobody waits, and the home has nothing to say to anybody. */
static void destroy_if_idle(gather_t *gather, local_t *local)
{
    if (list_is_empty(&local->unsent) && list_is_empty(&local->sent) && !local->is_given_up)
        local_destroy(gather, local);
}

void local_fail(gather_t *gather, local_t *local, blink_result_t code)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    const gather_config_t *config = &gather->config;
    memcpy(text, blink_error_text(), sizeof(text));
    if (terms_is_final(code) && !local->home->is_own)
        config->calls.remember(config->context, local->uid, &local->id,
                               gather_init_timeout_ms(gather, &local->terms), code);
    list_splice(&local->sent, &local->unsent);
    for (gather_rank_t *rank; (rank = LIST_FIRST(&local->sent, gather_rank_t, link));) {
        blink_error_set(code, "%s", text);
        refuse(gather, rank, code);
    }
    blink_error_set(code, "%s", text);
    local_destroy(gather, local);
}

void local_fail_lost(gather_t *gather, local_t *local)
{
    local_fail(gather, local,
               BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s, where the ranks gather, is lost: %s",
                          peer_name(local->home), local->home->why));
}

/* ---- joining ---- */

/* Without memory for the message: to the home it is as if the ranks had not come. */
static void refuse_unsent(gather_t *gather, local_t *local)
{
    for (gather_rank_t *rank; (rank = LIST_FIRST(&local->unsent, gather_rank_t, link));)
        refuse(gather, rank, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ranks that gather"));
    destroy_if_idle(gather, local);
}

/* All that have not been sent go in one message. The ranks, and `local` with them, may have been answered
 * when this returns. */
static void send_ranks(gather_t *gather, local_t *local)
{
    uint32_t count = 0;
    gather_join_rank_t *ranks = calloc(local->unsent_count, sizeof(*ranks));
    list_remove(&local->joins);
    if (!ranks) {
        refuse_unsent(gather, local);
        return;
    }
    LIST_FOR_EACH (link, &local->unsent) {
        gather_rank_t *rank = CONTAINER_OF(link, gather_rank_t, link);
        rank->ticket = ++gather->last_ticket;
        ranks[count++] = (gather_join_rank_t){rank->rank, rank->device, rank->ticket, rank->on_gpu};
    }
    list_splice(&local->sent, &local->unsent);
    local->sent_count += local->unsent_count;
    local->unsent_count = 0;
    const gather_message_t join = {.kind = GATHER_JOIN,
                                   .id = local->id,
                                   .uid = local->uid,
                                   .attempt = local->attempt,
                                   .terms = local->terms,
                                   .ranks = ranks,
                                   .rank_count = count};
    peer_send(gather, local->home, &join);
    free(ranks);
}

/* To another host, those go together that come in one turn of the daemon. */
static void add(gather_t *gather, local_t *local, const terms_t *terms, gather_rank_t *rank)
{
    /* Ranks that ask for different things do not go in one message. */
    if (local->unsent_count > 0 && memcmp(&local->terms, terms, sizeof(*terms)) != 0)
        send_ranks(gather, local);
    local->terms = *terms;
    rank->local = local;
    rank->ticket = 0;
    list_init(&rank->link);
    list_append(&local->unsent, &rank->link);
    local->unsent_count++;
    if (local->is_given_up)
        return; /* the rank hears what the others hear */
    if (local->home->is_own)
        send_ranks(gather, local);
    else if (local->unsent_count == 1)
        list_append(&gather->joining, &local->joins);
}

blink_result_t local_join(gather_t *gather, const unique_id_t *id, uint32_t uid, const terms_t *terms,
                          gather_rank_t *rank)
{
    const gather_config_t *config = &gather->config;
    local_t *local = find(gather, id, uid);
    BLINK_TRY(terms_check(terms, rank->rank));
    if (!local) {
        BLINK_TRY(config->calls.recall(config->context, uid, id));
        BLINK_TRY(create(gather, id, uid, terms, &local));
    }
    blink_result_t charged = charge(gather, uid, &local->home->host);
    if (charged != BLINK_OK) {
        destroy_if_idle(gather, local);
        return charged;
    }
    add(gather, local, terms, rank);
    return BLINK_OK;
}

void local_leave(gather_t *gather, gather_rank_t *rank, blink_result_t code)
{
    local_t *local = rank->local;
    release(gather, rank);
    if (local->is_given_up)
        return; /* the home knows already */
    list_remove(&local->joins);
    local->is_given_up = true;
    local->code = code;
    memcpy(local->text, blink_error_text(), sizeof(local->text));
    const gather_message_t left = {.kind = GATHER_LEFT,
                                   .id = local->id,
                                   .uid = local->uid,
                                   .attempt = local->attempt,
                                   .code = code,
                                   .text = local->text};
    peer_send(gather, local->home, &left);
}

/* ---- the home's word ---- */

void local_take_refused(gather_t *gather, const peer_t *from, const gather_message_t *message)
{
    local_t *local = find_attempt(gather, from, message->attempt);
    if (!local)
        return;
    LIST_FOR_EACH (link, &local->sent) {
        gather_rank_t *rank = CONTAINER_OF(link, gather_rank_t, link);
        if (rank->ticket != message->ticket)
            continue;
        refuse(gather, rank, blink_error_set(message->code, "%s", message->text));
        destroy_if_idle(gather, local);
        return;
    }
}

void local_take_failed(gather_t *gather, const peer_t *from, const gather_message_t *message)
{
    local_t *local = find_attempt(gather, from, message->attempt);
    if (local)
        local_fail(gather, local, blink_error_set(message->code, "%s", message->text));
}

/* Whether a seat of this host is the rank's. */
static bool is_seated(const gather_rank_t *rank, const gather_message_t *ready, uint32_t own_host)
{
    const gather_seat_t *seat = rank->rank < ready->terms.rank_count ? &ready->seats[rank->rank] : NULL;
    return seat && seat->host == own_host && seat->ticket == rank->ticket && seat->device == rank->device;
}

static uint32_t seats_of(const gather_message_t *ready, uint32_t own_host)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ready->terms.rank_count; rank++)
        count += ready->seats[rank].host == own_host;
    return count;
}

bool local_has_ranks(const gather_message_t *ready, uint32_t own_host)
{
    return seats_of(ready, own_host) > 0;
}

bool local_expects(const gather_t *gather, const gather_message_t *ready, uint32_t own_host)
{
    uint32_t seats = seats_of(ready, own_host), seated = 0;
    const local_t *local = find(gather, &ready->id, ready->uid);
    if (seats == 0)
        return own_host == 0;
    if (!local || local->is_given_up || local->home->is_lost ||
        local->home->host.instance != ready->comm.home)
        return false;
    LIST_FOR_EACH (link, &local->sent)
        seated += is_seated(CONTAINER_OF(link, gather_rank_t, link), ready, own_host);
    return seated == seats;
}

blink_result_t local_take_ready(gather_t *gather, const gather_message_t *ready, uint32_t own_host)
{
    const gather_config_t *config = &gather->config;
    local_t *local = find(gather, &ready->id, ready->uid);
    list_t seated;
    list_init(&seated);
    if (local && local_has_ranks(ready, own_host)) {
        LIST_FOR_EACH (link, &local->sent) {
            gather_rank_t *rank = CONTAINER_OF(link, gather_rank_t, link);
            if (!is_seated(rank, ready, own_host))
                continue; /* it has come twice, and will be refused */
            release(gather, rank);
            list_append(&seated, &rank->link);
        }
        destroy_if_idle(gather, local);
    }
    return config->calls.ready(config->context, ready, own_host, &seated);
}

/* ---- time ---- */

bool local_work(gather_t *gather)
{
    local_t *joins = LIST_FIRST(&gather->joining, local_t, joins);
    if (joins) {
        send_ranks(gather, joins);
        return true;
    }
    const deadline_t *gives_up = deadline_first(&gather->local_deadlines);
    if (!gives_up || gives_up->at_ms > gather->now_ms)
        return false;
    local_t *local = CONTAINER_OF(gives_up, local_t, gives_up);
    local_fail(gather, local,
               BLINK_FAIL(BLINK_ERR_TIMEOUT, "%s, where the ranks gather, has not answered within %g s",
                          peer_name(local->home),
                          (gather_init_timeout_ms(gather, &local->terms) + GATHER_GRACE_MS) / 1e3));
    return true;
}
