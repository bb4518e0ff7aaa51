/* The memory's limit, against which the host executor is measured: what one thread per core gets out of a
 * bare loop that reads every input once and writes every output once, with no ranks, steps or waits around
 * it. Every collective is a list of sums of m sources into k destinations. All ways of the loop are tried for
 * every size; the best is measured anew and printed. */
#include "memory_loop.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZES_MAX       16
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define TRIAL_BYTES     ((size_t)192 << 20) /* payload that a trial of one way moves, roughly */
#define TRIALS_MIN      5
#define TRIALS_MAX      50

typedef enum collective {
    ALLREDUCE,
    BROADCAST,
    ALLGATHER,
    REDUCESCATTER,
    ALLTOALL,
    COLLECTIVES
} collective_t;
static const char *const collective_names[] = {"allreduce", "broadcast", "allgather", "reducescatter",
                                               "alltoall"};

typedef struct options {
    bool wanted[COLLECTIVES];
    uint32_t size_count, ranks_count, iterations;
    size_t sizes[SIZES_MAX];
    size_t ranks[SIZES_MAX];
    bool json;
} options_t;

/* The memory of one rank. */
typedef struct memory {
    float *input, *output;
} memory_t;

/* ---- memory ---- */

/* Shared memory as the daemon has it: a memfd, in huge pages where the system grants them. */
static float *map_shared(size_t bytes)
{
    int fd = memfd_create("memory_limit", MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE_PAGE_BYTES)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish */
    return memory;
}

static float input_of(uint32_t rank, size_t i)
{
    return (float)((i * 7 + rank * 13) % 101);
}

static void unmap_all(memory_t *memory, uint32_t ranks, size_t bytes)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (memory[rank].input)
            munmap(memory[rank].input, bytes);
        if (memory[rank].output)
            munmap(memory[rank].output, bytes);
    }
}

/* Every page is touched here. */
static bool map_all(memory_t *memory, uint32_t ranks, size_t bytes)
{
    memset(memory, 0, ranks * sizeof(*memory));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        memory[rank].input = map_shared(bytes);
        memory[rank].output = map_shared(bytes);
        if (!memory[rank].input || !memory[rank].output) {
            fprintf(stderr, "memory_limit: %zu bytes of shared memory for rank %u: %s\n", bytes, rank,
                    strerror(errno));
            unmap_all(memory, ranks, bytes);
            return false;
        }
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            memory[rank].input[i] = input_of(rank, i);
        memset(memory[rank].output, 0xff, bytes);
    }
    return true;
}

/* ---- collectives as sums ---- */

static void add_source(loop_sum_t *sum, const float *from)
{
    sum->source[sum->source_count++] = from;
}

static void add_destination(loop_sum_t *sum, float *to)
{
    sum->destination[sum->destination_count++] = to;
}

static loop_sum_t *next_sum(loop_team_t *team, size_t count)
{
    loop_sum_t *sum = &team->sums[team->sum_count++];
    *sum = (loop_sum_t){.count = count};
    return sum;
}

/* All ranks' part of block b; in an alltoall, the one that rank b sends to every other. */
static void describe_block(loop_team_t *team, collective_t collective, const memory_t *memory, uint32_t n,
                           uint32_t b, size_t count)
{
    size_t offset = b * count;
    loop_sum_t *sum = collective == ALLTOALL ? NULL : next_sum(team, count);
    if (collective == ALLGATHER)
        add_source(sum, memory[b].input);
    if (collective == BROADCAST)
        add_source(sum, memory[0].input + offset);
    if (collective == REDUCESCATTER)
        add_destination(sum, memory[b].output);
    for (uint32_t rank = 0; rank < n; rank++) {
        if (collective == ALLTOALL) {
            sum = next_sum(team, count);
            add_source(sum, memory[b].input + rank * count);
        }
        if (collective == ALLREDUCE || collective == REDUCESCATTER)
            add_source(sum, memory[rank].input + offset);
        if (collective != REDUCESCATTER)
            add_destination(sum, memory[rank].output + offset);
    }
}

