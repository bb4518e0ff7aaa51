/*
 * An exhaustive scheduler. It runs a few threads of real code as coroutines through all interleavings of what
 * they do to shared words, and looks for an interleaving after which nobody can go on: a missed wake-up.
 *
 * Memory. Each thread has a store buffer, first in, first out, as on x86: a store or addition that is not
 * sequentially consistent enters the buffer, where only its own thread sees it, and reaches memory at some
 * later moment, of which all are tried. A sequentially consistent store or addition and a futex call first
 * empty the buffer; taking a lock does not. Loads happen in the order of the program. So code that needs a
 * store to come before a later load is caught if the store is too weak for that.
 *
 * States. A thread's local state follows from what it has read, so a state is the shared bytes, the buffers
 * and, for each thread, a hash of all that the thread has read. Of two ways to one state one is followed.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_THREADS_MAX 3u

/** What is explored. All that the threads share lies in `shared`, and begins as it is there. */
typedef struct scenario {
    void (*threads[EXPLORE_THREADS_MAX])(void *shared); /* NULL: there are fewer */
    void *shared;
    size_t shared_bytes;
} scenario_t;

typedef struct exploration {
    uint64_t states, runs;
    bool stuck;        /* in some interleaving somebody waits for ever; the exploration ended there */
    char trace[16384]; /* that interleaving, a line for each step */
} exploration_t;

/** Go through all interleavings, or up to the first that is stuck. */
void explore(const scenario_t *scenario, exploration_t *found);

/* ---- what threads do; `name` is for the trace ---- */

uint64_t explore_load(const char *name, const void *word, size_t bytes, memory_order order);
void explore_store(const char *name, void *word, size_t bytes, uint64_t value, memory_order order);

/** Returns what was there before. */
uint64_t explore_add(const char *name, void *word, size_t bytes, uint64_t value, memory_order order);

/** A step that waits until *word is not 0, or is 0; then *word becomes `then`, at once. What is in the buffer
 * stays there. Locks and events are made of it. */
void explore_await(const char *name, uint32_t *word, bool nonzero, uint32_t then);

/** What the thread has read so far is of no more use to it, but for `local`: it stands at a place of its code
 * that `local` names, together with the values of all that it still knows. */
void explore_forget(uint64_t local);

/** A futex. */
void explore_futex_wait(const void *word, uint32_t value);
void explore_futex_wake(const void *word);

#endif
