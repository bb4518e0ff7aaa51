/*
 * What the moves of a wire lane are, for executors that have such lanes: a move is a step of the lane for one
 * chunk, of which each of the two hosts does its own half (lane.h).
 */
#ifndef BLINK_EXEC_WIRE_LANE_H
#define BLINK_EXEC_WIRE_LANE_H

#include "plan/lane/lane.h"

/* Of the move with this number in the lane: its step, and its chunk. */
static inline const lane_step_t *wire_lane_step(const lane_program_t *program, const lane_t *lane,
                                                uint32_t sequence)
{
    return &program->steps[lane->step_first + sequence % lane->step_count];
}

static inline uint32_t wire_lane_chunk(const lane_t *lane, uint32_t sequence)
{
    return sequence / lane->step_count;
}

/* The move's end on this host: its source where the lane is outgoing, else its destination. */
static inline const lane_operand_t *wire_lane_end(const lane_program_t *program, const lane_step_t *step,
                                                  bool outgoing)
{
    return &program->operands[outgoing ? step->src_first : step->dst_first];
}

/* Whether this host waits so for a move: its sender until the source is there, its receiver until the
 * destination is free. */
static inline bool wire_lane_waits(const lane_wait_t *wait, bool outgoing)
{
    return wait->kind == (outgoing ? LANE_FULL : LANE_FREE);
}

/* Whether the signal is this host's: the sender's says that the source may be written again, the receiver's
 * that the move has come. */
static inline bool wire_lane_signals(const lane_signal_t *signal, bool outgoing)
{
    return (signal->dst == PLAN_NONE) == outgoing;
}

#endif
