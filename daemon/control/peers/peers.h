/*
 * The daemons of other hosts, as the control thread knows them: those that the settings name, which are
 * dialled until there is a session and again when it has ended, and those that dial this one.
 */
#ifndef BLINK_CONTROL_PEERS_H
#define BLINK_CONTROL_PEERS_H

#include "blink.pb-c.h"
#include "control/control.h"
#include "net/net.h"

/* Listen and dial as [network] in the settings says, and read the cluster key, for which this blocks. *peers
 * is NULL if no address is set: the daemon then knows no other. Errors: as cluster_keys_read(), net_listen()
 * and address_parse(), with the setting's name; SYSTEM, NO_MEMORY. */
blink_result_t peers_create(control_t *control, peers_t **peers);

/* Say Bye to all. Memory and sockets are given back from within the loop. NULL is ignored. */
void peers_destroy(peers_t *peers);

/* ---- for queries ---- */

/* What is known of one host. Texts are valid until the loop runs again. */
typedef struct described_host {
    Blinkwire__Host host;
    char address[ADDRESS_TEXT_BYTES];
    Blinkwire__HostNic nics[HELLO_NICS_MAX], *pointers[HELLO_NICS_MAX];
    char nic_addresses[HELLO_NICS_MAX][ADDRESS_TEXT_BYTES];
} described_host_t;

/* The host with this number, beginning with 0: this one, then those with a session, then those that are
 * dialled. False: there are no more. */
bool peers_describe(const peers_t *peers, uint64_t number, described_host_t *described);

#endif
