/*
 * The registered memory of one context: which pointer lies in which region of the daemon's.
 */
#ifndef CLIENT_REGIONS_H
#define CLIENT_REGIONS_H

#include "base/vec.h"
#include "gpu/gpu.h"
#include "submit/connection.h"
#include "submit/ops.h"

typedef struct region {
    char *start;
    size_t bytes;
    uint32_t number; /* the daemon's; 0 while it is being registered or deregistered */
    bool owned;      /* mapped by blink_mem_alloc() */
    bool on_gpus;    /* GPUs reach it */
} region_t;

typedef struct regions {
    connection_t *connection;
    ops_t *ops;
    gpus_t *gpus;
    pthread_rwlock_t lock;
    VEC(region_t) table; /* by address, not overlapping */
} regions_t;

void regions_init(regions_t *regions, connection_t *connection, ops_t *ops, gpus_t *gpus);

/** Unmap what is owned, and free the table. */
void regions_fini(regions_t *regions);

/** Enter a region (start, bytes, owned) and have the daemon map it from `fd` at an offset and number it.
 * Thread-safe. Errors: EXISTS (it overlaps another), PROTOCOL, NO_MEMORY, what the daemon answers. */
blink_result_t regions_add(regions_t *regions, const region_t *fresh, int fd, size_t offset_bytes);

/**
 * Take the region that starts here out of use, wait until the daemon has let go of it, and forget it.
 * Thread-safe.
 * @param region  what it was. The memory can be unmapped afterwards, whatever the result, unless that is
 *                NOT_REGISTERED: then its number is 0.
 * Errors: NOT_REGISTERED (no such region that is, or is not, `owned`), what the daemon answers.
 */
blink_result_t regions_remove(regions_t *regions, void *start, bool owned, region_t *region);

/**
 * Find the region that holds a buffer. Thread-safe.
 * @param what     "send" or "recv", for the sentence.
 * @param number   receives the region's number; 0 if the buffer begins in none.
 * @param on_gpus  receives whether GPUs reach it; may be NULL.
 * Errors: OUT_OF_RANGE (names the region's end and by how much the buffer passes it).
 */
blink_result_t regions_resolve(regions_t *regions, const char *what, const void *pointer, size_t bytes,
                               uint32_t *number, uint64_t *offset_bytes, bool *on_gpus);

#endif
