/*
 * Structural checks of lane programs. Apart from the symbolic run in verify.c because they look at each entry
 * once and need no model of time or memory.
 */
#include "verify_shape.h"

#include "error.h"
#include "verify_blocks.h"

#include <stdlib.h>

/* One step being looked at; `number` counts within its lane, as texts name it. */
typedef struct step_view {
    const lane_program_t *program;
    const lane_t *lane;
    const lane_step_t *step;
    uint32_t lane_index, step_index, number;
} step_view_t;

#define FAIL_AT(view, format, ...)                                                                           \
    BLINK_FAIL(BLINK_ERR_INTERNAL, "channel %u rank %u %s, step %u: " format, (view)->lane->channel,         \
               (view)->lane->rank, verify_phase_name((view)->lane->phase), (view)->number, __VA_ARGS__)

const char *verify_phase_name(uint32_t phase)
{
    return phase == LANE_UP ? "up" : "down";
}

static bool run_fits(uint32_t first, uint32_t count, uint32_t pool)
{
    return first <= pool && count <= pool - first;
}

/* ---- one step ---- */

static blink_result_t check_runs(const step_view_t *view)
{
    const lane_program_t *program = view->program;
    const lane_step_t *step = view->step;
    if (!run_fits(step->src_first, step->src_count, program->operand_count) ||
        !run_fits(step->dst_first, step->dst_count, program->operand_count))
        return FAIL_AT(view, "operands run past the %u there are", program->operand_count);
    if (!run_fits(step->wait_first, step->wait_count, program->wait_count))
        return FAIL_AT(view, "waits run past the %u there are", program->wait_count);
    if (!run_fits(step->signal_first, step->signal_count, program->signal_count))
        return FAIL_AT(view, "signals run past the %u there are", program->signal_count);
    if (step->src_count == 0 || step->dst_count == 0)
        return FAIL_AT(view, "has %u sources and %u destinations", step->src_count, step->dst_count);
    if (step->part >= program->channels[view->lane->channel].part_count)
        return FAIL_AT(view, "works on part %u of %u", step->part,
                       program->channels[view->lane->channel].part_count);
    return BLINK_OK;
}

static blink_result_t check_operand(const step_view_t *view, const lane_operand_t *operand)
{
    const lane_program_t *program = view->program;
    if (operand->buffer > LANE_SCRATCH)
        return FAIL_AT(view, "buffer kind %u does not exist", operand->buffer);
    if (operand->rank >= program->rank_count)
        return FAIL_AT(view, "operand of rank %u of %u", operand->rank, program->rank_count);
    if (operand->buffer == LANE_SCRATCH && operand->edge >= program->edge_count)
        return FAIL_AT(view, "scratch edge %u of %u", operand->edge, program->edge_count);
    if (operand->buffer != LANE_SCRATCH && operand->edge != PLAN_NONE)
        return FAIL_AT(view, "edge %u named for a user's buffer", operand->edge);
    return BLINK_OK;
}

/* Memory of another rank is reached over a path between the two, in the direction of the bytes; one's own
 * over none. */
static blink_result_t check_path(const step_view_t *view, const lane_operand_t *operand, bool is_dst)
{
    bool remote = operand->rank != view->lane->rank;
    if (!remote && operand->path != PLAN_NONE)
        return FAIL_AT(view, "path %u to its own rank", operand->path);
    if (remote && operand->path == PLAN_NONE)
        return FAIL_AT(view, "no path to rank %u", operand->rank);
    if (!remote)
        return BLINK_OK;
    if (operand->path >= view->program->path_count)
        return FAIL_AT(view, "path %u of %u", operand->path, view->program->path_count);
    const lane_path_t *path = &view->program->paths[operand->path];
    uint32_t from = is_dst ? view->lane->rank : operand->rank, to = is_dst ? operand->rank : view->lane->rank;
    if (path->from_rank != from || path->to_rank != to)
        return FAIL_AT(view, "path %u from rank %u to rank %u leads from rank %u to rank %u", operand->path,
                       from, to, path->from_rank, path->to_rank);
    return BLINK_OK;
}

static blink_result_t check_dst(const step_view_t *view, const lane_operand_t *dst, verify_shape_t *shape)
{
    BLINK_TRY(check_operand(view, dst));
    if (dst->buffer == LANE_INPUT)
        return FAIL_AT(view, "writes the input of rank %u", dst->rank);
    BLINK_TRY(check_path(view, dst, true));
    if (dst->buffer != LANE_SCRATCH)
        return BLINK_OK;
    verify_edge_t *edge = &shape->edges[dst->edge];
    if (edge->channel != PLAN_NONE)
        return FAIL_AT(view, "scratch edge %u has another writer", dst->edge);
    uint32_t channel = view->lane->channel;
    *edge = (verify_edge_t){channel, dst->rank, shape->channel_edges[channel]++};
    return BLINK_OK;
}

