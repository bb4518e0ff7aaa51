/* See arena.h. Blocks double in size, so that few are needed; each new one is linked before the older ones.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BLOCK_BYTES 4096u
#define LAST_BLOCK_BYTES  (1u << 20)

struct arena_block {
    arena_block_t *older;
    size_t used, bytes;
    alignas(max_align_t) char memory[];
};

static arena_block_t *add_block(arena_t *arena, size_t least_bytes)
{
    size_t bytes = arena->newest ? arena->newest->bytes * 2 : FIRST_BLOCK_BYTES;
    if (bytes > LAST_BLOCK_BYTES)
        bytes = LAST_BLOCK_BYTES;
    if (bytes < least_bytes)
        bytes = least_bytes;
    arena_block_t *block = malloc(sizeof *block + bytes);
    if (!block)
        return NULL;
    *block = (arena_block_t){.older = arena->newest, .bytes = bytes};
    arena->newest = block;
    arena->bytes += bytes;
    return block;
}

void *arena_alloc(arena_t *arena, size_t count, size_t item_bytes)
{
    const size_t unit = alignof(max_align_t);
    if (item_bytes && count > (SIZE_MAX / 2 - unit) / item_bytes)
        return NULL;
    size_t bytes = (count * item_bytes + unit - 1) / unit * unit;
    arena_block_t *block = arena->newest;
    if (!block || block->bytes - block->used < bytes)
        block = add_block(arena, bytes);
    if (!block)
        return NULL;
    void *memory = block->memory + block->used;
    block->used += bytes;
    return memset(memory, 0, bytes);
}

arena_mark_t arena_mark(const arena_t *arena)
{
    return (arena_mark_t){.block = arena->newest, .used = arena->newest ? arena->newest->used : 0};
}

void arena_release(arena_t *arena, arena_mark_t mark)
{
    while (arena->newest != mark.block) {
        arena_block_t *older = arena->newest->older;
        arena->bytes -= arena->newest->bytes;
        free(arena->newest);
        arena->newest = older;
    }
    if (mark.block)
        mark.block->used = mark.used;
}

void arena_free(arena_t *arena)
{
    arena_release(arena, (arena_mark_t){0});
}
