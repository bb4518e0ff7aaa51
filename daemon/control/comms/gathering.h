/*
 * How the ranks of a roster gather: they join one after another until all are there, or until a rank goes,
 * the time is up, or the daemon stops.
 */
#ifndef BLINK_GATHERING_H
#define BLINK_GATHERING_H

#include "control/comms/roster.h"

/* Serves the request; it is answered at once if it is refused, else when the gathering is over. */
void roster_join(client_t *client, uint64_t request, const Blinkwire__CommInit *message);

/* A roster that gathers comes to nothing, with this code and this thread's error text: everybody who has
 * joined hears so. The roster is freed. */
void roster_gathering_failed(roster_t *roster, blink_result_t code);

#endif
