/* blinkctl topology: the daemon's, a communicator's, a named one or this machine's own, in any printed form.
 */
#include "ctl.h"

#include "base/command_line.h"
#include "request.h"
#include "tools/arguments.h"
#include "topo/detect/detect.h"
#include "topo/topo.h"

#include <stdlib.h>

enum { KEY_DETECT = 256, KEY_COMM };

typedef blink_result_t topo_writer_t(const topo_t *topo, char **text);

typedef struct topology_options {
    ctl_options_t *common;
    const char *what; /* NULL: the daemon's */
    bool detect;      /* this machine's */
    uint32_t comm;    /* of this communicator's hosts; 0: of the daemon's */
    topo_writer_t *write;
} topology_options_t;

static topo_writer_t *take_format(struct argp_state *state, const char *text)
{
    static const char *const formats[] = {"table", "json", "dot", "svg", NULL};
    static topo_writer_t *const writers[] = {topo_write_table, topo_write_json, topo_write_dot,
                                             topo_write_svg};
    return writers[argument_word(state, "--format", text, formats)];
}

static error_t parse_topology(int key, char *argument, struct argp_state *state)
{
    topology_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case 'f':
        options->write = take_format(state, argument);
        return 0;
    case KEY_DETECT:
        options->detect = true;
        return 0;
    case KEY_COMM:
        options->comm = argument_comm(state, "--comm", argument);
        return 0;
    case 't':
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

static blink_result_t find_topology(const topology_options_t *options, topo_t **topo)
{
    if (options->detect)
        return topo_detect(&(detect_sources_t){0}, topo);
    return options->what ? request_load(options->what, topo)
                         : request_load_daemons(options->common, options->comm, topo);
}

blink_result_t ctl_topology(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"topology", 't', "NAME|FILE", 0, "The one named, as plan takes it; also without --topology", 0},
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
    command_line_parse(&argp, argc, argv, 0, &options);
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
