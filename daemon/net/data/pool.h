/*
 * Memory of landings. What one op gives back the next one takes, since pages that are new cost more than what
 * lands in them; what nobody takes for a while goes back to the system. One thread at a time.
 */
#ifndef BLINK_DATA_POOL_H
#define BLINK_DATA_POOL_H

#include "base/list.h"
#include "base/pages.h"
#include "net/data/data.h"
#include "net/data/twin.h"
#include "net/flow/landing.h"

/* How memory is shown to a device of somebody else's: as transport_calls_t has it. */
typedef struct pool_showing {
    void *(*show)(void *context, void *memory, uint64_t bytes, data_keys_t *keys);
    void (*hide)(void *shown);
    bool (*shows)(const void *shown);
    void *context;
} pool_showing_t;

typedef struct pool {
    list_t blocks;       /* free ones, the one given back last at the end */
    uint64_t free_bytes; /* of these */
    uint64_t free_most_bytes;
    pages_source_t pages;
    pool_showing_t showing;
} pool_t;

/* Of what is free more than so much goes back to the system at once. `showing` NULL: its memory is shown to
 * nobody. */
void pool_init(pool_t *pool, uint64_t free_most_bytes, pages_source_t pages, const pool_showing_t *showing);

/* All memory has been given back. */
void pool_fini(pool_t *pool);

/* Aligned to LANE_LANDING_ALIGNMENT. It goes back to where it was taken from. Errors: NO_MEMORY. */
blink_result_t pool_take(pool_t *pool, uint64_t bytes, void **memory);
void pool_give(void *memory);

/* Show what was taken, and what its block has beyond it, but for the head, unless it is shown; it stays so
 * until it goes back to the system, or connections fail. False: it cannot be, and the keys are left alone. */
bool pool_show(void *memory, data_keys_t *keys);

/* The twin of what was taken, in memory of this GPU; it stays until the block goes back to the system, or is
 * to have another one. NULL: there cannot be one. */
const twin_t *pool_twin(void *memory, device_memory_t *device, transport_t *transport);

/* Give the system what has been free for long. */
void pool_trim(pool_t *pool, uint64_t now_ns);

#endif
