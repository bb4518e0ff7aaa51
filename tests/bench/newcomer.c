/*
 * What a newcomer waits for: a context, a communicator of two ranks (threads) and its first AllReduce, and
 * after that a few ops that are small and large. One JSON line per round; results are checked.
 *
 *   newcomer SOCKET ROUNDS DEVICE DEVICE
 */
#include <blink/blink.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGE_COUNT 262144u /* float32: 1 MiB */
#define SMALL_COUNT 2u
#define REPEATS     9u

/* One rank of one round. Rank 0 keeps the times. */
typedef struct rank {
    pthread_t thread;
    blink_context_t *context;
    const blink_unique_id_t *id;
    int number, device;
    float *memory;
    double init_ms, first_ms, small_us, large_us;
    size_t wrong;
} rank_t;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void must(blink_result_t result, const char *what)
{
    if (result == BLINK_OK)
        return;
    fprintf(stderr, "newcomer: %s: %s: %s\n", what, blink_result_name(result), blink_last_error());
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Microseconds of one AllReduce, in which rank r gives r + 1 everywhere. */
static double all_reduce_us(rank_t *rank, blink_comm_t *comm, size_t count)
{
    float *send = rank->memory, *recv = rank->memory + LARGE_COUNT;
    blink_op_t *op;
    memset(recv, 0, count * sizeof(float));
    double start_us = now_us();
    must(blink_all_reduce(send, recv, count, BLINK_FLOAT32, BLINK_SUM, comm, &op), "all_reduce");
    must(blink_wait(op), "wait");
    double took_us = now_us() - start_us;
    for (size_t i = 0; i < count; i++)
        rank->wrong += recv[i] < 2.5f || recv[i] > 3.5f;
    return took_us;
}

static double median_us(rank_t *rank, blink_comm_t *comm, size_t count)
{
    double took_us[REPEATS];
    for (unsigned i = 0; i < REPEATS; i++)
        took_us[i] = all_reduce_us(rank, comm, count);
    qsort(took_us, REPEATS, sizeof(took_us[0]), compare);
    return took_us[REPEATS / 2];
}

static void *run_rank(void *argument)
{
    rank_t *rank = argument;
    blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
    blink_comm_t *comm;
    void *memory;
    config.device = rank->device;
    double start_us = now_us();
    must(blink_comm_init_rank(rank->context, rank->id, 2, rank->number, &config, &comm), "comm_init_rank");
    rank->init_ms = (now_us() - start_us) / 1e3;
    must(blink_mem_alloc(rank->context, 2 * LARGE_COUNT * sizeof(float), &memory), "mem_alloc");
    rank->memory = memory;
    for (size_t i = 0; i < LARGE_COUNT; i++)
        rank->memory[i] = (float)(rank->number + 1);
    rank->first_ms = all_reduce_us(rank, comm, LARGE_COUNT) / 1e3;
    rank->small_us = median_us(rank, comm, SMALL_COUNT);
    rank->large_us = median_us(rank, comm, LARGE_COUNT);
    must(blink_comm_destroy(comm), "comm_destroy");
    must(blink_mem_free(rank->context, memory), "mem_free");
    return NULL;
}

static void run_round(const char *socket_path, const int devices[2])
{
    blink_context_t *context;
    blink_unique_id_t id;
    rank_t ranks[2];
    double start_us = now_us();
    must(blink_open(socket_path, &context), "open");
    double open_ms = (now_us() - start_us) / 1e3;
    must(blink_get_unique_id(context, &id), "get_unique_id");
    for (int i = 0; i < 2; i++) {
        ranks[i] = (rank_t){.context = context, .id = &id, .number = i, .device = devices[i]};
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
            abort();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(ranks[i].thread, NULL);
    blink_close(context);
    printf(
        "{\"open_ms\": %.3f, \"init_ms\": %.3f, \"first_ms\": %.3f, \"small_us\": %.1f, \"large_us\": %.1f, "
        "\"wrong\": %zu}\n",
        open_ms, ranks[0].init_ms, ranks[0].first_ms, ranks[0].small_us, ranks[0].large_us,
        ranks[0].wrong + ranks[1].wrong);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: newcomer SOCKET ROUNDS DEVICE DEVICE\n", stderr);
        return 2;
    }
    const int devices[2] = {(int)strtol(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10)};
    for (long round = strtol(argv[2], NULL, 10); round > 0; round--)
        run_round(argv[1], devices);
    return 0;
}
