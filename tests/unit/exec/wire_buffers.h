/*
 * What ops of several hosts are tested with: machines, plans, and what every rank reads and writes.
 */
#ifndef WIRE_BUFFERS_H
#define WIRE_BUFFERS_H

#include "collective.h"
#include "unit/plan/hand_hosts.h"

#include <stdlib.h>

enum { RANKS_MOST = 8, MACHINE_HOSTS_MAX = 4 };

static const struct machine {
    const char *name;
    uint32_t devices[MACHINE_HOSTS_MAX], hosts;
} machines[] = {
    {"2x1", {1, 1}, 2}, {"2x2", {2, 2}, 2}, {"2x4", {4, 4}, 2}, {"hosts of 3, 1 and 2", {3, 1, 2}, 3}};

/* ---- buffers ---- */

/* What one op reads and writes. Of each rank one piece of memory, with room for an input and an output of a
 * block for each rank. */
typedef struct buffers {
    uint32_t ranks;
    size_t elements; /* of one rank's memory */
    float *memory[RANKS_MOST];
    const void *inputs[RANKS_MOST];
    void *outputs[RANKS_MOST];
} buffers_t;

/* Blocks that a collective reads of this rank, or writes. */
static inline uint32_t blocks_of(const plan_t *plan, uint32_t rank, bool output)
{
    bool at_root = rank == plan->root;
    if (plan->collective == BLINK_SENDRECV)
        return rank == (output ? plan->peer : plan->root) ? 1 : 0;
    return output ? collective_output_blocks(plan->collective, plan->rank_count, at_root)
                  : collective_input_blocks(plan->collective, plan->rank_count, at_root);
}

/* In place the smaller of input and output is this rank's block of the larger. */
static inline void place_buffers(buffers_t *buffers, const plan_t *plan, uint32_t rank, uint64_t count,
                                 bool in_place)
{
    uint32_t in_blocks = blocks_of(plan, rank, false), out_blocks = blocks_of(plan, rank, true);
    float *memory = buffers->memory[rank], *input = memory, *output = memory + buffers->elements / 2;
    if (in_place) {
        output = memory + (out_blocks < in_blocks ? rank * count : 0);
        input = memory + (in_blocks < out_blocks ? rank * count : 0);
    }
    buffers->inputs[rank] = in_blocks > 0 ? input : NULL;
    buffers->outputs[rank] = out_blocks > 0 ? output : NULL;
    for (uint64_t i = 0; i < in_blocks * count; i++)
        input[i] = (float)(rank + 1) / (float)(3 + i % 1009); /* sums depend on their order */
}

static inline void buffers_init(buffers_t *buffers, const plan_t *plan, uint64_t count, bool in_place)
{
    buffers->ranks = plan->rank_count;
    buffers->elements = 2 * collective_buffer_blocks(plan->collective, plan->rank_count) * count + 1;
    for (uint32_t rank = 0; rank < buffers->ranks; rank++) {
        buffers->memory[rank] = malloc(buffers->elements * sizeof(float));
        memset(buffers->memory[rank], 0xee, buffers->elements * sizeof(float));
        place_buffers(buffers, plan, rank, count, in_place);
    }
}

static inline void buffers_fini(buffers_t *buffers)
{
    for (uint32_t rank = 0; rank < buffers->ranks; rank++)
        free(buffers->memory[rank]);
}

/* ---- plans ---- */

static inline plan_t *make_plan(const topo_t *topo, uint32_t collective, blink_algorithm_t algorithm,
                                blink_protocol_t protocol)
{
    plan_t *plan = NULL;
    plan_request_t request = {.collective = (blink_collective_t)collective,
                              .algorithm = algorithm,
                              .rank_node = topo->gpus,
                              .rank_count = topo->gpu_count,
                              .root = topo->gpu_count - 1,
                              .peer = 0};
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        return NULL;
    plan->protocol = protocol;
    return plan;
}

/* Elements of a block, so that a rank's buffer holds about so many. */
static inline uint64_t count_for(const plan_t *plan, uint64_t elements)
{
    return elements / collective_buffer_blocks(plan->collective, plan->rank_count) + 1;
}

#endif
