/*
 * One step on one chunk, of a lane or of an item: where its operands are, and the bytes it moves.
 */
#ifndef BLINK_EXEC_STEP_H
#define BLINK_EXEC_STEP_H

#include "exec/host/instance.h"

/* A step's operands all lie at the same span of their part. */
typedef struct step_place {
    const host_instance_t *instance;
    const lane_step_t *step;
    uint32_t channel, chunk;
    lane_span_t span;
} step_place_t;

/* What moving a step needs to work in. */
typedef struct step_workspace {
    void **addresses; /* step_address_count() */
    char *blocks;     /* step_block_count() × STEP_BLOCK_BYTES; only where slots have flags */
} step_workspace_t;

/* What is unpacked from slots with flags, or packed into them, at a time: whole grains of slot_format.h and
 * whole elements. */
#define STEP_BLOCK_BYTES 1920u

/* Addresses of the operands, and of a scalar for every source. */
static inline uint32_t step_address_count(const lane_step_t *step)
{
    return step->dst_count + 2 * step->src_count;
}

/* Blocks: one for each source, and one for the result. */
static inline uint32_t step_block_count(const lane_step_t *step)
{
    return step->src_count + 1;
}

/* Whether an operand is a slot in which flags stand beside the data. */
static inline bool step_is_flagged(const lane_program_t *program, const lane_operand_t *operand)
{
    return operand->buffer == LANE_SCRATCH && program->protocol != BLINK_PROTOCOL_SIMPLE;
}

/* Where an operand of the step is. */
void *step_address(const step_place_t *place, const lane_operand_t *operand);

/* Count bytes on the links that an operand crosses. */
void step_count_operand(const host_instance_t *instance, const lane_operand_t *operand, uint64_t bytes);

/* Paced, under the pool's lock: book bytes on the links of this host that an operand crosses. */
pace_slot_t step_book_operand(host_instance_t *instance, const lane_operand_t *operand, uint64_t bytes,
                              uint64_t ready_ns);

/* Paced: what the bytes take on these links if nothing else crosses them: pace_alone_ns(). */
uint64_t step_alone_ns(const host_instance_t *instance, const lane_operand_t *operand, uint64_t bytes);

/* Whether all that the step reads from slots with flags has arrived. */
bool step_arrived(const step_place_t *place);

/* Move the step's part of a chunk, and count it on the links it crosses. False: it has been left in the
 * middle, at a page of a client's memory that is not there (base/guard.h). */
bool step_move(const step_place_t *place, const step_workspace_t *work);

#endif
