/* blinkctl plan: a collective planned without a daemon, as a table, JSON or a picture. */
#include "ctl.h"
#include "request.h"
#include "tools/file.h"

#include "base/command_line.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_SVG = 256, KEY_DOT, KEY_LANES };

typedef struct plan_options {
    ctl_options_t *common;
    request_t request;
    const char *svg_path;
    bool dot, lanes;
} plan_options_t;

static const struct argp_option own_options[] = {
    {NULL, 0, NULL, 0, "What to show (default: a table):", 1},
    {"svg", KEY_SVG, "FILE", 0, "Draw the topology with each tree in a colour and each link's load as width",
     1},
    {"dot", KEY_DOT, NULL, 0, "Print the trees for Graphviz", 1},
    {"lanes", KEY_LANES, NULL, 0, "Print the lanes that ranks, and wires between hosts, run", 1},
    {0},
};

static void check_options(struct argp_state *state, const plan_options_t *options)
{
    if (options->request.algorithm_count > 1)
        argp_error(state, "one --algorithm");
    const struct {
        const char *name;
        bool given;
    } forms[] = {{"--json", options->common->json},
                 {"--svg", options->svg_path != NULL},
                 {"--dot", options->dot},
                 {"--lanes", options->lanes}};
    const char *given = NULL;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        if (forms[i].given && given)
            argp_error(state, "%s or %s, not both", given, forms[i].name);
        given = forms[i].given ? forms[i].name : given;
    }
}

static error_t parse_plan(int key, char *argument, struct argp_state *state)
{
    plan_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->request;
        state->child_inputs[1] = options->common;
        return 0;
    case KEY_SVG:
        options->svg_path = argument;
        return 0;
    case KEY_DOT:
        options->dot = true;
        return 0;
    case KEY_LANES:
        options->lanes = true;
        return 0;
    case ARGP_KEY_END:
        check_options(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static blink_result_t write_plan(const topo_t *topo, const plan_t *plan, const plan_options_t *options,
                                 char **text)
{
    if (options->svg_path)
        return plan_write_svg(topo, plan, text);
    if (options->dot)
        return plan_write_dot(topo, plan, text);
    if (options->lanes)
        return plan_write_lanes(topo, plan, options->request.bytes, text);
    if (options->common->json)
        return plan_write_json(topo, plan, text);
    return plan_write_table(topo, plan, options->request.bytes, text);
}

static blink_result_t plan_and_show(const topo_t *topo, const plan_request_t *request,
                                    const plan_options_t *options)
{
    plan_t *plan;
    BLINK_TRY(plan_create(topo, request, &plan));
    char *text = NULL;
    blink_result_t result = write_plan(topo, plan, options, &text);
    plan_destroy(plan);
    if (result == BLINK_OK && options->svg_path)
        result = file_write_whole(options->svg_path, text);
    else if (result == BLINK_OK)
        fputs(text, stdout);
    free(text);
    return result;
}

blink_result_t ctl_plan(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_child children[] = {
        {&request_argp, 0, NULL, 0}, {&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = own_options,
                                     .parser = parse_plan,
                                     .doc =
                                         "Plan a collective, on the topology of the running daemon or on the "
                                         "one named: the trees, rings or routes, the rate they allow "
                                         "and the proven bound.",
                                     .children = children};
    plan_options_t options = {.common = common, .request = request_default};
    options.request.common = common;
    command_line_parse(&argp, argc, argv, 0, &options);

    request_case_t opened;
    BLINK_TRY(request_open(&options.request, &opened));
    blink_result_t result = plan_and_show(opened.topo, &opened.plan, &options);
    plan_thread_release();
    request_close(&opened);
    return result;
}
