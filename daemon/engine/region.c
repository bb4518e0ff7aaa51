/*
 * Regions: added, moved and removed for the control thread, used and released by ops.
 */
#include "engine/region.h"

#include "base/log.h"
#include "engine/client.h"
#include "engine/loop.h"
#include "engine/stream.h"
#include "error.h"

#include <stdlib.h>

static void engine_region_free(engine_region_t *region)
{
    free(region->windows);
    free(region);
}

void client_free_regions(engine_client_t *client)
{
    for (uint32_t i = 0; i < REGION_BUCKETS; i++) {
        while (client->regions[i]) {
            engine_region_t *region = client->regions[i];
            client->regions[i] = region->next;
            engine_region_free(region);
        }
    }
}

engine_region_t *client_find_region(const engine_client_t *client, uint32_t number)
{
    engine_region_t *region = client->regions[number % REGION_BUCKETS];
    while (region && (region->region != number || region->removing))
        region = region->next;
    return region;
}

static void region_add_run(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, add_item);
    engine_region_t **bucket = &region->client->regions[region->region % REGION_BUCKETS];
    region->next = *bucket;
    *bucket = region;
    if (region->windows)
        region->client->windows = region;
}

blink_result_t engine_region_add(engine_client_t *client, const engine_region_config_t *config)
{
    engine_region_t *created = calloc(1, sizeof(*created));
    if (created && config->kind == ENGINE_REGION_WINDOWS)
        created->windows = calloc(config->bytes / sizeof(window_t), sizeof(*created->windows));
    if (!created || (config->kind == ENGINE_REGION_WINDOWS && !created->windows)) {
        free(created);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for region %u", config->region);
    }
    created->region = config->region;
    created->kind = config->kind;
    created->base = config->base;
    created->gpu_address = config->gpu_address;
    created->bytes = config->bytes;
    created->poisoned = config->poisoned;
    created->client = client;
    created->add_item.run = region_add_run;
    created->control_next = client->control_regions;
    client->control_regions = created;
    mailbox_post(&client->engine->mailbox, &created->add_item);
    return BLINK_OK;
}

typedef struct region_move {
    mailbox_item_t item;
    engine_client_t *client;
    uint32_t region;
    uint64_t gpu_address;
} region_move_t;

static void region_move_run(mailbox_item_t *item)
{
    region_move_t *move = CONTAINER_OF(item, region_move_t, item);
    engine_region_t *region = client_find_region(move->client, move->region);
    if (region)
        region->gpu_address = move->gpu_address;
    free(move);
}

void engine_region_move(engine_client_t *client, uint32_t region, uint64_t gpu_address)
{
    region_move_t *move = malloc(sizeof(*move));
    if (!move) {
        LOG_ERROR("no memory to move region %u", region);
        abort(); /* a GPU would be given an address that is somebody else's */
    }
    *move = (region_move_t){{.run = region_move_run}, client, region, gpu_address};
    mailbox_post(&client->engine->mailbox, &move->item);
}

static void region_removed_on_control(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, remove_item);
    engine_done_t done = region->done;
    engine_region_free(region);
    done.call(done.context);
}

static void region_free_if_done(engine_region_t *region)
{
    if (!region->removing || region->uses > 0)
        return;
    engine_region_t **link = &region->client->regions[region->region % REGION_BUCKETS];
    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    if (region->client->windows == region)
        region->client->windows = NULL;
    region->remove_item.run = region_removed_on_control;
    mailbox_post(region->client->engine->config.control, &region->remove_item);
}

static void region_remove_now(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, remove_item);
    region->removing = true;
    region_free_if_done(region);
}

static void region_remove_run(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, remove_item);
    client_defer(region->client, item, region_remove_now);
}

void engine_region_remove(engine_client_t *client, uint32_t region, engine_done_t done)
{
    engine_region_t **link = &client->control_regions;
    while ((*link)->region != region)
        link = &(*link)->control_next;
    engine_region_t *removed = *link;
    *link = removed->control_next;
    removed->done = done;
    removed->remove_item.run = region_remove_run;
    mailbox_post(&client->engine->mailbox, &removed->remove_item);
}

void region_release(engine_region_t *region)
{
    if (!region)
        return;
    region->uses--;
    region_free_if_done(region);
}

blink_result_t region_check(const engine_region_t *region)
{
    /* Relaxed: what a run did is handed over with its end. */
    if (!region || !atomic_load_explicit(region->poisoned, memory_order_relaxed))
        return BLINK_OK;
    if (!region->base)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "region %u of GPU memory was lost with the GPU worker",
                          region->region);
    return BLINK_FAIL(BLINK_ERR_SYSTEM, "pages of region %u could not be had (punched out?)", region->region);
}

blink_result_t region_use(engine_region_t *region, const region_range_t *range, void **address)
{
    uint64_t offset_bytes = range->offset_bytes;
    if (offset_bytes > region->bytes || range->bytes > region->bytes - offset_bytes)
        return BLINK_FAIL(BLINK_ERR_OUT_OF_RANGE, "%lu bytes at offset %lu run past region %u of %lu bytes",
                          (unsigned long)range->bytes, (unsigned long)offset_bytes, region->region,
                          (unsigned long)region->bytes);
    if (offset_bytes % range->alignment != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "offset %lu is not a multiple of the element's %u bytes",
                          (unsigned long)offset_bytes, range->alignment);
    if (range->for_gpus ? region->gpu_address == 0 : !region->base)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "region %u is %s, but the communicator is on %s",
                          region->region, region->base ? "memory of the host" : "memory of a GPU",
                          range->for_gpus ? "GPUs" : "host devices");
    BLINK_TRY(region_check(region));
    region->uses++;
    *address = range->for_gpus ? (void *)(uintptr_t)(region->gpu_address + offset_bytes)
                               : region->base + offset_bytes;
    return BLINK_OK;
}
