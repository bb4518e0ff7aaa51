/*
 * What becomes of regions when the GPU worker that reaches them ends, and when another one has started. From
 * engine_gpu_detach() on the engine uses nothing of a worker that has ended; here follow, in slices, what the
 * clients are to hear and what the next worker is to map.
 */
#ifndef BLINK_CONTROL_REGION_LOSS_H
#define BLINK_CONTROL_REGION_LOSS_H

#include "control/clients/client.h"
#include "control/memory/region.h"
#include "gpu_worker/link.h"

/* Before there are regions. */
void regions_init_gpus(control_t *control);

/* The worker has answered about a region that the engine knows, or is about to: it reaches the region, or
 * (`result`) cannot. A worker that has ended meanwhile has said nothing: the next one is asked. */
void region_is_answered(region_t *region, blink_result_t result, uint64_t token);

/* The region ends: nobody is asked to map it any more. */
void region_leave_gpus(region_t *region);

/* The client hears of the workers that have ended since it last did, if any. */
void region_tell_losses(client_t *client);

/* End a region that the engine knows, and that no request waits for. */
void region_remove_silently(region_t *region);

/* The GPU worker has ended: memory that it had imported is gone, and the memory's clients are told. */
void regions_lose_gpus(control_t *control);

/* Another worker has started: it is asked to map the host memory that the last one had mapped. */
void regions_map_again(control_t *control);

/* The request to map a region of the host. */
static inline gpu_request_t region_map_request(const region_t *region)
{
    return (gpu_request_t){.kind = GPU_MAP_HOST,
                           .bytes = region->bytes,
                           .offset_bytes = region->offset_bytes,
                           .keep_holes = region->kind == ENGINE_REGION_CLIENT};
}

#endif
