/*
 * Which slots and semaphores of a program lie in memory of the host. Two GPUs that are peers share what lies
 * on the one that reads it or waits for it; two that are not can share memory of the host alone.
 */
#ifndef BLINK_EXEC_CUDA_REACH_H
#define BLINK_EXEC_CUDA_REACH_H

#include "gpu_worker/link.h"
#include "plan/lane/lane.h"

typedef struct cuda_reach {
    bool *edges;      /* by scratch edge: its slots are on the host */
    bool *semaphores; /* by semaphore */
    bool by_host;     /* one of them is */
    bool by_peers;    /* a lane reaches memory of another rank where that is, on its own GPU or on a peer */
} cuda_reach_t;

/*
 * @param rank_gpu  by rank: an index of gpus[]; not looked at of ranks that have no lanes here.
 * cuda_reach_fini() must follow on failure too. Errors: NO_MEMORY; UNREACHABLE (a lane reads an input or
 * writes an output on a GPU that is no peer of its own; names both).
 */
blink_result_t cuda_reach_init(const lane_program_t *program, const gpu_facts_t *gpus,
                               const uint32_t *rank_gpu, cuda_reach_t *reach);
void cuda_reach_fini(cuda_reach_t *reach);

#endif
