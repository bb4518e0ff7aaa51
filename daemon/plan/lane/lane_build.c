/* The pools of a lane program, which know neither plans nor trees. */
#include "plan/lane/lane_build.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

static blink_result_t pool_append(void **pool, uint32_t *count, uint32_t *room, const void *entry,
                                  size_t bytes)
{
    if (*count == *room) {
        uint32_t larger = *room ? *room * 2 : 64;
        void *grown = realloc(*pool, larger * bytes);
        if (!grown)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a lane program of %u entries", *count);
        *pool = grown;
        *room = larger;
    }
    memcpy((char *)*pool + (size_t)(*count)++ * bytes, entry, bytes);
    return BLINK_OK;
}

#define POOL_APPEND(builder, kind, entry)                                                                    \
    pool_append((void **)&(builder)->program->kind##s, &(builder)->program->kind##_count,                    \
                &(builder)->room.kind##s, entry, sizeof(*(entry)))

lane_step_t lane_begin_step(const lane_builder_t *builder, uint32_t part)
{
    const lane_program_t *program = builder->program;
    return (lane_step_t){.part = part,
                         .src_first = program->operand_count,
                         .wait_first = program->wait_count,
                         .signal_first = program->signal_count};
}

blink_result_t lane_add_src(lane_builder_t *builder, lane_step_t *step, lane_operand_t operand)
{
    step->src_count++;
    return POOL_APPEND(builder, operand, &operand);
}

blink_result_t lane_add_dst(lane_builder_t *builder, lane_step_t *step, lane_operand_t operand)
{
    if (step->dst_count == 0)
        step->dst_first = builder->program->operand_count;
    step->dst_count++;
    return POOL_APPEND(builder, operand, &operand);
}

blink_result_t lane_add_wait(lane_builder_t *builder, lane_step_t *step, uint32_t semaphore,
                             lane_wait_kind_t kind, uint32_t operand)
{
    lane_wait_t wait = {semaphore, (uint32_t)kind, operand};
    step->wait_count++;
    return POOL_APPEND(builder, wait, &wait);
}

blink_result_t lane_add_signal(lane_builder_t *builder, lane_step_t *step, uint32_t semaphore, uint32_t dst)
{
    lane_signal_t signal = {semaphore, dst};
    step->signal_count++;
    return POOL_APPEND(builder, signal, &signal);
}

blink_result_t lane_add_step(lane_builder_t *builder, const lane_step_t *step)
{
    return POOL_APPEND(builder, step, step);
}

blink_result_t lane_add_lane(lane_builder_t *builder, const lane_t *lane)
{
    return POOL_APPEND(builder, lane, lane);
}

void lane_detach_built(lane_program_t *program)
{
    program->lanes = NULL;
    program->steps = NULL;
    program->operands = NULL;
    program->waits = NULL;
    program->signals = NULL;
    program->lane_count = program->wire_count = program->step_count = program->operand_count = 0;
    program->wait_count = program->signal_count = 0;
}

void lane_free_built(const lane_program_t *program)
{
    free(program->lanes);
    free(program->steps);
    free(program->operands);
    free(program->waits);
    free(program->signals);
}
