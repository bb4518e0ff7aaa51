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

static bool is_slotted(const lane_operand_t *operand)
{
    return operand->buffer >= LANE_SCRATCH;
}

uint32_t verify_edge_of(const lane_program_t *program, const lane_operand_t *operand)
{
    return operand->edge + (operand->buffer == LANE_LANDING ? program->edge_count : 0);
}

static uint32_t host_of(const lane_program_t *program, uint32_t rank)
{
    return program->rank_host ? program->rank_host[rank] : 0;
}

static blink_result_t check_operand(const step_view_t *view, const lane_operand_t *operand)
{
    const lane_program_t *program = view->program;
    if (operand->buffer > LANE_SHARED)
        return FAIL_AT(view, "buffer kind %u does not exist", operand->buffer);
    if (operand->rank >= program->rank_count)
        return FAIL_AT(view, "operand of rank %u of %u", operand->rank, program->rank_count);
    uint32_t edges = operand->buffer == LANE_LANDING ? program->landing_edge_count : program->edge_count;
    if (is_slotted(operand) && operand->edge >= edges)
        return FAIL_AT(view, "scratch edge %u of %u", operand->edge, edges);
    if (!is_slotted(operand) && operand->edge != PLAN_NONE)
        return FAIL_AT(view, "edge %u named for a user's buffer", operand->edge);
    return BLINK_OK;
}

/* Whether a switch touches it on the step's behalf: it is at the end of a path, were it the rank's own. */
static bool is_by_switch(const lane_operand_t *operand)
{
    return operand->buffer == LANE_SHARED && operand->path != PLAN_NONE;
}

/* Memory of another rank is reached over a path between the two, in the direction of the bytes; one's own
 * over none, but by way of a switch that reaches that of all ranks. */
