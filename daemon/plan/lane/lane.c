/*
 * The compiler from plans to lane programs: every edge of a tree or hop of a route becomes the end of one
 * step and the start of another, joined by semaphores. Knows trees and routes, not collectives.
 */
#include "plan/lane/lane.h"

#include "base/vec.h"
#include "collective.h"
#include "error.h"
#include "plan/lane/lane_build.h"
#include "plan/lane/lane_digest.h"
#include "plan/lane/lane_edges.h"
#include "plan/lane/lane_multicast.h"
#include "plan/lane/lane_wire.h"
#include "plan/model.h"

#include <stdlib.h>

/* A step that a rank takes for a part, and where it stands in the order of the channel. */
typedef struct action {
    uint32_t rank, phase;
    uint32_t level;    /* edges from the start of the phase */
    uint32_t distance; /* how far behind this rank the part's root or the route's end is; and the channel */
    uint32_t part;
} action_t;

typedef struct compiler {
    lane_source_t source;
    const plan_t *plan; /* of the source */
    lane_builder_t builder;
    uint32_t channel;    /* being compiled */
    lane_edges_t *edges; /* by part of the channel */
    VEC(action_t) actions;
    bool crosses; /* from host to host, so far */
} compiler_t;

static const plan_part_t *part_of(const compiler_t *compiler, uint32_t part)
{
    return &compiler->plan->channels[compiler->channel].parts[part];
}

/* ---- steps of trees ---- */

/* Read the chunk out of the rank's slot of an edge, and give the slot back. */
static blink_result_t add_slotted_source(lane_builder_t *builder, lane_step_t *step,
                                         const lane_slotted_t *from, uint32_t rank)
{
    BLINK_TRY(lane_add_wait(builder, step, from->full, LANE_FULL, step->src_count));
    BLINK_TRY(lane_add_src(builder, step, (lane_operand_t){from->buffer, rank, from->edge, PLAN_NONE}));
    return lane_add_signal(builder, step, from->free, PLAN_NONE);
}

static blink_result_t add_own_input(lane_builder_t *builder, lane_step_t *step, uint32_t rank)
{
    return lane_add_src(builder, step, (lane_operand_t){LANE_INPUT, rank, PLAN_NONE, PLAN_NONE});
}

/* Read a child's input where it is, if the child has no slots to send it through. */
static blink_result_t add_direct_source(lane_builder_t *builder, lane_step_t *step, const plan_part_t *part,
                                        const lane_edges_t *edges, uint32_t child)
{
    if (lane_has_slots(&edges->slotted[child]))
        return BLINK_OK;
    return lane_add_src(builder, step,
                        (lane_operand_t){LANE_INPUT, child, PLAN_NONE, part->reduce.path[child]});
}

/* Combine a rank's own input and those of the leaves that it reads, in the order of the ranks, so that the
 * sum of a star does not depend on its root; then what the other children sent. */
static blink_result_t add_reduce_sources(lane_builder_t *builder, lane_step_t *step, const plan_part_t *part,
                                         const lane_edges_t *edges, uint32_t rank)
{
    uint32_t count = lane_child_count(&edges->up, rank), later = 0;
    const uint32_t *children = count > 0 ? &edges->up.children[edges->up.child_first[rank]] : NULL;
    while (later < count && children[later] < rank)
        later++;
    for (uint32_t i = 0; i < later; i++)
        BLINK_TRY(add_direct_source(builder, step, part, edges, children[i]));
    BLINK_TRY(add_own_input(builder, step, rank));
    for (uint32_t i = later; i < count; i++)
        BLINK_TRY(add_direct_source(builder, step, part, edges, children[i]));
    for (uint32_t i = 0; i < count; i++)
        if (lane_has_slots(&edges->slotted[children[i]]))
            BLINK_TRY(add_slotted_source(builder, step, &edges->slotted[children[i]], rank));
    return BLINK_OK;
}

/* Write into the slots of an edge, once they are free. */
static blink_result_t add_slotted_destination(lane_builder_t *builder, lane_step_t *step,
                                              const lane_slotted_t *to, uint32_t rank, uint32_t path)
{
    lane_operand_t dst = {to->buffer, rank, to->edge, path};
    BLINK_TRY(lane_add_wait(builder, step, to->free, LANE_FREE, step->dst_count));
    BLINK_TRY(lane_add_signal(builder, step, to->full, step->dst_count));
    return lane_add_dst(builder, step, dst);
}

