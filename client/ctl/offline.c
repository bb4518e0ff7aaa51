/* blinkctl topology and plan: the two commands that work without a daemon. */
#include "ctl.h"

#include "names.h"
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Print and free. */
static void print_text(char *text)
{
    size_t length = strlen(text);
    fputs(text, stdout);
    if (length > 0 && text[length - 1] != '\n')
        putchar('\n');
    free(text);
}

/* Sentence for --help. The caller frees it. */
static char *with_builtin_names(const char *doc)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fprintf(out, "%s\vBuilt-in topologies:", doc);
    for (const char *const *name = topo_builtin_names(); *name; name++)
        fprintf(out, " %s", *name);
    fputs(".\nFiles may be blink-topology/1 JSON or NCCL topology XML.", out);
    fclose(out);
    return text;
}

/* ---- topology ---- */

typedef blink_result_t topo_writer_t(const topo_t *topo, char **text);

typedef struct topology_options {
    ctl_options_t *common;
    const char *what; /* NULL: the daemon's */
    topo_writer_t *write;
} topology_options_t;

static topo_writer_t *find_writer(const char *format)
{
    static const struct {
        const char *format;
        topo_writer_t *write;
    } writers[] = {{"table", topo_write_table},
                   {"json", topo_write_json},
                   {"dot", topo_write_dot},
                   {"svg", topo_write_svg}};
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
        if (strcmp(writers[i].format, format) == 0)
            return writers[i].write;
    return NULL;
}

static error_t parse_topology(int key, char *argument, struct argp_state *state)
{
    topology_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case 'f':
        options->write = find_writer(argument);
        if (!options->write)
            argp_error(state, "--format %s: table, json, dot or svg", argument);
        return 0;
    case ARGP_KEY_ARG:
        if (options->what)
            argp_error(state, "one topology, not \"%s\" and \"%s\"", options->what, argument);
        options->what = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static blink_result_t daemons_topology(const ctl_options_t *options, topo_t **topo)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__TOPOLOGY, &reply));
    const char *text = reply->query->topology_json;
    blink_result_t result = topo_parse_json(text, strlen(text), "the daemon's topology", topo);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t ctl_topology(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"format", 'f', "FORMAT", 0, "table (default), json, dot (Graphviz) or svg", 0}, {0}};
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    char *doc = with_builtin_names("Show the daemon's topology or, without a daemon, the one named.");
    const struct argp argp = {.options = own,
                              .parser = parse_topology,
                              .args_doc = "[NAME|FILE]",
                              .doc = doc,
                              .children = children};
    topology_options_t options = {.common = common};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    free(doc);
    if (!options.write)
        options.write = common->json ? topo_write_json : topo_write_table;

    topo_t *topo;
    BLINK_TRY(options.what ? topo_load(options.what, &topo) : daemons_topology(common, &topo));
    char *text = NULL;
    blink_result_t result = options.write(topo, &text);
    if (result == BLINK_OK)
        print_text(text);
    topo_destroy(topo);
    return result;
}

/* ---- plan ---- */

enum { KEY_TOPOLOGY = 't', KEY_COLLECTIVE = 'c', KEY_RANKS = 'r', KEY_ROOT = 256, KEY_ALGORITHM = 'a' };

typedef struct plan_options {
    ctl_options_t *common;
    const char *topology;
    const char *ranks; /* NULL: all gpus */
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root;
} plan_options_t;

/* Digits only; false also for what does not fit. */
static bool parse_number(const char *text, uint32_t *number)
{
    if (!*text || text[strspn(text, "0123456789")])
        return false;
    errno = 0;
    unsigned long value = strtoul(text, NULL, 10);
    if (errno != 0 || value >= UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    return true;
}

static error_t parse_plan(int key, char *argument, struct argp_state *state)
{
    plan_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case KEY_TOPOLOGY:
        options->topology = argument;
        return 0;
    case KEY_COLLECTIVE:
        if (!blink_parse_collective(argument, &options->collective))
            argp_error(state, "--collective %s: allreduce or broadcast", argument);
        return 0;
    case KEY_RANKS:
        options->ranks = argument;
        return 0;
    case KEY_ROOT:
        if (!parse_number(argument, &options->root))
            argp_error(state, "--root %s: the number of a rank", argument);
        return 0;
    case KEY_ALGORITHM:
        if (!blink_parse_algorithm(argument, &options->algorithm))
            argp_error(state, "--algorithm %s: auto, ring or trees", argument);
        return 0;
    case ARGP_KEY_END:
        if (!options->topology)
            argp_error(state, "--topology is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A gpu by its index or by its node's id. */
static blink_result_t find_gpu(const topo_t *topo, const char *word, uint32_t *node)
{
    uint32_t index;
    *node = topo_find_node(topo, word);
    if (*node != TOPO_NONE)
        return BLINK_OK;
    if (!parse_number(word, &index))
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "topology %s has no node \"%s\"", topo->name, word);
    if (index >= topo->gpu_count)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "topology %s has gpus 0 to %u, not %u", topo->name,
                          topo->gpu_count - 1, index);
    *node = topo->gpus[index];
    return BLINK_OK;
}

/* `nodes` has room for PLAN_RANKS_MAX. */
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
            result = find_gpu(topo, word, &nodes[(*count)++]);
    }
    free(words);
    return result;
}

static blink_result_t plan_and_print(const topo_t *topo, const plan_options_t *options)
{
    uint32_t nodes[PLAN_RANKS_MAX];
    plan_request_t request = {.collective = options->collective,
                              .algorithm = options->algorithm,
                              .rank_node = options->ranks ? nodes : topo->gpus,
                              .rank_count = topo->gpu_count,
                              .root = options->root};
    if (options->ranks)
        BLINK_TRY(parse_ranks(topo, options->ranks, nodes, &request.rank_count));
    plan_t *plan;
    BLINK_TRY(plan_create(topo, &request, &plan));
    char *text = NULL;
    blink_result_t result =
        options->common->json ? plan_write_json(topo, plan, &text) : plan_write_table(topo, plan, &text);
    plan_destroy(plan);
    if (result == BLINK_OK)
        print_text(text);
    return result;
}

blink_result_t ctl_plan(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"topology", KEY_TOPOLOGY, "NAME|FILE", 0, "Topology to plan on", 0},
        {"collective", KEY_COLLECTIVE, "NAME", 0, "allreduce (default) or broadcast", 0},
        {"ranks", KEY_RANKS, "LIST", 0,
         "Device of each rank, such as 1,4,5,6: gpus by number or node id (default: all)", 0},
        {"root", KEY_ROOT, "RANK", 0, "Rank that broadcasts (default 0)", 0},
        {"algorithm", KEY_ALGORITHM, "NAME", 0, "auto (default), ring or trees", 0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    char *doc = with_builtin_names("Plan a collective without a daemon: the trees or rings, the rate they "
                                   "allow and the proven bound. --json prints blink-plan/1.");
    const struct argp argp = {.options = own, .parser = parse_plan, .doc = doc, .children = children};
    plan_options_t options = {.common = common};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    free(doc);

    topo_t *topo;
    BLINK_TRY(topo_load(options.topology, &topo));
    blink_result_t result = plan_and_print(topo, &options);
    plan_thread_release();
    topo_destroy(topo);
    return result;
}
