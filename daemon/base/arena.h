/*
 * Memory that lives as long as one request. What a request allocates comes from its arena and goes with it,
 * in one call; nothing is freed alone. Not thread-safe: an arena belongs to one thread at a time. (After
 * nginx's pools.)
 */
#ifndef BLINK_ARENA_H
#define BLINK_ARENA_H

#include <stddef.h>

typedef struct arena_block arena_block_t;

/* {0} is an empty arena. */
typedef struct arena {
    arena_block_t *newest;
    size_t bytes; /* that the arena has taken from the system */
} arena_t;

/* Zeroed memory for `count` items of item_bytes each, aligned for any type. NULL without memory; of no items,
 * some address. Valid until arena_free() or a release to an earlier mark. */
void *arena_alloc(arena_t *arena, size_t count, size_t item_bytes);

/* Where the arena stands, and back to there: what was allocated after the mark is no more. For work that is
 * done many times within one request. */
typedef struct arena_mark {
    arena_block_t *block;
    size_t used;
} arena_mark_t;
arena_mark_t arena_mark(const arena_t *arena);
void arena_release(arena_t *arena, arena_mark_t mark);

/* Give all memory back; the arena is empty and may be used again. */
void arena_free(arena_t *arena);

#endif
