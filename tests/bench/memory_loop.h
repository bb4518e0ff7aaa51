/* The loop that moves what memory_limit measures, and the threads that run it, one per core. Apart from what
 * is measured with it: this half is the machine's, the other half the collectives'. */
#ifndef MEMORY_LOOP_H
#define MEMORY_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_RANKS_MAX   16
#define LOOP_THREADS_MAX 64
#define LOOP_LINE_COUNT  ((size_t)16) /* float32 elements of a cache line */

/** Each destination gets source[0] + source[1] + …, element by element. All begin at a cache line; count is a
 * multiple of LOOP_LINE_COUNT. */
typedef struct loop_sum {
    uint32_t source_count, destination_count;
    size_t count;
    const float *source[LOOP_RANKS_MAX];
    float *destination[LOOP_RANKS_MAX];
} loop_sum_t;

/** One way of doing it: stores that go through the caches or round them, and how threads share the work. */
typedef struct loop_way {
    const char *name;
    bool streams;
    size_t block_count; /* elements that a thread takes in turn with the others; 0: one share of each sum */
} loop_way_t;

extern const loop_way_t loop_ways[];
extern const size_t loop_way_count;

/** The threads and what they work on. The caller fills in the sums between rounds. */
typedef struct loop_team {
    uint32_t thread_count;
    size_t core[LOOP_THREADS_MAX];
    pthread_t thread[LOOP_THREADS_MAX];
    uint32_t sum_count;
    loop_sum_t sums[LOOP_RANKS_MAX * LOOP_RANKS_MAX];
    const loop_way_t *way; /* NULL: end */
    _Alignas(64) atomic_uint round;
    _Alignas(64) atomic_uint finished;
} loop_team_t;

/** Starts a thread on each core that the process may use but the first, and binds the caller to that. `team`
 * is zeroed. False, with errno and without threads, if one would not start. */
bool loop_team_start(loop_team_t *team);

/** Does all sums once; returns how long that took. */
double loop_team_run_us(loop_team_t *team, const loop_way_t *way);

/** Ends and joins the threads. */
void loop_team_stop(loop_team_t *team);

#endif