/* What element i of rank's output must be; the sums are exact. */
static float expected(collective_t collective, uint32_t n, uint32_t rank, size_t i, size_t count)
{
    size_t at = collective == REDUCESCATTER ? rank * count + i : i;
    float sum = 0;
    switch (collective) {
    case BROADCAST:
        return input_of(0, i);
    case ALLGATHER:
        return input_of((uint32_t)(i / count), i % count);
    case ALLTOALL:
        return input_of((uint32_t)(i / count), rank * count + i % count);
    default:
        for (uint32_t source = 0; source < n; source++)
            sum += input_of(source, at);
        return sum;
    }
}

static bool check(collective_t collective, const memory_t *memory, uint32_t n, size_t count)
{
    size_t written = collective == REDUCESCATTER ? count : n * count;
    for (uint32_t rank = 0; rank < n; rank++)
        for (size_t i = 0; i < written; i++) {
            float wanted = expected(collective, n, rank, i, count);
            if (memory[rank].output[i] == wanted)
                continue;
            fprintf(stderr, "memory_limit: %s, rank %u of %u, element %zu is %g, not %g\n",
                    collective_names[collective], rank, n, i, (double)memory[rank].output[i], (double)wanted);
            return false;
        }
    return true;
}

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double sort_and_take_median(double *times_us, uint32_t count)
{
    qsort(times_us, count, sizeof(*times_us), compare);
    return (times_us[(count - 1) / 2] + times_us[count / 2]) / 2;
}

/* All ways take symmetries, so that a disturbance meets all of them alike; the least time is what it disturbs
 * least. */
static const loop_way_t *find_best_way(loop_team_t *team, size_t bytes)
{
    size_t wanted = TRIAL_BYTES / bytes, best = 0;
    size_t trials = wanted < TRIALS_MIN ? TRIALS_MIN : wanted > TRIALS_MAX ? TRIALS_MAX : wanted;
    double best_us = INFINITY;
    for (size_t trial = 0; trial < trials; trial++)
        for (size_t way = 0; way < loop_way_count; way++) {
            double time_us = loop_team_run_us(team, &loop_ways[way]);
            if (time_us < best_us) {
                best = way;
                best_us = time_us;
            }
        }
    return &loop_ways[best];
}

static void print_row(const options_t *options, const loop_team_t *team, collective_t collective, uint32_t n,
                      size_t bytes, const loop_way_t *way, double median_us, double least_us)
{
    double GBps = (double)bytes / median_us * 1e-3, best_GBps = (double)bytes / least_us * 1e-3;
    if (options->json)
        printf("{\"collective\": \"%s\", \"ranks\": %u, \"bytes\": %zu, \"time_us\": %.3f, \"time_us_min\": "
               "%.3f, "
               "\"algbw_GBps\": %.4f, \"algbw_GBps_max\": %.4f, \"way\": \"%s\", \"threads\": %u}\n",
               collective_names[collective], n, bytes, median_us, least_us, GBps, best_GBps, way->name,
               team->thread_count);
    else
        printf("%-14s %5u %12zu %12.1f %9.2f %9.2f  %s\n", collective_names[collective], n, bytes, median_us,
               GBps, best_GBps, way->name);
    fflush(stdout);
}

static bool measure(const options_t *options, loop_team_t *team, collective_t collective, uint32_t n,
                    size_t bytes)
{
    memory_t memory[LOOP_RANKS_MAX];
    const size_t count = bytes / sizeof(float) / n;
    double *times_us = malloc(options->iterations * sizeof(*times_us));
    if (!times_us || !map_all(memory, n, bytes)) {
        free(times_us);
        return false;
    }
    team->sum_count = 0;
    for (uint32_t b = 0; b < n; b++)
        describe_block(team, collective, memory, n, b, count);
    const loop_way_t *way = find_best_way(team, bytes);
    for (uint32_t rank = 0; rank < n; rank++)
        memset(memory[rank].output, 0xff, bytes); /* the check sees what the way that is printed writes */
    for (uint32_t i = 0; i < options->iterations; i++)
        times_us[i] = loop_team_run_us(team, way);
    bool right = check(collective, memory, n, count);
    double median_us = sort_and_take_median(times_us, options->iterations);
    if (right)
        print_row(options, team, collective, n, bytes, way, median_us, times_us[0]);
    unmap_all(memory, n, bytes);
    free(times_us);
    return right;
}

