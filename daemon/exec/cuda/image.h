/*
 * A lane program, and its binding to a payload, laid flat as the interpreter on a GPU reads them
 * (kernels/lane_abi.h). Pure: no GPU is asked.
 */
#ifndef BLINK_EXEC_IMAGE_H
#define BLINK_EXEC_IMAGE_H

#include "exec/cuda/reach.h"
#include "kernels/lane_abi.h"
#include "plan/lane/lane.h"

/* Bytes that travel to the GPU. */
typedef struct image_block {
    void *bytes; /* malloc'd */
    uint64_t byte_count;
} image_block_t;

/* What lanes on GPUs and the wire lanes of the program share in host memory. */
typedef struct image_wires {
    uint32_t *place;  /* by semaphore: its number among those of wires; PLAN_NONE: it is none */
    uint32_t *area;   /* by landing edge: the number of its landing, which is that of its area */
    uint32_t count;   /* semaphores of wires */
    uint32_t watched; /* of these, the first ones: lanes on GPUs raise them */
} image_wires_t;

/* Errors: NO_MEMORY. image_wires_fini() must follow on failure too. */
blink_result_t image_wires_init(const lane_program_t *program, image_wires_t *wires);
void image_wires_fini(image_wires_t *wires);

/* Whose lane it is to run: no wire lane's. */
static inline bool image_is_processors(const lane_t *lane)
{
    return lane->to_rank == PLAN_NONE;
}

/*
 * Flatten a program. Lanes come GPU by GPU: those of gpu g are the lane_count[g] from lane_first[g] on. Ranks
 * of this host are numbered anew, in their order.
 * @param reach     what lies in memory of the host.
 * @param rank_gpu  by rank; each < gpu_count, or GPU_NONE of ranks on other hosts.
 * Errors: NO_MEMORY, UNSUPPORTED (more ranks of this host than a run on GPUs can have; a step with more
 * operands).
 */
blink_result_t image_program(const lane_program_t *program, const image_wires_t *wires,
                             const cuda_reach_t *reach, const uint32_t *rank_gpu, uint32_t gpu_count,
                             uint32_t *lane_first, uint32_t *lane_count, image_block_t *image);

/* Whether every step has a single source, so that the program moves bytes and never combines them. */
bool image_only_moves(const lane_program_t *program);

/* How much memory the slots of a geometry take. */
typedef struct image_slots {
    uint64_t gpu_bytes;  /* the most on any GPU */
    uint64_t host_bytes; /* of GPUs that are no peers */
    uint64_t send_bytes; /* that wire lanes read */
} image_slots_t;

/*
 * The tables of a geometry. Slots lie in the memory of the GPU whose rank receives by the edge, or in that of
 * the host, one edge after the other. Edges of landings come behind the others. Errors: NO_MEMORY.
 */
blink_result_t image_binding(const lane_geometry_t *geometry, const cuda_reach_t *reach,
                             const uint32_t *rank_gpu, uint32_t gpu_count, image_slots_t *slots,
                             image_block_t *image);

/* Bytes of a part's spans in all chunks together, in the program's wire format. */
uint64_t image_part_bytes(const lane_geometry_t *geometry, uint32_t channel, uint32_t part);

#endif
