/* Clocks and paths. 1 GB/s is 1e3 bytes per microsecond. */
#include "wires.h"

#include "error.h"
#include "plan/model.h"

#include <stdlib.h>

static double us_per_byte(double GBps)
{
    return 1e-3 / GBps;
}

static void wires_set_speeds(wires_t *wires, const topo_t *topo, const lane_program_t *program,
                             double reduce_GBps)
{
    double payload =
        model_payload_share(program->protocol) * (program->multicast ? MODEL_MULTICAST_REACHED : 1);
    for (uint32_t i = 0; i < topo->link_count; i++)
        wires->links[i].us_per_byte = us_per_byte(topo->links[i].GBps * payload);
    for (uint32_t i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].total_GBps > 0)
            wires->links[topo->link_count + i].us_per_byte = us_per_byte(topo->nodes[i].total_GBps * payload);
    for (uint32_t i = 0; i < program->rank_count; i++)
        wires->readers[i].us_per_byte = us_per_byte(reduce_GBps);
}

static blink_result_t wires_add_blocks(wires_t *wires, const lane_program_t *program, double payload_share)
{
    if (!(program->block_GBps > 0))
        return BLINK_OK;
    wires->blocks = calloc((size_t)program->lane_count + 1, sizeof(*wires->blocks));
    if (!wires->blocks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to simulate %u blocks", program->lane_count);
    for (uint32_t i = 0; i < program->lane_count; i++)
        wires->blocks[i].us_per_byte = us_per_byte(program->block_GBps * payload_share);
    return BLINK_OK;
}

/* Links in travelling order, each followed by the limited backplane it leads into. What leaves the path's
 * last link has reached its device: no backplane there. */
static void wires_lay_path(wires_t *wires, const topo_t *topo, const uint32_t *links, uint32_t link_count,
                           wires_path_t *path)
{
    for (uint32_t i = 0; i < link_count; i++) {
        const topo_link_t *link = &topo->links[links[i]];
        wires->stages[path->stage_first + path->stage_count++] = links[i];
        if (i + 1 < link_count && topo->nodes[link->to].total_GBps > 0)
            wires->stages[path->stage_first + path->stage_count++] = topo->link_count + link->to;
        path->latency_us += link->latency_us;
    }
}

blink_result_t wires_init(wires_t *wires, const topo_t *topo, const lane_program_t *program,
                          double reduce_GBps)
{
    *wires = (wires_t){
        .links = calloc((size_t)topo->link_count + topo->node_count + 1, sizeof(*wires->links)),
        .readers = calloc((size_t)program->rank_count + 1, sizeof(*wires->readers)),
        .paths = calloc((size_t)program->path_count + 1, sizeof(*wires->paths)),
        .stages = calloc(2 * (size_t)program->path_link_count + 1, sizeof(*wires->stages)),
    };
    if (!wires->links || !wires->readers || !wires->paths || !wires->stages)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to simulate %u links and %u paths",
                          topo->link_count, program->path_count);
    wires_set_speeds(wires, topo, program, reduce_GBps);
    BLINK_TRY(wires_add_blocks(wires, program, model_payload_share(program->protocol)));
    for (uint32_t i = 0; i < program->path_count; i++) {
        const uint32_t *links = program->path_links + program->paths[i].link_first;
        uint32_t link_count = program->paths[i].link_count;
        wires_path_t *path = &wires->paths[i];
        path->stage_first = 2 * program->paths[i].link_first;
        path->latency_us = program->multicast ? MODEL_MULTICAST_HOP_US
                                              : model_hop_us(topo, links, link_count, program->protocol);
        wires_lay_path(wires, topo, links, link_count, path);
    }
    return BLINK_OK;
}

void wires_fini(wires_t *wires)
{
    free(wires->links);
    free(wires->readers);
    free(wires->blocks);
    free(wires->paths);
    free(wires->stages);
    *wires = (wires_t){0};
}

wires_time_t wires_serve(wires_clock_t *clock, uint64_t bytes, double at_us, double floor_us)
{
    double service_us = (double)bytes * clock->us_per_byte;
    double start_us = clock->idle_us > at_us ? clock->idle_us : at_us;
    clock->idle_us = start_us + service_us;
    clock->busy_us += service_us;
    clock->bytes += bytes;
    return (wires_time_t){start_us, clock->idle_us > floor_us ? clock->idle_us : floor_us};
}