static blink_result_t add_own_output(lane_builder_t *builder, lane_step_t *step, uint32_t rank)
{
    return lane_add_dst(builder, step, (lane_operand_t){LANE_OUTPUT, rank, PLAN_NONE, PLAN_NONE});
}

/* Write to a rank's children in the broadcast tree, straight into their outputs where they have no slots;
 * those behind it first: roots that act at once then start with different children. */
static blink_result_t add_broadcast_destinations(lane_builder_t *builder, lane_step_t *step,
                                                 const plan_part_t *part, const lane_edges_t *edges,
                                                 uint32_t rank)
{
    uint32_t count = lane_child_count(&edges->down, rank), first = 0;
    if (count == 0)
        return BLINK_OK;
    const uint32_t *children = &edges->down.children[edges->down.child_first[rank]];
    while (first < count && children[first] < rank)
        first++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = children[(first + i) % count], path = part->broadcast.path[child];
        if (lane_has_slots(&edges->down_slotted[child])) {
            BLINK_TRY(add_slotted_destination(builder, step, &edges->down_slotted[child], child, path));
            continue;
        }
        if (edges->down_full[child] != PLAN_NONE)
            BLINK_TRY(lane_add_signal(builder, step, edges->down_full[child], step->dst_count));
        BLINK_TRY(lane_add_dst(builder, step, (lane_operand_t){LANE_OUTPUT, child, PLAN_NONE, path}));
    }
    return BLINK_OK;
}

/* The root fuses both phases: the last reduction, or its own input where nothing is reduced, is written to
 * its own output and to its children's at once. */
static blink_result_t fill_root_step(lane_builder_t *builder, lane_step_t *step, const plan_part_t *part,
                                     const lane_edges_t *edges)
{
    step->completes = part->reduce.parent != NULL;
    BLINK_TRY(add_reduce_sources(builder, step, part, edges, part->root));
    BLINK_TRY(add_own_output(builder, step, part->root));
    return add_broadcast_destinations(builder, step, part, edges, part->root);
}

static blink_result_t fill_tree_step(lane_builder_t *builder, lane_step_t *step, const plan_part_t *part,
                                     const lane_edges_t *edges, const action_t *action)
{
    uint32_t rank = action->rank;
    if (rank == part->root)
        return fill_root_step(builder, step, part, edges);
    if (action->phase == LANE_UP) {
        BLINK_TRY(add_reduce_sources(builder, step, part, edges, rank));
        return add_slotted_destination(builder, step, &edges->slotted[rank], part->reduce.parent[rank],
                                       part->reduce.path[rank]);
    }
    if (lane_has_slots(&edges->down_slotted[rank])) {
        BLINK_TRY(add_slotted_source(builder, step, &edges->down_slotted[rank], rank));
        BLINK_TRY(add_own_output(builder, step, rank));
        return add_broadcast_destinations(builder, step, part, edges, rank);
    }
    BLINK_TRY(lane_add_wait(builder, step, edges->down_full[rank], LANE_FULL, step->src_count));
    BLINK_TRY(lane_add_src(builder, step, (lane_operand_t){LANE_OUTPUT, rank, PLAN_NONE, PLAN_NONE}));
    return add_broadcast_destinations(builder, step, part, edges, rank);
}

/* ---- steps of routes ---- */

/* From the source's input or the slot of the rank that this hop starts at to the next slot or the
 * destination's output. A destination with a slot has a step of its own. */
static blink_result_t fill_route_step(lane_builder_t *builder, lane_step_t *step, const plan_route_t *route,
                                      const lane_edges_t *edges, uint32_t hop)
{
    if (hop == 0)
        BLINK_TRY(add_own_input(builder, step, route->ranks[0]));
    else
        BLINK_TRY(add_slotted_source(builder, step, &edges->slotted[hop - 1], route->ranks[hop]));
    if (hop < route->hop_count && lane_has_slots(&edges->slotted[hop]))
        return add_slotted_destination(builder, step, &edges->slotted[hop], route->ranks[hop + 1],
                                       route->paths[hop]);
    uint32_t path = hop < route->hop_count ? route->paths[hop] : PLAN_NONE;
    lane_operand_t output = {LANE_OUTPUT, route->ranks[route->hop_count], PLAN_NONE, path};
    return lane_add_dst(builder, step, output);
}

