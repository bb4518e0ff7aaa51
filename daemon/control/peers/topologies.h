/*
 * Texts of hosts' topologies, each kept once however many hosts have it, and found by its digest.
 */
#ifndef BLINK_CONTROL_TOPOLOGIES_H
#define BLINK_CONTROL_TOPOLOGIES_H

#include "base/list.h"
#include "error.h"

#include <stdint.h>

#define TOPOLOGY_DIGEST_BYTES 32u

typedef struct topology {
    list_t link;
    uint32_t users;
    uint8_t digest[TOPOLOGY_DIGEST_BYTES]; /* SHA-256 of the text */
    char text[];
} topology_t;

/* The text's entry in the list, made if there is none, and used once more. Errors: NO_MEMORY, SYSTEM. */
blink_result_t topology_get(list_t *topologies, const char *text, topology_t **topology);

/* Use it once less. NULL is ignored. */
void topology_put(topology_t *topology);

#endif
