/* blinkctl: finds the command, runs it, and turns its result into one line on stderr and an exit status. */
#include "ctl.h"

#include "tools/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL_DIGITS 12 /* of JSON numbers */

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_DAEMON = 3 };

typedef struct command {
    const char *name;
    ctl_run_t *run;
} command_t;

static const command_t commands[] = {
    {"status", ctl_status},   {"devices", ctl_devices},   {"topology", ctl_topology},
    {"links", ctl_links},     {"comms", ctl_comms},       {"clients", ctl_clients},
    {"plan", ctl_plan},       {"simulate", ctl_simulate}, {"explain", ctl_explain},
    {"tenants", ctl_tenants}, {"nodes", ctl_nodes},       {"key", ctl_key},
    {"version", ctl_version},
};

typedef struct invocation {
    ctl_options_t options;
    const command_t *command;
    int first_word; /* index of the command in argv */
} invocation_t;

/* ---- what every command takes ---- */

static error_t parse_common(int key, char *argument, struct argp_state *state)
{
    ctl_options_t *options = state->input;
    switch (key) {
    case 's':
        options->socket_path = argument;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option common_options[] = {
    {"socket", 's', "PATH", 0, "The daemon's socket (default: $BLINK_SOCKET, else /run/blinkd/blinkd.sock)",
     0},
    {"json", 'j', NULL, 0, "Print JSON", 0},
    {0},
};

const struct argp ctl_common_argp = {.options = common_options, .parser = parse_common};

static error_t hand_options_down(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

void ctl_parse_plain(int argc, char **argv, const char *doc, ctl_options_t *options)
{
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {.parser = hand_options_down, .doc = doc, .children = children};
    argp_parse(&argp, argc, argv, 0, NULL, options);
}

blink_result_t ctl_ask_for(const ctl_options_t *options, const Blinkwire__Query *question,
                           Blinkwire__Reply **reply)
{
    return query_once(query_socket_path(options->socket_path), "blinkctl", question, reply);
}

blink_result_t ctl_ask(const ctl_options_t *options, Blinkwire__QueryKind kind, Blinkwire__Reply **reply)
{
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    question.kind = kind;
    return ctl_ask_for(options, &question, reply);
}

json_t *ctl_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *ascii = strdup(text);
    if (!ascii)
        return NULL;
    for (char *at = ascii; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    value = json_string(ascii);
    free(ascii);
    return value;
}

blink_result_t ctl_print_json(json_t *value, size_t flags)
{
    if (!value)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print JSON");
    json_dumpf(value, stdout, flags | JSON_REAL_PRECISION(REAL_DIGITS));
    putchar('\n');
    json_decref(value);
    return BLINK_OK;
}

/* ---- the command line ---- */

static const char DOC[] = "Look into a running blinkd, and plan without one."
                          "\v"
                          "Commands (blinkctl COMMAND --help tells more):\n"
                          "  status     the daemon and its totals\n"
                          "  devices    the devices it offers\n"
                          "  topology   its topology, or the one of a name or file\n"
                          "  links      what every directed link is doing; --watch follows\n"
                          "  comms      communicators\n"
                          "  clients    connected processes\n"
                          "  tenants    what users make the daemon keep, and may\n"
                          "  nodes      the daemons of the cluster that it knows\n"
                          "  key        make the key that the daemons of a cluster share\n"
                          "  plan       how a collective would run on a topology; needs no daemon\n"
                          "  explain    which plan is chosen for a size, and why; needs no daemon\n"
                          "  simulate   how long it would take, size by size; needs no daemon\n"
                          "  version    of blinkctl and of the daemon\n"
                          "\n"
                          "Exit status: 0 success; 1 the request failed; 2 bad usage; 3 no daemon answers.";

static const command_t *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static error_t parse_main(int key, char *argument, struct argp_state *state)
{
    invocation_t *invocation = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &invocation->options;
        return 0;
    case ARGP_KEY_ARG:
        invocation->command = find_command(argument);
        if (!invocation->command)
            argp_error(state, "there is no command \"%s\"", argument);
        invocation->first_word = state->next - 1;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which command?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int finish(blink_result_t result)
{
    if (result == BLINK_OK && fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    if (result == BLINK_OK)
        result = BLINK_FAIL_ERRNO("write to standard output");
    fflush(stdout);
    fprintf(stderr, "blinkctl: %s\n", blink_error_text());
    return result == BLINK_ERR_CONNECT || result == BLINK_ERR_DAEMON_LOST ? EXIT_NO_DAEMON : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse_main, .args_doc = "COMMAND [ARGUMENT...]", .doc = DOC, .children = children};
    argp_program_version = "blinkctl " BLINK_VERSION;
    argp_err_exit_status = EXIT_USAGE;
    invocation_t invocation = {0};
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &invocation);

    char name[64];
    snprintf(name, sizeof(name), "blinkctl %s", invocation.command->name);
    argv[invocation.first_word] = name;
    return finish(invocation.command->run(argc - invocation.first_word, argv + invocation.first_word,
                                          &invocation.options));
}
