/*
 * How a roster is aborted: its ranks hear why it is of no more use.
 */
#ifndef BLINK_CONTROL_ABORT_H
#define BLINK_CONTROL_ABORT_H

#include "control/comms/roster.h"

/* Have the engine end the ops of a roster that has begun, unless all of its ranks have left. */
void roster_end_ops(const roster_t *roster, blink_result_t code, const char *text);

/* Tell every rank of a ready roster that is still there, except one (NULL: none). The first reason counts. */
void roster_announce_abort(roster_t *roster, blink_result_t code, const char *text, const member_t *except);

/* The daemon stops: the roster is aborted with DAEMON_LOST. One that gathers is freed by it. */
void roster_stop(roster_t *roster);

/* As engine_config_t.comm_ended. */
void rosters_abort_by_engine(rosters_t *rosters, uint32_t number, blink_result_t code, const char *text);

/* The daemon stops, and no rank joins any more: rosters_abort_some() is to abort what there is. */
void rosters_begin_to_stop(rosters_t *rosters);

/* The daemon stops: a slice of the rosters is aborted with DAEMON_LOST. False: none is left. */
bool rosters_abort_some(rosters_t *rosters);

#endif
