/* What lies at an address. */
#include "standin/memory/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Addresses of what cuMemFreeAsync() has freed, until something else is there. */
typedef struct grave {
    struct grave *next;
    uintptr_t address;
    size_t bytes;
} grave_t;

static struct {
    range_t *first;
    grave_t *graves;
    uint64_t count; /* that there ever were: a buffer id is never used twice */
} ranges;           /* under memory_lock */

static bool overlaps(const grave_t *grave, uintptr_t address, size_t bytes)
{
    return grave->address < address + bytes && address < grave->address + grave->bytes;
}

static void bury(const range_t *range)
{
    grave_t *grave = malloc(sizeof(*grave));
    if (!grave)
        return;
    *grave = (grave_t){ranges.graves, range->address, range->bytes};
    ranges.graves = grave;
}

static void clear_graves(const range_t *range)
{
    for (grave_t **link = &ranges.graves, *grave; (grave = *link);) {
        if (overlaps(grave, range->address, range->bytes)) {
            *link = grave->next;
            free(grave);
        } else {
            link = &grave->next;
        }
    }
}

bool range_is_freed(uintptr_t address)
{
    const range_t *range = range_find(address);
    const grave_t *grave = ranges.graves;
    while (!range && grave && !overlaps(grave, address, 1))
        grave = grave->next;
    return range ? range->freed : grave != NULL;
}

CUresult range_add(const range_t *range, range_t **added)
{
    range_t *made = malloc(sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range_t **link = &ranges.first;
    while (*link && (*link)->address < range->address)
        link = &(*link)->next;
    clear_graves(range);
    *made = *range;
    made->number = ++ranges.count;
    made->next = *link;
    *link = made;
    if (added)
        *added = made;
    return CUDA_SUCCESS;
}

range_t *range_first_in(uintptr_t address, size_t bytes)
{
    range_t *range = ranges.first;
    while (range && range->address + range->bytes <= address)
        range = range->next;
    return range && range->address < address + bytes ? range : NULL;
}

range_t *range_find(uintptr_t address)
{
    return range_first_in(address, 1);
}

bool memory_is_known(CUdeviceptr address, size_t bytes)
{
    uintptr_t at = (uintptr_t)address;
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find(at);
    while (range && range->address + range->bytes - at < bytes) {
        bytes -= range->address + range->bytes - at;
        at = range->address + range->bytes;
        range = range_find(at); /* side by side */
    }
    pthread_mutex_unlock(&memory_lock);
    return range || !bytes;
}

bool range_is_reached(CUdevice ordinal, const range_t *range)
{
    switch (range->kind) {
    case RANGE_HOST:
    case RANGE_REGISTERED:
        return true;
    case RANGE_IPC:
        if (standin_settings()->opens_alone)
            return ordinal == range->context->ordinal;
        return standin_has_peer(ordinal, range->context->ordinal);
    case RANGE_LEGACY:
        return standin_has_peer(ordinal, range->context->ordinal);
    case RANGE_VIRTUAL:
        return (range->readers | range->writers) >> ordinal & 1;
    case RANGE_POOLED:
        return ordinal == memory_ordinal(range->memory) || (range->memory->pool->accessors >> ordinal & 1);
    }
    return false;
}

bool memory_is_reached(CUdevice ordinal, CUdeviceptr address)
{
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find((uintptr_t)address);
    bool reached = range && range_is_reached(ordinal, range);
    pthread_mutex_unlock(&memory_lock);
    return reached;
}

CUresult range_map(memory_t *memory, range_kind_t kind, CUcontext context, range_t **range)
{
    size_t bytes = memory_round_up(memory->header.bytes, MEMORY_PAGE_BYTES);
    size_t alignment = bytes < MEMORY_GRANULARITY_BYTES ? MEMORY_PAGE_BYTES : MEMORY_GRANULARITY_BYTES;
    uintptr_t address = arena_take(bytes, alignment, 0);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range_t made = {.address = address,
                    .bytes = memory->header.bytes,
                    .kind = kind,
                    .memory = memory,
                    .context = context,
                    .opened = 1};
    off_t offset = memory->offset + (off_t)MEMORY_PAGE_BYTES;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (arena_map(address, bytes, PROT_READ | PROT_WRITE, memory->file, offset))
        result = range_add(&made, range);
    if (result == CUDA_SUCCESS)
        memory_get(memory);
    else
        arena_give(address);
    return result;
}

void range_remove(range_t *range)
{
    range_t **link = &ranges.first;
    while (*link != range)
        link = &(*link)->next;
    *link = range->next;
    if (range->freed)
        bury(range);
    if (range->memory)
        memory_put(range->memory);
    free(range);
}

void range_unmap(range_t *range)
{
    arena_give(range->address);
    range_remove(range);
}
