/* The command line of blink-perf. */
#include "options/options.h"

#include "base/command_line.h"
#include "base/near.h"
#include "base/value.h"
#include "blink/blink.h"
#include "names.h"
#include "options/nccl_tests.h"
#include "tools/arguments.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MIN_BYTES      ((uint64_t)1 << 10)
#define DEFAULT_MAX_BYTES      ((uint64_t)64 << 20)
#define DEFAULT_STEP_FACTOR    4
#define DEFAULT_ITERATIONS     20
#define DEFAULT_WARMUP         5
#define DEFAULT_NOP_ITERATIONS 200000
#define DEFAULT_NOP_WARMUP     20000
#define ITERATIONS_MAX         10000000
#define SECONDS_ITERATIONS     20000 /* of a size, at most */
#define SECONDS_LEAST          0.01
#define GROUPS_MAX             4096
#define COMMS_MAX              16384
#define UNSET                  UINT64_MAX

#define DATATYPES                                                                                            \
    "int8, uint8, int32, uint32, int64, uint64, float16 (half), bfloat16, float32 (float), float64 "         \
    "(double), "                                                                                             \
    "float8_e4m3, float8_e5m2 or all"

enum {
    KEY_RANKS = 256,
    KEY_DEVICES,
    KEY_JSON,
    KEY_REPLAY,
    KEY_NO_GAPS,
    KEY_ALGORITHM,
    KEY_SOCKET,
    KEY_PRIVATE,
    KEY_TOPOLOGY,
    KEY_PACE,
    KEY_ID_FILE,
    KEY_MEMORY,
    KEY_IN_PLACE,
    KEY_GROUPS,
    KEY_COMMS,
    KEY_THREADS,
    KEY_DEVICE_MEMORY,
    KEY_STREAM,
    KEY_GPUS,
    KEY_SECONDS
};

static const char DOC[] =
    "Measure a collective through blinkd, check what it gives, and print nccl-tests' columns, the ideal "
    "bus bandwidth and the efficiency against it. COLLECTIVE is allreduce, broadcast, reduce, "
    "allgather, reducescatter, gather, scatter, alltoall, allgatherv, reducescatterv, gatherv, scatterv, "
    "alltoallv (their blocks differ in length), sendrecv (each rank to the next, in a group) or barrier; "
    "or nop, which measures the round trip of an empty operation. The name of nccl-tests' program, as "
    "all_reduce_perf, does as well."
    "\v"
    "Every rank is a process, or with --threads a thread. --ranks N starts them here. Started by blinkrun, "
    "torchrun, srun, mpirun or mpiexec each is one rank, and rank 0 prints; so is each that is started by "
    "hand with RANK and WORLD_SIZE and, the same for all, an --id-file, which rank 0 makes, or "
    "BLINK_UNIQUE_ID (the 128 hexadecimal digits of an id, or 32 random ones if all ranks are on this "
    "host).\n"
    "\n"
    "The size is that of the buffer that holds a block of every rank where there is one (allgather, "
    "reducescatter, gather, scatter, alltoall), else of the one buffer; the count is that of a block. "
    "Blocks that differ in length do by up to a factor of 3. With --groups and --comms the size is each "
    "op's, the bandwidth that of all together.\n"
    "\n"
    "--check follows each size by one more run, on random inputs and poisoned outputs. Integers and "
    "copies must match in every bit; floats may differ from an exact reference by what the roundings of "
    "any plan add up to, and not at all for one half of the elements, chosen so that nothing is "
    "rounded. Of outputs of more than 4 MiB a sample is compared, the head and the tail of every block "
    "among it. What must not be written must not have changed; where all ranks get the same it must be "
    "the same in every bit, which ranks that were started by something else cannot compare.\n"
    "\n"
    "Times are wall time from a barrier to the end of the wait, with --stream to the end of "
    "cuStreamSynchronize: of each iteration the slowest rank's (without --ranks: rank 0's), of the "
    "iterations the median. Bandwidths are as nccl-tests defines them. The ideal is B, the least sum "
    "over the ranks' devices of the capacities of the links by which they reach the others within their "
    "host, as emulated if the daemon paces its links; for N ranks on Q hosts min(I (N-1) Q / (N (Q-1)), "
    "B (N-1) / (N-Q)), where I is the least sum of capacities of the links that leave a host.\n"
    "\n"
    "With --device-memory inputs and outputs are copied from and to host memory around each run, "
    "outside the times. A driver that calls its GPU a stand-in is one for tests, in host memory: the "
    "table says so.\n"
    "\n"
    "Sizes are in powers of 1024: 64K, 64KB and 64KiB are 65536 bytes. GB/s are 1e9 bytes per second. A run "
    "that is about to take more than 10 s says so on standard error.\n"
    "\n"
    "Exit status: 0 success; 1 failure, or wrong elements; 2 bad usage; 3 no daemon answers.";

