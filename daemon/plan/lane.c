/*
 * The compiler from plans to lane programs: every tree edge becomes the end of one step and the start of
 * another, joined by semaphores. Knows trees, not collectives.
 */
#include "plan/lane.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

/* A tree seen from the top: children by rank, and the order in which its ranks may act. */
typedef struct tree_view {
    uint32_t *child_first; /* rank_count + 1 offsets into children */
    uint32_t *children;
    uint32_t *depth;  /* edges to the root */
    uint32_t *height; /* edges to the deepest leaf below */
} tree_view_t;

/* What the edges of one part are called in the program. Arrays are by rank: the edge between it and its
 * parent. */
typedef struct part_edges {
    tree_view_t up, down;
    uint32_t *up_edge; /* scratch edge; PLAN_NONE at the root */
    uint32_t *up_full; /* semaphores */
    uint32_t *up_free;
    uint32_t *down_full; /* PLAN_NONE for leaves: nobody waits there */
} part_edges_t;

typedef struct pool_capacity {
    uint32_t lanes, steps, operands, waits, signals;
} pool_capacity_t;

typedef struct compiler {
    const topo_t *topo;
    const plan_t *plan;
    lane_program_t *program;
    pool_capacity_t capacity;
    uint32_t channel; /* being compiled */
    part_edges_t *parts;
    uint32_t *part_order;
} compiler_t;

/* ---- pools ---- */

static void *pool_push(void **pool, uint32_t *count, uint32_t *capacity, size_t entry_bytes)
{
    if (*count == *capacity) {
        uint32_t larger = *capacity ? *capacity * 2 : 64;
        void *grown = realloc(*pool, larger * entry_bytes);
        if (!grown)
            return NULL;
        *pool = grown;
        *capacity = larger;
    }
    return (char *)*pool + (size_t)(*count)++ * entry_bytes;
}

#define POOL_PUSH(compiler, pool, value)                                                                     \
    pool_append((void **)&(compiler)->program->pool##s, &(compiler)->program->pool##_count,                  \
                &(compiler)->capacity.pool##s, &(value), sizeof(value))

static blink_result_t pool_append(void **pool, uint32_t *count, uint32_t *capacity, const void *entry,
                                  size_t bytes)
{
    void *slot = pool_push(pool, count, capacity, bytes);
    if (!slot)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a lane program of %u entries", *count);
    memcpy(slot, entry, bytes);
    return BLINK_OK;
}

/* ---- trees ---- */

static uint32_t *new_u32(uint32_t count)
{
    return malloc((count ? count : 1) * sizeof(uint32_t));
}

static void tree_view_fini(tree_view_t *view)
{
    free(view->child_first);
    free(view->children);
    free(view->depth);
    free(view->height);
}

static blink_result_t tree_view_init(tree_view_t *view, const uint32_t *parent, uint32_t root, uint32_t ranks)
{
    *view = (tree_view_t){calloc(ranks + 1, sizeof(uint32_t)), new_u32(ranks), new_u32(ranks),
                          calloc(ranks, sizeof(uint32_t))};
    uint32_t *order = new_u32(ranks);
    uint32_t *fill = new_u32(ranks);
    blink_result_t result = BLINK_OK;
    if (!view->child_first || !view->children || !view->depth || !view->height || !order || !fill) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a tree of %u ranks", ranks);
        goto done;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (rank != root)
            view->child_first[parent[rank] + 1]++;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        view->child_first[rank + 1] += view->child_first[rank];
        fill[rank] = view->child_first[rank];
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (rank != root)
            view->children[fill[parent[rank]]++] = rank;
    }
    /* Breadth first from the root gives depths; the same order backwards gives heights. */
    uint32_t ordered = 0;
    order[ordered++] = root;
    view->depth[root] = 0;
    for (uint32_t at = 0; at < ordered; at++) {
        uint32_t rank = order[at];
        for (uint32_t i = view->child_first[rank]; i < view->child_first[rank + 1]; i++) {
            view->depth[view->children[i]] = view->depth[rank] + 1;
            order[ordered++] = view->children[i];
        }
    }
    for (uint32_t at = ordered; at-- > 1;) {
        uint32_t rank = order[at];
        uint32_t height = view->height[rank] + 1;
        if (height > view->height[parent[rank]])
            view->height[parent[rank]] = height;
    }
done:
    free(order);
    free(fill);
    return result;
}

