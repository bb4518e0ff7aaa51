#include "engine/plans/fabric.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

static void local_destroy(fabric_t *fabric)
{
    free(fabric);
}

blink_result_t fabric_create_local(const topo_t *topo, fabric_t **created)
{
    fabric_t *fabric = calloc(1, sizeof(*fabric));
    if (!fabric)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the fabric of this host");
    fabric->topo = topo;
    fabric->host_count = 1;
    fabric->one_class = topo_is_plain_memory(topo);
    atomic_init(&fabric->users, 1);
    fabric->destroy = local_destroy;
    *created = fabric;
    return BLINK_OK;
}

/* ---- several hosts ---- */

/* What the fabric points to. */
typedef struct joined_fabric {
    fabric_t fabric;
    topo_t *topo;
    uint32_t *own_link, *sent_link, *first_device, *host_of_node;
    char **hosts;
    char *text;
} joined_fabric_t;

static void joined_destroy(fabric_t *fabric)
{
    joined_fabric_t *joined = (joined_fabric_t *)fabric;
    for (uint32_t i = 0; i < fabric->host_count && joined->hosts; i++)
        free(joined->hosts[i]);
    free(joined->hosts);
    free(joined->text);
    free(joined->host_of_node);
    free(joined->first_device);
    free(joined->sent_link);
    free(joined->own_link);
    topo_destroy(joined->topo);
    free(joined);
}

/* topo_join() keeps the order of hosts, and of the nodes and links of each; the network comes last. */
static uint32_t number_nodes(joined_fabric_t *joined, const topo_host_t *hosts)
{
    uint32_t node = 0, device = 0;
    for (uint32_t host = 0; host < joined->fabric.host_count; host++) {
        const topo_t *topo = hosts[host].topo;
        for (uint32_t i = 0; i < topo->node_count; i++)
            if (!topo_is_of_network(topo, i))
                joined->host_of_node[node++] = host;
        joined->first_device[host] = device;
        device += topo->gpu_count;
    }
    return node;
}

static void number_links(joined_fabric_t *joined, const topo_host_t *hosts)
{
    const topo_t *own = hosts[joined->fabric.own_host].topo;
    uint32_t link = 0;
    memset(joined->own_link, 0xff, joined->topo->link_count * sizeof(*joined->own_link));
    for (uint32_t host = 0; host < joined->fabric.host_count; host++)
        for (uint32_t i = 0; i < hosts[host].topo->link_count; i++) {
            if (topo_is_trunk(hosts[host].topo, i))
                continue;
            if (host == joined->fabric.own_host)
                joined->own_link[link] = i;
            link++;
        }
    memcpy(joined->sent_link, joined->own_link, joined->topo->link_count * sizeof(*joined->sent_link));
    for (uint32_t i = 0; i < own->link_count; i++)
        if (topo_is_trunk(own, i))
            joined->sent_link[link++] = i;
}

static void number(joined_fabric_t *joined, const topo_host_t *hosts)
{
    for (uint32_t node = number_nodes(joined, hosts); node < joined->topo->node_count; node++)
        joined->host_of_node[node] = TOPO_NONE;
    number_links(joined, hosts);
}

/* In JSON hosts are named in their order. */
static blink_result_t write_text(joined_fabric_t *joined)
{
    fabric_t *fabric = &joined->fabric;
    BLINK_TRY(topo_write_json(fabric->topo, &joined->text));
    fabric->text = joined->text;
    fabric->digest = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *at = joined->text; *at; at++)
        fabric->digest = (fabric->digest ^ (uint8_t)*at) * 0x100000001b3u;
    return BLINK_OK;
}

static blink_result_t fill(joined_fabric_t *joined, const topo_host_t *hosts)
{
    uint32_t host_count = joined->fabric.host_count;
    BLINK_TRY(topo_join(hosts, host_count, &joined->topo));
    joined->own_link = calloc((size_t)joined->topo->link_count + 1, sizeof(*joined->own_link));
    joined->sent_link = calloc((size_t)joined->topo->link_count + 1, sizeof(*joined->sent_link));
    joined->host_of_node = calloc(joined->topo->node_count, sizeof(*joined->host_of_node));
    joined->first_device = calloc(host_count, sizeof(*joined->first_device));
    joined->hosts = calloc(host_count, sizeof(*joined->hosts));
    bool fits = joined->own_link && joined->sent_link && joined->host_of_node && joined->first_device &&
                joined->hosts;
    for (uint32_t i = 0; i < host_count && fits; i++)
        fits = (joined->hosts[i] = strdup(hosts[i].name)) != NULL;
    if (!fits)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a fabric of %u hosts", host_count);
    number(joined, hosts);
    joined->fabric.topo = joined->topo;
    joined->fabric.own_link = joined->own_link;
    joined->fabric.sent_link = joined->sent_link;
    joined->fabric.first_device = joined->first_device;
    joined->fabric.host_of_node = joined->host_of_node;
    joined->fabric.hosts = (const char *const *)joined->hosts;
    return write_text(joined);
}

blink_result_t fabric_create_joined(const topo_host_t *hosts, uint32_t host_count, uint32_t own_host,
                                    fabric_t **created)
{
    joined_fabric_t *joined = calloc(1, sizeof(*joined));
    if (!joined)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a fabric of %u hosts", host_count);
    joined->fabric.host_count = host_count;
    joined->fabric.own_host = own_host;
    joined->fabric.destroy = joined_destroy;
    atomic_init(&joined->fabric.users, 1);
    blink_result_t result = fill(joined, hosts);
    if (result != BLINK_OK) {
        joined_destroy(&joined->fabric);
        return result;
    }
    *created = &joined->fabric;
    return BLINK_OK;
}

uint32_t fabric_own_device(const fabric_t *fabric, uint32_t node)
{
    const topo_t *topo = fabric->topo;
    uint32_t first = 0, end = topo->gpu_count, own = fabric->own_host;
    if (fabric_spans_hosts(fabric)) {
        first = fabric->first_device[own];
        end = own + 1 < fabric->host_count ? fabric->first_device[own + 1] : end;
    }
    for (uint32_t i = first; i < end; i++)
        if (topo->gpus[i] == node)
            return i - first;
    return TOPO_NONE;
}

/* ---- counting ---- */

fabric_t *fabric_get(fabric_t *fabric)
{
    /* Relaxed: whoever counts up has it already. */
    atomic_fetch_add_explicit(&fabric->users, 1, memory_order_relaxed);
    return fabric;
}

void fabric_put(fabric_t *fabric)
{
    /* Acquire and release: what others did with the fabric comes before its end. */
    if (fabric && atomic_fetch_sub_explicit(&fabric->users, 1, memory_order_acq_rel) == 1)
        fabric->destroy(fabric);
}
