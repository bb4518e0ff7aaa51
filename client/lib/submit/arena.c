/* First fit in each arena, and another arena where nothing fits. */
#include "submit/arena.h"

#include "gpu/gpu.h"
#include "submit/staging_region.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA_DATA_BYTES (16u << 20)

static_assert(STAGING_WINDOWS == 32, "free_windows has a bit for each");

void arenas_init(arenas_t *arenas, connection_t *connection)
{
    arenas->connection = connection;
    list_init(&arenas->list);
    pthread_mutex_init(&arenas->lock, NULL);
    pthread_mutex_init(&arenas->grow_lock, NULL);
}

void arenas_fini(arenas_t *arenas)
{
    LIST_FOR_EACH (link, &arenas->list) {
        arena_t *arena = CONTAINER_OF(link, arena_t, of_arenas);
        if (arena->pinned_by)
            gpu_unpin(arena->pinned_by, arena->base);
        munmap(arena->base, arena->bytes);
        free(arena);
    }
    pthread_mutex_destroy(&arenas->grow_lock);
    pthread_mutex_destroy(&arenas->lock);
}

/* Enter a window in use, with its bytes at an offset, before those at higher offsets. Under the lock. */
static staging_transfer_t *use_window(arena_t *arena, uint64_t offset, uint64_t bytes, list_t *before)
{
    uint32_t window = (uint32_t)__builtin_ctz(arena->free_windows);
    staging_transfer_t *transfer = &arena->transfers[window];
    arena->free_windows &= arena->free_windows - 1;
    *transfer = (staging_transfer_t){.arena = arena,
                                     .window = &((window_t *)arena->base)[window].staging,
                                     .window_index = window,
                                     .window_address = arena->address + window * sizeof(window_t),
                                     .offset_bytes = offset,
                                     .bytes = bytes};
    list_insert(before, &transfer->of_arena);
    return transfer;
}

/* A window and `bytes` bytes, first fit; NULL if the arena has not both. Under the lock. */
static staging_transfer_t *arena_take(arena_t *arena, uint64_t bytes)
{
    uint64_t offset = STAGING_HEADER_BYTES;
    if (arena->free_windows == 0)
        return NULL;
    LIST_FOR_EACH (link, &arena->in_use) {
        const staging_transfer_t *next = CONTAINER_OF(link, staging_transfer_t, of_arena);
        if (next->offset_bytes - offset >= bytes)
            return use_window(arena, offset, bytes, link);
        offset = next->offset_bytes + next->bytes;
    }
    return arena->bytes - offset >= bytes ? use_window(arena, offset, bytes, &arena->in_use) : NULL;
}

void arena_give(staging_transfer_t *transfer)
{
    list_remove(&transfer->of_arena);
    transfer->arena->free_windows |= 1u << transfer->window_index;
}

static staging_transfer_t *take(arenas_t *arenas, const arena_need_t *need)
{
    staging_transfer_t *transfer = NULL;
    pthread_mutex_lock(&arenas->lock);
    LIST_FOR_EACH (link, &arenas->list) {
        arena_t *arena = CONTAINER_OF(link, arena_t, of_arenas);
        if (!transfer && arena->on_gpus == need->on_gpus && (arena->pinned_by || !need->pinned))
            transfer = arena_take(arena, need->bytes);
    }
    pthread_mutex_unlock(&arenas->lock);
    return transfer;
}

/* For a stream it must be possible; else it only makes copies faster. */
static blink_result_t pin_arena(arena_t *arena, const arena_need_t *need)
{
    if (!need->gpu)
        return BLINK_OK;
    blink_result_t result = gpu_pin(need->gpu, arena->base, arena->bytes, &arena->address);
    if (result == BLINK_OK)
        arena->pinned_by = need->gpu;
    return need->pinned ? result : BLINK_OK;
}

static blink_result_t map_arena(arenas_t *arenas, arena_t *arena, const arena_need_t *need)
{
    void *base;
    BLINK_TRY(
        staging_region_map(arenas->connection, arena->bytes, arena->on_gpus, false, &base, &arena->region));
    arena->base = base;
    blink_result_t result = pin_arena(arena, need);
    if (result != BLINK_OK)
        munmap(base, arena->bytes); /* the region stays the daemon's until the connection ends */
    return result;
}

static blink_result_t grow(arenas_t *arenas, const arena_need_t *need)
{
    arena_t *arena = calloc(1, sizeof(*arena));
    if (!arena)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table of staged ops");
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t data_bytes = need->bytes > ARENA_DATA_BYTES ? need->bytes : ARENA_DATA_BYTES;
    arena->bytes = (STAGING_HEADER_BYTES + data_bytes + page_bytes - 1) / page_bytes * page_bytes;
    arena->free_windows = UINT32_MAX;
    arena->on_gpus = need->on_gpus;
    list_init(&arena->in_use);
    blink_result_t result = map_arena(arenas, arena, need);
    if (result != BLINK_OK) {
        free(arena);
        return result;
    }
    pthread_mutex_lock(&arenas->lock);
    list_prepend(&arenas->list, &arena->of_arenas);
    pthread_mutex_unlock(&arenas->lock);
    return BLINK_OK;
}

static bool has_pinned(arenas_t *arenas)
{
    bool found = false;
    pthread_mutex_lock(&arenas->lock);
    LIST_FOR_EACH (link, &arenas->list)
        found = found || CONTAINER_OF(link, arena_t, of_arenas)->pinned_by != NULL;
    pthread_mutex_unlock(&arenas->lock);
    return found;
}

blink_result_t arenas_prepare(arenas_t *arenas, struct gpu *gpu)
{
    const arena_need_t need = {.on_gpus = true, .pinned = true, .gpu = gpu};
    pthread_mutex_lock(&arenas->grow_lock);
    blink_result_t result = has_pinned(arenas) ? BLINK_OK : grow(arenas, &need);
    pthread_mutex_unlock(&arenas->grow_lock);
    return result;
}

blink_result_t arenas_take(arenas_t *arenas, const arena_need_t *need, staging_transfer_t **transfer)
{
    blink_result_t result = BLINK_OK;
    *transfer = take(arenas, need);
    if (*transfer)
        return BLINK_OK;
    pthread_mutex_lock(&arenas->grow_lock);
    /* Another thread may have grown it, or may take what this one asked for. */
    while (result == BLINK_OK && !(*transfer = take(arenas, need)))
        result = grow(arenas, need);
    pthread_mutex_unlock(&arenas->grow_lock);
    return result;
}
