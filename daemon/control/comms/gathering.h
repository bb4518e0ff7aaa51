/*
 * How the ranks of a roster gather: they join one after another until all are there, or until a rank goes or
 * gives up, the time is up, or the daemon stops.
 */
#ifndef BLINK_GATHERING_H
#define BLINK_GATHERING_H

#include "control/comms/roster.h"
#include "engine/plans/fabric.h"

/* Serves the request; it is answered at once if it is refused, else when the gathering is over. */
void roster_join(client_t *client, uint64_t request, const Blinkwire__CommInit *message);

/* A roster that gathers comes to nothing, with this code and this thread's error text: everybody who has
 * joined hears so, and the other hosts if they do not know. The roster is freed. */
void roster_gathering_failed(roster_t *roster, blink_result_t code);

/* One who has joined does not fit, for this code and this thread's error text. Who was the only one takes the
 * roster along. */
void gathering_refused(member_t *member, blink_result_t code);

/* All ranks have joined, and the communicator begins. fabric: of its hosts, with the other ones' part in
 * `remote`; NULL: all ranks are on this host. Errors: of engine_comm_add(); INTERNAL (a host has no such
 * device): nothing has changed. */
blink_result_t gathering_complete(roster_t *roster, fabric_t *fabric, const engine_remote_config_t *remote);

#endif
