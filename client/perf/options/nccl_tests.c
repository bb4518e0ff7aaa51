#include "options/nccl_tests.h"

#include "options/options.h"
#include "tools/arguments.h"

#include <string.h>

#define GROUPS_MOST  4096
#define COUNT_MOST   1000000
#define AVERAGE_MOST 3 /* nccl-tests' number for: of the ranks the slowest */

static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "As nccl-tests has them:", 4},
    {"ngpus", 'g', "N", 0, "--ranks N; with -t T ranks are threads, N * T of them", 4},
    {"nthreads", 't', "T", 0, "See -g", 4},
    {"agg_iters", 'm', "N", 0, "--groups N", 4},
    {"cudagraph", 'G', "N", 0, "--stream=graph, unless 0", 4},
    {"local_register", 'R', "0|1|2", 0, "0: --memory malloc", 4},
    {"blocking", 'z', "1", 0, "What blink-perf does: each op is waited for", 4},
    {"average", 'a', "3", 0, "What blink-perf does: of each iteration the slowest rank counts", 4},
    {"report_cputime", 'C', "0", 0, "What blink-perf does: times are wall time to the end of the op", 4},
    {"parallel_init", 'p', "0|1", 0, "Ranks always join at the same time", 4},
    {"report_timestamps", 'S', "0", 0, "What blink-perf does: lines have no time", 4},
    {"memory_report", 'M', "0", 0, "What blink-perf does: blinkctl clients and tenants show memory", 4},
    {"unalign", 'u', "0", 0, "What blink-perf does: buffers are aligned", 4},
    {"cta_policy", 'x', "0", 0, "What blink-perf does: the planner chooses how many blocks run", 4},
    {"device_implementation", 'D', "0", 0, "What blink-perf does: the daemon's kernels run", 4},
    {"stream_null", 'y', "0", 0, "What blink-perf does: see --stream", 4},
    {"per_iter_timing", 'I', "0", 0, "What blink-perf does: --json has their percentiles", 4},
    {"timeout", 'T', "SECONDS", 0, "Refused: op_timeout_s in blinkd.conf, or blinkd --op-timeout", 4},
    {"run_cycles", 'N', "N", 0, "Refused: see --seconds and --iters", 4},
    {"output_file", 'J', "FILE", 0, "Refused: see --json", 4},
    {"memory_type", 'Y', "KIND", 0, "Refused: see --memory and --device-memory", 4},
    {0},
};

/* A flag that takes only the value by which nccl-tests measures as blink-perf does. */
static const struct {
    int key;
    const char *flag;
    uint64_t value;
    const char *ours;
} fixed[] = {
    {'z', "-z", 1, "ops are waited for one by one; --groups N has N of them under way, --stream orders them"},
    {'a', "-a", AVERAGE_MOST, "of each iteration the slowest rank's time counts, which is -a 3"},
    {'C', "-C", 0, "times are wall time from a barrier to the end of the op"},
    {'S', "-S", 0, "lines have no time of day; a pipe to a program such as ts writes one before each"},
    {'M', "-M", 0, "blinkctl clients shows the memory of each process, blinkctl tenants that of each user"},
    {'u', "-u", 0, "buffers are aligned; there is no option for others"},
    {'x', "-x", 0, "the planner chooses how many blocks of a GPU run; blinkctl explain --gpus says how many"},
    {'D', "-D", 0, "kernels are the daemon's; --algorithm says by which plan they go"},
    {'y', "-y", 0, "with --stream ops are on a stream of their communicator, else on none"},
    {'I', "-I", 0, "--json has the least, the median and the 99th percentile of the iterations' times"},
};

/* A flag that is only answered. */
static const struct {
    int key;
    const char *flag, *ours;
} refused[] = {
    {'T', "-T", "the daemon ends what takes too long: blinkd --op-timeout, or op_timeout_s in blinkd.conf"},
    {'N', "-N", "blink-perf goes through the sizes once; --iters N or --seconds S make it longer"},
    {'J', "-J", "--json prints JSON to standard output: blink-perf ... --json >FILE"},
    {'Y', "-Y",
     "--memory registered or malloc is memory of the host, --device-memory malloc, vmm or pool of GPUs"},
};

static uint32_t take(struct argp_state *state, const char *flag, const char *text, uint64_t least,
                     uint64_t most)
{
    return (uint32_t)argument_number(state, flag, text, least, most);
}

static error_t parse_refused(int key, const char *argument, struct argp_state *state)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (refused[i].key == key)
            argp_error(state, "%s %s: %s", refused[i].flag, argument, refused[i].ours);
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse_fixed(int key, const char *argument, struct argp_state *state)
{
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        if (fixed[i].key != key)
            continue;
        if (take(state, fixed[i].flag, argument, 0, COUNT_MOST) != fixed[i].value)
            argp_error(state, "%s %s: %s", fixed[i].flag, argument, fixed[i].ours);
        return 0;
    }
    return parse_refused(key, argument, state);
}

/* N GPUs of each of T threads are N * T ranks; each call has one of the two. */
static void multiply_ranks(struct argp_state *state, perf_options_t *options, uint32_t times)
{
    uint64_t ranks = (uint64_t)times * (options->rank_count > 0 ? options->rank_count : 1);
    if (ranks > PERF_RANKS_MAX)
        argp_error(state, "-g and -t: %llu ranks, of which there may be %u", (unsigned long long)ranks,
                   PERF_RANKS_MAX);
    options->rank_count = (uint32_t)ranks;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    perf_options_t *options = state->input;
    switch (key) {
    case 'g':
        multiply_ranks(state, options, take(state, "-g", argument, 1, PERF_RANKS_MAX));
        return 0;
    case 't':
        multiply_ranks(state, options, take(state, "-t", argument, 1, PERF_RANKS_MAX));
        options->threads = strcmp(argument, "1") != 0;
        return 0;
    case 'm':
        options->group_count = take(state, "-m", argument, 1, GROUPS_MOST);
        return 0;
    case 'G':
        if (take(state, "-G", argument, 0, COUNT_MOST) > 0)
            options->order = PERF_ORDER_GRAPH;
        return 0;
    case 'R':
        if (take(state, "-R", argument, 0, 2) == 0)
            options->memory = PERF_MEMORY_ORDINARY;
        return 0;
    case 'p':
        take(state, "-p", argument, 0, 1);
        return 0;
    default:
        return parse_fixed(key, argument, state);
    }
}

const struct argp perf_nccl_tests_argp = {.options = option_list, .parser = parse};