static uint32_t child_count(const tree_view_t *view, uint32_t rank)
{
    return view->child_first ? view->child_first[rank + 1] - view->child_first[rank] : 0;
}

/* ---- edges ---- */

static void part_edges_fini(part_edges_t *edges)
{
    tree_view_fini(&edges->up);
    tree_view_fini(&edges->down);
    free(edges->up_edge);
    free(edges->up_full);
    free(edges->up_free);
    free(edges->down_full);
}

/* Number the scratch edges and semaphores of one part. */
static blink_result_t part_edges_init(compiler_t *compiler, const plan_part_t *part, part_edges_t *edges)
{
    lane_program_t *program = compiler->program;
    uint32_t ranks = compiler->plan->rank_count;
    *edges = (part_edges_t){.up_edge = new_u32(ranks),
                            .up_full = new_u32(ranks),
                            .up_free = new_u32(ranks),
                            .down_full = new_u32(ranks)};
    if (!edges->up_edge || !edges->up_full || !edges->up_free || !edges->down_full)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the edges of %u ranks", ranks);
    if (part->reduce.parent)
        BLINK_TRY(tree_view_init(&edges->up, part->reduce.parent, part->root, ranks));
    BLINK_TRY(tree_view_init(&edges->down, part->broadcast.parent, part->root, ranks));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        edges->up_edge[rank] = edges->up_full[rank] = edges->up_free[rank] = edges->down_full[rank] =
            PLAN_NONE;
        if (rank == part->root)
            continue;
        if (part->reduce.parent) {
            edges->up_edge[rank] = program->edge_count++;
            edges->up_full[rank] = program->semaphore_count++;
            edges->up_free[rank] = program->semaphore_count++;
        }
        if (child_count(&edges->down, rank) > 0)
            edges->down_full[rank] = program->semaphore_count++;
    }
    return BLINK_OK;
}

/* ---- steps ---- */

static lane_step_t step_begin(const compiler_t *compiler, uint32_t part)
{
    const lane_program_t *program = compiler->program;
    return (lane_step_t){.part = part,
                         .src_first = program->operand_count,
                         .wait_first = program->wait_count,
                         .signal_first = program->signal_count};
}

static blink_result_t add_src(compiler_t *compiler, lane_step_t *step, lane_buffer_t buffer, uint32_t rank,
                              uint32_t edge)
{
    lane_operand_t operand = {(uint32_t)buffer, rank, edge, PLAN_NONE};
    step->src_count++;
    return POOL_PUSH(compiler, operand, operand);
}

/* All sources of a step come before its first destination: they share a pool. */
static blink_result_t add_dst(compiler_t *compiler, lane_step_t *step, lane_operand_t operand)
{
    if (step->dst_count == 0)
        step->dst_first = compiler->program->operand_count;
    step->dst_count++;
    return POOL_PUSH(compiler, operand, operand);
}

static blink_result_t add_wait(compiler_t *compiler, lane_step_t *step, uint32_t semaphore,
                               lane_wait_kind_t kind)
{
    lane_wait_t wait = {semaphore, (uint32_t)kind};
    step->wait_count++;
    return POOL_PUSH(compiler, wait, wait);
}

static blink_result_t add_signal(compiler_t *compiler, lane_step_t *step, uint32_t semaphore, uint32_t dst)
{
    lane_signal_t signal = {semaphore, dst};
    step->signal_count++;
    return POOL_PUSH(compiler, signal, signal);
}

