/*
 * What the daemon has for other hosts, and who hears what they tell: data connections, sessions, and ranks
 * that gather. All of it is there only if the settings say where the daemon listens.
 */
#ifndef BLINK_CONTROL_HOSTS_H
#define BLINK_CONTROL_HOSTS_H

#include "control/control.h"

/* control->data, before the engine, whose it is; as data_create(). */
blink_result_t hosts_start_data(control_t *control, pages_source_t landings);

/* control->peers and control->rendezvous; as peers_create() and rendezvous_create(). */
blink_result_t hosts_start_peers(control_t *control);

#endif
