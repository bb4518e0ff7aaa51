#include "control/memory/region_loss.h"

#include "base/log.h"
#include "control/gpus.h"

#include <stdlib.h>

/* Regions that a worker has been asked to map, and has not answered. Each takes a descriptor. */
#define ASKED_MOST 64u

typedef struct remap {
    control_t *control;
    region_t *region; /* NULL: it has gone meanwhile */
    uint64_t token;
} remap_t;

/* ---- which worker has what ---- */

void region_is_answered(region_t *region, blink_result_t result, uint64_t token)
{
    control_t *control = region->control;
    region_gpus_t *gpus = &control->region_gpus;
    region->gpu_token = result == BLINK_OK ? token : 0;
    list_append(gpus_has(control->gpus, token) ? &gpus->reached : &gpus->unmapped, &region->of_gpus);
    turns_post(&control->turns, NULL, &gpus->work);
}

void region_leave_gpus(region_t *region)
{
    list_remove(&region->of_gpus);
    if (region->remap)
        region->remap->region = NULL;
    region->remap = NULL;
}

/* ---- a worker has ended ---- */

void region_tell_losses(client_t *client)
{
    Blinkwire__GpuReset body = BLINKWIRE__GPU_RESET__INIT;
    Blinkwire__Reply event = BLINKWIRE__REPLY__INIT;
    uint32_t losses = client->control->region_gpus.losses;
    if (client->gpu_losses == losses)
        return;
    client->gpu_losses = losses;
    event.body_case = BLINKWIRE__REPLY__BODY_GPU_RESET;
    event.gpu_reset = &body;
    connection_send(client->connection, &event, NULL, 0);
}

static void on_removed(void *context)
{
    region_t *region = context;
    region_uncount(region);
    region_free(region);
}

void region_remove_silently(region_t *region)
{
    region_unlink(region);
    engine_region_remove(region->engine, (engine_done_t){on_removed, region});
}

/* Memory of a GPU is gone. Memory of the host the next worker is to map. */
static void lose(region_t *region)
{
    region->gpu_token = 0;
    if (region->client->leaving)
        return;
    if (region->map) {
        list_append(&region->control->region_gpus.unmapped, &region->of_gpus);
        return;
    }
    region_tell_losses(region->client);
    /* Relaxed: the engine has been told of the worker's end. */
    atomic_store_explicit(&region->lost, true, memory_order_relaxed);
    region_remove_silently(region);
}

/* ---- another one maps ---- */

static void on_mapped_again(void *context, blink_result_t result, uint64_t address)
{
    remap_t *remap = context;
    control_t *control = remap->control;
    region_t *region = remap->region;
    control->region_gpus.asked--;
    turns_post(&control->turns, NULL, &control->region_gpus.work);
    if (region && !region->client->leaving) {
        if (result == BLINK_OK)
            engine_region_move(region->client->engine, region->number, address);
        else if (gpus_has(control->gpus, remap->token))
            LOG_WARNING("client %u's region %u is lost to GPUs: %s", region->client->number, region->number,
                        blink_error_text());
        region_is_answered(region, result, remap->token);
    } else if (result == BLINK_OK) {
        gpus_release(control->gpus, remap->token, (gpu_answer_t){0});
    }
    if (region)
        region->remap = NULL;
    free(remap);
}

static void map_again(region_t *region)
{
    control_t *control = region->control;
    gpu_request_t map = region_map_request(region);
    remap_t *remap = malloc(sizeof(*remap));
    blink_result_t result =
        remap ? gpus_import(control->gpus, &map, &region->fd, 1, (gpu_answer_t){on_mapped_again, remap})
              : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to map it again");
    if (result != BLINK_OK) { /* ops on GPUs that use the region fail and say why */
        LOG_WARNING("client %u's region %u is lost to GPUs: %s", region->client->number, region->number,
                    blink_error_text());
        free(remap);
        return;
    }
    *remap = (remap_t){control, region, map.token};
    region->remap = remap;
    control->region_gpus.asked++;
}

/* ---- slices ---- */

static bool may_ask(const control_t *control)
{
    return control->gpus && control->region_gpus.asked < ASKED_MOST && gpus_worker_pid(control->gpus) != 0;
}

static bool serve_slice(work_t *work)
{
    region_gpus_t *gpus = CONTAINER_OF(work, region_gpus_t, work);
    control_t *control = CONTAINER_OF(gpus, control_t, region_gpus);
    list_t *link;
    while (!turns_slice_is_over(&control->turns)) {
        turns_count(&control->turns, 1);
        if ((link = list_take_first(&gpus->lost)))
            lose(CONTAINER_OF(link, region_t, of_gpus));
        else if (may_ask(control) && (link = list_take_first(&gpus->unmapped)))
            map_again(CONTAINER_OF(link, region_t, of_gpus));
        else
            return false;
    }
    return true;
}

void regions_init_gpus(control_t *control)
{
    region_gpus_t *gpus = &control->region_gpus;
    list_init(&gpus->reached);
    list_init(&gpus->lost);
    list_init(&gpus->unmapped);
    work_init(&gpus->work, serve_slice);
}

void regions_lose_gpus(control_t *control)
{
    region_gpus_t *gpus = &control->region_gpus;
    gpus->losses++;
    list_splice(&gpus->lost, &gpus->reached);
    turns_post(&control->turns, NULL, &gpus->work);
}

void regions_map_again(control_t *control)
{
    turns_post(&control->turns, NULL, &control->region_gpus.work);
}