static blink_result_t check_src(const step_view_t *view, const lane_operand_t *src,
                                const verify_shape_t *shape)
{
    BLINK_TRY(check_operand(view, src));
    BLINK_TRY(check_path(view, src, false));
    if (src->rank != view->lane->rank && src->buffer != LANE_INPUT)
        return FAIL_AT(view, "reads what is no input on rank %u", src->rank);
    if (src->buffer != LANE_SCRATCH)
        return BLINK_OK;
    const verify_edge_t *edge = &shape->edges[src->edge];
    if (edge->channel != view->lane->channel)
        return FAIL_AT(view, "reads scratch edge %u, which its channel never writes", src->edge);
    if (edge->rank != src->rank)
        return FAIL_AT(view, "reads scratch edge %u, which lies at rank %u", src->edge, edge->rank);
    return BLINK_OK;
}

static blink_result_t note_end(const step_view_t *view, uint32_t semaphore, uint32_t kind, verify_end_t *ends,
                               const char *role)
{
    if (semaphore >= view->program->semaphore_count)
        return FAIL_AT(view, "semaphore %u of %u", semaphore, view->program->semaphore_count);
    if (ends[semaphore].lane != PLAN_NONE)
        return FAIL_AT(view, "semaphore %u has another %s", semaphore, role);
    ends[semaphore] = (verify_end_t){view->lane_index, view->step_index, kind};
    return BLINK_OK;
}

/* Everything but sources, which need all edges noted. */
static blink_result_t check_step(const step_view_t *view, verify_shape_t *shape)
{
    const lane_program_t *program = view->program;
    const lane_step_t *step = view->step;
    BLINK_TRY(check_runs(view));
    for (uint32_t i = 0; i < step->dst_count; i++)
        BLINK_TRY(check_dst(view, &program->operands[step->dst_first + i], shape));
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const lane_wait_t *wait = &program->waits[step->wait_first + i];
        if (wait->kind > LANE_FREE)
            return FAIL_AT(view, "wait kind %u does not exist", wait->kind);
        BLINK_TRY(note_end(view, wait->semaphore, wait->kind, shape->waiters, "waiter"));
    }
    for (uint32_t i = 0; i < step->signal_count; i++) {
        const lane_signal_t *signal = &program->signals[step->signal_first + i];
        if (signal->dst != PLAN_NONE && signal->dst >= step->dst_count)
            return FAIL_AT(view, "signals the arrival of destination %u of %u", signal->dst, step->dst_count);
        BLINK_TRY(note_end(view, signal->semaphore, 0, shape->writers, "writer"));
    }
    return BLINK_OK;
}

static blink_result_t check_sources(const step_view_t *view, verify_shape_t *shape)
{
    for (uint32_t i = 0; i < view->step->src_count; i++)
        BLINK_TRY(check_src(view, &view->program->operands[view->step->src_first + i], shape));
    return BLINK_OK;
}

static blink_result_t for_each_step(const lane_program_t *program, verify_shape_t *shape,
                                    blink_result_t (*visit)(const step_view_t *, verify_shape_t *))
{
    for (uint32_t i = 0; i < program->lane_count; i++) {
        const lane_t *lane = &program->lanes[i];
        for (uint32_t at = 0; at < lane->step_count; at++) {
            uint32_t index = lane->step_first + at;
            step_view_t view = {program, lane, &program->steps[index], i, index, at};
            BLINK_TRY(visit(&view, shape));
        }
    }
    return BLINK_OK;
}

/* ---- the program ---- */

/* Lanes lie in range, are alone in their (channel, rank, phase), and share the steps without overlap or rest.
 */
static blink_result_t check_lanes(const lane_program_t *program, uint8_t *place_taken, uint8_t *step_taken)
{
    uint32_t steps = 0;
    for (uint32_t i = 0; i < program->lane_count; i++) {
        const lane_t *lane = &program->lanes[i];
        if (lane->channel >= program->channel_count || lane->rank >= program->rank_count ||
            lane->phase > LANE_DOWN)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: no channel %u, rank %u or phase %u", i,
                              lane->channel, lane->rank, lane->phase);
        if (!run_fits(lane->step_first, lane->step_count, program->step_count))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: steps run past the %u there are", i,
                              program->step_count);
        size_t place = ((size_t)lane->channel * program->rank_count + lane->rank) * 2 + lane->phase;
        if (place_taken[place]++)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: channel %u rank %u %s has another lane", i,
                              lane->channel, lane->rank, verify_phase_name(lane->phase));
        for (uint32_t at = 0; at < lane->step_count; at++)
            if (step_taken[lane->step_first + at]++)
                return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: step %u belongs to another lane", i,
                                  lane->step_first + at);
        steps += lane->step_count;
    }
    if (steps != program->step_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "%u of %u steps belong to no lane", program->step_count - steps,
                          program->step_count);
    return BLINK_OK;
}

