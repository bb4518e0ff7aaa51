/*
 * Topologies with a network: what a host's own devices are joined with by NICs, and the hosts of a network as
 * one topology.
 */
#ifndef BLINK_TOPO_NETWORK_H
#define BLINK_TOPO_NETWORK_H

#include "topo/topo.h"

/* The switch by which all NICs of all hosts are joined. */
#define TOPO_NET_ID "net"

/* A network interface. */
typedef struct topo_nic {
    const char *name; /* the node's id */
    double GBps;
} topo_nic_t;

/*
 * The topology of one host with its NICs and the network behind them. Nodes and links of `local` keep their
 * indices; what is new comes after them. A topology that has NICs of its own keeps these: they are joined to
 * the network as fast as their fastest links, and `nics` is not looked at. Else the NICs are dealt to the
 * PCIe switches with gpus, or if there are none to the CPUs, else to the switches, else to the gpus; where
 * devices fall into parts that no link joins, the NICs hang on each part. *topo is the caller's:
 * topo_destroy(). Errors: INVALID_ARGUMENT (neither has a NIC; an id is taken), NO_MEMORY.
 */
blink_result_t topo_add_network(const topo_t *local, const topo_nic_t *nics, uint32_t nic_count,
                                topo_t **topo);

/* A host of a network. */
typedef struct topo_host {
    const char *name;
    const topo_t *topo; /* with its network: topo_add_network() */
} topo_host_t;

/*
 * Join hosts by their network: the node "id" of host "name" becomes "name/id", and the networks become one.
 * Nodes and links stand in the order of the hosts, and within a host in its own order; the network comes
 * last. The same hosts in the same order give the same topology everywhere, whoever joins them. *joined is
 * the caller's: topo_destroy(). Errors: INVALID_ARGUMENT (two hosts of one name; a host that no NIC joins to
 * the network; hosts whose network is not the same; all named), NO_MEMORY.
 */
blink_result_t topo_join(const topo_host_t *hosts, uint32_t host_count, topo_t **joined);

/* The network's node; TOPO_NONE: the topology has none. */
uint32_t topo_find_network(const topo_t *topo);

#endif
