/*
 * What the daemon of another host asks for tools there: one page of an answer at a time, made in a slice of
 * the user who asks, from what that user would see here.
 */
#ifndef BLINK_CONTROL_ASKED_H
#define BLINK_CONTROL_ASKED_H

#include "control/asker.h"
#include "net/net.h"

/* Answers a question by its asker, now or later. */
typedef void asked_query_t(const asker_t *asker, const Blinkwire__Query *query);

/* What one session asks. */
typedef struct asked {
    control_t *control;
    net_session_t *session;
    asked_query_t *query;
    work_t work;
    tenant_t *tenant; /* who asks, held; NULL: there is no question */
    bool sees_all;
    uint64_t number;
    Blinkwire__Query question; /* without texts */
} asked_t;

void asked_init(asked_t *asked, control_t *control, net_session_t *session, asked_query_t *query);

/* A question has come. Errors: PROTOCOL (the one before is not answered yet, or it is none), NO_MEMORY; both
 * end the session. */
blink_result_t asked_heard(asked_t *asked, const Blinkpeer__Query *query);

/* The session has ended. */
void asked_end(asked_t *asked);

#endif
