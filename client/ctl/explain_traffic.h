/*
 * By which links a live communicator's ranks of this host have moved data, as blinkctl explain --comm says
 * it: over which NICs to other hosts and from them, and over which kinds of links within the host.
 */
#ifndef BLINK_CTL_EXPLAIN_TRAFFIC_H
#define BLINK_CTL_EXPLAIN_TRAFFIC_H

#include "ctl.h"

/* Print it, from the daemon's answer about links; nothing unless the network was used. */
void explain_traffic_print(const Blinkwire__QueryReply *links, uint32_t comm);

/* The same as JSON; null unless the network was used. */
json_t *explain_traffic_pack(const Blinkwire__QueryReply *links, uint32_t comm);

#endif