/* Combine a rank's own input with what its children in the reduce tree sent, and give their slots back. */
static blink_result_t add_reduce_sources(compiler_t *compiler, lane_step_t *step, const part_edges_t *edges,
                                         uint32_t rank)
{
    BLINK_TRY(add_src(compiler, step, LANE_INPUT, rank, PLAN_NONE));
    if (!edges->up.child_first)
        return BLINK_OK;
    for (uint32_t i = edges->up.child_first[rank]; i < edges->up.child_first[rank + 1]; i++) {
        uint32_t child = edges->up.children[i];
        BLINK_TRY(add_src(compiler, step, LANE_SCRATCH, rank, edges->up_edge[child]));
        BLINK_TRY(add_wait(compiler, step, edges->up_full[child], LANE_FULL));
        BLINK_TRY(add_signal(compiler, step, edges->up_free[child], PLAN_NONE));
    }
    return BLINK_OK;
}

/* Write straight into the outputs of a rank's children in the broadcast tree. */
static blink_result_t add_broadcast_destinations(compiler_t *compiler, lane_step_t *step,
                                                 const plan_part_t *part, const part_edges_t *edges,
                                                 uint32_t rank)
{
    for (uint32_t i = edges->down.child_first[rank]; i < edges->down.child_first[rank + 1]; i++) {
        uint32_t child = edges->down.children[i];
        if (edges->down_full[child] != PLAN_NONE)
            BLINK_TRY(add_signal(compiler, step, edges->down_full[child], step->dst_count));
        lane_operand_t dst = {LANE_OUTPUT, child, PLAN_NONE, part->broadcast.path[child]};
        BLINK_TRY(add_dst(compiler, step, dst));
    }
    return BLINK_OK;
}

static blink_result_t add_reduce_step(compiler_t *compiler, uint32_t part_index, uint32_t rank)
{
    const plan_part_t *part = &compiler->plan->channels[compiler->channel].parts[part_index];
    const part_edges_t *edges = &compiler->parts[part_index];
    lane_step_t step = step_begin(compiler, part_index);
    BLINK_TRY(add_reduce_sources(compiler, &step, edges, rank));
    BLINK_TRY(add_wait(compiler, &step, edges->up_free[rank], LANE_FREE));
    BLINK_TRY(add_signal(compiler, &step, edges->up_full[rank], 0));
    lane_operand_t dst = {LANE_SCRATCH, part->reduce.parent[rank], edges->up_edge[rank],
                          part->reduce.path[rank]};
    BLINK_TRY(add_dst(compiler, &step, dst));
    return POOL_PUSH(compiler, step, step);
}

/* The root fuses both phases: the last reduction is written to its own output and to its children's at once.
 */
static blink_result_t add_root_step(compiler_t *compiler, uint32_t part_index, uint32_t rank)
{
    const plan_part_t *part = &compiler->plan->channels[compiler->channel].parts[part_index];
    const part_edges_t *edges = &compiler->parts[part_index];
    lane_step_t step = step_begin(compiler, part_index);
    BLINK_TRY(add_reduce_sources(compiler, &step, edges, rank));
    lane_operand_t own = {LANE_OUTPUT, rank, PLAN_NONE, PLAN_NONE};
    BLINK_TRY(add_dst(compiler, &step, own));
    BLINK_TRY(add_broadcast_destinations(compiler, &step, part, edges, rank));
    return POOL_PUSH(compiler, step, step);
}

static blink_result_t add_forward_step(compiler_t *compiler, uint32_t part_index, uint32_t rank)
{
    const plan_part_t *part = &compiler->plan->channels[compiler->channel].parts[part_index];
    const part_edges_t *edges = &compiler->parts[part_index];
    lane_step_t step = step_begin(compiler, part_index);
    BLINK_TRY(add_src(compiler, &step, LANE_OUTPUT, rank, PLAN_NONE));
    BLINK_TRY(add_wait(compiler, &step, edges->down_full[rank], LANE_FULL));
    BLINK_TRY(add_broadcast_destinations(compiler, &step, part, edges, rank));
    return POOL_PUSH(compiler, step, step);
}

/* ---- lanes ---- */