static blink_result_t check_path(const step_view_t *view, const lane_operand_t *operand, bool is_dst)
{
    bool remote = operand->rank != view->lane->rank || is_by_switch(operand);
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

/* A wire lane leads to its other rank; a processor writes nowhere but on its own host. */
static blink_result_t check_dst_host(const step_view_t *view, const lane_operand_t *dst)
{
    bool wire = view->lane->to_rank != PLAN_NONE;
    if (wire && dst->rank != view->lane->to_rank)
        return FAIL_AT(view, "of a wire to rank %u writes to rank %u", view->lane->to_rank, dst->rank);
    if (!wire && host_of(view->program, dst->rank) != host_of(view->program, view->lane->rank))
        return FAIL_AT(view, "writes to rank %u on another host", dst->rank);
    if (wire && (dst->buffer == LANE_SCRATCH || dst->buffer == LANE_SEND))
        return FAIL_AT(view, "of a wire writes scratch edge %u", dst->edge);
    if (!wire && dst->buffer == LANE_LANDING)
        return FAIL_AT(view, "writes landing edge %u, which is a wire's", dst->edge);
    return BLINK_OK;
}

/* A wire carries plain bytes from memory of its rank; only a wire reads a send slot. */
static blink_result_t check_src_host(const step_view_t *view, const lane_operand_t *src)
{
    bool wire = view->lane->to_rank != PLAN_NONE;
    if (host_of(view->program, src->rank) != host_of(view->program, view->lane->rank))
        return FAIL_AT(view, "reads memory of rank %u on another host", src->rank);
    if (wire && src->buffer == LANE_SCRATCH)
        return FAIL_AT(view, "of a wire reads scratch edge %u, which may have flags", src->edge);
    if (!wire && src->buffer == LANE_SEND)
        return FAIL_AT(view, "reads send slots of edge %u, which are a wire's", src->edge);
    return BLINK_OK;
}

static blink_result_t check_dst(const step_view_t *view, const lane_operand_t *dst, verify_shape_t *shape)
{
    BLINK_TRY(check_operand(view, dst));
    if (dst->buffer == LANE_INPUT)
        return FAIL_AT(view, "writes the input of rank %u", dst->rank);
    BLINK_TRY(check_path(view, dst, true));
    BLINK_TRY(check_dst_host(view, dst));
    if (!is_slotted(dst))
        return BLINK_OK;
    verify_edge_t *edge = &shape->edges[verify_edge_of(view->program, dst)];
    if (edge->channel != PLAN_NONE)
        return FAIL_AT(view, "scratch edge %u has another writer", dst->edge);
    uint32_t channel = view->lane->channel;
    *edge = (verify_edge_t){channel, dst->rank, dst->buffer, shape->channel_edges[channel]++};
    return BLINK_OK;
}

static blink_result_t check_src(const step_view_t *view, const lane_operand_t *src,
                                const verify_shape_t *shape)
{
    BLINK_TRY(check_operand(view, src));
    BLINK_TRY(check_path(view, src, false));
    if (src->rank != view->lane->rank && src->buffer != LANE_INPUT && src->buffer != LANE_SHARED)
        return FAIL_AT(view, "reads what is no input on rank %u", src->rank);
    BLINK_TRY(check_src_host(view, src));
    if (!is_slotted(src))
        return BLINK_OK;
    const verify_edge_t *edge = &shape->edges[verify_edge_of(view->program, src)];
    if (edge->buffer != src->buffer)
        return FAIL_AT(view, "reads edge %u as what it is not", src->edge);
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

static blink_result_t check_wire_step(const step_view_t *view)
{
    const lane_step_t *step = view->step;
    if (view->lane->to_rank == PLAN_NONE ||
        (step->src_count == 1 && step->dst_count == 1 && !step->completes))
        return BLINK_OK;
    return FAIL_AT(view, "of a wire has %u sources and %u destinations", step->src_count, step->dst_count);
}

static uint32_t link_of(const step_view_t *view, const lane_operand_t *operand, bool last)
{
    const lane_path_t *path = &view->program->paths[operand->path];
    return view->program->path_links[path->link_first + (last ? path->link_count - 1 : 0)];
}

/* What a switch touches is all slots of one place, in the order of the ranks, by one link of this rank. */
static blink_result_t check_by_switch(const step_view_t *view, uint32_t first, uint32_t count, bool is_dst)
{
    const lane_operand_t *all = &view->program->operands[first];
    uint32_t by_switch = 0;
    for (uint32_t i = 0; i < count; i++)
        by_switch += is_by_switch(&all[i]);
    if (by_switch == 0)
        return BLINK_OK;
    if (!view->program->multicast || count != view->program->rank_count || by_switch != count)
        return FAIL_AT(view, "reaches %u slots by a switch, and has %u operands", by_switch, count);
    for (uint32_t i = 0; i < count; i++)
        if (all[i].rank != i || all[i].edge != all[0].edge + i ||
            link_of(view, &all[i], !is_dst) != link_of(view, &all[0], !is_dst))
            return FAIL_AT(view, "reaches slots of several places or by several links: edge %u of rank %u",
                           all[i].edge, all[i].rank);
    return BLINK_OK;
}

/* Everything but sources, which need all edges noted. */
static blink_result_t check_step(const step_view_t *view, verify_shape_t *shape)
{
    const lane_program_t *program = view->program;
    const lane_step_t *step = view->step;
    BLINK_TRY(check_runs(view));
    BLINK_TRY(check_wire_step(view));
    for (uint32_t i = 0; i < step->dst_count; i++)
        BLINK_TRY(check_dst(view, &program->operands[step->dst_first + i], shape));
    BLINK_TRY(check_by_switch(view, step->dst_first, step->dst_count, true));
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
    return check_by_switch(view, view->step->src_first, view->step->src_count, false);
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

/* Wire lanes are the last, in the order of (landing, channel, rank, phase, to_rank), so that none is there
 * twice and all hosts count them alike. */
static blink_result_t check_wire(const lane_program_t *program, uint32_t index)
{
    const lane_t *lane = &program->lanes[index], *before = index > 0 ? lane - 1 : NULL;
    if (!program->rank_host || lane->to_rank >= program->rank_count ||
        host_of(program, lane->rank) == host_of(program, lane->to_rank))
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: a wire from rank %u to rank %u joins no two hosts",
                          index, lane->rank, lane->to_rank);
    if (index < program->lane_count - program->wire_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: a wire stands before lanes of processors", index);
    if (!before || before->to_rank == PLAN_NONE)
        return BLINK_OK;
    const uint32_t keys[][2] = {{host_of(program, before->rank), host_of(program, lane->rank)},
                                {host_of(program, before->to_rank), host_of(program, lane->to_rank)},
                                {before->channel, lane->channel},
                                {before->rank, lane->rank},
                                {before->phase, lane->phase},
                                {before->to_rank, lane->to_rank}};
    size_t key = 0;
    while (key < sizeof(keys) / sizeof(*keys) && keys[key][0] == keys[key][1])
        key++;
    if (key == sizeof(keys) / sizeof(*keys) || keys[key][0] > keys[key][1])
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "lane %u: a wire out of its order", index);
    return BLINK_OK;
}

/* The landings are the runs of wire lanes between the same two hosts, and of the edges that these write. */
static blink_result_t check_landings(const lane_program_t *program)
{
    uint32_t lane = program->lane_count - program->wire_count, edge = 0;
    for (uint32_t i = 0; i < program->landing_count; i++) {
        const lane_landing_t *landing = &program->landings[i];
        if (landing->lane_first != lane || landing->edge_first != edge || landing->lane_count == 0 ||
            landing->lane_count > program->lane_count - lane)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "landing %u does not follow the one before", i);
        for (; lane < landing->lane_first + landing->lane_count; lane++)
            if (host_of(program, program->lanes[lane].rank) != landing->from_host ||
                host_of(program, program->lanes[lane].to_rank) != landing->to_host)
                return BLINK_FAIL(BLINK_ERR_INTERNAL, "landing %u has lane %u of other hosts", i, lane);
        edge += landing->edge_count;
    }
    if (lane != program->lane_count || edge != program->landing_edge_count)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "landings have %u lanes of %u and %u edges of %u", lane,
                          program->lane_count, edge, program->landing_edge_count);
    return BLINK_OK;
}

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
        if (lane->to_rank != PLAN_NONE)
            BLINK_TRY(check_wire(program, i));
        size_t place = ((size_t)lane->channel * program->rank_count + lane->rank) * 2 + lane->phase;
        if (lane->to_rank == PLAN_NONE && place_taken[place]++)
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

