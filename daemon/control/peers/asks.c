#include "control/peers/asks.h"

#include "names.h"

#include <stdio.h>
#include <stdlib.h>

struct asks {
    turns_t *turns;
    uv_timer_t timer; /* of the oldest */
    uint64_t limit_ms;
    list_t all; /* ask_t.of_all, the oldest first: all have the same time */
};

typedef struct ask {
    list_t link, of_all; /* on host->waiting; on asks->all */
    asks_host_t *host;
    asker_t asker; /* held */
    Blinkwire__QueryKind kind;
    uint32_t comm;
    uint64_t page, until_ms;
} ask_t;

static const char *name_of(const asks_host_t *host)
{
    return net_session_peer(host->session)->host;
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer);

static void arm(asks_t *asks)
{
    const ask_t *first = LIST_FIRST(&asks->all, ask_t, of_all);
    if (!first)
        uv_timer_stop(&asks->timer);
    else
        turns_set_timer(&asks->timer, first->until_ms, on_timer);
}

/* ---- questions and their ends ---- */

static bool is_with_host(const ask_t *ask)
{
    return ask->host->is_asked && !ask->host->is_given_up && ask->host->waiting.next == &ask->link;
}

static void free_ask(ask_t *ask)
{
    list_remove(&ask->link);
    list_remove(&ask->of_all);
    free(ask);
}

/* The code with this thread's error text. */
static void fail(ask_t *ask, blink_result_t code)
{
    const asker_t asker = ask->asker;
    turns_count(ask->host->asks->turns, 1);
    free_ask(ask);
    asker_fail(&asker, code);
}

static void give_up(ask_t *ask)
{
    if (is_with_host(ask))
        ask->host->is_given_up = true;
}

static void on_timer(uv_timer_t *timer)
{
    asks_t *asks = timer->data;
    ask_t *first;
    while ((first = LIST_FIRST(&asks->all, ask_t, of_all)) && first->until_ms <= uv_now(timer->loop) &&
           !turns_is_over(asks->turns)) {
        const char *what = is_with_host(first)
                               ? "has not answered"
                               : "was not asked, as others ask it, and it has not answered all";
        give_up(first);
        fail(first, BLINK_FAIL(BLINK_ERR_TIMEOUT, "host %s %s within %g s", name_of(first->host), what,
                               (double)asks->limit_ms / 1000));
    }
    arm(asks);
}

void asks_forget(asks_t *asks, const void *context)
{
    LIST_FOR_EACH (link, &asks->all) {
        ask_t *ask = CONTAINER_OF(link, ask_t, of_all);
        if (ask->asker.context != context)
            continue;
        give_up(ask);
        free_ask(ask);
    }
    arm(asks);
}

void asks_lost(asks_host_t *host)
{
    char why[BLINK_ERROR_TEXT_BYTES];
    snprintf(why, sizeof(why), "%s", blink_error_text());
    LIST_FOR_EACH (link, &host->waiting)
        fail(CONTAINER_OF(link, ask_t, link),
             blink_error_set(BLINK_ERR_PEER_LOST, "host %s: %s", name_of(host), why));
    arm(host->asks);
}

/* ---- what is said ---- */

static blink_result_t say(asks_host_t *host, const ask_t *ask)
{
    uint8_t bytes[64];
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    Blinkpeer__Query query = BLINKPEER__QUERY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    question.kind = ask->kind;
    question.comm = ask->comm;
    question.page = ask->page;
    request.body_case = BLINKWIRE__REQUEST__BODY_QUERY;
    request.query = &question;
    query.id = ++host->last;
    query.uid = ask->asker.view.tenant->uid;
    query.sees_all = ask->asker.view.all;
    query.request = (ProtobufCBinaryData){blinkwire__request__pack(&request, bytes), bytes};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY;
    message.query = &query;
    return net_session_send(host->session, &message);
}

