/*
 * Topologies of many equal hosts, by name: "64xdgx1v" is 64 of that built-in behind one network switch.
 */
#ifndef BLINK_TOPO_GENERATE_H
#define BLINK_TOPO_GENERATE_H

#include "topo/topo.h"

/* Is this NxNAME or NxNAME@G with the name of a built-in? topo_generate() then tells whether it makes sense.
 */
bool topo_is_generated(const char *what);

/* Build what topo_load() promises for such a name. Errors: INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t topo_generate(const char *what, topo_t **topo);

#endif
