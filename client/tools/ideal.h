/*
 * The ideal bus bandwidth of devices of the daemon's, by its topology: one yardstick for blinkctl and
 * blink-perf (plan/show/ideal.h has the method).
 */
#ifndef BLINK_TOOLS_IDEAL_H
#define BLINK_TOOLS_IDEAL_H

#include "blink/types.h"
#include "error.h"

#include <stdint.h>

/** Ideal bus bandwidth of a collective in GB/s of `count` devices, named by their nodes' ids, of a
 * blink-topology/1; 0 for one device. Errors: PROTOCOL (the topology cannot be read, or has no such node),
 * NO_MEMORY. */
blink_result_t tools_ideal_GBps(const char *topology_json, blink_collective_t collective,
                                const char *const *nodes, uint32_t count, double *ideal_GBps);

#endif
