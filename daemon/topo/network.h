/*
 * Topologies with a network: what a host's own devices are joined with by NICs, and the hosts of a network as
 * one topology.
 */
#ifndef BLINK_TOPO_NETWORK_H
#define BLINK_TOPO_NETWORK_H

#include "topo/fabric_file.h"
#include "topo/topo.h"

#include <string.h>

/* The switch by which all NICs of all hosts are joined; or, where a network has several, what their ids begin
 * with: "net/leaf1". Between these there are links of the kind TOPO_NET, as between them and NICs. */
#define TOPO_NET_ID "net"

/* A network interface. */
typedef struct topo_nic {
    const char *name; /* the node's id */
    double GBps;
} topo_nic_t;

/* What a network is made of, and as which host one joins it. */
typedef struct topo_fabric {
    const fabric_file_t *file;
    const char *host;
} topo_fabric_t;

/*
 * The topology of one host with its NICs and the network behind them: one switch, or what `fabric` says if it
 * is not NULL. Nodes and links of `local` keep their indices; what is new comes after them. A network of one
 * switch that `local` has already becomes the fabric's, whose first switch then has the index of the one. A
 * topology that has NICs of its own keeps these: they are joined to the network as fast as their fastest
 * links, and `nics` is not looked at. Else the NICs are dealt to the PCIe switches with gpus, or if there are
 * none to the CPUs, else to the switches, else to the gpus; where devices fall into parts that no link joins,
 * the NICs hang on each part. *topo is the caller's: topo_destroy(). Errors: INVALID_ARGUMENT (neither has a
 * NIC; an id is taken; the fabric does not say where a NIC hangs, or `local` has a network of several
 * switches besides), NO_MEMORY.
 */
blink_result_t topo_add_network(const topo_t *local, const topo_nic_t *nics, uint32_t nic_count,
                                const topo_fabric_t *fabric, topo_t **topo);

/* A host of a network. */
typedef struct topo_host {
    const char *name;
    const topo_t *topo; /* with its network: topo_add_network() */
} topo_host_t;

/*
 * Join hosts by their network: the node "id" of host "name" becomes "name/id", and the networks become one.
 * Nodes and links stand in the order of the hosts, and within a host in its own order; switches of the
 * network, and links between these, come last. Each host says where its own NICs hang; of the network all
 * must say the same. The same hosts in the same order give the same topology everywhere, whoever joins them.
 * *joined is the caller's: topo_destroy(). Errors: INVALID_ARGUMENT (two hosts of one name; a host that no
 * NIC joins to the network; hosts whose network is not the same; all named), NO_MEMORY.
 */
blink_result_t topo_join(const topo_host_t *hosts, uint32_t host_count, topo_t **joined);

/* Whether a node of one host's topology is a switch of the network, by its id alone or by its kind, too. */
static inline bool topo_is_network_id(const char *id)
{
    size_t bytes = strlen(TOPO_NET_ID);
    return strncmp(id, TOPO_NET_ID, bytes) == 0 && (id[bytes] == '\0' || id[bytes] == '/');
}

static inline bool topo_is_of_network(const topo_t *topo, uint32_t node)
{
    return topo->nodes[node].kind == TOPO_SWITCH && topo_is_network_id(topo->nodes[node].id);
}

/* Whether a link of one host's topology joins two switches of the network: it is no host's own. */
static inline bool topo_is_trunk(const topo_t *topo, uint32_t link)
{
    return topo_is_of_network(topo, topo->links[link].from) && topo_is_of_network(topo, topo->links[link].to);
}

#endif
