#include "topo/reached.h"

#include "error.h"
#include "topo/rates.h"

#include <stdlib.h>
#include <string.h>

/* Whether the node is a switch that all its links join with GPUs alone. */
static bool is_nvswitch(const topo_t *topo, uint32_t node)
{
    uint32_t first = topo->out_first[node], end = topo->out_first[node + 1];
    bool is_one = topo->nodes[node].kind == TOPO_SWITCH && end > first;
    for (uint32_t i = first; i < end && is_one; i++) {
        const topo_link_t *link = &topo->links[topo->out_links[i]];
        is_one = topo_is_nvlink(link) && topo->nodes[link->to].kind == TOPO_DEVICE;
    }
    return is_one;
}

/* The node that a node becomes: of a host's NVSwitches the first. */
static uint32_t merged(const topo_t *topo, uint32_t node)
{
    if (!is_nvswitch(topo, node))
        return node;
    for (uint32_t first = 0; first < node; first++)
        if (is_nvswitch(topo, first) && strcmp(topo->nodes[first].host, topo->nodes[node].host) == 0)
            return first;
    return node;
}

/* Links to CPUs are driven by other means. */
static topo_link_t rate(const topo_t *topo, const topo_link_t *link)
{
    topo_link_t rated = *link;
    if (!topo_is_nvlink(link) || topo->nodes[link->from].kind == TOPO_CPU ||
        topo->nodes[link->to].kind == TOPO_CPU)
        return rated;
    rated.GBps *= TOPO_NVLINK_REACHED;
    rated.unit_GBps *= TOPO_NVLINK_REACHED;
    return rated;
}

static blink_result_t add_all(topo_builder_t *builder, const topo_t *topo, const uint32_t *image)
{
    const topo_node_t *nodes = topo->nodes;
    for (uint32_t i = 0; i < topo->node_count; i++)
        if (image[i] == i)
            BLINK_TRY(topo_build_node(builder, &nodes[i]));
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_link_t link = rate(topo, &topo->links[i]);
        BLINK_TRY(topo_build_again(builder, nodes[image[link.from]].id, nodes[image[link.to]].id, &link));
    }
    return topo_build_same_non_peers(builder, topo, NULL);
}

blink_result_t topo_as_reached(const topo_t *topo, topo_t **reached)
{
    uint32_t *image = malloc(topo->node_count * sizeof(*image));
    topo_builder_t *builder = NULL;
    blink_result_t result = BLINK_OK;
    if (!image)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u nodes", topo->node_count);
    for (uint32_t i = 0; i < topo->node_count && image; i++)
        image[i] = merged(topo, i);
    if (result == BLINK_OK)
        result = topo_build_create(topo->name, topo->name, &builder);
    if (result == BLINK_OK)
        result = add_all(builder, topo, image);
    if (result == BLINK_OK)
        result = topo_build_finish(builder, reached);
    topo_build_destroy(builder);
    free(image);
    return result;
}

blink_result_t topo_load_as_reached(const char *name, topo_t **reached)
{
    topo_t *named = NULL;
    BLINK_TRY(topo_load(name, &named));
    blink_result_t result = topo_as_reached(named, reached);
    topo_destroy(named);
    return result;
}
