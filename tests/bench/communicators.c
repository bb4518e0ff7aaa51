/*
 * What communicators cost: the time to make one, the daemon's memory for each, and whether many at once carry
 * as much as one. Ranks are processes; the daemon is the one at BLINK_SOCKET, or each rank's the one of its
 * place in BLINK_SOCKETS, a list with commas between them.
 *
 *   communicators [RANKS [COMMS [DAEMON-PID]]]     default 8 1000; 10,000 need raised limits in blinkd.conf
 */
#include <blink/blink.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY         100u
#define ROUNDS       7u
#define OPS_PER_SIZE 1000u

/* Shared by the ranks: rank 0 prints, the others keep step through collectives. */
typedef struct bench {
    uint32_t ranks, comms;
    long daemon_pid;
    blink_unique_id_t *ids;
    blink_context_t *context;
    blink_comm_t **made;
    char *memory;
    uint32_t rank;
} bench_t;

static void must(blink_result_t result, const char *what)
{
    if (result == BLINK_OK)
        return;
    fprintf(stderr, "communicators: %s: %s\n", what, blink_last_error());
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

/* KiB of the daemon that are in memory and its own; 0 if that cannot be known. */
static long daemon_kib(const bench_t *bench)
{
    char path[64], line[128];
    long kib = 0;
    snprintf(path, sizeof(path), "/proc/%ld/status", bench->daemon_pid);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof(line), status))
        sscanf(line, "RssAnon: %ld", &kib);
    if (status)
        fclose(status);
    return kib;
}

/* Those that the daemon has open; 0 if that cannot be known. */
static long daemon_descriptors(const bench_t *bench)
{
    char path[64];
    long count = 0;
    snprintf(path, sizeof(path), "/proc/%ld/fd", bench->daemon_pid);
    DIR *open_ones = opendir(path);
    while (open_ones && readdir(open_ones))
        count++;
    if (open_ones)
        closedir(open_ones);
    return count;
}

/* The rank's own daemon; NULL: the one that BLINK_SOCKET names. */
static const char *socket_of(uint32_t rank)
{
    const char *listed = getenv("BLINK_SOCKETS");
    char *at = listed ? strdup(listed) : NULL, *socket = at ? strsep(&at, ",") : NULL;
    while (at && rank-- > 0)
        socket = strsep(&at, ",");
    return socket;
}

static void open_context(bench_t *bench)
{
    must(blink_open(socket_of(bench->rank), &bench->context), "open");
}

static void barrier(bench_t *bench)
{
    blink_op_t *op;
    must(blink_barrier(bench->made[0], &op), "barrier");
    must(blink_wait(op), "barrier");
}

/* ---- making ---- */

static void make_comms(bench_t *bench)
{
    double *times_us = calloc(bench->comms, sizeof(*times_us));
    long before_kib = 0, before_descriptors = 0;
    for (uint32_t i = 0; i < bench->comms; i++) {
        if (i == 1) {
            before_kib = daemon_kib(bench);
            before_descriptors = daemon_descriptors(bench);
        }
        if (i > 0)
            barrier(bench);
        double start_us = now_us();
        must(blink_comm_init_rank(bench->context, &bench->ids[i], (int)bench->ranks, (int)bench->rank, NULL,
                                  &bench->made[i]),
             "comm_init_rank");
        times_us[i] = now_us() - start_us;
    }
    long kib = daemon_kib(bench) - before_kib;
    if (bench->rank == 0 && bench->comms > 1) {
        printf("%u communicators of %u ranks: %.0f us each (median)", bench->comms, bench->ranks,
               median(times_us + 1, bench->comms - 1));
        if (bench->daemon_pid > 0)
            printf(", %.1f KiB and %.2f descriptors of the daemon each", (double)kib / (bench->comms - 1),
                   (double)(daemon_descriptors(bench) - before_descriptors) / (bench->comms - 1));
        putchar('\n');
        fflush(stdout);
    }
    free(times_us);
}

