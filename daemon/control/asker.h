/*
 * Who asks to be shown something, and how the answer gets there: a tool of this host by its connection, or
 * the daemon of another host for a tool there.
 */
#ifndef BLINK_CONTROL_ASKER_H
#define BLINK_CONTROL_ASKER_H

#include "blink.pb-c.h"
#include "control/clients/error_reply.h"
#include "control/view.h"

typedef struct asker_calls {
    /* The answer comes later: nothing else is asked until then. */
    void (*hold)(void *context);
    /* Called once. The reply is valid during the call. */
    void (*answer)(void *context, const Blinkwire__Reply *reply);
} asker_calls_t;

/* One question's. A copy is as good. */
typedef struct asker {
    view_t view;
    const asker_calls_t *calls;
    void *context;
    uint64_t request; /* the number of the question */
    const char *host; /* what the answer says of who has answered; as long as the daemon */
} asker_t;

static inline void asker_answer(const asker_t *asker, Blinkwire__QueryReply *body)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    reply.id = asker->request;
    reply.body_case = BLINKWIRE__REPLY__BODY_QUERY;
    reply.query = body;
    body->host = (char *)(uintptr_t)asker->host; /* only read */
    asker->calls->answer(asker->context, &reply);
}

/* The code with this thread's error text. */
static inline void asker_fail(const asker_t *asker, blink_result_t code)
{
    error_reply_t made;
    error_reply_make(&made, asker->request, code);
    asker->calls->answer(asker->context, &made.reply);
}

#endif
