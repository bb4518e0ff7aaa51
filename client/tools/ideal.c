/* From the daemon's text to the planner's yardstick. */
#include "tools/ideal.h"

#include "plan/show/ideal.h"

#include <stdlib.h>
#include <string.h>

static blink_result_t find(const topo_t *topo, blink_collective_t collective, const char *const *nodes,
                           uint32_t count, uint32_t *rank_node, ideal_t *ideal)
{
    for (uint32_t rank = 0; rank < count; rank++) {
        rank_node[rank] = topo_find_node(topo, nodes[rank]);
        if (rank_node[rank] == TOPO_NONE)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's topology has no node \"%s\"", nodes[rank]);
    }
    return ideal_find(topo, collective, rank_node, count, ideal);
}

blink_result_t tools_ideal_GBps(const char *topology_json, blink_collective_t collective,
                                const char *const *nodes, uint32_t count, double *ideal_GBps)
{
    topo_t *topo;
    if (topo_parse_json(topology_json, strlen(topology_json), "the daemon's topology", &topo) != BLINK_OK)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's topology cannot be read: %s", blink_error_text());
    ideal_t ideal = {0};
    uint32_t *rank_node = calloc(count, sizeof(*rank_node));
    blink_result_t result =
        rank_node ? find(topo, collective, nodes, count, rank_node, &ideal)
                  : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the nodes of %u ranks", count);
    *ideal_GBps = ideal.busbw_GBps;
    free(rank_node);
    topo_destroy(topo);
    return result;
}
