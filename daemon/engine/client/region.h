/*
 * The engine's side of a region of a client's memory: found by its number, held by ops, and gone once it has
 * been removed and no op holds it any more.
 */
#ifndef BLINK_ENGINE_REGION_H
#define BLINK_ENGINE_REGION_H

#include "base/list.h"
#include "engine/engine.h"
#include "windows.h"

typedef struct stream_window stream_window_t;

struct engine_region {
    list_t of_client; /* in its bucket */
    uint32_t region;
    engine_region_kind_t kind;
    char *base;
    uint64_t gpu_address; /* in the GPU worker that was there when it was told; 0: GPUs do not find it */
    uint32_t gpu_worker;  /* engine->lost_gpu_workers then */
    uint64_t bytes;
    const _Atomic bool *poisoned;
    stream_window_t *windows; /* of a windows region */
    uint32_t uses;            /* ops and stored ops that hold it */
    bool removing;            /* no new uses */
    engine_client_t *client;
    engine_done_t done;
    mailbox_item_t add_item;    /* may still lie in the mailbox when the removal is posted */
    mailbox_item_t remove_item; /* to the engine, and back to control */
};

/* A window of a staging region or a windows region. The caller has checked the number. */
static inline window_t *region_window(const engine_region_t *region, uint32_t number)
{
    return (window_t *)(void *)region->base + number;
}

/* What an op wants of a region, and who is to find it. */
typedef struct region_range {
    uint32_t region;
    uint64_t offset_bytes, bytes;
    uint32_t alignment;
    bool staged;   /* these are slots of a staging region */
    bool for_gpus; /* the address is that in the GPU worker */
} region_range_t;

/* Find the client's region, check the range, and hold the region until region_release(). *address is where
 * the range begins, in this process or for GPUs. Errors: NOT_REGISTERED, OUT_OF_RANGE, INVALID_ARGUMENT,
 * SYSTEM. */
blink_result_t region_hold(const engine_client_t *client, const region_range_t *range, engine_region_t **held,
                           void **address);

/* Fail with SYSTEM, saying what became of the region's memory. */
blink_result_t region_fail_lost(const engine_region_t *region);

/* Fails if the region's memory is not what it was: pages that could not be had, a GPU worker that ended.
 * Errors: SYSTEM. */
static inline blink_result_t region_check(const engine_region_t *region)
{
    /* Relaxed: what a run did is handed over with its end. */
    return atomic_load_explicit(region->poisoned, memory_order_relaxed) ? region_fail_lost(region) : BLINK_OK;
}

/* The region is removed and nothing holds it: the control thread hears so. */
void region_gone(engine_region_t *region);

/* Whoever held the region needs it no more. NULL is ignored. */
static inline void region_release(engine_region_t *region)
{
    if (region && --region->uses == 0 && region->removing)
        region_gone(region);
}

/* Free some regions of a client that is gone, which nothing holds. True once there are none. */
bool client_free_some_regions(engine_client_t *client);

#endif
