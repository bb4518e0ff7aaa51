/* blinkctl key: makes the key that the daemons of a cluster share. */
#include "ctl.h"

#include "base/command_line.h"
#include "net/key.h"

#include <string.h>

typedef struct key_options {
    ctl_options_t *common;
    const char *verb; /* NULL: not given yet */
    const char *path;
} key_options_t;

static error_t parse_key(int key, char *argument, struct argp_state *state)
{
    key_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "one file, not \"%s\" as well", argument);
        if (state->arg_num == 0 && strcmp(argument, "new") != 0)
            argp_error(state, "\"%s\": it takes new, as in blinkctl key new", argument);
        if (state->arg_num == 0)
            options->verb = argument;
        else
            options->path = argument;
        return 0;
    case ARGP_KEY_END:
        if (!options->verb)
            argp_error(state, "it takes new, as in blinkctl key new");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

blink_result_t ctl_key(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse_key,
        .args_doc = "new [FILE]",
        .doc =
            "Make a new cluster key, which only its owner can read. FILE is " CLUSTER_KEY_PATH_DEFAULT
            " unless it is given. Copy the file to all hosts of the cluster: whoever has the key is a daemon "
            "of the cluster. Needs no daemon.",
        .children = children};
    key_options_t options = {.common = common, .path = CLUSTER_KEY_PATH_DEFAULT};
    command_line_parse(&argp, argc, argv, 0, &options);
    BLINK_TRY(cluster_key_create(options.path));
    if (common->json)
        return ctl_print_json(
            json_pack("{s:s, s:o}", "schema", "blink-key/1", "key_file", ctl_json_text(options.path)),
            JSON_INDENT(2));
    printf("%s: a new cluster key; copy the file to every host of the cluster\n", options.path);
    return BLINK_OK;
}
