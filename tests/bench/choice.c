/*
 * What AUTO chooses, beside the best that it could have chosen by the simulator (sim/sim.h). A choice is a
 * topology with all its devices, a collective and a payload. All candidates of the contest are simulated, and
 * with --outside also the algorithms that stand in none. For each topology: the choices, how many take over 5
 * % and over 20 % longer than the fastest candidate, the worst ratio, and the prediction of what was chosen
 * as a part of its simulated time: least, median, most.
 *
 *     bench_choice [--over PERCENT] [--all] [--outside] [--gpus] [TOPOLOGY[,COLLECTIVE[,BYTES]]…]
 *
 * --over prints a line for each choice that takes so much longer, --all a line for each candidate; --gpus
 * plans for machines as their GPUs use them, with blocks, as blinkctl plan --gpus does. The default is every
 * built-in, every collective, and 1 KiB, 4 KiB, … 256 MiB; topologies of more than 64 devices are left out.
 */
#include "collective.h"
#include "error.h"
#include "names.h"
#include "plan/baseline/nccl/nccl_model.h"
#include "plan/choose.h"
#include "plan/lane/lane.h"
#include "plan/model.h"
#include "sim/sim.h"
#include "topo/reached.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES  1024u
#define MOST_BYTES   ((uint64_t)256 << 20)
#define GROWTH       4u
#define CHOICES_MOST 256u /* of one topology */
#define RANKS_MOST   64u

static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST,     BLINK_REDUCE,
                                                 BLINK_ALLGATHER, BLINK_REDUCESCATTER, BLINK_GATHER,
                                                 BLINK_SCATTER,   BLINK_ALLTOALL};
static const blink_algorithm_t outside[] = {BLINK_ALGORITHM_DOUBLE_BINARY_TREE, BLINK_ALGORITHM_BLINK};
static const blink_protocol_t protocols[] = {BLINK_PROTOCOL_SIMPLE, BLINK_PROTOCOL_LL128, BLINK_PROTOCOL_LL};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct bench {
    double over; /* a ratio; 0: no lines */
    bool all, outside, gpus;
} bench_t;

/* A candidate and its times. */
typedef struct runner {
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
    double predicted_us, simulated_us;
    uint32_t depth;
} runner_t;

typedef struct tally {
    uint32_t choices, over_5, over_20;
    double worst;
    double accuracy[CHOICES_MOST]; /* predicted by simulated */
} tally_t;

static void die(const char *what)
{
    fprintf(stderr, "bench_choice: %s: %s\n", what, blink_error_text());
    exit(EXIT_FAILURE);
}

/* ---- one candidate ---- */

static double run_program(const topo_t *topo, const lane_program_t *program, uint64_t bytes)
{
    lane_geometry_t geometry;
    sim_result_t simulated;
    uint64_t blocks = program->block_count;
    if (lane_geometry_init(program, (bytes + blocks - 1) / blocks, 0, 0, &geometry) != BLINK_OK)
        die(topo->name);
    double us = INFINITY;
    if (sim_run(topo, &geometry, SIM_REDUCE_GBPS, &simulated) == BLINK_OK) {
        us = simulated.time_us;
        sim_result_fini(&simulated);
    }
    lane_geometry_fini(&geometry);
    return us;
}

static double simulate(const topo_t *topo, plan_t *plan, blink_protocol_t protocol, uint64_t bytes)
{
    plan_t *expanded = NULL;
    lane_program_t *program = NULL;
    if (plan->symmetry_count > 0 && plan_expand(topo, plan, &expanded) != BLINK_OK)
        die(topo->name);
    plan_t *whole = expanded ? expanded : plan;
    whole->protocol = protocol;
    if (lane_compile(topo, whole, NULL, &program) != BLINK_OK)
        die(topo->name);
    double us = run_program(topo, program, bytes);
    lane_program_destroy(program);
    plan_destroy(expanded);
    return us;
}

