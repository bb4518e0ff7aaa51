#include "engine/client/region.h"

#include "base/log.h"
#include "engine/client/client.h"
#include "engine/client/stream.h"
#include "engine/loop.h"
#include "error.h"

#include <stdlib.h>

#define REGIONS_FREED_AT_ONCE 64u

/* ---- as the control thread tells ---- */

/* The control thread tells of an address before it tells of the end of the worker that has it. */
static void place_on_gpus(engine_region_t *region, uint64_t gpu_address)
{
    region->gpu_address = gpu_address;
    region->gpu_worker = region->client->engine->lost_gpu_workers;
}

static void region_add_run(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, add_item);
    place_on_gpus(region, region->gpu_address);
    list_append(&region->client->regions[region->region % REGION_BUCKETS], &region->of_client);
    if (region->windows)
        region->client->windows = region;
}

blink_result_t engine_region_add(engine_client_t *client, const engine_region_config_t *config,
                                 engine_region_t **region)
{
    bool for_windows = config->kind == ENGINE_REGION_WINDOWS;
    engine_region_t *created = calloc(1, sizeof(*created));
    if (created && for_windows)
        created->windows = stream_windows_create(config->bytes / sizeof(window_t));
    if (!created || (for_windows && !created->windows)) {
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
    mailbox_post(&client->engine->mailbox, &created->add_item);
    *region = created;
    return BLINK_OK;
}

/* A region that is not being removed; NULL: there is none. */
static engine_region_t *region_find(const engine_client_t *client, uint32_t number)
{
    LIST_FOR_EACH (link, &client->regions[number % REGION_BUCKETS]) {
        engine_region_t *region = CONTAINER_OF(link, engine_region_t, of_client);
        if (region->region == number && !region->removing)
            return region;
    }
    return NULL;
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
    engine_region_t *region = region_find(move->client, move->region);
    if (region)
        place_on_gpus(region, move->gpu_address);
    free(move);
}

void engine_region_move(engine_client_t *client, uint32_t region, uint64_t gpu_address)
{
    region_move_t *move = malloc(sizeof(*move));
    if (!move) {
        LOG_ERROR("no memory to tell where GPUs find region %u: they do not", region);
        return;
    }
    *move = (region_move_t){{.run = region_move_run}, client, region, gpu_address};
    mailbox_post(&client->engine->mailbox, &move->item);
}

static void free_region(engine_region_t *region)
{
    free(region->windows);
    free(region);
}

static void region_removed_on_control(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, remove_item);
    engine_done_t done = region->done;
    free_region(region);
    done.call(done.context);
}

void region_gone(engine_region_t *region)
{
    list_remove(&region->of_client);
    if (region->client->windows == region)
        region->client->windows = NULL;
    region->remove_item.run = region_removed_on_control;
    mailbox_post(region->client->engine->config.control, &region->remove_item);
}

static void region_remove_now(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, remove_item);
    region->removing = true;
    if (region->uses == 0)
        region_gone(region);
}

static void region_remove_run(mailbox_item_t *item)
{
    engine_region_t *region = CONTAINER_OF(item, engine_region_t, remove_item);
    client_defer(region->client, item, region_remove_now);
}

void engine_region_remove(engine_region_t *region, engine_done_t done)
{
    region->done = done;
    region->remove_item.run = region_remove_run;
    mailbox_post(&region->client->engine->mailbox, &region->remove_item);
}

bool client_free_some_regions(engine_client_t *client)
{
    uint32_t freed = 0;
    for (uint32_t i = 0; i < REGION_BUCKETS; i++) {
        list_t *link;
        while (freed < REGIONS_FREED_AT_ONCE && (link = list_take_first(&client->regions[i]))) {
            free_region(CONTAINER_OF(link, engine_region_t, of_client));
            freed++;
        }
    }
    engine_count(client->engine, freed);
    return freed < REGIONS_FREED_AT_ONCE;
}

/* ---- as ops use them ---- */

blink_result_t region_fail_lost(const engine_region_t *region)
{
    if (!region->base)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "region %u of GPU memory was lost with the GPU worker",
                          region->region);
    return BLINK_FAIL(BLINK_ERR_SYSTEM,
                      "pages of region %u are not there: they were not populated, or have been punched out",
                      region->region);
}

static blink_result_t check_staging(const engine_region_t *region, const region_range_t *range)
{
    if (region->kind != ENGINE_REGION_STAGING)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "region %u is no staging region", range->region);
    if (range->offset_bytes < STAGING_HEADER_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "staging slots at offset %lu lie among the windows",
                          (unsigned long)range->offset_bytes);
    return BLINK_OK;
}

static blink_result_t check_range(const engine_region_t *region, const region_range_t *range)
{
    uint64_t offset_bytes = range->offset_bytes;
    if (range->staged)
        BLINK_TRY(check_staging(region, range));
    if (offset_bytes > region->bytes || range->bytes > region->bytes - offset_bytes)
        return BLINK_FAIL(BLINK_ERR_OUT_OF_RANGE, "%lu bytes at offset %lu run past region %u of %lu bytes",
                          (unsigned long)range->bytes, (unsigned long)offset_bytes, region->region,
                          (unsigned long)region->bytes);
    if (offset_bytes % range->alignment != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "offset %lu is not a multiple of the element's %u bytes",
                          (unsigned long)offset_bytes, range->alignment);
    bool is_lost = region->gpu_address != 0 && region->gpu_worker != region->client->engine->lost_gpu_workers;
    if (is_lost && !region->base)
        return region_fail_lost(region);
    if (range->for_gpus ? region->gpu_address == 0 || is_lost : !region->base)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "region %u is %s, but the communicator is on %s",
                          region->region, region->base ? "memory of the host" : "memory of a GPU",
                          range->for_gpus ? "GPUs" : "host devices");
    return region_check(region);
}

blink_result_t region_hold(const engine_client_t *client, const region_range_t *range, engine_region_t **held,
                           void **address)
{
    engine_region_t *region = region_find(client, range->region);
    if (!region)
        return BLINK_FAIL(BLINK_ERR_NOT_REGISTERED, "region %u is not registered", range->region);
    BLINK_TRY(check_range(region, range));
    region->uses++;
    *held = region;
    *address = range->for_gpus ? (void *)(uintptr_t)(region->gpu_address + range->offset_bytes)
                               : region->base + range->offset_bytes;
    return BLINK_OK;
}
