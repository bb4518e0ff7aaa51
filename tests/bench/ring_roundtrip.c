/* The floor under every op: the round trip of an empty submission through a ring, between two threads on two
 * cores that both spin. Prints nanoseconds: median and 99th percentile. */
#include "ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WARMUP_TRIPS 10000u
#define TRIPS        200000u

static void pin(size_t core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        perror("ring_roundtrip: pin"); /* the numbers are then worse, and still true */
}

static void *serve(void *argument)
{
    ring_t *ring = argument;
    ring_sqe_t sqe;
    pin(1);
    for (uint32_t served = 0; served < WARMUP_TRIPS + TRIPS;) {
        if (!ring_take(ring, &sqe))
            continue;
        ring_complete(ring, sqe.user_data, BLINK_OK, NULL);
        served++;
    }
    return NULL;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int main(void)
{
    ring_t engine, client;
    int memfd;
    pthread_t thread;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        fprintf(stderr, "ring_roundtrip: needs two processors\n");
        return 77;
    }
    int64_t *trips_ns = calloc(TRIPS, sizeof(*trips_ns));
    if (!trips_ns || ring_create(64, 64, &engine, &memfd) != BLINK_OK ||
        ring_attach(memfd, &client) != BLINK_OK || pthread_create(&thread, NULL, serve, &engine) != 0) {
        fprintf(stderr, "ring_roundtrip: %s\n", blink_error_text());
        free(trips_ns);
        return 1;
    }
    pin(0);
    const ring_sqe_t sqe = {.opcode = RING_OP_NOP};
    ring_cqe_t cqe;
    for (uint32_t i = 0; i < WARMUP_TRIPS + TRIPS; i++) {
        int64_t start = now_ns();
        ring_submit(&client, &sqe);
        while (!ring_reap(&client, &cqe))
            continue;
        if (i >= WARMUP_TRIPS)
            trips_ns[i - WARMUP_TRIPS] = now_ns() - start;
    }
    pthread_join(thread, NULL);
    qsort(trips_ns, TRIPS, sizeof(*trips_ns), compare);
    printf("ring round trip: median %lld ns, p99 %lld ns (%u trips)\n", (long long)trips_ns[TRIPS / 2],
           (long long)trips_ns[TRIPS - TRIPS / 100], TRIPS);
    free(trips_ns);
    ring_unmap(&client);
    ring_unmap(&engine);
    close(memfd);
    return 0;
}
