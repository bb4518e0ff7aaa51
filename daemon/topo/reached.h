/*
 * A named machine as its GPUs use it. What is named has NVLink's line rates, and each NVSwitch as a switch of
 * its own; a machine that is detected, or read from NCCL's XML, has neither (rates.h).
 */
#ifndef BLINK_TOPO_REACHED_H
#define BLINK_TOPO_REACHED_H

#include "topo/topo.h"

/*
 * The topology with NVLink as fast as multiprocessors drive it, TOPO_NVLINK_REACHED of its capacity, and the
 * NVSwitches of a host as one: nobody can choose by which of them a store goes. Devices keep their order.
 * *reached is the caller's: topo_destroy(). Errors: NO_MEMORY.
 */
blink_result_t topo_as_reached(const topo_t *topo, topo_t **reached);

/* The same of a named machine. Errors: as topo_load(). */
blink_result_t topo_load_as_reached(const char *name, topo_t **reached);

#endif