static bool measure_all(const options_t *options, loop_team_t *team)
{
    if (!options->json)
        printf("%-14s %5s %12s %12s %9s %9s  way of %u threads\n", "collective", "ranks", "bytes",
               "median us", "GB/s", "best", team->thread_count);
    for (collective_t collective = 0; collective < COLLECTIVES; collective++)
        for (uint32_t r = 0; options->wanted[collective] && r < options->ranks_count; r++)
            for (uint32_t s = 0; s < options->size_count; s++)
                if (!measure(options, team, collective, (uint32_t)options->ranks[r], options->sizes[s]))
                    return false;
    return true;
}

/* ---- command line ---- */

static size_t take_number(struct argp_state *state, const char *word, size_t most)
{
    char *end;
    errno = 0;
    unsigned long long number = *word >= '0' && *word <= '9' ? strtoull(word, &end, 10) : 0;
    const char *units = "KMG", *unit = number && *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (number == 0 || errno || end[unit != NULL] || number > most >> shift)
        argp_error(state, "\"%s\": a number from 1 to %zu", word, most);
    return (size_t)number << shift;
}

static uint32_t take_list(struct argp_state *state, char *list, size_t most, size_t *numbers)
{
    uint32_t count = 0;
    for (char *rest = NULL, *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (count == SIZES_MAX)
            argp_error(state, "more than %d numbers in a list", SIZES_MAX);
        numbers[count++] = take_number(state, word, most);
    }
    return count;
}

static void take_collectives(struct argp_state *state, char *list, bool *wanted)
{
    memset(wanted, 0, COLLECTIVES * sizeof(*wanted));
    for (char *rest = NULL, *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        collective_t collective = 0;
        while (collective < COLLECTIVES && strcmp(word, collective_names[collective]) != 0)
            collective++;
        if (collective == COLLECTIVES)
            argp_error(state, "\"%s\": allreduce, broadcast, allgather, reducescatter or alltoall", word);
        else
            wanted[collective] = true;
    }
}

static void check_sizes(struct argp_state *state, const options_t *options)
{
    for (uint32_t r = 0; r < options->ranks_count; r++)
        for (uint32_t s = 0; s < options->size_count; s++)
            if (options->sizes[s] % (options->ranks[r] * LOOP_LINE_COUNT * sizeof(float)) != 0)
                argp_error(state, "%zu bytes are not %zu blocks of whole cache lines", options->sizes[s],
                           options->ranks[r]);
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    options_t *options = state->input;
    switch (key) {
    case 'c':
        take_collectives(state, argument, options->wanted);
        break;
    case 's':
        options->size_count = take_list(state, argument, (size_t)4 << 30, options->sizes);
        break;
    case 'r':
        options->ranks_count = take_list(state, argument, LOOP_RANKS_MAX, options->ranks);
        break;
    case 'n':
        options->iterations = (uint32_t)take_number(state, argument, 1000000);
        break;
    case 'j':
        options->json = true;
        break;
    case ARGP_KEY_END:
        check_sizes(state, options);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option option_list[] = {
    {"collective", 'c', "LIST", 0, "allreduce, broadcast, allgather, reducescatter, alltoall (default: all)",
     0},
    {"sizes", 's', "LIST", 0, "Payloads, with K, M or G for powers of 1024 (default 1M,16M,64M)", 0},
    {"ranks", 'r', "LIST", 0, "Numbers of ranks (default 2,4,8)", 0},
    {"iterations", 'n', "COUNT", 0, "Timed iterations of each (default 21)", 0},
    {"json", 'j', NULL, 0, "Print one JSON object per measurement", 0},
    {0},
};

int main(int argc, char **argv)
{
    const struct argp argp = {
        option_list,
        parse_option,
        NULL,
        "Measure what the memory allows each collective: one thread per core reads every input "
        "once and writes every output once, float32. GB/s are payload over time, payload as "
        "nccl-tests counts it: a whole buffer, or all blocks of one.",
        NULL,
        NULL,
        NULL};
    options_t options = {.wanted = {true, true, true, true, true},
                         .size_count = 3,
                         .sizes = {(size_t)1 << 20, (size_t)16 << 20, (size_t)64 << 20},
                         .ranks_count = 3,
                         .ranks = {2, 4, 8},
                         .iterations = 21};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    static loop_team_t team;
    if (!loop_team_start(&team)) {
        fprintf(stderr, "memory_limit: threads: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    bool done = measure_all(&options, &team);
    loop_team_stop(&team);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