static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "What to measure:", 1},
    {"minbytes", 'b', "SIZE", 0, "Smallest size: 512, 64K, 64KiB, 1G (powers of 1024; default 1K)", 1},
    {"maxbytes", 'e', "SIZE", 0, "Largest size (default 64M, or the smallest if that is larger)", 1},
    {"stepfactor", 'f', "FACTOR", 0, "Factor between sizes (default 4)", 1},
    {"stepbytes", 'i', "SIZE", 0, "Step between sizes, instead of a factor", 1},
    {"iters", 'n', "COUNT", 0, "Timed iterations of each size (default 20; nop: 200000)", 1},
    {"warmup", 'w', "COUNT", 0, "Iterations before those (default 5; with --seconds 1; nop 20000)", 1},
    {"seconds", KEY_SECONDS, "SECONDS", 0,
     "Take about so long for all: as many iterations of each size as fit, instead of --iters, but one at "
     "least",
     1},
    {"datatype", 'd', "TYPE", 0, DATATYPES ", one after the other (default float32)", 1},
    {"op", 'o', "OP", 0,
     "sum (default), prod, max, min, avg, premulsum (each rank's input by a number of its own); or all", 1},
    {"root", 'r', "RANK|NODE", 0,
     "Root of broadcast, reduce, gather, scatter: a rank, or the node of its device, as gpu2 (default 0)", 1},
    {"algorithm", KEY_ALGORITHM, "NAME", 0, ARGUMENT_ALGORITHMS " (default auto)", 1},
    {"check", 'c', "0|1", OPTION_ARG_OPTIONAL,
     "Compare with a reference, see below (default 1; a greater number is as 1)", 1},
    {"memory", KEY_MEMORY, "KIND", 0,
     "registered (default): the daemon's; malloc: ordinary memory, which is staged", 1},
    {"device-memory", KEY_DEVICE_MEMORY, "KIND", OPTION_ARG_OPTIONAL,
     "Memory of GPUs, for a daemon on GPUs: malloc (default; cuMemAlloc), vmm (cuMemCreate) or pool", 1},
    {"stream", KEY_STREAM, "HOW", OPTION_ARG_OPTIONAL,
     "With --device-memory: ops on a CUDA stream per communicator, timed until cuStreamSynchronize; "
     "--stream=graph: recorded once as a CUDA graph and replayed",
     1},
    {"in-place", KEY_IN_PLACE, "WHICH", 0,
     "both (default, where the collective has such a form), yes: only in place, no: only out of place", 1},
    {"groups", KEY_GROUPS, "N", 0, "Ops in one group in each iteration (default 1, without a group)", 1},
    {"comms", KEY_COMMS, "N", 0, "Communicators used at the same time, each for one op or group (default 1)",
     1},
    {"replay", KEY_REPLAY, "FILE", 0,
     "Instead of a COLLECTIVE: submit the ops of a trace of `blinkctl record` once more, when they were "
     "submitted, on as many processes as there were threads, and say how long it took beside what was "
     "recorded",
     1},
    {"no-gaps", KEY_NO_GAPS, NULL, 0, "With --replay: nothing is waited for but ops", 1},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object per size and placement", 1},
    {NULL, 0, NULL, 0, "On which ranks:", 2},
    {"ranks", KEY_RANKS, "N", 0, "Start N rank processes (default: one per device)", 2},
    {"devices", KEY_DEVICES, "LIST", 0, "Device of each rank, such as 0-3,6 (default: 0,1,2...)", 2},
    {"gpus", KEY_GPUS, "LIST", 0,
     "With --device-memory: CUDA's numbers of the GPUs that ranks have their memory on, in turn (default: of "
     "each rank the GPU of its device)",
     2},
    {"threads", KEY_THREADS, NULL, 0, "Ranks are threads of one process that share a connection", 2},
    {"id-file", KEY_ID_FILE, "PATH", 0, "With RANK and WORLD_SIZE: file that rank 0 makes for the others", 2},
    {NULL, 0, NULL, 0, "Through which daemon:", 3},
    {"socket", KEY_SOCKET, "PATH", 0, "Its socket (default: $BLINK_SOCKET, else /run/blinkd/blinkd.sock)", 3},
    {"private", KEY_PRIVATE, NULL, 0, "Start a daemon on host devices for this run", 3},
    {"topology", KEY_TOPOLOGY, "NAME|FILE", 0, "With --private: how the devices are linked", 3},
    {"pace", KEY_PACE, "SCALE", OPTION_ARG_OPTIONAL,
     "With --private: links obey their capacity times SCALE (default, or auto: what this machine keeps up "
     "with)",
     3},
    {0},
};

