/* The options of a planning request, and what they name. */
#include "request.h"

#include "names.h"
#include "plan/baseline/nccl/nccl_model.h"
#include "plan/model.h"
#include "tools/human.h"
#include "topo/reached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLLECTIVE_NAMES                                                                                     \
    "allreduce, broadcast, reduce, allgather, reducescatter, gather, scatter, alltoall or sendrecv"
#define ALGORITHMS                                                                                           \
    "auto, trees, shallow-trees, ring, double-binary-tree, blink, one-hop, binomial, recursive-doubling or " \
    "multicast"

#define SECONDS_MAX 1e6

enum {
    KEY_TOPOLOGY = 't',
    KEY_COLLECTIVE = 'c',
    KEY_RANKS = 'r',
    KEY_ALGORITHM = 'a',
    KEY_ROOT = 1000,
    KEY_PEER,
    KEY_BYTES,
    KEY_PLAN_SECONDS,
    KEY_WIRES,
    KEY_GPUS,
    KEY_PEERS_MOST,
    KEY_MULTICAST
};

const request_t request_default = {
    .collective = BLINK_ALLREDUCE, .algorithm_count = 1, .algorithms = {BLINK_ALGORITHM_AUTO}, .peer = 1};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What to plan:", -1},
    {"topology", KEY_TOPOLOGY, "NAME|FILE", 0, "Topology to plan on", -1},
    {"collective", KEY_COLLECTIVE, "NAME", 0, COLLECTIVE_NAMES "; default: allreduce", -1},
    {"ranks", KEY_RANKS, "LIST", 0,
     "Device of each rank, such as 1,4,5,6: devices by number or node id (default: all)", -1},
    {"root", KEY_ROOT, "RANK", 0, "Rank that has or gets all (default 0); of sendrecv the source", -1},
    {"peer", KEY_PEER, "RANK", 0, "Destination of sendrecv (default 1)", -1},
    {"algorithm", KEY_ALGORITHM, "NAME", 0, ALGORITHMS "; default: auto", -1},
    {"plan-seconds", KEY_PLAN_SECONDS, "SECONDS", 0,
     "Take the best plan found after so long, and say what it may lack (default: no limit)", -1},
    {"wires", KEY_WIRES, NULL, 0,
     "Hosts have daemons of their own: count what their moves take, as for a communicator that spans hosts",
     -1},
    {"gpus", KEY_GPUS, NULL, 0,
     "Devices are GPUs: of a named machine's NVLinks 80% of the line rate, which is what multiprocessors "
     "reach, and its NVSwitches as one, and blocks that move no more than such GPUs' do, as daemons on GPUs "
     "plan. Files say themselves what links carry",
     -1},
    {"peers-most", KEY_PEERS_MOST, "COUNT", 0,
     "Choose among plans by which no host exchanges data with more others than so many (default: any number)",
     -1},
    {"multicast", KEY_MULTICAST, NULL, 0,
     "Choose among plans by which switches reduce and copy, too, which no GPU runs yet", -1},
    {"bytes", KEY_BYTES, "SIZE", 0, "Payload, with K, M or G for powers of 1024", -1},
    {0},
};

static uint32_t take_number(struct argp_state *state, const char *option, const char *what, const char *text)
{
    uint64_t number = 0;
    if (!human_parse_number(text, UINT32_MAX - 1, &number))
        argp_error(state, "--%s %s: %s", option, text, what);
    return (uint32_t)number;
}

static uint32_t take_rank(struct argp_state *state, const char *option, const char *text)
{
    return take_number(state, option, "the number of a rank", text);
}

static double take_seconds(struct argp_state *state, const char *option, const char *text)
{
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds > 0.0 && seconds <= SECONDS_MAX))
        argp_error(state, "--%s %s: a number of seconds above 0 and up to %g", option, text, SECONDS_MAX);
    return seconds;
}

static void take_algorithms(struct argp_state *state, request_t *request, const char *list)
{
    request->algorithm_count = 0;
    for (const char *at = list;; at++) {
        char word[32] = "";
        size_t length = strcspn(at, ",");
        if (length < sizeof(word))
            memcpy(word, at, length);
        if (request->algorithm_count == REQUEST_ALGORITHMS_MAX)
            argp_error(state, "--algorithm: more than %u", REQUEST_ALGORITHMS_MAX);
        blink_algorithm_t *algorithm = &request->algorithms[request->algorithm_count++];
        if (!blink_parse_algorithm(word, algorithm))
            argp_error(state, "--algorithm %s: there is no algorithm \"%.*s\"; it may be " ALGORITHMS, list,
                       (int)length, at);
        request->multicast = request->multicast || *algorithm == BLINK_ALGORITHM_MULTICAST;
        at += length;
        if (!*at)
            return;
    }
}

