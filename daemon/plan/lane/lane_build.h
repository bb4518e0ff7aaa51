/*
 * How a lane program is put together, one entry after the other, in pools that grow. lane.c
 * decides what the steps are.
 */
#ifndef BLINK_LANE_BUILD_H
#define BLINK_LANE_BUILD_H

#include "plan/lane/lane.h"

typedef struct lane_builder {
    lane_program_t *program; /* borrowed */
    struct {
        uint32_t lanes, steps, operands, waits, signals;
    } room;
} lane_builder_t;

/* Begin a step of a part; the others add to it, all sources before the first destination. lane_add_step()
 * puts it into the program. Errors of all: NO_MEMORY. */
lane_step_t lane_begin_step(const lane_builder_t *builder, uint32_t part);
blink_result_t lane_add_src(lane_builder_t *builder, lane_step_t *step, lane_operand_t operand);
blink_result_t lane_add_dst(lane_builder_t *builder, lane_step_t *step, lane_operand_t operand);
blink_result_t lane_add_wait(lane_builder_t *builder, lane_step_t *step, uint32_t semaphore,
                             lane_wait_kind_t kind, uint32_t operand);
blink_result_t lane_add_signal(lane_builder_t *builder, lane_step_t *step, uint32_t semaphore, uint32_t dst);
blink_result_t lane_add_step(lane_builder_t *builder, const lane_step_t *step);
blink_result_t lane_add_lane(lane_builder_t *builder, const lane_t *lane);

/* What builders put into a program: lanes, steps, operands, waits and signals. lane_detach_built() leaves the
 * program without them, for another builder; whoever has a copy of the program from before still has them
 * there. lane_free_built() frees them. */
void lane_detach_built(lane_program_t *program);
void lane_free_built(const lane_program_t *program);

#endif
