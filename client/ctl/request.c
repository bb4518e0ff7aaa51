/* The options of a planning request, and what they name. */
#include "request.h"

#include "base/value.h"
#include "collective.h"
#include "names.h"
#include "plan/baseline/nccl/nccl_model.h"
#include "plan/model.h"
#include "tools/arguments.h"
#include "topo/reached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_LEAST 1e-6

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
    .collective = BLINK_ALLREDUCE, .algorithm_count = 1, .algorithms = {BLINK_ALGORITHM_AUTO}};

static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "What to plan:", -1},
    {"topology", KEY_TOPOLOGY, "NAME|FILE", 0, "Topology to plan on (default: the running daemon's)", -1},
    {"collective", KEY_COLLECTIVE, "NAME", 0, ARGUMENT_COLLECTIVES "; default: allreduce", -1},
    {"ranks", KEY_RANKS, "LIST", 0,
     "Device of each rank, such as 0-3,6: devices by number or node id (default: all)", -1},
    {"root", KEY_ROOT, "RANK", 0,
     "Rank that has or gets all, by number or node id (default 0); of sendrecv the source", -1},
    {"peer", KEY_PEER, "RANK", 0, "Destination of sendrecv (default 1)", -1},
    {"algorithm", KEY_ALGORITHM, "NAME", 0, ARGUMENT_ALGORITHMS "; default: auto", -1},
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
     "Choose among plans by which switches reduce and copy, too, as a daemon does for GPUs that have such",
     -1},
    {"bytes", KEY_BYTES, "SIZE", 0, "Payload: 512, 64K, 64KiB, 1G (powers of 1024)", -1},
    {0},
};

static void take_algorithms(struct argp_state *state, request_t *request, const char *list)
{
    char item[VALUE_ITEM_BYTES];
    request->algorithm_count = 0;
    for (const char *rest = list; value_next_item(&rest, item);) {
        if (request->algorithm_count == REQUEST_ALGORITHMS_MAX)
            argp_error(state, "--algorithm: more than %u", REQUEST_ALGORITHMS_MAX);
        blink_algorithm_t algorithm = argument_algorithm(state, "--algorithm", item);
        request->algorithms[request->algorithm_count++] = algorithm;
        request->multicast = request->multicast || algorithm == BLINK_ALGORITHM_MULTICAST;
    }
}

static void check_request(struct argp_state *state, const request_t *request)
{
    const char *name = blink_name_collective(request->collective);
    if (request->topology && request->common->host)
        argp_error(state, "--host asks a daemon for its topology, and --topology names another: not both");
    if (request->root && !collective_has_root(request->collective))
        argp_error(state, "--root %s: %s has no root; --collective names another", request->root, name);
    if (request->peer && request->collective != BLINK_SENDRECV)
        argp_error(state, "--peer %s: %s has no peer, only sendrecv has", request->peer, name);
}

static error_t take_option(int key, char *argument, struct argp_state *state, request_t *request)
{
    switch (key) {
    case KEY_TOPOLOGY:
        request->topology = argument;
        return 0;
    case KEY_COLLECTIVE:
        request->collective = argument_collective(state, "--collective", argument);
        return 0;
    case KEY_RANKS:
        request->ranks = argument;
        return 0;
    case KEY_ROOT:
        request->root = argument;
        return 0;
    case KEY_PEER:
        request->peer = argument;
        return 0;
    case KEY_ALGORITHM:
        take_algorithms(state, request, argument);
        return 0;
    case KEY_BYTES:
        request->bytes = argument_bytes(state, "--bytes", argument, 1);
        return 0;
    case KEY_PLAN_SECONDS:
        request->plan_seconds = argument_seconds(state, "--plan-seconds", argument, SECONDS_LEAST);
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
        request->peers_most = (uint32_t)argument_number(state, "--peers-most", argument, 0, UINT32_MAX - 1);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_request(int key, char *argument, struct argp_state *state)
{
    request_t *request = state->input;
    if (key == ARGP_KEY_END) {
        check_request(state, request);
        return 0;
    }
    error_t error = take_option(key, argument, state, request);
    request->is_given |= error == 0;
    return error;
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
            "Files may be blink-topology/1 JSON or topology XML of NCCL or RCCL.",
            TOPO_GENERATED_HOSTS_MAX, TOPO_GENERATED_GPUS_MAX);
    fclose(out);
    return written;
}

const struct argp request_argp = {
    .options = option_list, .parser = parse_request, .help_filter = request_help};

/* The devices of one item of a list: a node's id, an index or a range of these. */
static blink_result_t add_devices(const topo_t *topo, const char *item, uint32_t *nodes, uint32_t *count)
{
    uint32_t first, last, node = topo_find_node(topo, item);
    bool is_node = node != TOPO_NONE;
    if (is_node)
        first = last = 0;
    else if (!value_parse_range(item, INT32_MAX, &first, &last))
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "topology %s has no node \"%s\"", topo->name, item);
    else if (first >= topo->gpu_count || last >= topo->gpu_count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "topology %s has devices 0 to %u, not %u", topo->name,
                          topo->gpu_count - 1, first > last ? first : last);
    uint32_t more = 1 + (last > first ? last - first : first - last);
    if (more > PLAN_RANKS_MAX - *count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "more than %u ranks", PLAN_RANKS_MAX);
    for (uint32_t i = 0; i < more; i++)
        nodes[(*count)++] = is_node ? node : topo->gpus[last > first ? first + i : first - i];
    return BLINK_OK;
}

