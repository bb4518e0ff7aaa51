/*
 * The hosts that rails go through, in the order of rings: their nodes, ranks and NICs.
 */
#ifndef BLINK_PLAN_RAIL_HOSTS_H
#define BLINK_PLAN_RAIL_HOSTS_H

#include "plan/internal.h"

/* A host with ranks, as lists of topology indices in their order there. */
typedef struct rail_host {
    uint32_t node_count, nic_count, rank_count;
    uint32_t *nodes;     /* all its nodes */
    uint32_t *nics;      /* those of them that are NICs with a link out of the host; of a single host none */
    uint32_t *rank_node; /* nodes of its ranks, in rank order */
} rail_host_t;

typedef struct rail_hosts {
    const topo_t *topo;
    uint32_t count;
    rail_host_t *hosts;
    uint32_t *rank_host; /* per rank */
    uint32_t *node_host; /* per node; PLAN_NONE where no rank is on its host */
    uint32_t *place;     /* per node: its place in its host's list of nodes */
} rail_hosts_t;

/* Errors: NO_MEMORY; rail_hosts_fini() either way. */
blink_result_t rail_hosts_find(const topo_t *topo, const plan_t *plan, rail_hosts_t *hosts);
void rail_hosts_fini(rail_hosts_t *hosts);

/* Whether two hosts differ in nothing that a walk depends on, node by node. */
bool rail_hosts_are_equal(const rail_hosts_t *hosts, const rail_host_t *one, const rail_host_t *other);

/* The rate of a NIC's widest link out of its host. */
double rail_hosts_port_GBps(const rail_hosts_t *hosts, uint32_t nic);

#endif
