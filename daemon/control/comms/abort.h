/*
 * How a roster is aborted: its ranks hear why it is of no more use.
 */
#ifndef BLINK_CONTROL_ABORT_H
#define BLINK_CONTROL_ABORT_H

#include "control/comms/roster.h"

/* Tell every rank of a ready roster that is still there, except one (NULL: none). The first reason counts. */
void roster_announce_abort(roster_t *roster, blink_result_t code, const char *text, const member_t *except);

/* The daemon stops: the roster is aborted with DAEMON_LOST. One that gathers is freed by it. */
void roster_stop(roster_t *roster);

#endif
