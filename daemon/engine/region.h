/*
 * The engine's side of a region of a client's memory: found by its number, held by ops, gone once no op holds
 * it.
 */
#ifndef BLINK_ENGINE_REGION_H
#define BLINK_ENGINE_REGION_H

#include "base/list.h"
#include "engine/engine.h"
#include "windows.h"

typedef struct stream_window stream_window_t;

typedef struct engine_region {
    uint32_t region;
    engine_region_kind_t kind;
    char *base;
    uint64_t gpu_address;
    uint64_t bytes;
    const _Atomic bool *poisoned;
    stream_window_t *windows; /* of a windows region */
    uint32_t uses;            /* ops that hold it */
    bool removing;            /* no new uses */
    engine_client_t *client;
    engine_done_t done;
    mailbox_item_t add_item;            /* may still lie in the mailbox when the removal is posted */
    mailbox_item_t remove_item;         /* to the engine, and back to control */
    struct engine_region *next;         /* in its bucket */
    struct engine_region *control_next; /* control thread: the client's regions, to find one by number */
} engine_region_t;

/* A window of a staging region or a windows region. The caller has checked the number. */
static inline window_t *region_window(const engine_region_t *region, uint32_t number)
{
    return (window_t *)(void *)region->base + number;
}

/* A region that is not being removed, or NULL. */
engine_region_t *client_find_region(const engine_client_t *client, uint32_t number);

/* An operand's place in a region, and who is to find it. */
typedef struct region_range {
    uint64_t offset_bytes, bytes;
    uint32_t alignment;
    bool for_gpus;
} region_range_t;

/* Check it, count its use and find its bytes, in this process or for GPUs. Errors: OUT_OF_RANGE,
 * INVALID_ARGUMENT, SYSTEM. */
blink_result_t region_use(engine_region_t *region, const region_range_t *range, void **address);

/* Free the regions of a client that is gone and that no op uses any more. */
void client_free_regions(engine_client_t *client);

/* The op that held the region has ended; NULL is ignored. */
void region_release(engine_region_t *region);

/* Fails if the region's memory (NULL: of none) is not what it was: pages that could not be had, a GPU worker
 * that ended. Errors: SYSTEM. */
blink_result_t region_check(const engine_region_t *region);

#endif