static blink_result_t add_step(compiler_t *compiler, const action_t *action)
{
    lane_builder_t *builder = &compiler->builder;
    const plan_part_t *part = part_of(compiler, action->part);
    const lane_edges_t *edges = &compiler->edges[action->part];
    lane_step_t step = lane_begin_step(builder, action->part);
    if (builder->program->multicast)
        BLINK_TRY(
            lane_multicast_fill(builder, &step, part, edges, action->rank, action->phase, action->level));
    else if (part->route.ranks)
        BLINK_TRY(fill_route_step(builder, &step, &part->route, edges, action->level));
    else
        BLINK_TRY(fill_tree_step(builder, &step, part, edges, action));
    return lane_add_step(builder, &step);
}

/* ---- lanes ---- */

static blink_result_t act(compiler_t *compiler, uint32_t part, uint32_t rank, lane_phase_t phase,
                          uint32_t level)
{
    const plan_part_t *of = part_of(compiler, part);
    uint32_t target = of->route.ranks ? of->route.ranks[of->route.hop_count] : of->root;
    uint32_t ranks = compiler->plan->rank_count;
    uint32_t distance = (target + ranks - rank + compiler->channel) % ranks;
    action_t action = {rank, (uint32_t)phase, level, distance, part};
    if (!vec_push(&compiler->actions, action))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu steps", compiler->actions.count + 1);
    return BLINK_OK;
}

/* A root acts once: in `up` if the part reduces, else in `down`. A leaf of a reduce tree has nothing to do if
 * its parent reads its input, and a leaf of a broadcast tree only where its data end in a slot. */
static blink_result_t act_in_tree(compiler_t *compiler, uint32_t part_index)
{
    const plan_part_t *part = part_of(compiler, part_index);
    const lane_edges_t *edges = &compiler->edges[part_index];
    bool reduces = part->reduce.parent != NULL, broadcasts = part->broadcast.parent != NULL;
    for (uint32_t rank = 0; rank < compiler->plan->rank_count; rank++) {
        bool root = rank == part->root;
        if (reduces && edges->up_acts[rank] && (root || lane_has_slots(&edges->slotted[rank])))
            BLINK_TRY(act(compiler, part_index, rank, LANE_UP, edges->up.height[rank]));
        bool copies = broadcasts && lane_has_slots(&edges->down_slotted[rank]);
        bool moves = copies || lane_child_count(&edges->down, rank) > 0;
        if (edges->down_acts[rank] && moves && !(reduces && root))
            BLINK_TRY(act(compiler, part_index, rank, LANE_DOWN, edges->down.depth[rank]));
    }
    return BLINK_OK;
}

/* The root's block has its own input at the switch before it waits for those of the others. */
static blink_result_t act_by_switch(compiler_t *compiler, uint32_t part_index)
{
    for (uint32_t rank = 0; rank < compiler->plan->rank_count; rank++) {
        BLINK_TRY(act(compiler, part_index, rank, LANE_UP, LANE_MULTICAST_GIVE));
        BLINK_TRY(act(compiler, part_index, rank, LANE_DOWN, LANE_MULTICAST_GIVE));
    }
    return act(compiler, part_index, part_of(compiler, part_index)->root, LANE_UP, LANE_MULTICAST_SWITCH);
}

/* Everybody but the destination, which acts only if it is the source or has a slot. */
static blink_result_t act_in_route(compiler_t *compiler, uint32_t part_index)
{
    const plan_route_t *route = &part_of(compiler, part_index)->route;
    uint32_t hop = 0, steps = route->hop_count;
    steps += lane_route_ends_in_slots(route, &compiler->edges[part_index]);
    do
        if (lane_hop_acts(&compiler->source, route, hop))
            BLINK_TRY(act(compiler, part_index, route->ranks[hop], LANE_DOWN, hop));
    while (++hop < steps);
    return BLINK_OK;
}

/*
 * By lane, and within a lane those nearer to the start of the phase first: leaves of reduce trees, roots of
 * broadcast trees, sources of routes. A step waits for the step before it on the same tree or route, which
 * has the same chunk and a lower level or is of the phase before; or for a slot, which an earlier chunk's
 * step frees. So steps wait only for steps that come earlier in the order (chunk, phase, level), and every
 * lane's own order is that order: no deadlock, at any number of slots and however many parts share a lane. On
 * one level nothing waits for anything, so each rank takes the parts in the order of their ends from itself
 * on, and in every channel from another one on: ranks that send at once then send to different ones, and a
 * rank's lanes of several channels do.
 */