/* Every communicator is used once: so its first op is part of what it costs. */
static void use_all(bench_t *bench)
{
    long before_kib = daemon_kib(bench);
    for (uint32_t i = 0; i < bench->comms; i++) {
        blink_op_t *op;
        must(blink_all_reduce(bench->memory, bench->memory, 4, BLINK_INT32, BLINK_SUM, bench->made[i], &op),
             "all_reduce");
        must(blink_wait(op), "all_reduce");
    }
    if (bench->rank == 0 && bench->daemon_pid > 0)
        printf("each used once: %.1f KiB more each\n",
               (double)(daemon_kib(bench) - before_kib) / bench->comms);
}

/* ---- one against many ---- */

/* Ops of `bytes`, MANY under way at a time, over the first `comms` communicators in turn; per op. */
static double run_ops(bench_t *bench, uint32_t comms, size_t bytes)
{
    static blink_op_t *ops[MANY];
    uint32_t total = bytes > 65536 ? OPS_PER_SIZE / 5 : OPS_PER_SIZE;
    barrier(bench);
    double start_us = now_us();
    for (uint32_t i = 0; i < total; i++) {
        if (i >= MANY)
            must(blink_wait(ops[i % MANY]), "all_reduce");
        char *memory = bench->memory + i % MANY * bytes;
        must(blink_all_reduce(memory, memory, bytes / 4, BLINK_FLOAT32, BLINK_SUM, bench->made[i % comms],
                              &ops[i % MANY]),
             "all_reduce");
    }
    for (uint32_t i = total; i < total + MANY; i++)
        must(blink_wait(ops[i % MANY]), "all_reduce");
    return (now_us() - start_us) / total;
}

static void compare_one_with_many(bench_t *bench, size_t bytes)
{
    double one_us[ROUNDS], many_us[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        one_us[round] = run_ops(bench, 1, bytes);
        many_us[round] = run_ops(bench, MANY, bytes);
    }
    if (bench->rank != 0)
        return;
    double one = median(one_us, ROUNDS), many = median(many_us, ROUNDS);
    printf("%8zu bytes: %8.1f us an op on one communicator, %8.1f us on %u at once: %.2f of the throughput\n",
           bytes, one, many, MANY, one / many);
    fflush(stdout);
}

static void play(bench_t *bench)
{
    static const size_t sizes[] = {8, 4096, 65536, 1u << 20};
    void *memory;
    open_context(bench);
    bench->made = calloc(bench->comms, sizeof(*bench->made));
    must(blink_mem_alloc(bench->context, MANY << 20, &memory), "mem_alloc");
    bench->memory = memory;
    make_comms(bench);
    use_all(bench);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && bench->comms >= MANY; i++)
        compare_one_with_many(bench, sizes[i]);
    /* Who just went would be missed by ranks on other hosts, whose last op may end a little later. */
    for (uint32_t i = 0; i < bench->comms; i++)
        must(blink_comm_destroy(bench->made[i]), "comm_destroy");
    blink_close(bench->context);
}

int main(int argc, char **argv)
{
    bench_t bench = {.ranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 8,
                     .comms = argc > 2 ? (uint32_t)atoi(argv[2]) : 1000,
                     .daemon_pid = argc > 3 ? atol(argv[3]) : 0};
    int failed = 0;
    if (bench.ranks == 0 || bench.comms == 0) {
        fprintf(stderr, "usage: communicators [RANKS [COMMS [DAEMON-PID]]]\n");
        return 2;
    }
    bench.ids = calloc(bench.comms, sizeof(*bench.ids));
    open_context(&bench);
    for (uint32_t i = 0; i < bench.comms; i++)
        must(blink_get_unique_id(bench.context, &bench.ids[i]), "get_unique_id");
    blink_close(bench.context);
    for (bench.rank = 0; bench.rank < bench.ranks; bench.rank++) {
        if (fork() == 0) {
            play(&bench);
            return 0;
        }
    }
    for (uint32_t i = 0; i < bench.ranks; i++) {
        int status;
        failed += wait(&status) < 0 || status != 0;
    }
    free(bench.ids);
    return failed > 0;
}
