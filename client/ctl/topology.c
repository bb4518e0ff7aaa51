/* blinkctl topology: the daemon's, a communicator's, a named one or this machine's own, in any printed form.
 */
#include "ctl.h"

#include "request.h"
#include "tools/human.h"
#include "topo/detect/detect.h"
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_DETECT = 256, KEY_COMM };

typedef blink_result_t topo_writer_t(const topo_t *topo, char **text);

typedef struct topology_options {
    ctl_options_t *common;
    const char *what; /* NULL: the daemon's */
    bool detect;      /* this machine's */
    uint32_t comm;    /* of this communicator's hosts; 0: of the daemon's */
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

static uint32_t take_comm(struct argp_state *state, const char *text)
{
    uint64_t comm = 0;
    if (!human_parse_number(text, UINT32_MAX, &comm) || comm == 0)
        argp_error(state, "--comm %s: the number of a communicator", text);
    return (uint32_t)comm;
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
    case KEY_DETECT:
        options->detect = true;
        return 0;
    case KEY_COMM:
        options->comm = take_comm(state, argument);
        return 0;
    case ARGP_KEY_ARG:
        if (options->what)
            argp_error(state, "one topology, not \"%s\" and \"%s\"", options->what, argument);
        options->what = argument;
        return 0;
    case ARGP_KEY_END:
        if (options->what && options->detect)
            argp_error(state, "either --detect or \"%s\"", options->what);
        if (options->comm && (options->what || options->detect))
            argp_error(state, "--comm asks the daemon");
        if (options->common->host && (options->what || options->detect))
            argp_error(state, "--host asks a daemon for its topology");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static blink_result_t daemons_topology(const ctl_options_t *options, uint32_t comm, topo_t **topo)
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

static blink_result_t find_topology(const topology_options_t *options, topo_t **topo)
{
    if (options->detect)
        return topo_detect(&(detect_sources_t){0}, topo);
    return options->what ? request_load(options->what, topo)
                         : daemons_topology(options->common, options->comm, topo);
}

blink_result_t ctl_topology(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"format", 'f', "FORMAT", 0, "table (default), json, dot (Graphviz) or svg", 0},
        {"comm", KEY_COMM, "N", 0,
         "The one in which live communicator N has its plans: of all its hosts, joined", 0},
        {"detect", KEY_DETECT, NULL, 0, "Find out this machine's, from hwloc, NVML and sysfs", 0},
        {0}};
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = own,
                                     .parser = parse_topology,
                                     .args_doc = "[NAME|FILE]",
                                     .doc =
                                         "Show the daemon's topology or, without a daemon, the one named.\v",
                                     .children = children,
                                     .help_filter = request_help};
    topology_options_t options = {.common = common};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (!options.write)
        options.write = common->json ? topo_write_json : topo_write_table;

    topo_t *topo;
    BLINK_TRY(find_topology(&options, &topo));
    char *text = NULL;
    blink_result_t result = options.write(topo, &text);
    if (result == BLINK_OK)
        fputs(text, stdout);
    free(text);
    topo_destroy(topo);
    return result;
}