/* Ask what has waited longest, if the host has nothing to answer. */
static void go_on(asks_host_t *host)
{
    ask_t *first;
    while (!host->is_asked && (first = LIST_FIRST(&host->waiting, ask_t, link))) {
        blink_result_t result = say(host, first);
        if (result == BLINK_OK)
            host->is_asked = true;
        else
            fail(first, result);
    }
}

void asks_put(asks_host_t *host, const asker_t *asker, const Blinkwire__Query *question)
{
    asks_t *asks = host->asks;
    ask_t *ask = malloc(sizeof(*ask));
    if (!ask) {
        asker_fail(asker, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to ask host %s", name_of(host)));
        return;
    }
    *ask = (ask_t){.host = host,
                   .asker = *asker,
                   .kind = question->kind,
                   .comm = question->comm,
                   .page = question->page,
                   .until_ms = uv_now(asks->timer.loop) + asks->limit_ms};
    list_append(&host->waiting, &ask->link);
    list_append(&asks->all, &ask->of_all);
    asker->calls->hold(asker->context);
    if (net_session_version(host->session) < PEER_VERSION_QUERIES)
        fail(ask, BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "host %s has blinkd %s, which other hosts cannot ask",
                             name_of(host), net_session_peer(host->session)->daemon_version));
    else
        go_on(host);
    arm(asks);
}

/* ---- what is heard ---- */

static void pass_on(const asks_host_t *host, const asker_t *asker, const Blinkwire__Reply *reply)
{
    Blinkwire__QueryReply body = *reply->query;
    asker_t named = *asker;
    named.host = name_of(host);
    asker_answer(&named, &body);
}

/* What it says there is wrong with the question. */
static void fail_as_told(ask_t *ask, const Blinkwire__Error *error)
{
    bool is_known = error->code != BLINK_OK && blink_name_result_constant(error->code);
    blink_result_t code = is_known ? (blink_result_t)error->code : BLINK_ERR_INTERNAL;
    fail(ask, blink_error_set(code, "host %s: %s", name_of(ask->host), error->text));
}

blink_result_t asks_heard(asks_host_t *host, const Blinkpeer__QueryReply *answer)
{
    const Blinkwire__Reply *reply;
    arena_t arena = {0};
    if (!host->is_asked || answer->id != host->last)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "an answer to question %lu, which nobody has asked",
                          (unsigned long)answer->id);
    blink_result_t result = message_parse_reply(&answer->reply, &arena, &reply);
    ask_t *ask = host->is_given_up ? NULL : LIST_FIRST(&host->waiting, ask_t, link);
    if (result == BLINK_OK) {
        host->is_asked = host->is_given_up = false;
        if (ask && reply->error) {
            fail_as_told(ask, reply->error);
        } else if (ask) {
            const asker_t asker = ask->asker;
            free_ask(ask);
            pass_on(host, &asker, reply);
        }
        go_on(host);
        arm(host->asks);
    }
    arena_free(&arena);
    return result;
}

/* ---- beginning and end ---- */

void asks_host_init(asks_host_t *host, asks_t *asks, net_session_t *session)
{
    *host = (asks_host_t){.asks = asks, .session = session};
    list_init(&host->waiting);
}

blink_result_t asks_create(uv_loop_t *loop, turns_t *turns, uint64_t limit_ms, asks_t **created)
{
    asks_t *asks = malloc(sizeof(*asks));
    if (!asks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to ask other hosts");
    asks->turns = turns;
    asks->limit_ms = limit_ms;
    list_init(&asks->all);
    uv_timer_init(loop, &asks->timer);
    asks->timer.data = asks;
    *created = asks;
    return BLINK_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void asks_destroy(asks_t *asks)
{
    if (!asks)
        return;
    LIST_FOR_EACH (link, &asks->all)
        free_ask(CONTAINER_OF(link, ask_t, of_all));
    uv_close((uv_handle_t *)&asks->timer, on_closed);
}
