/*
 * Turns between the worker's main thread and its run thread. A run's launches are not made at one moment, and
 * what has been launched waits for what has not. The main thread's calls about memory may wait for the GPUs,
 * and nobody says which locks the driver holds meanwhile: were one of them needed for the launches that lack,
 * neither would come to an end. So launches and these calls are never under way at the same time. Turns are
 * taken in the order in which they were drawn: neither thread keeps the other out.
 */
#ifndef BLINK_WORKER_TURNS_H
#define BLINK_WORKER_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct worker_turns {
    _Atomic uint32_t drawn, serving;
} worker_turns_t;

#define WORKER_TURN_NAP_NS 10000

static inline uint32_t worker_turn_draw(worker_turns_t *turns)
{
    /* Relaxed: it only orders the drawing itself. */
    return atomic_fetch_add_explicit(&turns->drawn, 1, memory_order_relaxed);
}

/* Whether it is this one's turn: then worker_turn_end() must follow. */
static inline bool worker_turn_has_come(worker_turns_t *turns, uint32_t turn)
{
    /* Acquire: pairs with worker_turn_end(). */
    return atomic_load_explicit(&turns->serving, memory_order_acquire) == turn;
}

static inline void worker_turn_end(worker_turns_t *turns)
{
    /* Release: pairs with worker_turn_has_come(). */
    atomic_fetch_add_explicit(&turns->serving, 1, memory_order_release);
}

/* Draw one and wait for it, which takes as long as some launches. */
static inline void worker_turn_await(worker_turns_t *turns)
{
    const uint32_t turn = worker_turn_draw(turns);
    while (!worker_turn_has_come(turns, turn))
        nanosleep(&(struct timespec){.tv_nsec = WORKER_TURN_NAP_NS}, NULL);
}

#endif