static int compare_actions(const void *a, const void *b)
{
    const action_t *x = a, *y = b;
    const uint32_t keys[][2] = {{x->rank, y->rank},
                                {x->phase, y->phase},
                                {x->level, y->level},
                                {x->distance, y->distance},
                                {x->part, y->part}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static blink_result_t add_lanes(compiler_t *compiler)
{
    const action_t *action = compiler->actions.items, *end = action + compiler->actions.count;
    while (action < end) {
        const action_t *first = action;
        lane_t lane = {.channel = compiler->channel,
                       .rank = first->rank,
                       .to_rank = PLAN_NONE,
                       .phase = first->phase,
                       .step_first = compiler->builder.program->step_count};
        for (; action < end && action->rank == first->rank && action->phase == first->phase; action++) {
            BLINK_TRY(add_step(compiler, action));
            lane.step_count++;
        }
        BLINK_TRY(lane_add_lane(&compiler->builder, &lane));
    }
    return BLINK_OK;
}

/* ---- channels ---- */

/* Which block a part carries, and where that stands. */
static lane_part_t block_of(const plan_t *plan, const plan_part_t *part)
{
    bool routed = part->route.ranks != NULL;
    uint32_t from = routed ? part->route.ranks[0] : part->root;
    uint32_t to = routed ? part->route.ranks[part->route.hop_count] : PLAN_NONE;
    return (lane_part_t){.block = (uint32_t)collective_block(plan->collective, plan->rank_count, from, to),
                         .in_block = collective_in_block(plan->collective, from, to),
                         .out_block = collective_out_block(plan->collective, from, to)};
}

/* Number the edges of a part and list its steps. Where there are none nobody needs to know of its edges. */
static blink_result_t add_part(compiler_t *compiler, uint32_t index)
{
    const plan_part_t *part = part_of(compiler, index);
    lane_program_t *program = compiler->builder.program;
    lane_edges_t *edges = &compiler->edges[index];
    size_t before = compiler->actions.count;
    program->parts[program->channels[compiler->channel].part_first + index] = block_of(compiler->plan, part);
    BLINK_TRY(lane_edges_init(&compiler->source, part, program, edges));
    if (edges->depth > program->depth)
        program->depth = edges->depth;
    compiler->crosses |= edges->crosses;
    BLINK_TRY(program->multicast  ? act_by_switch(compiler, index)
              : part->route.ranks ? act_in_route(compiler, index)
                                  : act_in_tree(compiler, index));
    if (compiler->actions.count == before) {
        lane_edges_fini(edges);
        *edges = (lane_edges_t){0};
    }
    return BLINK_OK;
}

static blink_result_t add_parts(compiler_t *compiler, uint32_t part_count)
{
    lane_program_t *program = compiler->builder.program;
    lane_channel_t *channel = &program->channels[compiler->channel];
    compiler->actions.count = 0;
    for (uint32_t i = 0; i < part_count; i++)
        BLINK_TRY(add_part(compiler, i));
    channel->edge_count = program->edge_count - channel->edge_first;
    if (compiler->actions.count > 0)
        qsort(compiler->actions.items, compiler->actions.count, sizeof(*compiler->actions.items),
              compare_actions);
    return BLINK_OK;
}

static blink_result_t add_channel(compiler_t *compiler, uint32_t index)
{
    const plan_channel_t *of = &compiler->plan->channels[index];
    lane_program_t *program = compiler->builder.program;
    program->channels[index] = (lane_channel_t){.share = of->share,
                                                .part_first = program->part_count,
                                                .part_count = of->part_count,
                                                .edge_first = program->edge_count};
    program->part_count += of->part_count;
    compiler->channel = index;
    compiler->edges = calloc(of->part_count, sizeof(*compiler->edges));
    if (!compiler->edges)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a channel of %u parts", of->part_count);
    blink_result_t result = add_parts(compiler, of->part_count);
    if (result == BLINK_OK)
        result = add_lanes(compiler);
    for (uint32_t i = 0; i < of->part_count; i++)
        lane_edges_fini(&compiler->edges[i]);
    free(compiler->edges);
    return result;
}

/* One rank: its input is its output, whatever the collective. */
static blink_result_t add_local_copy(compiler_t *compiler)
{
    lane_builder_t *builder = &compiler->builder;
    lane_t lane = {.to_rank = PLAN_NONE, .phase = LANE_DOWN, .step_count = 1};
    lane_step_t step = lane_begin_step(builder, 0);
    step.completes = collective_reduces(builder->program->collective);
    builder->program->channels[0] = (lane_channel_t){.share = 1.0, .part_count = 1};
    builder->program->part_count = 1;
    BLINK_TRY(add_own_input(builder, &step, 0));
    BLINK_TRY(add_own_output(builder, &step, 0));
    BLINK_TRY(lane_add_step(builder, &step));
    return lane_add_lane(builder, &lane);
}

/* ---- paths ---- */

/* Find the largest latency, the protocol's own cost of a hop included, and capacity × latency: GB/s × µs =
 * 1e3 bytes. */
static void measure_path(const topo_t *topo, const plan_path_t *path, lane_program_t *program)
{
    double slowest_GBps = topo->links[path->links[0]].unit_GBps;
    double latency_us = program->multicast
                            ? MODEL_MULTICAST_HOP_US
                            : model_hop_us(topo, path->links, path->link_count, program->protocol);
    for (uint32_t i = 0; i < path->link_count; i++) {
        const topo_link_t *link = &topo->links[path->links[i]];
        slowest_GBps = link->unit_GBps < slowest_GBps ? link->unit_GBps : slowest_GBps;
        latency_us += link->latency_us;
    }
    uint64_t bdp_bytes = (uint64_t)(slowest_GBps * latency_us * 1e3);
    program->latency_us = latency_us > program->latency_us ? latency_us : program->latency_us;
    program->bdp_bytes = bdp_bytes > program->bdp_bytes ? bdp_bytes : program->bdp_bytes;
}

static blink_result_t add_path(const topo_t *topo, const plan_path_t *path, const uint32_t *rank_at,
                               lane_program_t *program)
{
    const topo_link_t *first = &topo->links[path->links[0]], *last = first;
    uint32_t index = program->path_count++;
    uint32_t link_first = program->path_link_count;
    for (uint32_t i = 0; i < path->link_count; i++) {
        const topo_link_t *link = &topo->links[path->links[i]];
        if (i > 0 && link->from != last->to)
            return BLINK_FAIL(BLINK_ERR_INTERNAL, "path %u: link %u does not begin where link %u ends", index,
                              path->links[i], path->links[i - 1]);
        last = link;
        program->path_links[program->path_link_count++] = path->links[i];
    }
    program->paths[index] =
        (lane_path_t){link_first, path->link_count, rank_at[first->from], rank_at[last->to]};
    measure_path(topo, path, program);
    return BLINK_OK;
}

static blink_result_t add_paths(const topo_t *topo, const plan_t *plan, lane_program_t *program)
{
    size_t links = 0;
    for (uint32_t i = 0; i < plan->path_count; i++)
        links += plan->paths[i].link_count;
    program->paths = calloc(plan->path_count + 1u, sizeof(*program->paths));
    program->path_links = malloc((links + 1) * sizeof(*program->path_links));
    uint32_t *rank_at = malloc(topo->node_count * sizeof(*rank_at));
    blink_result_t result = BLINK_OK;
    if (!program->paths || !program->path_links || !rank_at)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u paths", plan->path_count);
    for (uint32_t i = 0; i < topo->node_count && rank_at; i++)
        rank_at[i] = PLAN_NONE;
    for (uint32_t rank = 0; rank < plan->rank_count && rank_at; rank++)
        rank_at[plan->rank_node[rank]] = rank;
    for (uint32_t i = 0; i < plan->path_count && result == BLINK_OK; i++)
        result = add_path(topo, &plan->paths[i], rank_at, program);
    free(rank_at);
    return result;
}

/* ---- program ---- */

static blink_result_t program_create(const plan_t *plan, lane_program_t **program)
{
    uint32_t channels = plan->channel_count ? plan->channel_count : 1;
    size_t parts = 1;
    for (uint32_t i = 0; i < plan->channel_count; i++)
        parts += plan->channels[i].part_count;
    lane_program_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a lane program");
    *created = (lane_program_t){
        .collective = plan->collective,
        .rank_count = plan->rank_count,
        .root = plan->root,
        .peer = plan->peer,
        .block_count = (uint32_t)collective_block_count(plan->collective, plan->rank_count),
        .rate_GBps = plan->rate_GBps,
        .block_GBps = plan->block_GBps,
        .protocol = plan->protocol,
        .multicast = plan->algorithm == BLINK_ALGORITHM_MULTICAST && plan->channel_count > 0,
        .host = PLAN_NONE,
        .channel_count = channels,
        .channels = calloc(channels, sizeof(*created->channels)),
        .parts = calloc(parts, sizeof(*created->parts)),
    };
    if (!created->channels || !created->parts) {
        lane_program_destroy(created);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a lane program of %u channels", channels);
    }
    *program = created;
    return BLINK_OK;
}

/* The program as if one daemon had all ranks, but for slots and direct edges. */
static blink_result_t fill_program(compiler_t *compiler)
{
    const plan_t *plan = compiler->plan;
    lane_program_t *program = compiler->builder.program;
    BLINK_TRY(add_paths(compiler->source.topo, plan, program));
    if (plan->channel_count == 0)
        BLINK_TRY(add_local_copy(compiler));
    for (uint32_t i = 0; i < plan->channel_count; i++)
        BLINK_TRY(add_channel(compiler, i));
    return lane_divide_blocks(program);
}

static blink_result_t compile_expanded(const lane_source_t *source, lane_program_t **program)
{
    const plan_t *plan = source->plan;
    lane_program_t *created = NULL;
    if (plan->algorithm == BLINK_ALGORITHM_MULTICAST &&
        (source->hosts || plan->protocol != BLINK_PROTOCOL_SIMPLE))
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "a plan by multicast for %s, protocol %u",
                          source->hosts ? "several hosts" : "one host", (unsigned)plan->protocol);
    if (plan->channel_count == 0 && plan->rank_count != 1)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "a plan over %u ranks has no channel", plan->rank_count);
    BLINK_TRY(program_create(plan, &created));
    compiler_t compiler = {.source = *source, .plan = plan, .builder = {.program = created}};
    blink_result_t result = fill_program(&compiler);
    vec_free(&compiler.actions);
    created->independent = !compiler.crosses && created->semaphore_count == 0;
    if (result == BLINK_OK && source->hosts) {
        created->digest = lane_digest(source, created);
        result = lane_wire_split(created, source->hosts);
    }
    if (result == BLINK_OK && source->host != PLAN_NONE)
        result = lane_program_keep(created, source->host);
    if (result != BLINK_OK) {
        lane_program_destroy(created);
        return result;
    }
    *program = created;
    return BLINK_OK;
}

