/*
 * Lane programs made by hand, for tests of what reads programs: chains and a one-hop exchange, in fixed pools
 * that a test may then break. Apart from test_verify.c so that what is right can be read in one place.
 */
#ifndef BLINK_TEST_HAND_PROGRAM_H
#define BLINK_TEST_HAND_PROGRAM_H

#include "plan/lane/lane.h"

#include <string.h>

enum { POOL = 64, HAND_RANKS = 4 };

/* A program in fixed pools, each lane of one step. */
typedef struct hand {
    lane_program_t program;
    lane_channel_t channel;
    lane_part_t parts[2];
    lane_t lanes[POOL];
    lane_step_t steps[POOL];
    lane_operand_t operands[POOL];
    lane_wait_t waits[POOL];
    lane_signal_t signals[POOL];
    lane_path_t paths[HAND_RANKS * HAND_RANKS]; /* from each rank to each, over one link */
    uint32_t path_link;
} hand_t;

static void hand_init(hand_t *hand, blink_collective_t collective, uint32_t ranks)
{
    memset(hand, 0, sizeof(*hand));
    hand->channel = (lane_channel_t){.share = 1.0, .part_count = 1};
    hand->parts[0] = (lane_part_t){.siblings = 1, .end = 1.0};
    for (uint32_t i = 0; i < ranks * ranks; i++)
        hand->paths[i] = (lane_path_t){0, 1, i / ranks, i % ranks};
    hand->program = (lane_program_t){.collective = collective,
                                     .rank_count = ranks,
                                     .block_count = 1,
                                     .channel_count = 1,
                                     .part_count = 1,
                                     .host = PLAN_NONE,
                                     .path_count = ranks * ranks,
                                     .path_link_count = 1,
                                     .channels = &hand->channel,
                                     .parts = hand->parts,
                                     .lanes = hand->lanes,
                                     .steps = hand->steps,
                                     .operands = hand->operands,
                                     .waits = hand->waits,
                                     .signals = hand->signals,
                                     .paths = hand->paths,
                                     .path_links = &hand->path_link};
}

/* Begin a lane; src(), dst(), wait_for() and signal_to() then add to its step, all sources before
 * destinations, and a wait behind its operand. */
static lane_step_t *begin(hand_t *hand, uint32_t rank, lane_phase_t phase)
{
    lane_program_t *program = &hand->program;
    hand->lanes[program->lane_count++] = (lane_t){.rank = rank,
                                                  .to_rank = PLAN_NONE,
                                                  .phase = (uint32_t)phase,
                                                  .step_first = program->step_count,
                                                  .step_count = 1};
    lane_step_t *step = &hand->steps[program->step_count++];
    *step = (lane_step_t){.src_first = program->operand_count,
                          .dst_first = program->operand_count,
                          .wait_first = program->wait_count,
                          .signal_first = program->signal_count};
    return step;
}

static void src(hand_t *hand, lane_step_t *step, lane_buffer_t buffer, uint32_t rank, uint32_t edge)
{
    hand->operands[hand->program.operand_count++] = (lane_operand_t){(uint32_t)buffer, rank, edge, PLAN_NONE};
    step->src_count++;
    step->dst_first = hand->program.operand_count;
}

static void dst(hand_t *hand, lane_step_t *step, lane_buffer_t buffer, uint32_t rank, uint32_t edge)
{
    uint32_t own = hand->lanes[hand->program.lane_count - 1].rank;
    uint32_t path = rank == own ? PLAN_NONE : own * hand->program.rank_count + rank;
    hand->operands[hand->program.operand_count++] = (lane_operand_t){(uint32_t)buffer, rank, edge, path};
    step->dst_count++;
}

static void note_semaphore(hand_t *hand, uint32_t semaphore)
{
    if (semaphore >= hand->program.semaphore_count)
        hand->program.semaphore_count = semaphore + 1;
}

static void wait_for(hand_t *hand, lane_step_t *step, uint32_t semaphore, lane_wait_kind_t kind)
{
    uint32_t operand = (kind == LANE_FULL ? step->src_count : step->dst_count) - 1;
    hand->waits[hand->program.wait_count++] = (lane_wait_t){semaphore, (uint32_t)kind, operand};
    step->wait_count++;
    note_semaphore(hand, semaphore);
}

static void signal_to(hand_t *hand, lane_step_t *step, uint32_t semaphore, uint32_t announced)
{
    hand->signals[hand->program.signal_count++] = (lane_signal_t){semaphore, announced};
    step->signal_count++;
    note_semaphore(hand, semaphore);
}

/* Semaphores of a chain: between rank and rank + 1. */
static uint32_t up_full(uint32_t rank)
{
    return 3 * rank;
}

static uint32_t up_free(uint32_t rank)
{
    return 3 * rank + 1;
}

static uint32_t down_full(uint32_t rank)
{
    return 3 * rank + 2;
}

