#include "control/peers/topologies.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static topology_t *find(const list_t *topologies, const uint8_t digest[TOPOLOGY_DIGEST_BYTES])
{
    LIST_FOR_EACH (link, topologies) {
        topology_t *topology = CONTAINER_OF(link, topology_t, link);
        if (memcmp(topology->digest, digest, TOPOLOGY_DIGEST_BYTES) == 0)
            return topology;
    }
    return NULL;
}

blink_result_t topology_get(list_t *topologies, const char *text, topology_t **found)
{
    uint8_t digest[TOPOLOGY_DIGEST_BYTES];
    size_t bytes = strlen(text) + 1;
    if (EVP_Digest(text, bytes - 1, digest, NULL, EVP_sha256(), NULL) != 1)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "no digest of a topology: OpenSSL has no SHA-256");
    topology_t *topology = find(topologies, digest);
    if (!topology) {
        topology = malloc(sizeof(*topology) + bytes);
        if (!topology)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a topology of %zu bytes", bytes);
        topology->users = 0;
        memcpy(topology->digest, digest, sizeof(digest));
        memcpy(topology->text, text, bytes);
        list_append(topologies, &topology->link);
    }
    topology->users++;
    *found = topology;
    return BLINK_OK;
}

void topology_put(topology_t *topology)
{
    if (!topology || --topology->users > 0)
        return;
    list_remove(&topology->link);
    free(topology);
}
