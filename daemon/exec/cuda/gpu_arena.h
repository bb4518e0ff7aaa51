/*
 * Room in a stretch of shared memory: first fit. For what is handed to the GPU worker. Not thread-safe.
 */
#ifndef BLINK_EXEC_ARENA_H
#define BLINK_EXEC_ARENA_H

#include "error.h"

typedef struct arena_hole arena_hole_t;

typedef struct arena {
    char *base; /* borrowed */
    uint64_t bytes;
    arena_hole_t *holes; /* by offset; no two adjoin */
} arena_t;

/* Errors: NO_MEMORY. */
blink_result_t arena_init(arena_t *arena, void *base, uint64_t bytes);
void arena_fini(arena_t *arena);

/* Take room for `bytes`, aligned to 64. Errors: NO_MEMORY (no hole is that large, or no memory to note it).
 */
blink_result_t arena_take(arena_t *arena, uint64_t bytes, uint64_t *offset);

/* Give room back, as many bytes as were taken. Never fails: what cannot be noted is lost until arena_fini().
 */
void arena_give(arena_t *arena, uint64_t offset, uint64_t bytes);

#endif