/* The lane of a rank that reduces toward rank 0. */
static void chain_up(hand_t *hand, uint32_t rank)
{
    uint32_t last = hand->program.rank_count - 1;
    lane_step_t *step = begin(hand, rank, LANE_UP);
    src(hand, step, LANE_INPUT, rank, PLAN_NONE);
    if (rank < last) {
        src(hand, step, LANE_SCRATCH, rank, rank);
        wait_for(hand, step, up_full(rank), LANE_FULL);
        signal_to(hand, step, up_free(rank), PLAN_NONE);
    }
    if (rank > 0) {
        dst(hand, step, LANE_SCRATCH, rank - 1, rank - 1);
        wait_for(hand, step, up_free(rank - 1), LANE_FREE);
        signal_to(hand, step, up_full(rank - 1), 0);
        return;
    }
    step->completes = 1;
    dst(hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    dst(hand, step, LANE_OUTPUT, 1, PLAN_NONE);
    if (last > 1)
        signal_to(hand, step, down_full(0), 1);
}

/* The lane of a rank that passes the result on. */
static void chain_down(hand_t *hand, uint32_t rank)
{
    bool root = rank == 0;
    lane_step_t *step = begin(hand, rank, LANE_DOWN);
    src(hand, step, root ? LANE_INPUT : LANE_OUTPUT, rank, PLAN_NONE);
    if (root)
        dst(hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    else
        wait_for(hand, step, down_full(rank - 1), LANE_FULL);
    dst(hand, step, LANE_OUTPUT, rank + 1, PLAN_NONE);
    if (rank + 2 < hand->program.rank_count)
        signal_to(hand, step, down_full(rank), root ? 1 : 0);
}

/* Semaphores of a chain have gaps where the last pair needs none; number them densely. */
static void close_gaps(hand_t *hand)
{
    uint32_t used = 0;
    for (uint32_t semaphore = 0; semaphore < hand->program.semaphore_count; semaphore++) {
        bool found = false;
        for (uint32_t i = 0; i < hand->program.signal_count; i++) {
            if (hand->signals[i].semaphore == semaphore) {
                hand->signals[i].semaphore = used;
                found = true;
            }
        }
        for (uint32_t i = 0; i < hand->program.wait_count; i++)
            if (hand->waits[i].semaphore == semaphore)
                hand->waits[i].semaphore = used;
        used += found;
    }
    hand->program.semaphore_count = used;
}

/* A chain of ranks with root 0. Reduce lanes stand in the order leaf to root, or root to leaf. */
static void make_chain(hand_t *hand, blink_collective_t collective, uint32_t ranks, bool leaf_first)
{
    hand_init(hand, collective, ranks);
    bool reduces = collective == BLINK_ALLREDUCE;
    if (reduces) {
        hand->program.edge_count = ranks - 1;
        for (uint32_t i = 0; i < ranks; i++)
            chain_up(hand, leaf_first ? ranks - 1 - i : i);
    }
    for (uint32_t rank = reduces ? 1 : 0; rank + 1 < ranks; rank++)
        chain_down(hand, rank);
    close_gaps(hand);
}

/* Two ranks send each other their inputs and add. In place that is right only if `ordered` makes a rank add
 * after it has sent. */
static void make_exchange(hand_t *hand, bool ordered)
{
    hand_init(hand, BLINK_ALLREDUCE, 2);
    hand->program.edge_count = 2;
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint32_t other = 1 - rank;
        lane_step_t *send = begin(hand, rank, LANE_UP);
        src(hand, send, LANE_INPUT, rank, PLAN_NONE);
        dst(hand, send, LANE_SCRATCH, other, rank);
        wait_for(hand, send, 2 + rank, LANE_FREE);
        signal_to(hand, send, rank, 0);
        if (ordered)
            signal_to(hand, send, 4 + rank, PLAN_NONE);
        lane_step_t *add = begin(hand, rank, LANE_DOWN);
        src(hand, add, LANE_INPUT, rank, PLAN_NONE);
        src(hand, add, LANE_SCRATCH, rank, other);
        dst(hand, add, LANE_OUTPUT, rank, PLAN_NONE);
        add->completes = 1;
        wait_for(hand, add, other, LANE_FULL);
        signal_to(hand, add, 2 + other, PLAN_NONE);
        if (ordered) {
            wait_for(hand, add, 4 + rank, LANE_FULL);
            hand->waits[hand->program.wait_count - 1].operand = PLAN_NONE;
        }
    }
}

/* Two ranks of an allreduce in plain memory: rank 0's one step reads both inputs and writes both outputs. */
static void make_direct(hand_t *hand)
{
    hand_init(hand, BLINK_ALLREDUCE, 2);
    lane_step_t *step = begin(hand, 0, LANE_UP);
    src(hand, step, LANE_INPUT, 0, PLAN_NONE);
    src(hand, step, LANE_INPUT, 1, PLAN_NONE);
    hand->operands[step->src_first + 1].path = 1 * 2 + 0;
    dst(hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    dst(hand, step, LANE_OUTPUT, 1, PLAN_NONE);
    step->completes = 1;
    hand->program.independent = true;
}

#endif
