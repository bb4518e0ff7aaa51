/*
 * Waiting for semaphores and raising them. A lane that must wait parks on the semaphore, and whoever raises
 * it takes the lane up again.
 */
#ifndef BLINK_EXEC_SEMAPHORE_H
#define BLINK_EXEC_SEMAPHORE_H

#include "exec/host/instance.h"

/* The value a wait for this chunk needs; 0: none. */
static inline uint64_t semaphore_needed(const host_instance_t *instance, const lane_wait_t *wait,
                                        uint32_t chunk)
{
    uint64_t after = (uint64_t)chunk + 1;
    if (wait->kind == LANE_FULL)
        return after;
    return after > instance->base.geometry.slots ? after - instance->base.geometry.slots : 0;
}

static inline bool semaphore_blocks(const host_instance_t *instance, const lane_wait_t *wait, uint32_t chunk)
{
    const exec_semaphore_t *semaphore = &instance->semaphores[wait->semaphore];
    /* Acquire: pairs with the store in semaphore_raise(); what was written before it may be read. */
    return !semaphore->in_data && atomic_load_explicit(&semaphore->value, memory_order_acquire) <
                                      semaphore_needed(instance, wait, chunk);
}

/* Paced: when what the wait for this chunk needs is visible, now that it does not block; 0: it needs nothing.
 */
static inline uint64_t semaphore_due_ns(const host_instance_t *instance, const lane_wait_t *wait,
                                        uint32_t chunk)
{
    uint64_t needed = semaphore_needed(instance, wait, chunk);
    return needed > 0 ? instance->semaphores[wait->semaphore].due_ns[needed - 1] : 0;
}

/* Park the waiting lane. True if another thread takes it up from now on; false if it goes on after all. */
static inline bool semaphore_park(host_instance_t *instance, const lane_wait_t *wait, uint32_t chunk)
{
    exec_semaphore_t *semaphore = &instance->semaphores[wait->semaphore];
    uint64_t needed = semaphore_needed(instance, wait, chunk);
    /* This store and the loads after it pair with semaphore_raise() and host_instance_abort(), which store
     * first and look at `parked` then: in the one order of these operations one side sees what the other has
     * stored. */
    atomic_store_explicit(&semaphore->parked, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&semaphore->value, memory_order_seq_cst) < needed &&
        atomic_load_explicit(&instance->abort_reason, memory_order_seq_cst) == BLINK_OK)
        return true;
    return atomic_exchange_explicit(&semaphore->parked, 0, memory_order_seq_cst) == 0;
}

/* Store the value of a semaphore after this chunk. Returns the lane that was parked on it, which the caller
 * must take up; PLAN_NONE if there was none. */
static inline uint32_t semaphore_raise(host_instance_t *instance, uint32_t index, uint32_t chunk,
                                       uint64_t due_ns)
{
    exec_semaphore_t *semaphore = &instance->semaphores[index];
    if (semaphore->waiter == PLAN_NONE || semaphore->in_data)
        return PLAN_NONE;
    if (instance->exec->config.pace)
        semaphore->due_ns[chunk] = due_ns;
    /* Pairs with the load in semaphore_blocks() and, together with the look at `parked`, with
     * semaphore_park(). */
    atomic_store_explicit(&semaphore->value, (uint64_t)chunk + 1, memory_order_seq_cst);
    if (atomic_load_explicit(&semaphore->parked, memory_order_seq_cst) == 1 &&
        atomic_exchange_explicit(&semaphore->parked, 0, memory_order_seq_cst) == 1)
        return semaphore->waiter;
    return PLAN_NONE;
}

#endif
