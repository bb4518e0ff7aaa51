/*
 * Memory of landings. What one op gives back the next one takes, since pages that are new cost more than what
 * lands in them; what nobody takes for a while goes back to the system. One thread at a time.
 */
#ifndef BLINK_DATA_POOL_H
#define BLINK_DATA_POOL_H

#include "base/list.h"
#include "net/flow/landing.h"

typedef struct pool {
    list_t blocks;       /* free ones, the one given back last at the end */
    uint64_t free_bytes; /* of these */
} pool_t;

void pool_init(pool_t *pool);

/* All memory has been given back. */
void pool_fini(pool_t *pool);

/* Takes and gives from the pool; aligned to LANE_LANDING_ALIGNMENT. Errors of take: NO_MEMORY. */
landing_memory_t pool_memory(pool_t *pool);

/* Give the system what has been free for long. Returns whether anything is still free. */
bool pool_trim(pool_t *pool, uint64_t now_ns);

#endif
