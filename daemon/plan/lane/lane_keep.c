/* What a daemon keeps of a program of several hosts. */
#include "plan/lane/lane.h"

#include "error.h"
#include "plan/lane/lane_build.h"
#include "plan/lane/lane_number.h"

#include <stdlib.h>
#include <string.h>

typedef struct keeper {
    const lane_program_t *whole;
    lane_builder_t builder;
    uint32_t *semaphores, *paths; /* new numbers by old ones */
} keeper_t;

/* lane_number() wants numbers that no two edges share: edges of landings come behind those with scratch.
 * In a program of lane_compile_part() landings of other hosts have no numbers. */
static lane_operand_t keep_operand(keeper_t *keeper, const lane_operand_t *operand)
{
    lane_operand_t kept = *operand;
    if (kept.path != PLAN_NONE)
        kept.path = lane_map(keeper->paths, kept.path, &keeper->builder.program->path_count);
    if (kept.buffer == LANE_LANDING && kept.edge != PLAN_NONE)
        kept.edge += keeper->whole->edge_count;
    return kept;
}

static uint32_t keep_semaphore(keeper_t *keeper, uint32_t semaphore)
{
    return lane_map(keeper->semaphores, semaphore, &keeper->builder.program->semaphore_count);
}

static blink_result_t keep_step(keeper_t *keeper, const lane_step_t *from)
{
    const lane_program_t *whole = keeper->whole;
    lane_builder_t *builder = &keeper->builder;
    lane_step_t step = lane_begin_step(builder, from->part);
    step.completes = from->completes;
    for (uint32_t i = 0; i < from->src_count; i++)
        BLINK_TRY(lane_add_src(builder, &step, keep_operand(keeper, &whole->operands[from->src_first + i])));
    for (uint32_t i = 0; i < from->dst_count; i++)
        BLINK_TRY(lane_add_dst(builder, &step, keep_operand(keeper, &whole->operands[from->dst_first + i])));
    for (uint32_t i = 0; i < from->wait_count; i++) {
        const lane_wait_t *wait = &whole->waits[from->wait_first + i];
        BLINK_TRY(lane_add_wait(builder, &step, keep_semaphore(keeper, wait->semaphore),
                                (lane_wait_kind_t)wait->kind, wait->operand));
    }
    for (uint32_t i = 0; i < from->signal_count; i++) {
        const lane_signal_t *signal = &whole->signals[from->signal_first + i];
        BLINK_TRY(lane_add_signal(builder, &step, keep_semaphore(keeper, signal->semaphore), signal->dst));
    }
    return lane_add_step(builder, &step);
}

static bool is_of_host(const lane_program_t *program, const lane_t *lane, uint32_t host)
{
    return program->rank_host[lane->rank] == host ||
           (lane->to_rank != PLAN_NONE && program->rank_host[lane->to_rank] == host);
}

static blink_result_t keep_lanes(keeper_t *keeper, uint32_t host)
{
    const lane_program_t *whole = keeper->whole;
    lane_program_t *kept = keeper->builder.program;
    for (uint32_t l = 0; l < whole->lane_count; l++) {
        lane_t lane = whole->lanes[l];
        if (!is_of_host(whole, &lane, host))
            continue;
        uint32_t first = lane.step_first;
        lane.step_first = kept->step_count;
        for (uint32_t s = first; s < first + lane.step_count; s++)
            BLINK_TRY(keep_step(keeper, &whole->steps[s]));
        BLINK_TRY(lane_add_lane(&keeper->builder, &lane));
        kept->wire_count += lane.to_rank != PLAN_NONE;
    }
    return BLINK_OK;
}

static blink_result_t keep_paths(const keeper_t *keeper)
{
    const lane_program_t *whole = keeper->whole;
    lane_program_t *kept = keeper->builder.program;
    size_t links = 0;
    for (uint32_t i = 0; i < whole->path_count; i++)
        links += keeper->paths[i] != PLAN_NONE ? whole->paths[i].link_count : 0;
    kept->paths = malloc((kept->path_count + 1u) * sizeof(*kept->paths));
    kept->path_links = malloc((links + 1u) * sizeof(*kept->path_links));
    if (!kept->paths || !kept->path_links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u paths", kept->path_count);
    for (uint32_t i = 0; i < whole->path_count; i++) {
        const lane_path_t *path = &whole->paths[i];
        if (keeper->paths[i] == PLAN_NONE)
            continue;
        kept->paths[keeper->paths[i]] = *path;
        kept->paths[keeper->paths[i]].link_first = kept->path_link_count;
        memcpy(&kept->path_links[kept->path_link_count], &whole->path_links[path->link_first],
               path->link_count * sizeof(*kept->path_links));
        kept->path_link_count += path->link_count;
    }
    return BLINK_OK;
}

/* ---- programs ---- */

/* Free what a part has of its own: the other lists of a program stay with it. */
static void free_lists(const lane_program_t *program)
{
    lane_free_built(program);
    free(program->paths);
    free(program->path_links);
    free(program->landings);
}

static lane_program_t without_lists(const lane_program_t *program)
{
    lane_program_t bare = *program;
    lane_detach_built(&bare);
    bare.paths = NULL;
    bare.path_links = NULL;
    bare.landings = NULL;
    bare.path_count = bare.path_link_count = bare.landing_count = bare.semaphore_count = 0;
    return bare;
}

blink_result_t lane_program_keep(lane_program_t *program, uint32_t host)
{
    lane_program_t kept = without_lists(program);
    keeper_t keeper = {.whole = program,
                       .builder = {.program = &kept},
                       .semaphores = lane_map_new(program->semaphore_count),
                       .paths = lane_map_new(program->path_count)};
    blink_result_t result = BLINK_OK;
    kept.host = host;
    if (!keeper.semaphores || !keeper.paths)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the part of host %u", host);
    if (result == BLINK_OK)
        result = keep_lanes(&keeper, host);
    if (result == BLINK_OK)
        result = keep_paths(&keeper);
    if (result == BLINK_OK)
        result = lane_number(&kept, program->edge_count + program->landing_edge_count);
    free_lists(result == BLINK_OK ? program : &kept);
    if (result == BLINK_OK)
        *program = kept;
    free(keeper.semaphores);
    free(keeper.paths);
    return result;
}