static uint32_t edge_count(const lane_program_t *program)
{
    return program->edge_count + program->landing_edge_count;
}

static blink_result_t shape_alloc(const lane_program_t *program, verify_shape_t *shape)
{
    shape->writers = new_table(program->semaphore_count, sizeof(*shape->writers));
    shape->waiters = new_table(program->semaphore_count, sizeof(*shape->waiters));
    shape->edges = new_table(edge_count(program), sizeof(*shape->edges));
    shape->channel_edges = new_table(program->channel_count, sizeof(*shape->channel_edges));
    if (!shape->writers || !shape->waiters || !shape->edges || !shape->channel_edges)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to check a program of %u semaphores",
                          program->semaphore_count);
    for (uint32_t i = 0; i < program->semaphore_count; i++)
        shape->writers[i].lane = shape->waiters[i].lane = PLAN_NONE;
    for (uint32_t i = 0; i < edge_count(program); i++)
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
        result = check_landings(program);
    if (result == BLINK_OK)
        result = check_semaphores(program, shape);
    if (result == BLINK_OK &&
        program->independent !=
            (program->wait_count == 0 && program->signal_count == 0 && program->wire_count == 0))
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

static blink_result_t check_waits(const step_view_t *view, verify_shape_t *shape)
{
    (void)shape;
    for (uint32_t i = 0; i < view->step->wait_count; i++) {
        const lane_wait_t *wait = &view->program->waits[view->step->wait_first + i];
        uint32_t most = wait->kind == LANE_FULL ? view->step->src_count : view->step->dst_count;
        bool of_nothing = wait->kind == LANE_FULL && wait->operand == PLAN_NONE;
        if (wait->operand >= most && !of_nothing)
            return FAIL_AT(view, "waits for operand %u of %u", wait->operand, most);
    }
    return BLINK_OK;
}

/* Whether a wait names the memory whose arrival is announced to it: where flags are, both ends go by them. */
static bool names_what_comes(const lane_program_t *program, const verify_shape_t *shape, uint32_t semaphore)
{
    const lane_step_t *writer = &program->steps[shape->writers[semaphore].step];
    const lane_step_t *waiter = &program->steps[shape->waiters[semaphore].step];
    uint32_t signal = 0, wait = 0;
    while (program->signals[writer->signal_first + signal].semaphore != semaphore)
        signal++;
    while (program->waits[waiter->wait_first + wait].semaphore != semaphore)
        wait++;
    uint32_t dst = program->signals[writer->signal_first + signal].dst;
    uint32_t src = program->waits[waiter->wait_first + wait].operand;
    if (shape->waiters[semaphore].kind == LANE_FREE)
        return true;
    if (dst == PLAN_NONE || src == PLAN_NONE)
        return dst == src;
    const lane_operand_t *sent = &program->operands[writer->dst_first + dst];
    const lane_operand_t *read = &program->operands[waiter->src_first + src];
    return sent->buffer == read->buffer && sent->rank == read->rank && sent->edge == read->edge;
}

blink_result_t verify_shape_check_ends(const lane_program_t *program, verify_shape_t *shape)
{
    BLINK_TRY(for_each_step(program, shape, check_waits));
    for (uint32_t i = 0; i < program->semaphore_count; i++) {
        if (shape->writers[i].lane == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "semaphore %u has no writer", i);
        if (shape->waiters[i].lane == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "semaphore %u has no waiter", i);
        if (!names_what_comes(program, shape, i))
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "semaphore %u announces other data than are waited for", i);
    }
    for (uint32_t i = 0; i < edge_count(program); i++)
        if (shape->edges[i].channel == PLAN_NONE)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "scratch edge %u has no writer", i);
    return BLINK_OK;
}
