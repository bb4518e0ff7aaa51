/*
 * What blinkctl asks: what the daemon is, has and serves.
 */
#ifndef BLINK_CONTROL_QUERY_H
#define BLINK_CONTROL_QUERY_H

#include "control/clients/connection.h"
#include "control/control.h"

/* The answer is sent now; an answer about links may be sent a moment later. */
void query_answer(control_t *control, connection_t *connection, uint64_t request, Blinkwire__QueryKind kind);

#endif
