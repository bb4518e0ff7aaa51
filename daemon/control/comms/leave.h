/*
 * How ranks leave a roster: in good order, by aborting it, by giving up before all have joined, or because
 * their process is gone.
 */
#ifndef BLINK_CONTROL_LEAVE_H
#define BLINK_CONTROL_LEAVE_H

#include "control/comms/roster.h"

/* Serve the requests; they are answered now or, if the engine is waited for, later. */
void roster_leave(client_t *client, uint64_t request, uint32_t member);
void roster_abort(client_t *client, uint64_t request, uint32_t member);

/* Serves the request: the gathering that the client's CommInit `joining` waits for fails with ABORTED.
 * Nothing is done if the CommInit has been answered. */
void roster_give_up(client_t *client, uint64_t request, uint64_t joining);

/* The client's process is gone: one of its ranks leaves, and the roster it was on is aborted. False: it has
 * none left. */
bool rosters_lose_one(client_t *client);

#endif