static error_t parse_request(int key, char *argument, struct argp_state *state)
{
    request_t *request = state->input;
    switch (key) {
    case KEY_TOPOLOGY:
        request->topology = argument;
        return 0;
    case KEY_COLLECTIVE:
        if (!blink_parse_collective(argument, &request->collective))
            argp_error(state, "--collective %s: " COLLECTIVE_NAMES, argument);
        return 0;
    case KEY_RANKS:
        request->ranks = argument;
        return 0;
    case KEY_ROOT:
        request->root = take_rank(state, "root", argument);
        return 0;
    case KEY_PEER:
        request->peer = take_rank(state, "peer", argument);
        return 0;
    case KEY_ALGORITHM:
        take_algorithms(state, request, argument);
        return 0;
    case KEY_BYTES:
        if (!human_parse_bytes(argument, &request->bytes) || request->bytes == 0)
            argp_error(state, "--bytes %s: a size such as 512, 64K or 1G", argument);
        return 0;
    case KEY_PLAN_SECONDS:
        request->plan_seconds = take_seconds(state, "plan-seconds", argument);
        return 0;
    case KEY_GPUS:
        request->gpus = true;
        return 0;
    case KEY_WIRES:
        request->wires = true;
        return 0;
    case KEY_MULTICAST:
        request->multicast = true;
        return 0;
    case KEY_PEERS_MOST:
        request->peers_most = take_number(state, "peers-most", "how many hosts", argument);
        return 0;
    case ARGP_KEY_END:
        if (!request->topology && !request->optional)
            argp_error(state, "--topology is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

char *request_help(int key, const char *text, void *input)
{
    (void)input;
    char *written = NULL;
    size_t bytes = 0;
    FILE *out = key == ARGP_KEY_HELP_POST_DOC ? open_memstream(&written, &bytes) : NULL;
    if (!out)
        return (char *)text;
    fprintf(out, "%s%sBuilt-in topologies:", text ? text : "", text ? "\n" : "");
    for (const char *const *name = topo_builtin_names(); *name; name++)
        fprintf(out, " %s", *name);
    fprintf(out,
            ".\nNxNAME is N hosts like that (1 to %u, %u devices in all) behind a non-blocking network, "
            "each with the NICs usual for it; NxNAME@G gives each NIC G GB/s: 64xdgx1v, 2xdgx1v_hybrid@5.\n"
            "Files may be blink-topology/1 JSON or NCCL topology XML.",
            TOPO_GENERATED_HOSTS_MAX, TOPO_GENERATED_GPUS_MAX);
    fclose(out);
    return written;
}

const struct argp request_argp = {.options = options, .parser = parse_request, .help_filter = request_help};

/* A device by its index or by its node's id. */
static blink_result_t find_device(const topo_t *topo, const char *word, uint32_t *node)
{
    uint64_t index;
    *node = topo_find_node(topo, word);
    if (*node != TOPO_NONE)
        return BLINK_OK;
    if (!human_parse_number(word, UINT32_MAX, &index))
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "topology %s has no node \"%s\"", topo->name, word);
    if (index >= topo->gpu_count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "topology %s has devices 0 to %u, not %u", topo->name,
                          topo->gpu_count - 1, (uint32_t)index);
    *node = topo->gpus[index];
    return BLINK_OK;
}

/* `nodes` takes PLAN_RANKS_MAX. */
static blink_result_t parse_ranks(const topo_t *topo, const char *list, uint32_t *nodes, uint32_t *count)
{
    char *words = strdup(list);
    if (!words)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the list of ranks");
    blink_result_t result = BLINK_OK;
    char *rest = words;
    *count = 0;
    for (char *word; result == BLINK_OK && (word = strsep(&rest, ",")) != NULL;) {
        if (*count == PLAN_RANKS_MAX)
            result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "more than %u ranks", PLAN_RANKS_MAX);
        else
            result = find_device(topo, word, &nodes[(*count)++]);
    }
    free(words);
    return result;
}

blink_result_t request_load(const char *what, topo_t **topo)
{
    BLINK_TRY(topo_load(what, topo));
    if ((*topo)->notes)
        fprintf(stderr, "blinkctl: %s is read, but for this:\n%s\n", what, (*topo)->notes);
    return BLINK_OK;
}

static blink_result_t load_topology(const request_t *request, topo_t **topo)
{
    return request->gpus && topo_is_machine(request->topology) ? topo_load_as_reached(request->topology, topo)
                                                               : request_load(request->topology, topo);
}

/* A topology does not say which GPUs it has. Of several hosts a daemon plans by links alone. */
static double guess_block_GBps(const topo_t *topo)
{
    static const uint32_t capabilities[] = {
        [NCCL_PASCAL] = 60, [NCCL_VOLTA] = 70, [NCCL_AMPERE] = 80, [NCCL_HOPPER] = 90};
    for (uint32_t i = 1; i < topo->gpu_count; i++)
        if (strcmp(topo->nodes[topo->gpus[i]].host, topo->nodes[topo->gpus[0]].host) != 0)
            return 0;
    return model_block_GBps(capabilities[nccl_guess_generation(topo, topo->gpus, topo->gpu_count)]);
}

blink_result_t request_open(const request_t *request, request_case_t *opened)
{
    *opened = (request_case_t){.plan = {.collective = request->collective,
                                        .algorithm = request->algorithms[0],
                                        .root = request->root,
                                        .peer = request->peer,
                                        .bytes = request->bytes,
                                        .peers_most = request->peers_most,
                                        .multicast = request->multicast,
                                        .move_us = request->wires ? MODEL_WIRE_MOVE_US : 0,
                                        .plan_seconds = request->plan_seconds}};
    BLINK_TRY(load_topology(request, &opened->topo));
    opened->plan.rank_node = opened->topo->gpus;
    opened->plan.rank_count = opened->topo->gpu_count;
    if (request->gpus)
        opened->plan.block_GBps = guess_block_GBps(opened->topo);
    if (!request->ranks)
        return BLINK_OK;
    opened->plan.rank_node = opened->nodes;
    blink_result_t result =
        parse_ranks(opened->topo, request->ranks, opened->nodes, &opened->plan.rank_count);
    if (result != BLINK_OK)
        request_close(opened);
    return result;
}

void request_close(request_case_t *opened)
{
    topo_destroy(opened->topo);
    opened->topo = NULL;
}
