/*
 * Landings in memory of GPUs. A landing's memory, which is the host's, may have a *twin* of the same layout
 * in memory of a GPU, where the GPU reads all that comes: the peer's device writes there, and this host's
 * device copies there what came to the host's memory as messages. With the turn.
 */
#ifndef BLINK_DATA_TWIN_H
#define BLINK_DATA_TWIN_H

#include "net/data/transport.h"

typedef struct twin {
    device_memory_t *memory;        /* NULL: there is none */
    uint64_t offset, bytes;         /* in it */
    void *reach;                    /* how devices reach it */
    const transport_calls_t *calls; /* by which they do, also when that transport is gone */
    data_keys_t keys;               /* by which the peer's device may write there */
} twin_t;

/* False: it cannot be made. */
bool twin_make(twin_t *twin, device_memory_t *memory, uint64_t bytes, transport_t *transport);

/* Whether there is one there that devices reach. */
static inline bool twin_is_in(const twin_t *twin, const device_memory_t *memory)
{
    return twin->memory == memory && twin->calls->reaches(twin->reach);
}

/* Nothing if there is none. */
void twin_end(twin_t *twin);

/* Where GPUs find it, and the peer's device. */
static inline uint64_t twin_address(const twin_t *twin)
{
    return device_memory_address(twin->memory) + twin->offset;
}

#endif
