/*
 * The fabrics of communicators that span hosts. Communicators over the same hosts share one, and with it
 * their plans; a few that nobody uses are kept for those who come next.
 */
#ifndef BLINK_CONTROL_FABRICS_H
#define BLINK_CONTROL_FABRICS_H

#include "control/control.h"

#define FABRIC_DIGEST_BYTES 32u

/* A host of a communicator. */
typedef struct fabric_host {
    const char *name;
    const char *text;      /* its topology with the network, as topo_write_json() writes it */
    const uint8_t *digest; /* of the text: FABRIC_DIGEST_BYTES */
    uint64_t instance;     /* of its daemon */
} fabric_host_t;

/*
 * The fabric of these hosts in this order; `own_host` is this daemon's, whose topology is control->topo.
 * *fabric is the caller's: fabric_put(). Hosts and what they point to are borrowed until the call returns.
 * Errors: those of topo_join(); INVALID_ARGUMENT (a text is no topology; names the host).
 */
blink_result_t fabrics_find(control_t *control, const fabric_host_t *hosts, uint32_t host_count,
                            uint32_t own_host, fabric_t **fabric);

/* The daemon with this instance is lost: fabrics that it is a host of are not found any more, and plans for
 * them go. */
void fabrics_host_lost(control_t *control, uint64_t instance);

/* Nothing uses any fabric any more. */
void fabrics_end(control_t *control);

#endif
