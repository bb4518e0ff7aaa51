/* The addresses of GPU memory. */
#include "standin/memory/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)64 << 30)

typedef struct stretch {
    struct stretch *next; /* by address */
    uintptr_t address;
    size_t bytes;
} stretch_t;

static struct {
    uintptr_t begin; /* 0: not there yet */
    stretch_t *stretches;
} arena; /* under memory_lock */

static bool make_arena(void)
{
    if (arena.begin)
        return true;
    size_t bytes = ARENA_BYTES + MEMORY_GRANULARITY_BYTES;
    void *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return false;
    arena.begin = memory_round_up((uintptr_t)space, MEMORY_GRANULARITY_BYTES);
    return true;
}

/* The first gap that is large enough, at or after an address. Returns the link where a stretch goes, and
 * where it begins. */
static stretch_t **find_gap(uintptr_t from, size_t bytes, size_t alignment, uintptr_t *address)
{
    stretch_t **link = &arena.stretches;
    *address = memory_round_up(from, alignment);
    while (*link && (*link)->address < *address + bytes) {
        uintptr_t end = (*link)->address + (*link)->bytes;
        if (end > *address)
            *address = memory_round_up(end, alignment);
        link = &(*link)->next;
    }
    return link;
}

uintptr_t arena_take(size_t bytes, size_t alignment, uintptr_t wanted)
{
    if (!bytes || bytes > ARENA_BYTES || !make_arena())
        return 0;
    if (wanted < arena.begin || wanted - arena.begin > ARENA_BYTES - bytes)
        wanted = arena.begin;
    uintptr_t address;
    stretch_t **link = find_gap(wanted, bytes, alignment, &address);
    if (address != wanted)
        link = find_gap(arena.begin, bytes, alignment, &address);
    stretch_t *stretch = malloc(sizeof(*stretch));
    if (!stretch || address - arena.begin > ARENA_BYTES - bytes) {
        free(stretch);
        return 0;
    }
    *stretch = (stretch_t){*link, address, bytes};
    *link = stretch;
    return address;
}

static stretch_t **find_stretch(uintptr_t address)
{
    stretch_t **link = &arena.stretches;
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

void arena_give(uintptr_t address)
{
    stretch_t **link = find_stretch(address), *stretch = *link;
    arena_unmap(stretch->address, stretch->bytes);
    *link = stretch->next;
    free(stretch);
}

bool arena_is_taken(uintptr_t address, size_t bytes)
{
    const stretch_t *stretch = *find_stretch(address);
    return stretch && stretch->bytes == bytes;
}

bool arena_holds(uintptr_t address, size_t bytes)
{
    for (const stretch_t *stretch = arena.stretches; stretch; stretch = stretch->next) {
        if (address >= stretch->address && address - stretch->address < stretch->bytes)
            return bytes <= stretch->bytes - (address - stretch->address);
    }
    return false;
}

bool arena_map(uintptr_t address, size_t bytes, int protection, int file, off_t offset)
{
    return mmap(memory_pointer(address), bytes, protection, MAP_SHARED | MAP_FIXED, file, offset) !=
           MAP_FAILED;
}

void arena_unmap(uintptr_t address, size_t bytes)
{
    mmap(memory_pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
}
