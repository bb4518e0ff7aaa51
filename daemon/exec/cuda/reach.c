#include "exec/cuda/reach.h"

#include "error.h"

#include <stdlib.h>

typedef struct walk {
    const lane_program_t *program;
    const gpu_facts_t *gpus;
    const uint32_t *rank_gpu;
    /* By semaphore: the rank whose lane raises it; PLAN_NONE: no lane of a processor does. */
    uint32_t *writers;
    cuda_reach_t *reach;
} walk_t;

static bool are_peers(const walk_t *walk, uint32_t rank, uint32_t other)
{
    return gpu_are_peers(walk->gpus, walk->rank_gpu[rank], walk->rank_gpu[other]);
}

/* Memory of a rank's, or of one of its edges', that a lane of another rank reads or writes. */
static blink_result_t check_operand(const walk_t *walk, const lane_t *lane, const lane_operand_t *operand)
{
    bool is_on_gpu = operand->buffer <= LANE_SCRATCH || operand->buffer == LANE_SHARED;
    if (!is_on_gpu || operand->rank == lane->rank)
        return BLINK_OK; /* what networks share is on the host */
    if (are_peers(walk, lane->rank, operand->rank)) {
        walk->reach->by_peers = true;
        return BLINK_OK;
    }
    if (operand->buffer == LANE_SCRATCH) {
        walk->reach->edges[operand->edge] = walk->reach->by_host = true;
        return BLINK_OK;
    }
    uint32_t gpu = walk->rank_gpu[lane->rank], other = walk->rank_gpu[operand->rank];
    return BLINK_FAIL(
        BLINK_ERR_UNREACHABLE,
        "GPU %u (%s) cannot read and write the memory of GPU %u (%s): the driver allows no peer "
        "access",
        gpu, walk->gpus[gpu].pci, other, walk->gpus[other].pci);
}

static blink_result_t check_step(const walk_t *walk, const lane_t *lane, const lane_step_t *step)
{
    const lane_program_t *program = walk->program;
    for (uint32_t i = step->src_first; i < step->src_first + step->src_count; i++)
        BLINK_TRY(check_operand(walk, lane, &program->operands[i]));
    for (uint32_t i = step->dst_first; i < step->dst_first + step->dst_count; i++)
        BLINK_TRY(check_operand(walk, lane, &program->operands[i]));
    for (uint32_t i = step->signal_first; i < step->signal_first + step->signal_count; i++)
        walk->writers[program->signals[i].semaphore] = lane->rank;
    return BLINK_OK;
}

/* Those whose two ends are on GPUs that are no peers; others that wire lanes use are the image's to place. */
static void place_semaphores(const walk_t *walk, const lane_t *lane, const lane_step_t *step)
{
    for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
        uint32_t semaphore = walk->program->waits[i].semaphore, writer = walk->writers[semaphore];
        if (writer != PLAN_NONE && !are_peers(walk, writer, lane->rank))
            walk->reach->semaphores[semaphore] = walk->reach->by_host = true;
    }
}

static blink_result_t walk_lanes(const walk_t *walk)
{
    const lane_program_t *program = walk->program;
    uint32_t count = program->lane_count - program->wire_count;
    for (uint32_t l = 0; l < count; l++)
        for (uint32_t s = 0; s < program->lanes[l].step_count; s++)
            BLINK_TRY(
                check_step(walk, &program->lanes[l], &program->steps[program->lanes[l].step_first + s]));
    for (uint32_t l = 0; l < count; l++)
        for (uint32_t s = 0; s < program->lanes[l].step_count; s++)
            place_semaphores(walk, &program->lanes[l], &program->steps[program->lanes[l].step_first + s]);
    return BLINK_OK;
}

blink_result_t cuda_reach_init(const lane_program_t *program, const gpu_facts_t *gpus,
                               const uint32_t *rank_gpu, cuda_reach_t *reach)
{
    *reach = (cuda_reach_t){.edges = calloc(program->edge_count + 1u, sizeof(*reach->edges)),
                            .semaphores = calloc(program->semaphore_count + 1u, sizeof(*reach->semaphores))};
    walk_t walk = {program, gpus, rank_gpu, malloc((program->semaphore_count + 1u) * sizeof(*walk.writers)),
                   reach};
    blink_result_t result = BLINK_OK;
    if (!reach->edges || !reach->semaphores || !walk.writers)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u edges", program->edge_count);
    for (uint32_t i = 0; i < program->semaphore_count && walk.writers; i++)
        walk.writers[i] = PLAN_NONE;
    if (result == BLINK_OK)
        result = walk_lanes(&walk);
    free(walk.writers);
    return result;
}

void cuda_reach_fini(cuda_reach_t *reach)
{
    free(reach->edges);
    free(reach->semaphores);
}