static bool is_count(const char *word)
{
    uint64_t count;
    return value_parse_number(word, UINT32_MAX, &count);
}

static void take_check(struct argp_state *state, perf_options_t *options, const char *argument)
{
    uint64_t count = 1;
    const char *word = argument ? argument : argument_next_word(state, is_count);
    if (word && !value_parse_number(word, UINT32_MAX, &count))
        argp_error(state, "--check=%s: 0, or 1 to compare; a greater number, as nccl-tests takes it, is as 1",
                   word);
    options->check = count > 0;
}

#define PACE_AUTO "auto" /* as blinkd has it */

static bool is_pace(const char *word)
{
    return strcmp(word, PACE_AUTO) == 0 || argument_is_positive(word);
}

static void take_pace(struct argp_state *state, perf_options_t *options, const char *argument)
{
    const char *scale = argument ? argument : argument_next_word(state, is_pace);
    if (scale && !is_pace(scale))
        argp_error(state, "--pace=%s: a number above 0, or " PACE_AUTO, scale);
    options->paced = true;
    options->pace_scale = scale && strcmp(scale, PACE_AUTO) != 0 ? scale : NULL;
}

static void take_datatype(struct argp_state *state, perf_options_t *options, const char *word)
{
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin(word);
    options->datatype_count = 1;
    if (blink_parse_datatype(word, &options->datatypes[0]))
        return;
    near_try_values(&near, blink_name_datatype);
    near_try(&near, "half");
    near_try(&near, "float");
    near_try(&near, "double");
    if (strcmp(word, "all") != 0)
        argp_error(state, "--datatype %s: there is no such type%s; it may be " DATATYPES, word,
                   near_hint(&near, hint));
    options->datatype_count = 0;
    for (uint32_t i = 0; i < PERF_DATATYPES_MAX; i++)
        if (blink_datatype_bytes(i) > 0)
            options->datatypes[options->datatype_count++] = (blink_datatype_t)i;
}

static void take_redop(struct argp_state *state, perf_options_t *options, const char *word)
{
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin(word);
    options->redop_count = 1;
    if (blink_parse_redop(word, &options->redops[0]))
        return;
    near_try_values(&near, blink_name_redop);
    if (strcmp(word, "all") != 0)
        argp_error(state,
                   "--op %s: there is no such operator%s; it may be sum, prod, max, min, avg, premulsum "
                   "or all",
                   word, near_hint(&near, hint));
    options->redop_count = 0;
    for (uint32_t i = 0; i < PERF_REDOPS_MAX; i++)
        if (blink_redop_valid(i))
            options->redops[options->redop_count++] = (blink_redop_t)i;
}

static void take_memory(struct argp_state *state, perf_options_t *options, const char *word)
{
    static const char *const kinds[] = {[PERF_MEMORY_REGISTERED] = "registered",
                                        [PERF_MEMORY_ORDINARY] = "malloc",
                                        [PERF_MEMORY_DEVICE] = NULL};
    if (options->memory == PERF_MEMORY_DEVICE)
        argp_error(state, "--memory or --device-memory, not both");
    options->memory = (perf_memory_t)argument_word(state, "--memory", word, kinds);
}

static const char *const gpu_memory_names[] = {
    [PERF_GPU_MALLOC] = "malloc", [PERF_GPU_VMM] = "vmm", [PERF_GPU_POOL] = "pool", NULL};

static void take_device_memory(struct argp_state *state, perf_options_t *options, const char *word)
{
    if (options->memory == PERF_MEMORY_ORDINARY)
        argp_error(state, "--memory or --device-memory, not both");
    options->memory = PERF_MEMORY_DEVICE;
    if (word)
        options->gpu_memory =
            (perf_gpu_memory_t)argument_word(state, "--device-memory", word, gpu_memory_names);
}

