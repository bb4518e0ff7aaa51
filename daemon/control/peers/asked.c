#include "control/peers/asked.h"

#include "control/comms/ops.h"
#include "control/links.h"

#include <stdlib.h>

/* ---- answers ---- */

static blink_result_t send_reply(const asked_t *asked, const Blinkwire__Reply *reply, size_t byte_count)
{
    Blinkpeer__QueryReply body = BLINKPEER__QUERY_REPLY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    uint8_t *bytes = malloc(byte_count + 1);
    if (!bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an answer of %zu bytes", byte_count);
    body.id = asked->number;
    body.reply = (ProtobufCBinaryData){blinkwire__reply__pack(reply, bytes), bytes};
    message.body_case = BLINKPEER__MESSAGE__BODY_QUERY_REPLY;
    message.query_reply = &body;
    blink_result_t result = net_session_send(asked->session, &message);
    free(bytes);
    return result;
}

/* What cannot be sent is answered by the reason. If that cannot be sent either, the session is about to end,
 * or the host there stops waiting. */
static void on_answer(void *context, const Blinkwire__Reply *reply)
{
    asked_t *asked = context;
    error_reply_t failed;
    blink_result_t result = send_reply(asked, reply, blinkwire__reply__get_packed_size(reply));
    if (result != BLINK_OK) {
        error_reply_make(&failed, 0, result);
        (void)send_reply(asked, &failed.reply, blinkwire__reply__get_packed_size(&failed.reply));
    }
    tenant_put(asked->tenant);
    asked->tenant = NULL;
}

static void on_hold(void *context)
{
    (void)context; /* the next question is refused until there is an answer */
}

static bool answer(work_t *work)
{
    static const asker_calls_t calls = {on_hold, on_answer};
    asked_t *asked = CONTAINER_OF(work, asked_t, work);
    const asker_t asker = {.view = {asked->control, asked->tenant, asked->sees_all},
                           .calls = &calls,
                           .context = asked,
                           .host = ""};
    asked->query(&asker, &asked->question);
    return false;
}

/* ---- questions ---- */

static blink_result_t read_question(const Blinkpeer__Query *query, Blinkwire__Query *question)
{
    arena_t arena = {0};
    const Blinkwire__Query *parsed;
    blink_result_t result = message_parse_query(&query->request, &arena, &parsed);
    blinkwire__query__init(question);
    if (result == BLINK_OK) {
        question->kind = parsed->kind;
        question->comm = parsed->comm;
        question->page = parsed->page;
    }
    arena_free(&arena);
    return result;
}

blink_result_t asked_heard(asked_t *asked, const Blinkpeer__Query *query)
{
    if (asked->tenant)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "question %lu before question %lu is answered",
                          (unsigned long)query->id, (unsigned long)asked->number);
    BLINK_TRY(read_question(query, &asked->question));
    asked->tenant = tenant_get(&asked->control->tenants, query->uid, "");
    if (!asked->tenant)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for user %u", query->uid);
    asked->number = query->id;
    asked->sees_all = query->sees_all;
    turns_post(&asked->control->turns, asked->tenant, &asked->work);
    return BLINK_OK;
}

void asked_init(asked_t *asked, control_t *control, net_session_t *session, asked_query_t *query)
{
    *asked = (asked_t){.control = control, .session = session, .query = query};
    work_init(&asked->work, answer);
}

void asked_end(asked_t *asked)
{
    if (!asked->tenant)
        return;
    work_cancel(&asked->work);
    links_forget(asked->control->links, asked);
    ops_forget(asked->control, asked);
    tenant_put(asked->tenant);
    asked->tenant = NULL;
}
