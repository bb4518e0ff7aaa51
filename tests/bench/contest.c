/*
 * How AUTO's contest does against what others would do: NCCL's rings and double binary trees, and Blink.
 * Every point is a set of devices, a collective and a payload; all times are predicted (plan/predict.h). For
 * each topology it prints the points, those where a baseline is faster by anything and by more than AUTO
 * takes for a tie, the processor time of one choice, and the worst point.
 *
 *     bench_contest [--worst N] [--json] [TOPOLOGY…]
 *
 * All devices of a topology are one set; of the DGX-1s, every set that NVLink connects. The default is every
 * built-in.
 */
#include "bench/rivals.h"
#include "error.h"
#include "names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEAST_BYTES 64u
#define MOST_BYTES  ((uint64_t)1 << 30)
#define GROWTH      4u
#define WORST_MOST  1000u

/* Of this part of its time AUTO does not care. */
#define TIE 1e-2

/* A baseline that is faster by less is not. */
#define ROUNDING 1e-9

static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST, BLINK_REDUCE,
                                                 BLINK_ALLGATHER, BLINK_REDUCESCATTER};

typedef struct point {
    const char *topology;
    uint32_t devices; /* a bit each; 0: all */
    blink_collective_t collective;
    uint64_t bytes;
    rival_t ours, theirs;
} point_t;

typedef struct tally {
    const char *name;
    uint32_t points, faster, much_faster; /* of them: where a baseline is faster; by more than a tie */
    uint32_t choices;
    clock_t choosing; /* processor time of them all */
    point_t worst;
} tally_t;

typedef struct bench {
    bool json;
    uint32_t worst_asked, worst_count;
    point_t worst[WORST_MOST]; /* the worst ratio first */
} bench_t;

static void die(const char *what)
{
    fprintf(stderr, "bench_contest: %s: %s\n", what, blink_error_text());
    exit(EXIT_FAILURE);
}

static double ratio(const point_t *point)
{
    return point->ours.us / point->theirs.us;
}

static void keep_worst(bench_t *bench, const point_t *point)
{
    uint32_t at = bench->worst_count < bench->worst_asked ? bench->worst_count++ : bench->worst_asked;
    for (; at > 0 && ratio(&bench->worst[at - 1]) < ratio(point); at--)
        bench->worst[at] = bench->worst[at - 1];
    bench->worst[at] = *point;
}

static void count_point(bench_t *bench, const point_t *point, tally_t *tally)
{
    tally->points++;
    tally->faster += ratio(point) > 1.0 + ROUNDING;
    tally->much_faster += ratio(point) > 1.0 + TIE;
    if (tally->points == 1 || ratio(point) > ratio(&tally->worst))
        tally->worst = *point;
    keep_worst(bench, point);
}

static void compare(bench_t *bench, const topo_t *topo, plan_request_t *request, uint32_t devices,
                    tally_t *tally)
{
    plan_choice_t choice;
    clock_t start = clock();
    request->bytes = LEAST_BYTES;
    if (plan_choose(topo, request, &choice) != BLINK_OK)
        die(topo->name);
    tally->choosing += clock() - start;
    tally->choices++;
    for (; request->bytes <= MOST_BYTES; request->bytes *= GROWTH) {
        point_t point = {.topology = topo->name,
                         .devices = devices,
                         .collective = request->collective,
                         .bytes = request->bytes,
                         .ours = rival_of_choice(&choice, request->bytes)};
        if (rival_of_baselines(topo, request, &point.theirs) != BLINK_OK)
            die(topo->name);
        count_point(bench, &point, tally);
    }
    plan_choice_fini(&choice);
}

static void compare_set(bench_t *bench, const topo_t *topo, uint32_t devices, tally_t *tally)
{
    uint32_t some[32];
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        plan_request_t request = {
            .collective = collectives[i], .rank_node = topo->gpus, .rank_count = topo->gpu_count};
        if (devices) {
            request.rank_node = some;
            request.rank_count = rival_set_ranks(topo, devices, some);
        }
        compare(bench, topo, &request, devices, tally);
    }
}

/* ---- printing ---- */

