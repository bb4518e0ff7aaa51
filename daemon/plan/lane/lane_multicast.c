#include "plan/lane/lane_multicast.h"

#include "error.h"

/* The two places that the slots of a part are in. */
typedef enum place { PLACE_M, PLACE_O, PLACES } place_t;

typedef struct multicast {
    lane_builder_t *builder;
    lane_step_t *step;
    const lane_edges_t *edges;
    uint32_t ranks;
} multicast_t;

void lane_multicast_number(lane_program_t *program, lane_edges_t *edges)
{
    edges->shared = program->edge_count;
    edges->semaphores = program->semaphore_count;
    edges->depth = 2;
    program->edge_count += PLACES * program->rank_count;
    program->semaphore_count += 2 * PLACES * program->rank_count;
}

/* One that is on the rank itself has no path. */
static lane_operand_t slot_of(const multicast_t *m, place_t place, uint32_t rank, uint32_t path)
{
    return (lane_operand_t){LANE_SHARED, rank, m->edges->shared + place * m->ranks + rank, path};
}

static uint32_t semaphore_of(const multicast_t *m, place_t place, lane_wait_kind_t kind, uint32_t rank)
{
    return m->edges->semaphores + (2 * place + kind) * m->ranks + rank;
}

static blink_result_t read_slot(const multicast_t *m, place_t place, uint32_t rank, uint32_t path)
{
    BLINK_TRY(lane_add_wait(m->builder, m->step, semaphore_of(m, place, LANE_FULL, rank), LANE_FULL,
                            m->step->src_count));
    BLINK_TRY(lane_add_src(m->builder, m->step, slot_of(m, place, rank, path)));
    return lane_add_signal(m->builder, m->step, semaphore_of(m, place, LANE_FREE, rank), PLAN_NONE);
}

static blink_result_t write_slot(const multicast_t *m, place_t place, uint32_t rank, uint32_t path)
{
    BLINK_TRY(lane_add_wait(m->builder, m->step, semaphore_of(m, place, LANE_FREE, rank), LANE_FREE,
                            m->step->dst_count));
    BLINK_TRY(
        lane_add_signal(m->builder, m->step, semaphore_of(m, place, LANE_FULL, rank), m->step->dst_count));
    return lane_add_dst(m->builder, m->step, slot_of(m, place, rank, path));
}

static blink_result_t fill_switch_step(const multicast_t *m, const plan_part_t *part)
{
    m->step->completes = 1;
    for (uint32_t rank = 0; rank < m->ranks; rank++)
        BLINK_TRY(read_slot(m, PLACE_M, rank, part->reduce.path[rank]));
    for (uint32_t rank = 0; rank < m->ranks; rank++)
        BLINK_TRY(write_slot(m, PLACE_O, rank, part->broadcast.path[rank]));
    return BLINK_OK;
}

blink_result_t lane_multicast_fill(lane_builder_t *builder, lane_step_t *step, const plan_part_t *part,
                                   const lane_edges_t *edges, uint32_t rank, uint32_t phase, uint32_t level)
{
    const multicast_t m = {builder, step, edges, builder->program->rank_count};
    if (level == LANE_MULTICAST_SWITCH)
        return fill_switch_step(&m, part);
    if (phase == LANE_UP) {
        BLINK_TRY(lane_add_src(builder, step, (lane_operand_t){LANE_INPUT, rank, PLAN_NONE, PLAN_NONE}));
        return write_slot(&m, PLACE_M, rank, PLAN_NONE);
    }
    BLINK_TRY(read_slot(&m, PLACE_O, rank, PLAN_NONE));
    return lane_add_dst(builder, step, (lane_operand_t){LANE_OUTPUT, rank, PLAN_NONE, PLAN_NONE});
}

lane_path_t lane_loaded_path(const lane_program_t *program, const lane_operand_t *operand)
{
    lane_path_t path = program->paths[operand->path];
    if (operand->buffer == LANE_SHARED && path.from_rank != path.to_rank) {
        path.link_first += operand->rank == path.from_rank ? 0 : path.link_count - 1;
        path.link_count = 1;
    }
    return path;
}
