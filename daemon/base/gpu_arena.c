#include "base/gpu_arena.h"

#include <stdlib.h>

#define ALIGNMENT 64u

struct gpu_arena_hole {
    gpu_arena_hole_t *next;
    uint64_t offset, bytes;
};

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static gpu_arena_hole_t *hole_make(uint64_t offset, uint64_t bytes, gpu_arena_hole_t *next)
{
    gpu_arena_hole_t *hole = malloc(sizeof(*hole));
    if (hole)
        *hole = (gpu_arena_hole_t){next, offset, bytes};
    return hole;
}

blink_result_t gpu_arena_init(gpu_arena_t *arena, void *base, uint64_t bytes)
{
    *arena = (gpu_arena_t){.base = base, .bytes = bytes, .holes = hole_make(0, bytes, NULL)};
    return arena->holes ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an arena");
}

void gpu_arena_fini(gpu_arena_t *arena)
{
    while (arena->holes) {
        gpu_arena_hole_t *hole = arena->holes;
        arena->holes = hole->next;
        free(hole);
    }
}

blink_result_t gpu_arena_take(gpu_arena_t *arena, uint64_t bytes, uint64_t *offset)
{
    uint64_t wanted = rounded(bytes);
    gpu_arena_hole_t **link = &arena->holes;
    while (*link && (*link)->bytes < wanted)
        link = &(*link)->next;
    gpu_arena_hole_t *hole = *link;
    if (!hole)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no room for %llu bytes in one piece among %llu",
                          (unsigned long long)bytes, (unsigned long long)arena->bytes);
    *offset = hole->offset;
    hole->offset += wanted;
    hole->bytes -= wanted;
    if (hole->bytes == 0) {
        *link = hole->next;
        free(hole);
    }
    return BLINK_OK;
}

/* Join a hole with the one behind it if they adjoin. */
static void hole_join(gpu_arena_hole_t *hole)
{
    gpu_arena_hole_t *next = hole->next;
    if (!next || hole->offset + hole->bytes != next->offset)
        return;
    hole->bytes += next->bytes;
    hole->next = next->next;
    free(next);
}

void gpu_arena_give(gpu_arena_t *arena, uint64_t offset, uint64_t bytes)
{
    gpu_arena_hole_t **link = &arena->holes, *before = NULL;
    while (*link && (*link)->offset < offset) {
        before = *link;
        link = &(*link)->next;
    }
    gpu_arena_hole_t *hole = hole_make(offset, rounded(bytes), *link);
    if (!hole)
        return;
    *link = hole;
    hole_join(hole);
    if (before)
        hole_join(before);
}