/* `nodes` takes PLAN_RANKS_MAX. */
static blink_result_t parse_ranks(const topo_t *topo, const char *list, uint32_t *nodes, uint32_t *count)
{
    char item[VALUE_ITEM_BYTES];
    *count = 0;
    for (const char *rest = list; value_next_item(&rest, item);)
        BLINK_TRY(add_devices(topo, item, nodes, count));
    return BLINK_OK;
}

/* A rank by its number or by its node's id; `missing` unless one is named. */
static blink_result_t find_rank(const request_case_t *opened, const char *option, const char *text,
                                uint32_t missing, uint32_t *rank)
{
    uint64_t number = missing;
    if (!text || value_parse_number(text, UINT32_MAX - 1, &number)) {
        *rank = (uint32_t)number;
        return BLINK_OK;
    }
    uint32_t node = topo_find_node(opened->topo, text);
    for (*rank = 0; *rank < opened->plan.rank_count; ++*rank)
        if (node != TOPO_NONE && opened->plan.rank_node[*rank] == node)
            return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "%s %s: neither the number of a rank nor the node of one%s%s",
                      option, text, node == TOPO_NONE ? ": no such node is in topology " : "",
                      node == TOPO_NONE ? opened->topo->name : "");
}

blink_result_t request_load(const char *what, topo_t **topo)
{
    BLINK_TRY(topo_load(what, topo));
    if ((*topo)->notes)
        fprintf(stderr, "blinkctl: %s is read, but for this:\n%s\n", what, (*topo)->notes);
    return BLINK_OK;
}

blink_result_t request_load_daemons(const ctl_options_t *options, uint32_t comm, topo_t **topo)
{
    Blinkwire__Reply *reply;
    Blinkwire__Query question = ctl_question(options, BLINKWIRE__QUERY_KIND__TOPOLOGY);
    question.comm = comm;
    BLINK_TRY(ctl_ask_for(options, &question, &reply));
    const char *text = reply->query->topology_json;
    blink_result_t result = topo_parse_json(text, strlen(text), "the daemon's topology", topo);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

/* The rates of a topology are those of the machine that it describes. */
static blink_result_t say_how_fast_links_are(const ctl_options_t *options)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__STATUS, &reply));
    const Blinkwire__StatusReply *status = reply->query->status;
    if (status && status->pace_scale > 0)
        fprintf(stderr, "blinkctl: the daemon paces its links at %g of what is counted with here\n",
                status->pace_scale);
    else if (status && !*status->gpu_sharing)
        fprintf(stderr,
                "blinkctl: the daemon's host devices are as fast as memory, not as is counted with here\n");
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

static blink_result_t load_daemons(const ctl_options_t *options, topo_t **topo)
{
    blink_result_t result = request_load_daemons(options, 0, topo);
    if (result == BLINK_ERR_CONNECT)
        return BLINK_FAIL(result, "no --topology is named, and %s", blink_error_text());
    BLINK_TRY(result);
    result = say_how_fast_links_are(options);
    if (result != BLINK_OK)
        topo_destroy(*topo);
    return result;
}

static blink_result_t load_topology(const request_t *request, topo_t **topo)
{
    if (!request->topology)
        return load_daemons(request->common, topo);
    return request->gpus && topo_is_machine(request->topology) ? topo_load_as_reached(request->topology, topo)
                                                               : request_load(request->topology, topo);
}

/* A topology does not say which GPUs it has. */
static double guess_block_GBps(const topo_t *topo)
{
    static const uint32_t capabilities[] = {
        [NCCL_PASCAL] = 60, [NCCL_VOLTA] = 70, [NCCL_AMPERE] = 80, [NCCL_HOPPER] = 90};
    return model_block_GBps(capabilities[nccl_guess_generation(topo, topo->gpus, topo->gpu_count)]);
}

blink_result_t request_open(const request_t *request, request_case_t *opened)
{
    *opened = (request_case_t){.plan = {.collective = request->collective,
                                        .algorithm = request->algorithms[0],
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
    blink_result_t result = BLINK_OK;
    if (request->ranks) {
        opened->plan.rank_node = opened->nodes;
        result = parse_ranks(opened->topo, request->ranks, opened->nodes, &opened->plan.rank_count);
    }
    if (result == BLINK_OK)
        result = find_rank(opened, "--root", request->root, 0, &opened->plan.root);
    if (result == BLINK_OK)
        result = find_rank(opened, "--peer", request->peer, 1, &opened->plan.peer);
    if (result != BLINK_OK)
        request_close(opened);
    return result;
}

void request_close(request_case_t *opened)
{
    topo_destroy(opened->topo);
    opened->topo = NULL;
}
