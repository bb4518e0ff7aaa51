/* Whether a kernel stays within the memory that its GPU reaches: read from the program of its lanes, before
 * it starts. A processor of the host could touch all of it. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include "lane_abi.h"

#include <stdio.h>

typedef struct walk {
    const lane_abi_run_t *run;
    const lane_abi_program_t *program;
    const lane_abi_binding_t *binding;
    CUdevice ordinal; /* of the GPU that runs the lanes */
} walk_t;

static const void *at(const void *base, uint32_t offset, uint32_t index, size_t bytes)
{
    return (const char *)base + offset + index * bytes;
}

#define LIST_AT(type, base, list, index) ((const type *)at(base, (base)->list##_offset, index, sizeof(type)))

static bool is_reached(const walk_t *walk, const char *what, uint64_t address)
{
    if (memory_is_reached(walk->ordinal, address))
        return true;
    fprintf(stderr, "stand-in: GPU %d does not reach the %s at %#llx\n", walk->ordinal, what,
            (unsigned long long)address);
    return false;
}

static lane_abi_rank_t rank_of(const lane_abi_run_t *run, uint32_t rank)
{
    const lane_abi_rank_t *ranks = run->ranks ? memory_pointer(run->ranks) : run->sent_ranks;
    if (rank == LANE_ABI_HOST)
        return (lane_abi_rank_t){.scratch = run->host_scratch, .semaphores = run->host_semaphores};
    return ranks[rank];
}

/* The first byte of what a step touches, and the last one where that is known. */
static bool check_operand(const walk_t *walk, const lane_abi_step_t *step, const lane_abi_operand_t *operand)
{
    const lane_abi_part_t *part = LIST_AT(lane_abi_part_t, walk->binding, parts, step->part);
    const lane_abi_rank_t rank = rank_of(walk->run, operand->rank);
    if (part->extent_bytes == 0 || operand->buffer == LANE_ABI_SEND || operand->buffer == LANE_ABI_LANDING)
        return true;
    if (operand->buffer == LANE_ABI_SCRATCH || operand->buffer == LANE_ABI_SWITCH) {
        const lane_abi_edge_t *edge = LIST_AT(lane_abi_edge_t, walk->binding, edges, operand->edge);
        bool by_switch = operand->buffer == LANE_ABI_SWITCH && walk->run->by_switch;
        return is_reached(walk, "slots",
                          (by_switch ? walk->run->by_switch : rank.scratch) + edge->scratch_offset);
    }
    bool is_input = operand->buffer == LANE_ABI_INPUT;
    uint64_t first = (is_input ? rank.input + part->in_block * rank.input_stride_bytes
                               : rank.output + part->out_block * rank.output_stride_bytes) +
                     part->extent_begin;
    return is_reached(walk, is_input ? "input" : "output", first) &&
           is_reached(walk, is_input ? "input" : "output", first + part->extent_bytes - 1);
}

static bool check_semaphore(const walk_t *walk, uint32_t rank, uint32_t semaphore)
{
    return rank == LANE_ABI_WIRES ||
           is_reached(walk, "semaphore",
                      rank_of(walk->run, rank).semaphores + (uint64_t)semaphore * LANE_ABI_SEMAPHORE_BYTES);
}

static bool check_step(const walk_t *walk, const lane_abi_step_t *step)
{
    const lane_abi_program_t *program = walk->program;
    bool within = true;
    for (uint32_t i = 0; within && i < step->src_count; i++)
        within =
            check_operand(walk, step, LIST_AT(lane_abi_operand_t, program, operands, step->src_first + i));
    for (uint32_t i = 0; within && i < step->dst_count; i++)
        within =
            check_operand(walk, step, LIST_AT(lane_abi_operand_t, program, operands, step->dst_first + i));
    for (uint32_t i = 0; within && i < step->wait_count; i++) {
        const lane_abi_wait_t *wait = LIST_AT(lane_abi_wait_t, program, waits, step->wait_first + i);
        within = check_semaphore(walk, wait->rank, wait->semaphore);
    }
    for (uint32_t i = 0; within && i < step->signal_count; i++) {
        const lane_abi_signal_t *signal =
            LIST_AT(lane_abi_signal_t, program, signals, step->signal_first + i);
        within = check_semaphore(walk, signal->rank, signal->semaphore);
    }
    return within;
}

bool reach_holds_run(CUdevice ordinal, const lane_abi_run_t *run)
{
    walk_t walk = {run, memory_pointer(run->program), memory_pointer(run->binding), ordinal};
    bool within = is_reached(&walk, "program", run->program) && is_reached(&walk, "binding", run->binding) &&
                  is_reached(&walk, "control", run->control) &&
                  is_reached(&walk, "counter", run->blocks_left) &&
                  (!run->ranks || is_reached(&walk, "ranks", run->ranks));
    for (uint32_t l = run->lane_first; within && l < run->lane_first + run->lane_count; l++) {
        const lane_abi_lane_t *lane = LIST_AT(lane_abi_lane_t, walk.program, lanes, l);
        for (uint32_t s = 0; within && s < lane->step_count; s++)
            within = check_step(&walk, LIST_AT(lane_abi_step_t, walk.program, steps, lane->step_first + s));
    }
    return within;
}
