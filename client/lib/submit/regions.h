/*
 * The registered memory of one context: which pointer lies in which region of the daemon's. blink_mem_alloc()
 * and its siblings are implemented beside it.
 */
#ifndef CLIENT_REGIONS_H
#define CLIENT_REGIONS_H

#include "error.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct region {
    char *start;
    size_t bytes;
    uint32_t number; /* the daemon's; 0 while it is being registered or deregistered */
    bool owned;      /* mapped by blink_mem_alloc() */
    bool gpu;        /* GPUs reach it */
} region_t;

typedef struct regions {
    pthread_rwlock_t lock;
    region_t *items; /* by address, not overlapping */
    size_t count, capacity;
} regions_t;

void regions_init(regions_t *regions);

/** Unmap what blink_mem_alloc() mapped, and free the table. */
void regions_fini(regions_t *regions);

/**
 * Find the region that holds a buffer. Thread-safe.
 * @param what    "send" or "recv", for the sentence.
 * @param number  receives the region's number; 0 if the buffer begins in none.
 * @param gpu     receives whether GPUs reach it; may be NULL.
 * Errors: OUT_OF_RANGE (names the region's end and by how much the buffer passes it).
 */
blink_result_t regions_resolve(regions_t *regions, const char *what, const void *pointer, size_t bytes,
                               uint32_t *number, uint64_t *offset_bytes, bool *gpu);

#endif
