/*
 * The staging memory of one context. An arena is one staging region; it has STAGING_WINDOWS windows in
 * its first page and slots behind, and stays until the context is closed. Arenas of communicators on GPUs are
 * reached by GPUs, and pinned where this process has a driver.
 */
#ifndef CLIENT_ARENA_H
#define CLIENT_ARENA_H

#include "submit/connection.h"
#include "submit/transfer.h"

typedef struct arena {
    list_t of_arenas;
    char *base; /* STAGING_WINDOWS windows, then data */
    uint64_t bytes;
    uint32_t region;
    bool on_gpus;          /* GPUs reach it */
    struct gpu *pinned_by; /* NULL: by none */
    uint64_t address;      /* of `base` for streams, if pinned */
    uint32_t free_windows; /* one bit each */
    list_t in_use;         /* transfers, by offset */
    staging_transfer_t transfers[STAGING_WINDOWS];
} arena_t;

typedef struct arenas {
    connection_t *connection;
    pthread_mutex_t lock;      /* for the list, the arenas and, once submitted, the transfers */
    pthread_mutex_t grow_lock; /* to ask for another arena; taken first */
    list_t list;
} arenas_t;

void arenas_init(arenas_t *arenas, connection_t *connection);

/** Unmap and forget everything. No thread uses it any more. */
void arenas_fini(arenas_t *arenas);

/** What a transfer needs of its arena. */
typedef struct arena_need {
    uint64_t bytes;
    bool on_gpus, pinned;
    struct gpu *gpu; /* that a new arena is pinned by; may be NULL */
} arena_need_t;

/** Take a window and bytes of slots, of a new arena if there are none. Errors: those of staging_region_map(),
 * of gpu_pin(), NO_MEMORY. */
blink_result_t arenas_take(arenas_t *arenas, const arena_need_t *need, staging_transfer_t **transfer);

/** Make an arena of the usual size, pinned by a GPU, unless there is one. Errors: as arenas_take(). */
blink_result_t arenas_prepare(arenas_t *arenas, struct gpu *gpu);

/** Give a transfer's window and slots back. Under the lock. */
void arena_give(staging_transfer_t *transfer);

#endif