/* No simulation is faster than this. */
static double floor_us(const plan_t *plan, blink_protocol_t protocol, uint64_t bytes)
{
    return model_launch_us(protocol) +
           (double)bytes / (1e3 * plan->rate_GBps * model_payload_share(protocol));
}

static void print_runner(const runner_t *runner)
{
    printf("%s %s %.1f us (predicted %.1f)", blink_name_algorithm(runner->algorithm),
           blink_name_protocol(runner->protocol), runner->simulated_us, runner->predicted_us);
}

static void try_contender(const bench_t *bench, const topo_t *topo, const plan_contender_t *contender,
                          uint64_t bytes, runner_t *best)
{
    for (size_t i = 0; i < COUNT(protocols); i++) {
        if (!plan_contender_may_use(contender, protocols[i]) ||
            (!bench->all && floor_us(contender->plan, protocols[i], bytes) >= best->simulated_us))
            continue;
        runner_t runner = {.algorithm = contender->algorithm,
                           .protocol = protocols[i],
                           .predicted_us = plan_predictor_us(contender->predictor, bytes, protocols[i], 0),
                           .simulated_us = simulate(topo, contender->plan, protocols[i], bytes),
                           .depth = plan_predictor_depth(contender->predictor)};
        if (runner.simulated_us < best->simulated_us)
            *best = runner;
        if (!bench->all)
            continue;
        printf("    ");
        print_runner(&runner);
        printf(", ratio %.3f, depth %u, channels %u, rate %.1f\n", runner.predicted_us / runner.simulated_us,
               runner.depth, contender->plan->channel_count, contender->plan->rate_GBps);
    }
}

static void try_outside(const bench_t *bench, const topo_t *topo, plan_request_t request, runner_t *best)
{
    for (size_t i = 0; bench->outside && i < COUNT(outside); i++) {
        plan_t *plan = NULL;
        plan_contender_t contender;
        request.algorithm = outside[i];
        if (plan_create(topo, &request, &plan) != BLINK_OK)
            continue;
        if (plan_contender_init(topo, plan, &contender) != BLINK_OK)
            die(topo->name);
        try_contender(bench, topo, &contender, request.bytes, best);
        plan_contender_fini(&contender);
    }
}

/* ---- one choice ---- */

static void print_choice(const topo_t *topo, const plan_request_t *request, const runner_t *chosen,
                         const runner_t *best)
{
    printf("  %s %s %llu: %.3f, ", topo->name, blink_name_collective(request->collective),
           (unsigned long long)request->bytes, chosen->simulated_us / best->simulated_us);
    print_runner(chosen);
    printf(", best ");
    print_runner(best);
    printf("\n");
}

static void judge(const bench_t *bench, const topo_t *topo, const plan_request_t *request, tally_t *tally)
{
    plan_choice_t choice;
    if (plan_choose(topo, request, &choice) != BLINK_OK)
        die(topo->name);
    const plan_candidate_t *first = &choice.candidates[0];
    runner_t chosen = {.algorithm = first->algorithm,
                       .protocol = first->protocol,
                       .predicted_us = first->predicted_us,
                       .simulated_us = simulate(topo, choice.best, first->protocol, request->bytes),
                       .depth = first->depth};
    runner_t best = chosen;
    for (uint32_t i = 0; i < choice.contender_count; i++)
        try_contender(bench, topo, &choice.contenders[i], request->bytes, &best);
    try_outside(bench, topo, *request, &best);
    double ratio = chosen.simulated_us / best.simulated_us;
    if (bench->all || (bench->over > 0 && ratio > bench->over))
        print_choice(topo, request, &chosen, &best);
    tally->over_5 += ratio > 1.05;
    tally->over_20 += ratio > 1.2;
    tally->worst = fmax(tally->worst, ratio);
    if (tally->choices < CHOICES_MOST)
        tally->accuracy[tally->choices++] = chosen.predicted_us / chosen.simulated_us;
    plan_choice_fini(&choice);
}

