/*
 * One host out of many, for pictures of large topologies.
 */
#include "topo/topo.h"

#include "error.h"

#include <string.h>

/* Whether the node is a switch or the like of no host that has gpus. */
static bool between_hosts(const topo_t *topo, uint32_t node)
{
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        if (strcmp(topo->nodes[topo->gpus[i]].host, topo->nodes[node].host) == 0)
            return false;
    return true;
}

static blink_result_t add_nodes(topo_builder_t *builder, const topo_t *topo, const char *host,
                                uint32_t *image)
{
    uint32_t count = 0;
    for (uint32_t node = 0; node < topo->node_count; node++) {
        bool kept = strcmp(topo->nodes[node].host, host) == 0 || between_hosts(topo, node);
        image[node] = kept ? count++ : TOPO_NONE;
        if (kept)
            BLINK_TRY(topo_build_node(builder, &topo->nodes[node]));
    }
    return BLINK_OK;
}

static blink_result_t add_links(topo_builder_t *builder, const topo_t *topo, const uint32_t *image)
{
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_link_t *link = &topo->links[i];
        if (image[link->from] == TOPO_NONE || image[link->to] == TOPO_NONE)
            continue;
        BLINK_TRY(topo_build_link(builder, topo->nodes[link->from].id, topo->nodes[link->to].id, link->kind,
                                  link->GBps, 1, link->latency_us, false));
    }
    return BLINK_OK;
}

static blink_result_t add_non_peers(topo_builder_t *builder, const topo_t *topo, const uint32_t *image)
{
    for (uint32_t i = 0; i < topo->non_peer_count; i++) {
        const topo_pair_t *pair = &topo->non_peers[i];
        if (image[pair->one] != TOPO_NONE && image[pair->other] != TOPO_NONE)
            BLINK_TRY(topo_build_non_peers(builder, topo->nodes[pair->one].id, topo->nodes[pair->other].id));
    }
    return BLINK_OK;
}

blink_result_t topo_crop_to_host(const topo_t *topo, uint32_t node, uint32_t *image, topo_t **cropped)
{
    topo_builder_t *builder;
    BLINK_TRY(topo_build_create(topo->name, topo->name, &builder));
    blink_result_t result = add_nodes(builder, topo, topo->nodes[node].host, image);
    if (result == BLINK_OK)
        result = add_links(builder, topo, image);
    if (result == BLINK_OK)
        result = add_non_peers(builder, topo, image);
    if (result == BLINK_OK)
        result = topo_build_finish(builder, cropped);
    topo_build_destroy(builder);
    return result;
}
