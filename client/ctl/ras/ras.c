/* blinkctl ras: what NCCL's RAS would tell of the communicators, printed or to its collectors. */
#include "ctl/ctl.h"

#include "base/command_line.h"
#include "ctl/host.h"
#include "ctl/ras/protocol.h"
#include "ctl/ras/view.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct ras_options {
    ctl_options_t *common;
    bool verbose, serve;
} ras_options_t;

enum { KEY_SERVE = 2000 };

static error_t parse_ras(int key, char *argument, struct argp_state *state)
{
    ras_options_t *options = state->input;
    (void)argument;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case KEY_SERVE:
        options->serve = true;
        return 0;
    case ARGP_KEY_END:
        if (options->serve && (options->verbose || options->common->json))
            argp_error(state, "--serve: who asks says whether it wants JSON, or all ranks");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static blink_result_t write_report(const ctl_options_t *common, bool json, bool verbose, FILE *out)
{
    ras_view_t view;
    blink_result_t result = ras_open(common, &view);
    if (result == BLINK_OK)
        result = json ? ras_write_json(&view, out) : ras_write_text(&view, verbose, out);
    ras_close(&view);
    return result;
}

static blink_result_t render(void *context, bool json, bool verbose, char **text, size_t *bytes)
{
    FILE *out = open_memstream(text, bytes);
    if (!out)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a report");
    blink_result_t result = write_report(context, json, verbose, out);
    if (fclose(out) != 0 && result == BLINK_OK)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a report");
    if (result != BLINK_OK)
        free(*text);
    return result;
}

blink_result_t ctl_ras(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"verbose", 'v', NULL, 0, "Show all ranks, too", 0},
        {"serve", KEY_SERVE, NULL, 0,
         "Answer NCCL's RAS protocol on the socket that is standard input, as blinkd-ras.socket hands it in",
         0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = own,
        .parser = parse_ras,
        .doc = "Say which ranks of communicators are missing, and which ops wait for whom, in the words and "
               "the JSON of NCCL's RAS. docs/observe.md tells how its collectors are served.",
        .children = children};
    ras_options_t options = {.common = common};
    command_line_parse(&argp, argc, argv, 0, &options);
    if (host_is_all(common))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the report is of one host: name it, or ask on each");
    return options.serve ? ras_answer(STDIN_FILENO, render, common)
                         : write_report(common, common->json, options.verbose, stdout);
}
