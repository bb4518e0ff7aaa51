/* The numbering of edges: by channel, and by landing. */
#include "plan/lane/lane_number.h"

#include "error.h"

#include <stdlib.h>

uint32_t *lane_map_new(uint32_t count)
{
    uint32_t *map = malloc((count + 1u) * sizeof(*map));
    for (uint32_t i = 0; map && i < count; i++)
        map[i] = PLAN_NONE;
    return map;
}

uint32_t lane_map(uint32_t *map, uint32_t old, uint32_t *next)
{
    if (map[old] == PLAN_NONE)
        map[old] = (*next)++;
    return map[old];
}

/* ---- edges and landings ---- */

/* Whether an operand is in scratch that this program has. A host's part of a program also has the wire lanes
 * that lead to this host, and their sources may be in scratch of another host. */
static bool has_scratch(const lane_program_t *program, const lane_operand_t *operand)
{
    bool here = program->host == PLAN_NONE || program->rank_host[operand->rank] == program->host;
    return here && (operand->buffer == LANE_SCRATCH || operand->buffer == LANE_SEND);
}

/* Number the edges with scratch that a step names. */
static void number_scratch_of(const lane_program_t *program, const lane_step_t *step, uint32_t *map,
                              uint32_t *next)
{
    for (uint32_t i = 0; i < step->src_count + step->dst_count; i++) {
        const lane_operand_t *operand = i < step->src_count
                                            ? &program->operands[step->src_first + i]
                                            : &program->operands[step->dst_first + i - step->src_count];
        if (has_scratch(program, operand))
            (void)lane_map(map, operand->edge, next);
    }
}

/* Count the edges of each channel; channels adjoin in the order of their numbers. `counted` is room for a
 * map. */
static void place_channels(lane_program_t *program, uint32_t *counted)
{
    for (uint32_t c = 0; c < program->channel_count; c++)
        program->channels[c].edge_count = 0;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        uint32_t *count = &program->channels[lane->channel].edge_count;
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++)
            number_scratch_of(program, &program->steps[s], counted, count);
    }
    program->edge_count = 0;
    for (uint32_t c = 0; c < program->channel_count; c++) {
        program->channels[c].edge_first = program->edge_count;
        program->edge_count += program->channels[c].edge_count;
    }
}

/* `next` is room for a number per channel. */
static void number_scratch(lane_program_t *program, uint32_t *map, uint32_t *next)
{
    for (uint32_t c = 0; c < program->channel_count; c++)
        next[c] = program->channels[c].edge_first;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++)
            number_scratch_of(program, &program->steps[s], map, &next[lane->channel]);
    }
}

/* The landing that a wire lane, the next in order, belongs to. */
static lane_landing_t *landing_of(lane_program_t *program, uint32_t lane)
{
    uint32_t from = program->rank_host[program->lanes[lane].rank];
    uint32_t to = program->rank_host[program->lanes[lane].to_rank];
    lane_landing_t *last = program->landing_count > 0 ? &program->landings[program->landing_count - 1] : NULL;
    if (last && last->from_host == from && last->to_host == to)
        return last;
    last = &program->landings[program->landing_count++];
    *last = (lane_landing_t){
        .from_host = from, .to_host = to, .lane_first = lane, .edge_first = program->landing_edge_count};
    return last;
}

static void list_landings(lane_program_t *program, uint32_t *map)
{
    program->landing_count = program->landing_edge_count = 0;
    for (uint32_t l = program->lane_count - program->wire_count; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        lane_landing_t *landing = landing_of(program, l);
        landing->lane_count++;
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++) {
            const lane_operand_t *dst = &program->operands[program->steps[s].dst_first];
            if (dst->buffer == LANE_LANDING)
                (void)lane_map(map, dst->edge, &program->landing_edge_count);
        }
        landing->edge_count = program->landing_edge_count - landing->edge_first;
    }
}

blink_result_t lane_number(lane_program_t *program, uint32_t limit)
{
    /* No old number is both of an edge with scratch and of one in a landing. */
    uint32_t *counted = lane_map_new(limit), *map = lane_map_new(limit);
    uint32_t *next = malloc((program->channel_count + 1u) * sizeof(*next));
    lane_landing_t *landings = malloc((program->wire_count + 1u) * sizeof(*landings));
    blink_result_t result = BLINK_OK;
    if (counted && map && next && landings) {
        free(program->landings);
        program->landings = landings;
        landings = NULL;
        place_channels(program, counted);
        number_scratch(program, map, next);
        list_landings(program, map);
        for (uint32_t i = 0; i < program->operand_count; i++)
            if (program->operands[i].edge != PLAN_NONE)
                program->operands[i].edge = map[program->operands[i].edge];
    } else {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to number %u edges", limit);
    }
    free(counted);
    free(map);
    free(next);
    free(landings);
    return result;
}