static void take_stream(struct argp_state *state, perf_options_t *options, const char *word)
{
    options->order = word ? PERF_ORDER_GRAPH : PERF_ORDER_STREAM;
    if (word && strcmp(word, "graph") != 0)
        argp_error(state, "--stream=%s: --stream, or --stream=graph", word);
}

static void take_in_place(struct argp_state *state, perf_options_t *options, const char *word)
{
    static const char *const ways[] = {"both", "yes", "no", NULL};
    uint32_t way = argument_word(state, "--in-place", word, ways);
    options->placements[0] = way != 1;
    options->placements[1] = way != 2;
}

/* A rank, or the node of its device, which only the daemon knows. */
static void take_root(perf_options_t *options, const char *word)
{
    uint64_t root = 0;
    options->root_node = value_parse_number(word, UINT32_MAX, &root) ? NULL : word;
    options->root = (uint32_t)root;
}

/* A program of nccl-tests, as build/all_reduce_perf, for what it measures. */
static bool take_program(const char *path, perf_collective_t *collective)
{
    static const char end[] = "_perf";
    char name[NEAR_NAME_BYTES];
    const char *slash = strrchr(path, '/'), *program = slash ? slash + 1 : path;
    size_t length = strlen(program), behind = sizeof(end) - 1;
    if (length <= behind || length - behind >= sizeof(name) || strcmp(program + length - behind, end) != 0)
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)(length - behind), program);
    return perf_collective_parse(name, collective);
}

static void take_what(struct argp_state *state, perf_options_t *options, const char *word)
{
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin(word);
    if (state->arg_num > 0)
        argp_error(state, "one of " PERF_COLLECTIVE_NAMES ", not also \"%s\"", word);
    if (perf_collective_parse(word, &options->collective) || take_program(word, &options->collective))
        return;
    for (uint32_t i = 0; i < PERF_COLLECTIVE_COUNT; i++)
        near_try(&near, perf_collective_name((perf_collective_t)i));
    argp_error(state, "there is no collective \"%s\"%s; it may be " PERF_COLLECTIVE_NAMES, word,
               near_hint(&near, hint));
}

/* ---- checks across options ---- */

/* The ranks are to meet by the file, as the library takes it from the environment: with a slash. */
static void meet_by_file(struct argp_state *state, const char *file)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s", strchr(file, '/') ? "" : "./", file) < 0 ||
        setenv("BLINK_RENDEZVOUS", path, 1) != 0)
        argp_failure(state, PERF_EXIT_FAILED, 0, "no memory for a file name");
    free(path);
}

static void find_place(struct argp_state *state, perf_options_t *options)
{
    int rank, rank_count;
    if (options->collective == PERF_NOP || options->rank_count > 0 || options->private_daemon ||
        options->replay)
        return;
    blink_result_t result = blink_launched(&rank, &rank_count, NULL);
    if (result == BLINK_ERR_NOT_FOUND)
        return;
    if (result != BLINK_OK)
        argp_error(state, "%s", blink_last_error());
    if (rank_count > (int)PERF_RANKS_MAX)
        argp_error(state, "%d ranks, of which there may be %u", rank_count, PERF_RANKS_MAX);
    options->rank_count = (uint32_t)rank_count;
    options->join_rank = (uint32_t)rank;
    options->joins = true;
    if (options->id_file)
        meet_by_file(state, options->id_file);
}

/* What the collective cannot do. */
static void fit_collective(struct argp_state *state, perf_options_t *options)
{
    const char *name = perf_collective_name(options->collective);
    if (options->collective == PERF_NOP && (perf_op_count(options) > 1 || options->threads))
        argp_error(state, "nop takes no --groups, --comms and --threads");
    if (!perf_collective_reduces(options->collective))
        options->redop_count = 1;
    if (!perf_collective_moves(options->collective))
        options->datatype_count = 1;
    if (!perf_collective_has_root(options->collective) && (options->root_node || options->root > 0))
        argp_error(state, "--root: %s has no root", name);
    if (perf_collective_has_in_place(options->collective))
        return;
    if (!options->placements[0])
        argp_error(state, "--in-place yes: %s has no such form", name);
    options->placements[1] = false;
}

