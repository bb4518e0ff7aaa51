/*
 * A memory that is as weak as that of GPUs where a protocol could notice, and threads of real code that run
 * over it through all that they may see.
 *
 * Memory. A location keeps all that was ever stored to it, in order. A thread knows of each location how far
 * it has seen for sure, and a load of the strong kind may return that or anything newer: so stores to
 * different locations become visible in any order, and later to one thread than to another. A store that
 * releases hands all that its thread knows to whoever acquires it. Threads of a block that meet at a barrier
 * know afterwards what any of them knew. What this memory does not have are loads that see what is stored
 * only after a later store of their own thread; instead, a store is wrong if it takes away what another
 * thread has read and used, unless that thread's release was acquired before.
 *
 * Weak loads and stores are wrong if they race: what a weak load returns has to be the last value, known for
 * sure, and a weak store has to come after all that others stored and read there. So they need not be steps.
 *
 * Aliases. A place may be accessed by a second address. Accesses by one and by the other come after each
 * other only where a fence between aliases is on the way: they race, otherwise.
 *
 * States. A thread's local state follows from what it has read, as in explore.h; but behind a barrier of its
 * block it must not know anything of what it read before, except what lies in the block's memory. A wait is
 * entered into the state once, however often it looks in vain, and goes on when there is news.
 */
#ifndef VIEWS_H
#define VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VIEWS_THREADS_MAX   8u
#define VIEWS_BLOCKS_MAX    4u
#define VIEWS_LOCATIONS_MAX 96u
#define VIEWS_LINE_WORDS    4u
#define VIEWS_MEMORY_BYTES  4096u

/* What the memory and the barriers are robbed of. */
typedef enum views_robbery {
    VIEWS_WHOLE,
    VIEWS_RELEASES_NOTHING,   /* stores that release are only strong, and so … */
    VIEWS_ACQUIRES_NOTHING,   /* … are loads that acquire */
    VIEWS_COUNTS_UNFENCED,    /* the count of blocks that have ended orders nothing */
    VIEWS_BARRIERS_UNORDERED, /* who meets at a barrier learns nothing of the others' memory */
    VIEWS_VOTES_ALONE,        /* a vote of a block returns what the thread itself has said … */
    VIEWS_WARP_VOTES_ALONE,   /* … and so does a vote of a warp */
    VIEWS_LINES_TORN,         /* a line does not arrive whole */
    VIEWS_ALIASES_UNFENCED,   /* a fence between aliases does nothing */
} views_robbery_t;

/** What is walked through. */
typedef struct views_scenario {
    void (*set_up)(void); /* fill the memory and say what is where: views_word() */
    uint32_t block_count, block_threads;
    void (*block_main)(uint32_t block);
    void (*host_main)(void); /* a thread of its own, beside the blocks */
    void *block_memory; /* what the threads of a block share besides; each block has its own, of so … */
    size_t block_bytes; /* … many bytes */
    views_robbery_t robbery;
    const char *robbed; /* of stores that release: only those to words of this name; NULL: all */
} views_scenario_t;

typedef struct views_result {
    uint64_t states, runs, ends;
    const char *wrong;     /* NULL: nothing. The walk ended there */
    char trace[64u << 10]; /* how that came, a line for each step */
} views_result_t;

/** Go through all states, or up to the first that is wrong. */
void views_walk(const views_scenario_t *scenario, views_result_t *result);

/* ---- set-up ---- */

/** All that threads share, but for what no thread writes. */
extern uint64_t views_memory[VIEWS_MEMORY_BYTES / 8];

/** The word of so many bytes at `address` is a location; it begins as it is in memory, and there will be so
 * many stores to it, or fewer. */
void views_word(const char *name, uint32_t number, uint64_t address, uint32_t bytes, uint32_t stores);

/** The location's second value is there from the beginning: anybody may see it at any time, or not yet. */
void views_may_become(uint64_t address, uint64_t value);

/** Whatever is stored there must be this. Such places come first of all. The code stores there by itself,
 * too, which a thread's next operation notices. */
void views_expect(uint64_t address, uint64_t value);

/* ---- what threads do ---- */

uint32_t views_thread(void); /* number of the running thread in its block */

uint64_t views_load(uint64_t address);
void views_store(uint64_t address, uint64_t value);
uint64_t views_load_acquire(uint64_t address);
void views_store_release(uint64_t address, uint64_t value);
uint64_t views_load_weak(uint64_t address);
void views_store_weak(uint64_t address, uint64_t value);

/** Weak accesses by the place's second address, of which `address` is the first. */
uint64_t views_load_alias(uint64_t address);
void views_store_alias(uint64_t address, uint64_t value);

/** What the thread knows of comes before what it does from now on, by either address. */
void views_fence_aliases(void);

/** What was loaded last from there is used, and must not be taken away. */
void views_use(uint64_t address);

/** Both words of a thread's share in a line of VIEWS_LINE_WORDS, all of which the threads of its warp load,
 * and store, at once. A line whose last word is `awaited` is used. */
void views_load_line(uint64_t line, uint32_t share, uint64_t words[2], uint64_t awaited);
void views_store_line(uint64_t line, uint32_t share, const uint64_t words[2]);

/** Add 1 atomically, acquiring and releasing. Returns what was there. */
uint64_t views_count(uint64_t address);

/** All threads of the block wait for each other, and learn whether `mine` is true in any of them. `kind`
 * must be the same in all. */
bool views_meet(const char *kind, bool mine);

/** After a look in vain; `first`: of this wait. */
void views_pause(bool first);

/** From any thread. */
void views_fail(const char *what);

#ifdef __cplusplus
}
#endif
#endif
