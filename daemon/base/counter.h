/*
 * Counters of one writer that any thread may read. Each is right by itself, hence relaxed.
 */
#ifndef BLINK_COUNTER_H
#define BLINK_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

/* The one writer's. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t amount)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + amount, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
