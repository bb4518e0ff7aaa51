/*
 * A client's registered memory: checked, mapped, counted, and guarded against pages that cannot be had: ops
 * that use such a region fail.
 *
 * A region's life: region_create() puts it on its client's list, it is mapped or imported, and
 * region_tell_engine() lets ops use it. A region that the engine does not know ends by region_discard(). One
 * that the engine knows leaves the list, and is uncounted and freed when engine_region_remove() is done. GPU
 * memory may take several messages to register, between which the engine does not know the region either.
 */
#ifndef BLINK_CONTROL_REGION_H
#define BLINK_CONTROL_REGION_H

#include "control/clients/client.h"

typedef struct region {
    control_t *control;
    client_t *client;  /* NULL: gone, while the import was pending */
    list_t link;       /* on client->regions */
    list_t of_pending; /* on client->pending_regions, while the GPU worker has not answered: the engine does
                        * not know the region then */
    table_link_t of_numbers; /* in client->region_numbers */
    uint32_t number;
    engine_region_kind_t kind;
    void *map; /* NULL: on a GPU */
    uint64_t bytes;
    uint64_t pinned_bytes;  /* of a staging region that GPUs reach: pages that the GPU worker adds */
    uint64_t request;       /* whose answer waits for the engine, or for the GPU worker */
    uint64_t gpu_token;     /* of what the GPU worker has of the region; 0: nothing */
    uint64_t missing_bytes; /* on a GPU: of extents that the client has yet to send; 0: the region is whole */
    uint32_t message_count; /* by which it was registered; each is charged as a region is */
    list_t of_gpus;         /* on a list of control->region_gpus */
    struct remap *remap;    /* what another worker has been asked, until it answers; NULL: nothing */
    int fd; /* of the memory, while a GPU or the client of a staging region is to map it too; else -1 */
    uint64_t offset_bytes;   /* where the region begins in the memory of fd */
    uint32_t guard;          /* on the host: the mapping's */
    _Atomic bool lost;       /* on a GPU: the worker that had the memory is gone */
    engine_region_t *engine; /* once it has been told of the region */
} region_t;

static inline bool region_is_pending(const region_t *region)
{
    return !list_is_empty(&region->of_pending);
}

/* The client's region with this number; NULL: there is none. */
region_t *region_numbered(const client_t *client, uint32_t number);

/* A region with its number, on its client's list and counted, without memory. pinned_bytes: those of its
 * bytes that are charged to the daemon's cgroup. Errors: QUOTA, NO_MEMORY. */
blink_result_t region_create(client_t *client, uint64_t bytes, uint64_t pinned_bytes,
                             engine_region_kind_t kind, region_t **region);

/* Another message of its registration has come, which is charged. Errors: QUOTA. */
blink_result_t region_count_message(region_t *region);

/* Undo region_create() and all that was done after it. The engine has not been told of the region. */
void region_discard(region_t *region);

/* The steps of a region's end: take it from its client, which it is not found in any more; stop counting it;
 * free it with all mappings. */
void region_unlink(region_t *region);
void region_uncount(region_t *region);
void region_free(region_t *region);

/* The last step of a registration. Errors: NO_MEMORY. */
blink_result_t region_tell_engine(region_t *region, uint64_t gpu_address);

/* Check and map a client's memory; region_tell_engine() follows. Errors: INVALID_ARGUMENT (which property of
 * the descriptor does not hold), QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t region_register(client_t *client, int fd, uint64_t offset_bytes, uint64_t bytes,
                               region_t **region);

/* Make and map a staging region (windows.h) of either kind; region_tell_engine() follows. gpu: the GPU worker
 * will pin it, before the client can populate it. Errors: INVALID_ARGUMENT, EXISTS, QUOTA, NO_MEMORY, SYSTEM.
 */
blink_result_t region_create_staging(client_t *client, uint64_t bytes, bool gpu, engine_region_kind_t kind,
                                     region_t **region);

/* Serve the request; it is answered now or, once engine and GPU worker have let go of the region, later. */
void region_deregister(client_t *client, uint64_t request, uint32_t number);

/* The client is going: the engine will not be told of regions whose import is still pending. */
void regions_leave_pending(client_t *client);

/* Unmap a region of a client that the engine has forgotten and that is releasing; false: there is none left,
 * but the GPU worker may have to close some yet (given_back_count). */
bool regions_release_one(client_t *client);

#endif