static int compare_doubles(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void print_tally(const char *name, tally_t *tally)
{
    const char *file = strrchr(name, '/');
    qsort(tally->accuracy, tally->choices, sizeof(tally->accuracy[0]), compare_doubles);
    printf("%-20s %7u %6u %6u %7.3f   %.2f %.2f %.2f\n", file ? file + 1 : name, tally->choices,
           tally->over_5, tally->over_20, tally->worst, tally->accuracy[0],
           tally->accuracy[tally->choices / 2], tally->accuracy[tally->choices - 1]);
    fflush(stdout);
}

/* Of several hosts a daemon plans by links alone. */
static double block_GBps(const topo_t *topo)
{
    static const uint32_t capabilities[] = {
        [NCCL_PASCAL] = 60, [NCCL_VOLTA] = 70, [NCCL_AMPERE] = 80, [NCCL_HOPPER] = 90};
    for (uint32_t i = 1; i < topo->gpu_count; i++)
        if (strcmp(topo->nodes[topo->gpus[i]].host, topo->nodes[topo->gpus[0]].host) != 0)
            return 0;
    return model_block_GBps(capabilities[nccl_guess_generation(topo, topo->gpus, topo->gpu_count)]);
}

static void survey(const bench_t *bench, const char *what, tally_t *sum)
{
    char *name = strdup(what), *rest = name;
    topo_t *topo = NULL;
    tally_t tally = {0};
    strsep(&rest, ",");
    const char *collective = strsep(&rest, ","), *bytes = strsep(&rest, ",");
    bool reached = bench->gpus && topo_is_machine(name);
    if ((reached ? topo_load_as_reached(name, &topo) : topo_load(name, &topo)) != BLINK_OK)
        die(name);
    for (size_t i = 0; topo->gpu_count <= RANKS_MOST && i < COUNT(collectives); i++) {
        plan_request_t request = {.collective = collectives[i],
                                  .rank_node = topo->gpus,
                                  .rank_count = topo->gpu_count,
                                  .block_GBps = bench->gpus ? block_GBps(topo) : 0};
        for (request.bytes = LEAST_BYTES; request.bytes <= MOST_BYTES; request.bytes *= GROWTH)
            if ((!collective || strcmp(collective, blink_name_collective(request.collective)) == 0) &&
                (!bytes || strtoull(bytes, NULL, 0) == request.bytes))
                judge(bench, topo, &request, &tally);
    }
    if (tally.choices > 0)
        print_tally(name, &tally);
    sum->choices += tally.choices;
    sum->over_5 += tally.over_5;
    sum->over_20 += tally.over_20;
    sum->worst = fmax(sum->worst, tally.worst);
    topo_destroy(topo);
    free(name);
}

int main(int argc, char **argv)
{
    bench_t bench = {0};
    tally_t sum = {0};
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++)
        if (strcmp(argv[first], "--all") == 0)
            bench.all = true;
        else if (strcmp(argv[first], "--outside") == 0)
            bench.outside = true;
        else if (strcmp(argv[first], "--gpus") == 0)
            bench.gpus = true;
        else if (strcmp(argv[first], "--over") == 0 && first + 1 < argc)
            bench.over = 1.0 + strtod(argv[++first], NULL) / 100.0;
    printf("%-20s %7s %6s %6s %7s   %s\n", "topology", "choices", "> 5 %", "> 20 %", "worst",
           "predicted / simulated");
    for (int i = first; i < argc; i++)
        survey(&bench, argv[i], &sum);
    for (const char *const *name = topo_builtin_names(); first >= argc && *name; name++)
        survey(&bench, *name, &sum);
    printf("%-20s %7u %6u %6u %7.3f\n", "all", sum.choices, sum.over_5, sum.over_20, sum.worst);
    return EXIT_SUCCESS;
}
