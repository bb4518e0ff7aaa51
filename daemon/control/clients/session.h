/*
 * A connection and who is behind it, from accept to the end: a tool that asks, or a client that has rings.
 */
#ifndef BLINK_SESSION_H
#define BLINK_SESSION_H

#include "base/tenant.h"
#include "control/clients/client.h"
#include "control/clients/connection.h"
#include "control/control.h"
#include "frame.h"

typedef struct session {
    control_t *control;
    list_t link; /* on control->sessions */
    connection_t *connection;
    tenant_t *tenant;    /* held */
    bool greeted;        /* a Hello was accepted */
    bool sees_all;       /* root, or a member of the group that may see everybody's objects */
    list_t of_ungreeted; /* control->ungreeted, until then */
    uint64_t hello_deadline_ms;
    client_t *client; /* NULL: a tool, or not greeted yet */
} session_t;

/* The lists of sessions, and the timer of those that have not said hello. */
void sessions_init(control_t *control);

/* The session's Hello is accepted. */
static inline void session_greet(session_t *session)
{
    session->greeted = true;
    list_remove(&session->of_ungreeted);
    connection_allow(session->connection, FRAME_REQUEST_MAX_BYTES);
}

/* Take over an accepted socket. */
void session_start(control_t *control, int fd);

/* The daemon stops: end the loop, if nothing is waited for any more. */
void sessions_stop_if_done(control_t *control);

/* The daemon stops: a slice of the sessions ends, and the loop ends with the last one. False: all have been
 * told to. */
bool sessions_end_some(control_t *control);

#endif