static blink_result_t compile(lane_source_t source, lane_program_t **program)
{
    plan_t *expanded = NULL;
    if (source.plan->symmetry_count == 0)
        return compile_expanded(&source, program);
    BLINK_TRY(plan_expand(source.topo, source.plan, &expanded));
    source.plan = expanded;
    blink_result_t result = compile_expanded(&source, program);
    plan_destroy(expanded);
    return result;
}

blink_result_t lane_compile(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts,
                            lane_program_t **program)
{
    return compile((lane_source_t){topo, plan, hosts, PLAN_NONE}, program);
}

blink_result_t lane_compile_part(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts,
                                 uint32_t host, lane_program_t **program)
{
    return compile((lane_source_t){topo, plan, hosts, host}, program);
}

void lane_program_destroy(lane_program_t *program)
{
    if (!program)
        return;
    lane_free_built(program);
    free(program->channels);
    free(program->parts);
    free(program->paths);
    free(program->path_links);
    free(program->landings);
    free(program->rank_host);
    free(program);
}

uint64_t lane_program_bytes(const lane_program_t *program)
{
    uint64_t of_hosts = program->rank_host ? program->rank_count * sizeof(*program->rank_host) : 0;
    return sizeof(*program) + program->channel_count * sizeof(*program->channels) +
           program->part_count * sizeof(*program->parts) + program->lane_count * sizeof(*program->lanes) +
           program->step_count * sizeof(*program->steps) +
           program->operand_count * sizeof(*program->operands) +
           program->wait_count * sizeof(*program->waits) + program->signal_count * sizeof(*program->signals) +
           program->path_count * sizeof(*program->paths) +
           program->path_link_count * sizeof(*program->path_links) +
           program->landing_count * sizeof(*program->landings) + of_hosts;
}