static blink_result_t check_tables(const lane_program_t *program)
{
    if (program->rank_count == 0 || program->channel_count == 0)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "a program of %u ranks and %u channels", program->rank_count,
                          program->channel_count);
    for (uint32_t i = 0; i < program->channel_count; i++) {
        const lane_channel_t *channel = &program->channels[i];
        if (channel->part_count == 0)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "channel %u has no part", i);
        if (!run_fits(channel->part_first, channel->part_count, program->part_count))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "channel %u: parts run past the %u there are", i,
                              program->part_count);
    }
    for (uint32_t i = 0; i < program->path_count; i++)
        if (!run_fits(program->paths[i].link_first, program->paths[i].link_count, program->path_link_count))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "path %u: links run past the %u there are", i,
                              program->path_link_count);
    return BLINK_OK;
}

/* Room for `count` entries, at least one so that NULL always means no memory. */
static void *new_table(size_t count, size_t entry_bytes)
{
    return calloc(count > 0 ? count : 1, entry_bytes);
}

static blink_result_t shape_alloc(const lane_program_t *program, verify_shape_t *shape)
{
    shape->writers = new_table(program->semaphore_count, sizeof(*shape->writers));
    shape->waiters = new_table(program->semaphore_count, sizeof(*shape->waiters));
    shape->edges = new_table(program->edge_count, sizeof(*shape->edges));
    shape->channel_edges = new_table(program->channel_count, sizeof(*shape->channel_edges));
    if (!shape->writers || !shape->waiters || !shape->edges || !shape->channel_edges)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to check a program of %u semaphores",
                          program->semaphore_count);
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        shape->writers[i].lane = shape->waiters[i].lane = PLAN_NONE;
    for (uint32_t i = 0; i < program->edge_count; i++)
        shape->edges[i].channel = PLAN_NONE;
    return BLINK_OK;
}

static blink_result_t check_semaphores(const lane_program_t *program, const verify_shape_t *shape)
{
    for (uint32_t i = 0; i < program->semaphore_count; i++) {
        uint32_t writer = shape->writers[i].lane, waiter = shape->waiters[i].lane;
        if (writer != PLAN_NONE && waiter != PLAN_NONE &&
            program->lanes[writer].channel != program->lanes[waiter].channel)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "semaphore %u joins channels %u and %u", i,
                              program->lanes[writer].channel, program->lanes[waiter].channel);
    }
    return BLINK_OK;
}

blink_result_t verify_shape_init(const lane_program_t *program, verify_shape_t *shape)
{
    *shape = (verify_shape_t){0};
    BLINK_TRY(check_tables(program));
    BLINK_TRY(verify_blocks_check(program));
    size_t places = (size_t)program->channel_count * program->rank_count * 2;
    uint8_t *place_taken = new_table(places, 1);
    uint8_t *step_taken = new_table(program->step_count, 1);
    blink_result_t result = shape_alloc(program, shape);
    if (result == BLINK_OK && (!place_taken || !step_taken))
        result =
            BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to check a program of %u steps", program->step_count);
    if (result == BLINK_OK)
        result = check_lanes(program, place_taken, step_taken);
    if (result == BLINK_OK)
        result = for_each_step(program, shape, check_step);
    if (result == BLINK_OK)
        result = for_each_step(program, shape, check_sources);
    if (result == BLINK_OK)
        result = check_semaphores(program, shape);
    if (result == BLINK_OK &&
        program->independent != (program->wait_count == 0 && program->signal_count == 0))
        result = BLINK_FAIL(BLINK_ERR_INTERNAL, "the program says that it is %sindependent; it has %u waits",
                            program->independent ? "" : "not ", program->wait_count);
    free(place_taken);
    free(step_taken);
    if (result != BLINK_OK)
        verify_shape_fini(shape);
    return result;
}

void verify_shape_fini(verify_shape_t *shape)
{
    free(shape->writers);
    free(shape->waiters);
    free(shape->edges);
    free(shape->channel_edges);
    *shape = (verify_shape_t){0};
}

blink_result_t verify_shape_check_ends(const lane_program_t *program, const verify_shape_t *shape)
{
    for (uint32_t i = 0; i < program->semaphore_count; i++) {
        if (shape->writers[i].lane == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "semaphore %u has no writer", i);
        if (shape->waiters[i].lane == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "semaphore %u has no waiter", i);
    }
    for (uint32_t i = 0; i < program->edge_count; i++)
        if (shape->edges[i].channel == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "scratch edge %u has no writer", i);
    return BLINK_OK;
}