/* What needs GPUs. */
static void fit_memory(struct argp_state *state, const perf_options_t *options)
{
    bool device_memory = options->memory == PERF_MEMORY_DEVICE;
    if (options->order != PERF_ORDER_HOST && !device_memory)
        argp_error(state, "--stream needs --device-memory");
    if (options->gpu_count > 0 && !device_memory)
        argp_error(state, "--gpus needs --device-memory");
    if (device_memory && options->private_daemon)
        argp_error(state, "--device-memory: a --private daemon is on host devices");
    if (device_memory && options->collective == PERF_NOP)
        argp_error(state, "--device-memory: nop has no memory");
}

/* The trace says the rest. */
static void fit_replay(struct argp_state *state, const perf_options_t *options)
{
    if (options->no_gaps && !options->replay)
        argp_error(state, "--no-gaps is for --replay");
    if (!options->replay)
        return;
    if (state->arg_num > 0)
        argp_error(state, "--replay or a collective, not both");
    if (options->rank_count > 0 || options->device_count > 0 || options->threads || options->id_file)
        argp_error(state, "--replay: the trace says which ranks there are, and where: leave out --ranks, "
                          "--devices, --threads and --id-file");
    if (options->memory == PERF_MEMORY_DEVICE || perf_op_count(options) > 1)
        argp_error(state, "--replay takes no --device-memory, --groups and --comms");
}

static void finish(struct argp_state *state, perf_options_t *options)
{
    fit_replay(state, options);
    bool nop = options->collective == PERF_NOP;
    if (nop)
        options->rank_count = 1;
    if (options->max_bytes == UNSET)
        options->max_bytes = options->min_bytes > DEFAULT_MAX_BYTES ? options->min_bytes : DEFAULT_MAX_BYTES;
    if (options->min_bytes > options->max_bytes)
        argp_error(state, "--minbytes is more than --maxbytes");
    if (options->seconds > 0 && (nop || options->iterations > 0))
        argp_error(state, nop ? "nop takes no --seconds: see --iters" : "--seconds or --iters, not both");
    if (options->seconds > 0)
        options->iterations = SECONDS_ITERATIONS;
    if (options->iterations == 0)
        options->iterations = nop ? DEFAULT_NOP_ITERATIONS : DEFAULT_ITERATIONS;
    if (options->warmup == UINT32_MAX)
        options->warmup = nop ? DEFAULT_NOP_WARMUP : options->seconds > 0 ? 1 : DEFAULT_WARMUP;
    if (!options->private_daemon && (options->topology || options->paced))
        argp_error(state, "--topology and --pace are for a --private daemon");
    if (options->private_daemon && options->socket_path)
        argp_error(state, "--private or --socket, not both");
    fit_collective(state, options);
    fit_memory(state, options);
    find_place(state, options);
    if (options->joins && options->root_node)
        argp_error(state, "--root %s: of ranks that something else has started, the number of one",
                   options->root_node);
    if (options->joins && options->threads)
        argp_error(state, "--threads or a launcher, not both");
    if (options->rank_count == 0)
        options->rank_count = options->device_count;
    if (options->device_count > 0 && options->device_count != options->rank_count)
        argp_error(state, "--devices names %u devices for %u ranks", options->device_count,
                   options->rank_count);
}

