/*
 * Hosts that this one turns to because of a communicator: they are dialled at the addresses that an id or
 * another host names, and what is to be said to them waits until there is a session.
 */
#ifndef BLINK_CONTROL_REACH_H
#define BLINK_CONTROL_REACH_H

#include "control/peers/state.h"

/* Dial the daemon, unless that is under way. `tenant` has asked for it, and is charged with a connection
 * until there is a session; NULL: nobody is. Errors: PEER_LOST (it names no address), QUOTA, NO_MEMORY,
 * SYSTEM. */
blink_result_t reach_begin(peers_t *peers, const gather_host_t *host, tenant_t *tenant);

/* Say this once there is a session; reach_begin() comes first. Errors: NO_MEMORY. */
blink_result_t reach_say(peers_t *peers, uint64_t instance, const Blinkpeer__Message *message);

/* There is a session, whoever dialled: what waits is said. */
void reach_opened(peers_t *peers, net_session_t *session);

/* Nobody is dialled any more. */
void reach_end(peers_t *peers);

#endif