static bool reduces(const plan_part_t *part)
{
    return part->reduce.parent != NULL;
}

/* Whether a rank acts in a phase of a part. A root acts once: in `up` if the collective reduces, else in
 * `down`. */
static bool acts(const plan_part_t *part, const part_edges_t *edges, uint32_t rank, lane_phase_t phase)
{
    if (rank == part->root)
        return phase == (reduces(part) ? LANE_UP : LANE_DOWN);
    return phase == LANE_UP ? reduces(part) : child_count(&edges->down, rank) > 0;
}

/*
 * The parts a rank acts in, those nearer to the start of the phase first. Steps then wait only for steps that
 * come earlier in the order (chunk, level), which is every lane's own order too: no deadlock, at any number
 * of slots.
 */
static uint32_t order_parts(compiler_t *compiler, uint32_t rank, lane_phase_t phase)
{
    const plan_channel_t *channel = &compiler->plan->channels[compiler->channel];
    uint32_t count = 0;
    for (uint32_t part = 0; part < channel->part_count; part++) {
        const part_edges_t *edges = &compiler->parts[part];
        if (!acts(&channel->parts[part], edges, rank, phase))
            continue;
        uint32_t level = phase == LANE_UP ? edges->up.height[rank] : edges->down.depth[rank];
        uint32_t at = count++;
        for (; at > 0; at--) {
            const part_edges_t *other = &compiler->parts[compiler->part_order[at - 1]];
            if ((phase == LANE_UP ? other->up.height[rank] : other->down.depth[rank]) <= level)
                break;
            compiler->part_order[at] = compiler->part_order[at - 1];
        }
        compiler->part_order[at] = part;
    }
    return count;
}

static blink_result_t compile_lane(compiler_t *compiler, uint32_t rank, lane_phase_t phase)
{
    const plan_channel_t *channel = &compiler->plan->channels[compiler->channel];
    uint32_t count = order_parts(compiler, rank, phase);
    if (count == 0)
        return BLINK_OK;
    lane_t lane = {compiler->channel, rank, (uint32_t)phase, compiler->program->step_count, count};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t part = compiler->part_order[i];
        if (rank == channel->parts[part].root)
            BLINK_TRY(add_root_step(compiler, part, rank));
        else if (phase == LANE_UP)
            BLINK_TRY(add_reduce_step(compiler, part, rank));
        else
            BLINK_TRY(add_forward_step(compiler, part, rank));
    }
    return POOL_PUSH(compiler, lane, lane);
}

static uint32_t view_depth(const tree_view_t *view, uint32_t root)
{
    return view->height ? view->height[root] : 0;
}

static blink_result_t compile_channel(compiler_t *compiler, uint32_t channel_index)
{
    const plan_channel_t *channel = &compiler->plan->channels[channel_index];
    lane_program_t *program = compiler->program;
    compiler->channel = channel_index;
    uint32_t edge_first = program->edge_count;
    compiler->parts = calloc(channel->part_count, sizeof(*compiler->parts));
    compiler->part_order = new_u32(channel->part_count);
    blink_result_t result = BLINK_OK;
    if (!compiler->parts || !compiler->part_order)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a channel of %u parts", channel->part_count);
    for (uint32_t i = 0; i < channel->part_count && result == BLINK_OK; i++) {
        part_edges_t *edges = &compiler->parts[i];
        uint32_t root = channel->parts[i].root;
        result = part_edges_init(compiler, &channel->parts[i], edges);
        if (result != BLINK_OK)
            break;
        uint32_t depth = view_depth(&edges->up, root) + view_depth(&edges->down, root);
        program->depth = depth > program->depth ? depth : program->depth;
    }
    program->channels[channel_index] =
        (lane_channel_t){channel->share, channel->part_count, edge_first, program->edge_count - edge_first};
    for (uint32_t rank = 0; rank < program->rank_count && result == BLINK_OK; rank++) {
        result = compile_lane(compiler, rank, LANE_UP);
        if (result == BLINK_OK)
            result = compile_lane(compiler, rank, LANE_DOWN);
    }
    for (uint32_t i = 0; compiler->parts && i < channel->part_count; i++)
        part_edges_fini(&compiler->parts[i]);
    free(compiler->parts);
    free(compiler->part_order);
    return result;
}