/* On which ranks and through which daemon. */
static error_t parse_where(int key, char *argument, struct argp_state *state)
{
    perf_options_t *options = state->input;
    switch (key) {
    case KEY_RANKS:
        options->rank_count = (uint32_t)argument_number(state, "--ranks", argument, 1, PERF_RANKS_MAX);
        return 0;
    case KEY_DEVICES:
        options->device_count =
            argument_numbers(state, "--devices", argument, PERF_RANKS_MAX, options->devices);
        return 0;
    case KEY_GPUS:
        options->gpu_count = argument_numbers(state, "--gpus", argument, PERF_GPUS_MAX, options->gpus);
        return 0;
    case KEY_THREADS:
        options->threads = true;
        return 0;
    case KEY_ID_FILE:
        options->id_file = argument;
        return 0;
    case KEY_SOCKET:
        options->socket_path = argument;
        return 0;
    case KEY_PRIVATE:
        options->private_daemon = true;
        return 0;
    case KEY_TOPOLOGY:
        options->topology = argument;
        return 0;
    case KEY_PACE:
        take_pace(state, options, argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* How ops are submitted, and on what memory. */
static error_t parse_how(int key, char *argument, struct argp_state *state)
{
    perf_options_t *options = state->input;
    switch (key) {
    case KEY_MEMORY:
        take_memory(state, options, argument);
        return 0;
    case KEY_DEVICE_MEMORY:
        take_device_memory(state, options, argument);
        return 0;
    case KEY_STREAM:
        take_stream(state, options, argument);
        return 0;
    case KEY_IN_PLACE:
        take_in_place(state, options, argument);
        return 0;
    case KEY_GROUPS:
        options->group_count = (uint32_t)argument_number(state, "--groups", argument, 1, GROUPS_MAX);
        return 0;
    case KEY_COMMS:
        options->comm_count = (uint32_t)argument_number(state, "--comms", argument, 1, COMMS_MAX);
        return 0;
    case KEY_REPLAY:
        options->replay = argument;
        return 0;
    case KEY_NO_GAPS:
        options->no_gaps = true;
        return 0;
    default:
        return parse_where(key, argument, state);
    }
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    perf_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options;
        return 0;
    case 'b':
        options->min_bytes = argument_bytes(state, "--minbytes", argument, 0);
        return 0;
    case 'e':
        options->max_bytes = argument_bytes(state, "--maxbytes", argument, 0);
        return 0;
    case 'f':
        options->step_factor = argument_number(state, "--stepfactor", argument, 2, UINT32_MAX);
        return 0;
    case 'i':
        options->step_bytes = argument_bytes(state, "--stepbytes", argument, 1);
        return 0;
    case KEY_SECONDS:
        options->seconds = argument_seconds(state, "--seconds", argument, SECONDS_LEAST);
        return 0;
    case 'n':
        options->iterations = (uint32_t)argument_number(state, "--iters", argument, 1, ITERATIONS_MAX);
        return 0;
    case 'w':
        options->warmup = (uint32_t)argument_number(state, "--warmup", argument, 0, ITERATIONS_MAX);
        return 0;
    case 'd':
        take_datatype(state, options, argument);
        return 0;
    case 'o':
        take_redop(state, options, argument);
        return 0;
    case 'r':
        take_root(options, argument);
        return 0;
    case 'c':
        take_check(state, options, argument);
        return 0;
    case KEY_ALGORITHM:
        options->algorithm = argument_algorithm(state, "--algorithm", argument);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        take_what(state, options, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (!options->replay)
            argp_error(state, "measure what: " PERF_COLLECTIVE_NAMES "?");
        return 0;
    case ARGP_KEY_END:
        finish(state, options);
        return 0;
    default:
        return parse_how(key, argument, state);
    }
}

void perf_parse_options(int argc, char **argv, perf_options_t *options)
{
    static const struct argp_child children[] = {{&perf_nccl_tests_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = option_list,
                                     .parser = parse_option,
                                     .args_doc = "COLLECTIVE\n--replay FILE",
                                     .doc = DOC,
                                     .children = children};
    argp_program_version = "blink-perf " BLINK_VERSION;
    argp_err_exit_status = PERF_EXIT_USAGE;
    *options = (perf_options_t){.min_bytes = DEFAULT_MIN_BYTES,
                                .max_bytes = UNSET,
                                .step_factor = DEFAULT_STEP_FACTOR,
                                .warmup = UINT32_MAX,
                                .datatypes = {BLINK_FLOAT32},
                                .redops = {BLINK_SUM},
                                .datatype_count = 1,
                                .redop_count = 1,
                                .placements = {true, true},
                                .check = true,
                                .group_count = 1,
                                .comm_count = 1,
                                .algorithm = BLINK_ALGORITHM_AUTO};
    command_line_parse(&argp, argc, argv, 0, options);
}

uint32_t perf_op_count(const perf_options_t *options)
{
    return options->group_count * options->comm_count;
}

uint32_t perf_device(const perf_options_t *options, uint32_t rank)
{
    return options->device_count > 0 ? options->devices[rank] : rank;
}

const char *perf_gpu_memory_name(perf_gpu_memory_t kind)
{
    return gpu_memory_names[kind];
}

const char *perf_order_name(perf_order_t order)
{
    static const char *const names[] = {
        [PERF_ORDER_HOST] = NULL, [PERF_ORDER_STREAM] = "stream", [PERF_ORDER_GRAPH] = "graph"};
    return names[order];
}
