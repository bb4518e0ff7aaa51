#include "control/comms/fabrics.h"

#include <stdlib.h>
#include <string.h>

/* Fabrics that nobody uses and that are kept all the same. */
#define UNUSED_MOST 8u

/* A daemon that has been started anew may plan otherwise: what the one before it has shipped is not used with
 * it. */
typedef struct known_host {
    uint64_t instance;
    uint8_t digest[FABRIC_DIGEST_BYTES];
} known_host_t;

typedef struct known_fabric {
    list_t link; /* control_t.fabrics, the last one used first */
    fabric_t *fabric;
    known_host_t hosts[];
} known_fabric_t;

static bool is_of(const known_fabric_t *known, const fabric_host_t *hosts, uint32_t host_count,
                  uint32_t own_host)
{
    uint32_t host = 0;
    if (known->fabric->host_count != host_count || known->fabric->own_host != own_host)
        return false;
    while (host < host_count && strcmp(known->fabric->hosts[host], hosts[host].name) == 0 &&
           known->hosts[host].instance == hosts[host].instance &&
           memcmp(known->hosts[host].digest, hosts[host].digest, FABRIC_DIGEST_BYTES) == 0)
        host++;
    return host == host_count;
}

static void forget(known_fabric_t *known)
{
    list_remove(&known->link);
    fabric_put(known->fabric);
    free(known);
}

/* The oldest that nobody uses go, but for so many. */
static void trim(control_t *control, uint32_t unused_most)
{
    uint32_t unused = 0;
    LIST_FOR_EACH (link, &control->fabrics) {
        known_fabric_t *known = CONTAINER_OF(link, known_fabric_t, link);
        if (fabric_has_one_user(known->fabric) && ++unused > unused_most)
            forget(known);
    }
}

/* ---- making one ---- */

typedef struct reading {
    topo_host_t *hosts;
    topo_t **made; /* by host; NULL: it has the same topology as a host before, or is this one */
} reading_t;

static blink_result_t read_host(const fabric_host_t *hosts, uint32_t host, const reading_t *reading)
{
    const fabric_host_t *one = &hosts[host];
    for (uint32_t before = 0; before < host; before++)
        if (memcmp(hosts[before].digest, one->digest, FABRIC_DIGEST_BYTES) == 0) {
            reading->hosts[host].topo = reading->hosts[before].topo;
            return BLINK_OK;
        }
    BLINK_TRY(topo_parse_json(one->text, strlen(one->text), one->name, &reading->made[host]));
    reading->hosts[host].topo = reading->made[host];
    return BLINK_OK;
}

static blink_result_t join(const control_t *control, const fabric_host_t *hosts, uint32_t host_count,
                           uint32_t own_host, const reading_t *reading, fabric_t **fabric)
{
    if (!reading->hosts || !reading->made)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a fabric of %u hosts", host_count);
    for (uint32_t host = 0; host < host_count; host++) {
        BLINK_TRY(read_host(hosts, host, reading));
        reading->hosts[host].name = hosts[host].name;
    }
    if (reading->hosts[own_host].topo->link_count != control->topo->link_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL,
                          "the topology of host '%.64s', which is this one, has %u links and "
                          "not %u",
                          hosts[own_host].name, reading->hosts[own_host].topo->link_count,
                          control->topo->link_count);
    return fabric_create_joined(reading->hosts, host_count, own_host, fabric);
}

static blink_result_t create(const control_t *control, const fabric_host_t *hosts, uint32_t host_count,
                             uint32_t own_host, fabric_t **fabric)
{
    const reading_t reading = {.hosts = calloc(host_count, sizeof(*reading.hosts)),
                               .made = calloc(host_count, sizeof(*reading.made))};
    blink_result_t result = join(control, hosts, host_count, own_host, &reading, fabric);
    for (uint32_t host = 0; host < host_count && reading.made; host++)
        topo_destroy(reading.made[host]);
    free(reading.made);
    free(reading.hosts);
    return result;
}

blink_result_t fabrics_find(control_t *control, const fabric_host_t *hosts, uint32_t host_count,
                            uint32_t own_host, fabric_t **fabric)
{
    LIST_FOR_EACH (link, &control->fabrics) {
        known_fabric_t *known = CONTAINER_OF(link, known_fabric_t, link);
        if (!is_of(known, hosts, host_count, own_host))
            continue;
        list_remove(&known->link);
        list_prepend(&control->fabrics, &known->link);
        *fabric = fabric_get(known->fabric);
        return BLINK_OK;
    }
    known_fabric_t *known = calloc(1, sizeof(*known) + host_count * sizeof(known->hosts[0]));
    if (!known)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a fabric of %u hosts", host_count);
    blink_result_t result = create(control, hosts, host_count, own_host, &known->fabric);
    if (result != BLINK_OK) {
        free(known);
        return result;
    }
    for (uint32_t host = 0; host < host_count; host++) {
        known->hosts[host].instance = hosts[host].instance;
        memcpy(known->hosts[host].digest, hosts[host].digest, FABRIC_DIGEST_BYTES);
    }
    list_prepend(&control->fabrics, &known->link);
    *fabric = fabric_get(known->fabric);
    trim(control, UNUSED_MOST);
    return BLINK_OK;
}

static bool has_host(const known_fabric_t *known, uint64_t instance)
{
    uint32_t host = 0;
    while (host < known->fabric->host_count && known->hosts[host].instance != instance)
        host++;
    return host < known->fabric->host_count;
}

void fabrics_host_lost(control_t *control, uint64_t instance)
{
    LIST_FOR_EACH (link, &control->fabrics) {
        known_fabric_t *known = CONTAINER_OF(link, known_fabric_t, link);
        turns_count(&control->turns, 1);
        if (!has_host(known, instance))
            continue;
        /* Relaxed: pairs with the load in the engine's cache, as said there. */
        atomic_store_explicit(&known->fabric->is_gone, true, memory_order_relaxed);
        forget(known);
    }
}

void fabrics_end(control_t *control)
{
    LIST_FOR_EACH (link, &control->fabrics) {
        forget(CONTAINER_OF(link, known_fabric_t, link));
    }
}