/* One rank: its input is its output. */
static blink_result_t compile_single_rank(compiler_t *compiler)
{
    lane_t lane = {0, 0, LANE_DOWN, 0, 1};
    lane_step_t step = step_begin(compiler, 0);
    lane_operand_t own = {LANE_OUTPUT, 0, PLAN_NONE, PLAN_NONE};
    compiler->program->channels[0] = (lane_channel_t){.share = 1.0, .part_count = 1};
    BLINK_TRY(add_src(compiler, &step, LANE_INPUT, 0, PLAN_NONE));
    BLINK_TRY(add_dst(compiler, &step, own));
    BLINK_TRY(POOL_PUSH(compiler, step, step));
    return POOL_PUSH(compiler, lane, lane);
}

/* ---- program ---- */

/* Copy the paths, and find the largest latency and capacity × latency: GB/s × µs = 1e3 bytes. */
static blink_result_t copy_paths(const topo_t *topo, const plan_t *plan, lane_program_t *program)
{
    uint32_t links = 0;
    for (uint32_t i = 0; i < plan->path_count; i++)
        links += plan->paths[i].link_count;
    program->paths = calloc(plan->path_count ? plan->path_count : 1, sizeof(*program->paths));
    program->path_links = new_u32(links);
    if (!program->paths || !program->path_links)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u paths", plan->path_count);
    program->path_count = plan->path_count;
    for (uint32_t i = 0; i < plan->path_count; i++) {
        const plan_path_t *path = &plan->paths[i];
        double slowest_GBps = topo->links[path->links[0]].unit_GBps;
        double latency_us = 0;
        program->paths[i] = (lane_path_t){program->path_link_count, path->link_count};
        for (uint32_t at = 0; at < path->link_count; at++) {
            const topo_link_t *link = &topo->links[path->links[at]];
            slowest_GBps = link->unit_GBps < slowest_GBps ? link->unit_GBps : slowest_GBps;
            latency_us += link->latency_us;
            program->path_links[program->path_link_count++] = path->links[at];
        }
        uint64_t bdp_bytes = (uint64_t)(slowest_GBps * latency_us * 1e3);
        program->latency_us = latency_us > program->latency_us ? latency_us : program->latency_us;
        program->bdp_bytes = bdp_bytes > program->bdp_bytes ? bdp_bytes : program->bdp_bytes;
    }
    return BLINK_OK;
}

blink_result_t lane_compile(const topo_t *topo, const plan_t *plan, lane_program_t **program)
{
    uint32_t channels = plan->channel_count ? plan->channel_count : 1;
    compiler_t compiler = {.topo = topo, .plan = plan};
    lane_program_t *built = calloc(1, sizeof(*built));
    if (built)
        built->channels = calloc(channels, sizeof(*built->channels));
    if (!built || !built->channels) {
        free(built);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a lane program of %u channels", channels);
    }
    compiler.program = built;
    built->collective = plan->collective;
    built->rank_count = plan->rank_count;
    built->rate_GBps = plan->rate_GBps;
    built->channel_count = channels;
    blink_result_t result = copy_paths(topo, plan, built);
    if (result == BLINK_OK && plan->channel_count == 0)
        result = compile_single_rank(&compiler);
    for (uint32_t i = 0; i < plan->channel_count && result == BLINK_OK; i++)
        result = compile_channel(&compiler, i);
    if (result != BLINK_OK) {
        lane_program_destroy(built);
        return result;
    }
    *program = built;
    return BLINK_OK;
}

void lane_program_destroy(lane_program_t *program)
{
    if (!program)
        return;
    free(program->channels);
    free(program->lanes);
    free(program->steps);
    free(program->operands);
    free(program->waits);
    free(program->signals);
    free(program->paths);
    free(program->path_links);
    free(program);
}
