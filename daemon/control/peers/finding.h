/*
 * Which daemon listens at an address that a client names (FindHome): its own is known, others are asked, by a
 * session that communicators can use afterwards. A connection asks one thing at a time, and its tenant is
 * charged with a connection while somebody is dialled.
 */
#ifndef BLINK_CONTROL_FINDING_H
#define BLINK_CONTROL_FINDING_H

#include "control/clients/connection.h"
#include "control/peers/state.h"

/* Answer the request, now or once the daemon there has said who it is. Errors, as answers: INVALID_ARGUMENT
 * (the form), UNSUPPORTED (this daemon does not listen for others), QUOTA (the connection asks already, or
 * the tenant has no connections left), PERMISSION (the daemon there does not name the address), CONNECT
 * (there is no session in time; says why). */
void finding_begin(control_t *control, connection_t *connection, tenant_t *tenant, uint64_t request,
                   const Blinkwire__FindHome *message);

/* There is a session: who asks for this host is answered. */
void finding_opened(peers_t *peers, net_session_t *session);

/* The connection has ended: it is not answered any more. */
void finding_forget(peers_t *peers, const connection_t *connection);

/* Nobody is answered any more. */
void finding_end(peers_t *peers);

#endif