static const char *name_devices(const point_t *point, char *text, size_t room)
{
    size_t used = 0;
    snprintf(text, room, "all");
    for (uint32_t i = 0; i < 32; i++)
        if (point->devices >> i & 1)
            used += (size_t)snprintf(text + used, room - used, used ? ",%u" : "%u", i);
    return text;
}

static void print_point(const point_t *point)
{
    char devices[128];
    printf("%.3f  %s %s %s %llu: ours %.2f us (%s %s), %s %s %.2f us\n", ratio(point), point->topology,
           name_devices(point, devices, sizeof(devices)), blink_name_collective(point->collective),
           (unsigned long long)point->bytes, point->ours.us, blink_name_algorithm(point->ours.algorithm),
           blink_name_protocol(point->ours.protocol), blink_name_algorithm(point->theirs.algorithm),
           blink_name_protocol(point->theirs.protocol), point->theirs.us);
}

static double choice_ms(const tally_t *tally)
{
    return 1e3 * (double)tally->choosing / CLOCKS_PER_SEC / tally->choices;
}

static void print_text(const tally_t *tally)
{
    printf("%-14s %7u %7u %7u %7.1f  ", tally->name, tally->points, tally->faster, tally->much_faster,
           choice_ms(tally));
    print_point(&tally->worst);
}

/* A line of JSON per topology. */
static void print_json(const tally_t *tally)
{
    char devices[128];
    const point_t *worst = &tally->worst;
    printf("{\"topology\": \"%s\", \"points\": %u, \"faster\": %u, \"beyond_tie\": %u, \"choice_ms\": %.3f, "
           "\"worst\": {\"ratio\": %.6f, \"devices\": \"%s\", \"collective\": \"%s\", \"bytes\": %llu, "
           "\"us\": %.3f, \"algorithm\": \"%s\", \"baseline\": \"%s\", \"baseline_us\": %.3f}}\n",
           tally->name, tally->points, tally->faster, tally->much_faster, choice_ms(tally), ratio(worst),
           name_devices(worst, devices, sizeof(devices)), blink_name_collective(worst->collective),
           (unsigned long long)worst->bytes, worst->ours.us, blink_name_algorithm(worst->ours.algorithm),
           blink_name_algorithm(worst->theirs.algorithm), worst->theirs.us);
}

static void compare_topology(bench_t *bench, const char *name, tally_t *all)
{
    topo_t *topo = NULL;
    tally_t tally = {.name = name};
    if (topo_load(name, &topo) != BLINK_OK)
        die(name);
    if (strncmp(name, "dgx1", 4) == 0) {
        for (uint32_t devices = 1; devices < 1u << topo->gpu_count; devices++)
            if ((devices & (devices - 1)) && rival_set_connected(topo, devices))
                compare_set(bench, topo, devices, &tally);
    } else {
        compare_set(bench, topo, 0, &tally);
    }
    for (uint32_t i = 0; i < bench->worst_count; i++)
        if (bench->worst[i].topology == topo->name)
            bench->worst[i].topology = name;
    tally.worst.topology = name;
    if (bench->json)
        print_json(&tally);
    else
        print_text(&tally);
    fflush(stdout);
    all->points += tally.points;
    all->faster += tally.faster;
    all->much_faster += tally.much_faster;
    topo_destroy(topo);
}

int main(int argc, char **argv)
{
    static bench_t bench;
    tally_t all = {0};
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++)
        if (strcmp(argv[first], "--json") == 0)
            bench.json = true;
        else if (strcmp(argv[first], "--worst") == 0 && first + 1 < argc)
            bench.worst_asked = (uint32_t)atoi(argv[++first]) % WORST_MOST;
    if (!bench.json)
        printf("%-14s %7s %7s %7s %7s  worst\n", "topology", "points", "faster", "> 1 %", "ms");
    for (int i = first; i < argc; i++)
        compare_topology(&bench, argv[i], &all);
    for (const char *const *name = topo_builtin_names(); first >= argc && *name; name++)
        compare_topology(&bench, *name, &all);
    if (!bench.json)
        printf("%-14s %7u %7u %7u\n", "all", all.points, all.faster, all.much_faster);
    for (uint32_t i = 0; i < bench.worst_count; i++)
        print_point(&bench.worst[i]);
    return EXIT_SUCCESS;
}
