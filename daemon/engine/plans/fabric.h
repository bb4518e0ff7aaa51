/*
 * The hosts of a set of communicators, and the topology in which their devices lie. Plans belong to a fabric:
 * communicators over the same devices of one fabric share them. The daemon's own host alone is one, too.
 *
 * A fabric does not change once it is made, so any thread may read it; it is counted.
 */
#ifndef BLINK_ENGINE_FABRIC_H
#define BLINK_ENGINE_FABRIC_H

#include "topo/network.h"
#include "topo/topo.h"

#include <stdatomic.h>

typedef struct fabric {
    const topo_t *topo; /* the same on all hosts, node by node and link by link */
    const char *text;   /* the topology of several hosts as topo_write_json() writes it; NULL: one host */
    uint32_t host_count, own_host;
    uint64_t digest; /* of that text: the same on all hosts. 0: one host */
    /* By link of topo: the link of the daemon's own topology that it is, TOPO_NONE if it is another host's.
     * sent_link has links between switches of the network besides. NULL: one host, whose links they are. */
    const uint32_t *own_link, *sent_link;
    /* By host: device i of host h is topo->gpus[first_device[h] + i]. NULL: one host. */
    const uint32_t *first_device;
    const uint32_t *host_of_node; /* by node of topo; TOPO_NONE: of the network. NULL: one host */
    const char *const *hosts;     /* by host: its name. NULL: one host, which is not named */
    bool one_class;               /* all devices meet in one memory: one plan serves all sizes */
    _Atomic uint32_t users;
    /* A host of it has gone: no communicator will have this fabric any more. Stored by the control thread,
     * and loaded by the engine's, which forgets what was made for it. */
    atomic_bool is_gone;
    void (*destroy)(struct fabric *fabric); /* when nobody uses it any more */
} fabric_t;

/* The daemon's own host alone; borrows the topology. The caller's: fabric_put(). Errors: NO_MEMORY. */
blink_result_t fabric_create_local(const topo_t *topo, fabric_t **fabric);

/* Several hosts in this order, joined by topo_join(); `own_host` is the daemon's own, with the topology that
 * its counters of links are for. Names and topologies are copied. The caller's: fabric_put(). Errors: those
 * of topo_join(). */
blink_result_t fabric_create_joined(const topo_host_t *hosts, uint32_t host_count, uint32_t own_host,
                                    fabric_t **fabric);

/* Use it once more, and once less. Thread-safe. NULL is ignored. */
fabric_t *fabric_get(fabric_t *fabric);
void fabric_put(fabric_t *fabric);

/* Nobody uses it but the caller, who alone could make another user of it. */
static inline bool fabric_has_one_user(const fabric_t *fabric)
{
    /* Acquire: pairs with fabric_put(). */
    return atomic_load_explicit(&fabric->users, memory_order_acquire) == 1;
}

/* The number of this host's device on the node; TOPO_NONE: there is none. */
uint32_t fabric_own_device(const fabric_t *fabric, uint32_t node);

static inline bool fabric_spans_hosts(const fabric_t *fabric)
{
    return fabric->host_count > 1;
}

#endif
