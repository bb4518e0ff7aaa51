/* blinkctl topology and plan: the two commands that work without a daemon. */
#include "ctl.h"

#include "request.h"

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

typedef struct plan_options {
    ctl_options_t *common;
    request_t request;
} plan_options_t;

static error_t parse_plan(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    plan_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->request;
        state->child_inputs[1] = options->common;
        return 0;
    case ARGP_KEY_END:
        if (options->request.algorithm_count > 1)
            argp_error(state, "one --algorithm");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static blink_result_t plan_and_print(const topo_t *topo, const plan_request_t *request, bool json)
{
    plan_t *plan;
    BLINK_TRY(plan_create(topo, request, &plan));
    char *text = NULL;
    blink_result_t result = json ? plan_write_json(topo, plan, &text) : plan_write_table(topo, plan, &text);
    plan_destroy(plan);
    if (result == BLINK_OK)
        print_text(text);
    return result;
}

blink_result_t ctl_plan(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_child children[] = {
        {&request_argp, 0, NULL, 0}, {&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.parser = parse_plan,
                                     .doc = "Plan a collective without a daemon: the trees or rings, the "
                                            "rate they allow and the proven bound. --json prints "
                                            "blink-plan/1.",
                                     .children = children};
    plan_options_t options = {.common = common, .request = request_default};
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    request_case_t opened;
    BLINK_TRY(request_open(&options.request, &opened));
    blink_result_t result = plan_and_print(opened.topo, &opened.plan, common->json);
    plan_thread_release();
    request_close(&opened);
    return result;
}
