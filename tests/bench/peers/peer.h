/* What the drivers of the other libraries have in common, so that they differ in nothing but the library:
 * command line, data and its check, statistics and the line printed. Valid C and C++. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PEER_HUGE_PAGE_BYTES ((size_t)2 << 20)

typedef enum peer_collective {
    PEER_ALLREDUCE,
    PEER_BROADCAST,
    PEER_ALLGATHER,
    PEER_REDUCESCATTER,
    PEER_ALLTOALL,
    PEER_COLLECTIVES
} peer_collective_t;

/* One collective at one size. Payload as nccl-tests counts it: a whole buffer, or all blocks of one. */
typedef struct peer_job {
    peer_collective_t collective;
    int rank, ranks;
    size_t count; /* float32 elements of the payload */
    size_t block; /* of one rank's block */
    float *input; /* a broadcast works on `output` alone */
    float *output;
} peer_job_t;

/* What the command line asks for: COLLECTIVE ITERATIONS WARMUP ordinary|huge BYTES… */
typedef struct peer_wish {
    peer_collective_t collective;
    int iterations, warmup;
    bool huge; /* wish for huge pages */
    int size_count;
    char **sizes;
} peer_wish_t;

static inline const char *peer_name(peer_collective_t collective)
{
    static const char *const names[] = {"allreduce", "broadcast", "allgather", "reducescatter", "alltoall"};
    return names[collective];
}

static inline bool peer_parse(int word_count, char **words, peer_wish_t *wish)
{
    if (word_count < 5)
        return false;
    int collective = 0;
    while (collective < PEER_COLLECTIVES && strcmp(words[0], peer_name((peer_collective_t)collective)) != 0)
        collective++;
    wish->collective = (peer_collective_t)collective;
    wish->iterations = atoi(words[1]);
    wish->warmup = atoi(words[2]);
    wish->huge = strcmp(words[3], "huge") == 0;
    wish->size_count = word_count - 4;
    wish->sizes = words + 4;
    return collective < PEER_COLLECTIVES && wish->iterations > 0 && wish->warmup > 0 &&
           (wish->huge || strcmp(words[3], "ordinary") == 0);
}

static inline float peer_input(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 101);
}

static inline float *peer_alloc(size_t bytes, bool huge)
{
    size_t pages = (bytes + PEER_HUGE_PAGE_BYTES - 1) / PEER_HUGE_PAGE_BYTES * PEER_HUGE_PAGE_BYTES;
    float *memory = (float *)aligned_alloc(PEER_HUGE_PAGE_BYTES, pages);
    if (memory)
        (void)madvise(memory, pages, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

/* False if there is no memory, or if the bytes are not one block for each rank. */
static inline bool peer_open(peer_job_t *job, const peer_wish_t *wish, int rank, int ranks, const char *size)
{
    const peer_collective_t collective = wish->collective;
    size_t bytes = strtoull(size, NULL, 10), count = bytes / sizeof(float);
    bool blocks = collective != PEER_ALLREDUCE && collective != PEER_BROADCAST;
    job->collective = collective;
    job->rank = rank;
    job->ranks = ranks;
    job->count = count;
    job->block = blocks ? count / (size_t)ranks : count;
    job->input = peer_alloc(bytes, wish->huge);
    job->output = peer_alloc(bytes, wish->huge);
    if (!job->input || !job->output || count == 0 || (blocks && count % (size_t)ranks != 0))
        return false;
    for (size_t i = 0; i < count; i++)
        job->input[i] = peer_input(rank, i);
    memset(job->output, 0xff, bytes);
    if (collective == PEER_BROADCAST && rank == 0)
        memcpy(job->output, job->input, bytes);
    return true;
}

static inline void peer_close(peer_job_t *job)
{
    free(job->input);
    free(job->output);
}

/* What element i of this rank's output must be; the sums are exact. */
static inline float peer_expected(const peer_job_t *job, size_t i)
{
    size_t at = job->collective == PEER_REDUCESCATTER ? (size_t)job->rank * job->block + i : i;
    float sum = 0;
    switch (job->collective) {
    case PEER_BROADCAST:
        return peer_input(0, i);
    case PEER_ALLGATHER:
        return peer_input((int)(i / job->block), i % job->block);
    case PEER_ALLTOALL:
        return peer_input((int)(i / job->block), (size_t)job->rank * job->block + i % job->block);
    default:
        for (int source = 0; source < job->ranks; source++)
            sum += peer_input(source, at);
        return sum;
    }
}

static inline bool peer_check(const peer_job_t *job)
{
    size_t written = job->collective == PEER_REDUCESCATTER ? job->block : job->count;
    for (size_t i = 0; i < written; i++)
        if (job->output[i] != peer_expected(job, i)) {
            fprintf(stderr, "%s, rank %d of %d, element %zu is %g, not %g\n", peer_name(job->collective),
                    job->rank, job->ranks, i, (double)job->output[i], (double)peer_expected(job, i));
            return false;
        }
    return true;
}

static inline double peer_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static inline int peer_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* `times_us` are the slowest rank's, by iteration; they get sorted. */
static inline void peer_print(const peer_job_t *job, double *times_us, int iterations)
{
    qsort(times_us, (size_t)iterations, sizeof(*times_us), peer_compare);
    double median_us = (times_us[(iterations - 1) / 2] + times_us[iterations / 2]) / 2;
    size_t bytes = job->count * sizeof(float);
    printf(
        "{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"time_us\": %.3f, \"time_us_min\": %.3f, "
        "\"algbw_GBps\": %.6f}\n",
        peer_name(job->collective), job->ranks, bytes, median_us, times_us[0],
        (double)bytes / median_us * 1e-3);
    fflush(stdout);
}

#endif
