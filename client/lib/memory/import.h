/* One registration of GPU memory, and the way in which registrations end (release.c). */
#ifndef CLIENT_IMPORT_H
#define CLIENT_IMPORT_H

#include "gpu/pointer.h"
#include "memory/imports.h"

/** Registered memory: extents that adjoin. */
typedef struct gpu_import {
    uint32_t region; /* 0: it cannot be registered */
    CUdeviceptr start;
    size_t bytes;
    list_t link;                  /* once it has left the cache */
    list_t of_releasing;          /* while a thread releases it */
    connection_wait_t given_back; /* then: the daemon's answer */
    size_t extent_count;
    gpu_extent_t extents[];
} gpu_import_t;

/** Ask the daemon to give up a registration; given_back is to be awaited. */
void import_ask_back(imports_t *imports, gpu_import_t *import);

/** Give back what was freed, and wait until nothing of it is open any more: other memory that lies there now
 * may be registered. Under register_lock. */
void imports_sweep(imports_t *imports);

/** Free those that have left the cache. No thread uses the imports any more. */
void imports_free_leaving(imports_t *imports);

#endif
