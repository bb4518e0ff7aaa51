/*
 * A client's registered memory: checked, mapped, counted, and guarded against pages that cannot be had.
 *
 * A region's life: region_create() puts it on its client's list, it is mapped or imported, and
 * region_tell_engine() lets ops use it. A region that the engine does not know ends by region_discard(). One
 * that the engine knows leaves the list, and is uncounted and freed when engine_region_remove() is done.
 */
#ifndef BLINK_CONTROL_REGION_H
#define BLINK_CONTROL_REGION_H

#include "control/clients/client.h"

typedef struct region {
    control_t *control;
    client_t *client; /* NULL: gone, while the import was pending */
    list_t link;      /* on client->regions */
    uint32_t number;
    engine_region_kind_t kind;
    void *map; /* NULL: on a GPU */
    uint64_t bytes;
    uint64_t request;   /* whose answer waits for the engine, or for the GPU worker */
    uint64_t gpu_token; /* of what the GPU worker has of the region; 0: nothing */
    bool pending;       /* the GPU worker has not answered yet; the engine does not know the region */
    int fd; /* of the memory, while a GPU or the client of a staging region is to map it too; else -1 */
    uint64_t offset_bytes;        /* where the region begins in the memory of fd */
    const _Atomic bool *poisoned; /* on the host */
    _Atomic bool lost;            /* on a GPU: the worker that had the memory is gone */
} region_t;

/* A region with its number, on its client's list and counted, without memory. Errors: QUOTA, NO_MEMORY. */
blink_result_t region_create(client_t *client, uint64_t bytes, engine_region_kind_t kind, region_t **region);

/* Undo region_create() and all that was done after it. The engine has not been told of the region. */
void region_discard(region_t *region);

/* The steps of a region's end, after it has left the list: stop counting it; free it with all mappings. */
void region_uncount(region_t *region);
void region_free(region_t *region);

/* The last step of a registration. Errors: NO_MEMORY. */
blink_result_t region_tell_engine(region_t *region, uint64_t gpu_address);

/* Check and map a client's memory; region_tell_engine() follows. Errors: INVALID_ARGUMENT (which property of
 * the descriptor does not hold), QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t region_register(client_t *client, int fd, uint64_t offset_bytes, uint64_t bytes,
                               region_t **region);

/* Make and map a staging region (windows.h) of either kind; region_tell_engine() follows. Errors:
 * INVALID_ARGUMENT, EXISTS, QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t region_create_staging(client_t *client, uint64_t bytes, engine_region_kind_t kind,
                                     region_t **region);

/* Serve the request; it is answered now or, once the engine has let go of the region, later. */
void region_deregister(client_t *client, uint64_t request, uint32_t number);

/* The client is going: the engine will not be told of regions whose import is still pending. */
void regions_leave_pending(client_t *client);

/* Unmap everything; the engine has forgotten the client. */
void regions_release_all(client_t *client);

/* From now on a page that cannot be had (the client punched it out and memory is short) reads as zeros
 * instead of ending the daemon; ops that use the page's region then fail. Once per process. Errors: SYSTEM.
 */
blink_result_t region_install_sigbus_handler(void);

#endif
