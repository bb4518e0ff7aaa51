/* The loop: the sums as unrolled, vectorised code for several processors, dealt to threads that wait for one
 * another with their cores kept. */
#include "memory_loop.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define SPINS_TO_YIELD 4096

/* Only x86 is compiled several times over here; other compilers take what they are told to build for. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

const loop_way_t loop_ways[] = {
    {"plain, shares", false, 0},    {"plain, 16 KiB", false, 4096},    {"plain, 64 KiB", false, 16384},
#if defined(__SSE2__)
    {"streaming, shares", true, 0}, {"streaming, 16 KiB", true, 4096}, {"streaming, 64 KiB", true, 16384},
#endif
};
const size_t loop_way_count = sizeof(loop_ways) / sizeof(loop_ways[0]);

typedef struct member {
    loop_team_t *team;
    uint32_t index;
} member_t;

/* The compiler makes it one, two or four of the processor's vectors. Left to find vectors in loops over
 * floats it came out five times slower for eight sources and one destination. */
typedef float line_t __attribute__((vector_size(LOOP_LINE_COUNT * sizeof(float)), may_alias));

ALWAYS_INLINE void store_line(float *to, const line_t *line, bool streams)
{
    if (!streams)
        *(line_t *)to = *line;
#if defined(__SSE2__)
    for (size_t i = 0; streams && i < LOOP_LINE_COUNT; i += 4)
        _mm_stream_ps(to + i,
                      _mm_load_ps((const float *)line + i)); /* four make one whole line in a write buffer */
#endif
}

ALWAYS_INLINE void add_lines(const loop_sum_t *sum, uint32_t m, uint32_t k, bool streams, size_t from,
                             size_t to)
{
    const float *source[LOOP_RANKS_MAX];
    float *destination[LOOP_RANKS_MAX];
    memcpy(source, sum->source, m * sizeof(source[0]));
    memcpy(destination, sum->destination, k * sizeof(destination[0]));
    for (size_t at = from; at < to; at += LOOP_LINE_COUNT) {
        line_t line = *(const line_t *)(source[0] + at);
        for (uint32_t s = 1; s < m; s++)
            line += *(const line_t *)(source[s] + at);
        for (uint32_t d = 0; d < k; d++)
            store_line(destination[d] + at, &line, streams);
    }
}

/* The counts of the usual collectives as constants, so that the loops over ranks are unrolled. */
ALWAYS_INLINE void add_unrolled(const loop_sum_t *sum, bool streams, size_t from, size_t to)
{
    const uint32_t m = sum->source_count, k = sum->destination_count;
    switch (m << 8 | k) {
    case 1 << 8 | 1:
        add_lines(sum, 1, 1, streams, from, to);
        break;
    case 1 << 8 | 2:
        add_lines(sum, 1, 2, streams, from, to);
        break;
    case 1 << 8 | 4:
        add_lines(sum, 1, 4, streams, from, to);
        break;
    case 1 << 8 | 8:
        add_lines(sum, 1, 8, streams, from, to);
        break;
    case 2 << 8 | 1:
        add_lines(sum, 2, 1, streams, from, to);
        break;
    case 4 << 8 | 1:
        add_lines(sum, 4, 1, streams, from, to);
        break;
    case 8 << 8 | 1:
        add_lines(sum, 8, 1, streams, from, to);
        break;
    case 2 << 8 | 2:
        add_lines(sum, 2, 2, streams, from, to);
        break;
    case 4 << 8 | 4:
        add_lines(sum, 4, 4, streams, from, to);
        break;
    case 8 << 8 | 8:
        add_lines(sum, 8, 8, streams, from, to);
        break;
    default:
        add_lines(sum, m, k, streams, from, to);
    }
}

FOR_EACH_CPU static void add_plainly(const loop_sum_t *sum, size_t from, size_t to)
{
    add_unrolled(sum, false, from, to);
}

FOR_EACH_CPU static void add_streaming(const loop_sum_t *sum, size_t from, size_t to)
{
    add_unrolled(sum, true, from, to);
}

static void add(const loop_sum_t *sum, bool streams, size_t from, size_t to)
{
    (streams ? add_streaming : add_plainly)(sum, from, to < sum->count ? to : sum->count);
}

static void work(const loop_team_t *team, uint32_t index)
{
    const loop_way_t *way = team->way;
    size_t turn = 0; /* blocks are dealt across sums, so that many small sums are shared evenly too */
    for (uint32_t s = 0; s < team->sum_count; s++) {
        const loop_sum_t *sum = &team->sums[s];
        size_t lines = sum->count / LOOP_LINE_COUNT;
        if (way->block_count == 0)
            add(sum, way->streams, lines * index / team->thread_count * LOOP_LINE_COUNT,
                lines * (index + 1) / team->thread_count * LOOP_LINE_COUNT);
        else
            for (size_t at = 0; at < sum->count; at += way->block_count)
                if (turn++ % team->thread_count == index)
                    add(sum, way->streams, at, at + way->block_count);
    }
#if defined(__SSE2__)
    _mm_sfence(); /* streamed lines are in memory before the others hear of it */
#endif
}

/* ---- threads, one per core ---- */

static void spin_until(atomic_uint *word, unsigned value)
{
    /* Acquire: pairs with the release that stored the value; what was written before it is seen. */
    for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) != value; spins++) {
        if (spins >= SPINS_TO_YIELD)
            sched_yield();
    }
}

static void bind_to(size_t core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
        fprintf(stderr, "memory_limit: core %zu refused; measuring unbound\n", core);
}

static void *run_member(void *argument)
{
    member_t member = *(member_t *)argument;
    free(argument);
    bind_to(member.team->core[member.index]);
    for (unsigned round = 1;; round++) {
        spin_until(&member.team->round, round);
        if (!member.team->way)
            return NULL;
        work(member.team, member.index);
        /* Release: pairs with the acquire in spin_until(&finished); the outputs are written. */
        atomic_fetch_add_explicit(&member.team->finished, 1, memory_order_release);
    }
}

static void release_team(loop_team_t *team, const loop_way_t *way)
{
    team->way = way;
    atomic_store_explicit(&team->finished, 0, memory_order_relaxed);
    /* Release: pairs with the acquire in spin_until(&round); way and sums are written. */
    atomic_fetch_add_explicit(&team->round, 1, memory_order_release);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

double loop_team_run_us(loop_team_t *team, const loop_way_t *way)
{
    double start_us = now_us();
    release_team(team, way);
    work(team, 0);
    spin_until(&team->finished, team->thread_count - 1);
    return now_us() - start_us;
}

void loop_team_stop(loop_team_t *team)
{
    release_team(team, NULL);
    for (uint32_t i = 1; i < team->thread_count; i++)
        pthread_join(team->thread[i], NULL);
}

bool loop_team_start(loop_team_t *team)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return false;
    uint32_t cores = 0;
    for (size_t core = 0; core < CPU_SETSIZE && cores < LOOP_THREADS_MAX; core++)
        if (CPU_ISSET(core, &allowed))
            team->core[cores++] = core;
    team->thread_count = 1;
    while (team->thread_count < cores) {
        member_t *member = malloc(sizeof(*member));
        if (!member)
            break;
        *member = (member_t){.team = team, .index = team->thread_count};
        if (pthread_create(&team->thread[member->index], NULL, run_member, member) != 0) {
            free(member);
            break;
        }
        team->thread_count++;
    }
    bind_to(team->core[0]);
    if (team->thread_count == cores)
        return true;
    loop_team_stop(team);
    return false;
}
