/*
 * Ranges of a stretch of memory, given out first fit: of what is handed to the GPU worker, and of what the
 * worker has in host memory. Not thread-safe.
 */
#ifndef BLINK_GPU_ARENA_H
#define BLINK_GPU_ARENA_H

#include "error.h"

typedef struct gpu_arena_hole gpu_arena_hole_t;

typedef struct gpu_arena {
    char *base; /* borrowed */
    uint64_t bytes;
    gpu_arena_hole_t *holes; /* by offset; no two adjoin */
} gpu_arena_t;

/* Errors: NO_MEMORY. */
blink_result_t gpu_arena_init(gpu_arena_t *arena, void *base, uint64_t bytes);
void gpu_arena_fini(gpu_arena_t *arena);

/* Take a range of `bytes`, aligned to 64. Errors: NO_MEMORY (no hole is that large, or no memory to note it).
 */
blink_result_t gpu_arena_take(gpu_arena_t *arena, uint64_t bytes, uint64_t *offset);

/* Give a range back, as many bytes as were taken. Never fails: what cannot be noted is lost until
 * gpu_arena_fini().
 */
void gpu_arena_give(gpu_arena_t *arena, uint64_t offset, uint64_t bytes);

#endif
