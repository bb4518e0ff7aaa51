/* blinkctl: finds the command, runs it, and turns its result into one line on stderr and an exit status. */
#include "ctl.h"

#include "base/command_line.h"
#include "base/near.h"
#include "host.h"
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
    bool asks; /* a daemon */
} command_t;

static const command_t commands[] = {
    {"status", ctl_status, true},   {"devices", ctl_devices, true},   {"topology", ctl_topology, true},
    {"links", ctl_links, true},     {"comms", ctl_comms, true},       {"clients", ctl_clients, true},
    {"plan", ctl_plan, true},       {"simulate", ctl_simulate, true}, {"explain", ctl_explain, true},
    {"tenants", ctl_tenants, true}, {"nodes", ctl_nodes, true},       {"key", ctl_key, false},
    {"top", ctl_top, true},         {"web", ctl_web, true},           {"metrics", ctl_metrics, true},
    {"ops", ctl_ops, true},         {"events", ctl_events, true},     {"record", ctl_record, true},
    {"ras", ctl_ras, true},         {"version", ctl_version, true},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

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
    case 'H':
        options->host = argument;
        return 0;
    case ARGP_KEY_ARG: /* which the command itself does not take */
        argp_error(state, "\"%s\": there are only options here, no arguments", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->host && !options->asks)
            argp_error(state, "--host %s: nothing here asks a daemon", options->host);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option common_options[] = {
    {"socket", 's', "PATH", 0, "The daemon's socket (default: $BLINK_SOCKET, else /run/blinkd/blinkd.sock)",
     0},
    {"json", 'j', NULL, 0, "Print JSON", 0},
    {"host", 'H', "NAME", 0,
     "Ask the daemon of another host, which `blinkctl nodes` names, through the one of this host; all: what "
     "lists show "
     "of every host",
     0},
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
    command_line_parse(&argp, argc, argv, 0, options);
}

Blinkwire__Query ctl_question(const ctl_options_t *options, Blinkwire__QueryKind kind)
{
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    question.kind = kind;
    if (options->host)
        question.host = (char *)(uintptr_t)options->host; /* only read */
    return question;
}

blink_result_t ctl_ask_for(const ctl_options_t *options, const Blinkwire__Query *question,
                           Blinkwire__Reply **reply)
{
    blink_result_t result = query_once(query_socket_path(options->socket_path), "blinkctl", question, reply);
    return host_result(options, result);
}

blink_result_t ctl_ask(const ctl_options_t *options, Blinkwire__QueryKind kind, Blinkwire__Reply **reply)
{
    const Blinkwire__Query question = ctl_question(options, kind);
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

json_t *ctl_json_text_or_null(const char *text)
{
    return *text ? ctl_json_text(text) : json_null();
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

static const char DOC[] =
    "Look into a running blinkd, and plan, with one or without."
    "\v"
    "Commands (blinkctl COMMAND --help tells more):\n"
    "  top        jobs, communicators and links at work, on the whole screen\n"
    "  web        a page with the same, and pictures, for a browser\n"
    "  status     the daemon and its totals\n"
    "  devices    the devices it offers\n"
    "  topology   its topology, or the one of a name or file\n"
    "  links      what every directed link is doing; --watch follows\n"
    "  comms      communicators\n"
    "  clients    connected processes\n"
    "  tenants    what users make the daemon keep, and may\n"
    "  nodes      the daemons of the cluster that it knows\n"
    "  ops        the last ops of a communicator, and those under way\n"
    "  events     what has happened on this host\n"
    "  record     write the ops of running jobs to a trace, for simulate\n"
    "  metrics    what the daemon counts, for Prometheus and its like\n"
    "  ras        which ranks are missing, as NCCL's RAS tells it, for its collectors\n"
    "  key        make the key that the daemons of a cluster share\n"
    "  plan       how a collective would run on a topology\n"
    "  explain    which plan is chosen for a size, and why\n"
    "  simulate   how long it would take, size by size\n"
    "  version    of blinkctl and of the daemon\n"
    "plan, explain and simulate take the running daemon's topology; with --topology they "
    "need no daemon.\n"
    "\n"
    "Sizes are in powers of 1024, in and out: 64K, 64KB and 64KiB are 65536 bytes. "
    "GB/s are 1e9 bytes per second.\n"
    "\n"
    "Exit status: 0 success; 1 the request failed; 2 bad usage; 3 no daemon answers.";

static const command_t *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void refuse_command(struct argp_state *state, const char *name)
{
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin(name);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        near_try(&near, commands[i].name);
    argp_error(state, "there is no command \"%s\"%s", name, near_hint(&near, hint));
}

static error_t parse_main(int key, char *argument, struct argp_state *state)
{
    invocation_t *invocation = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &invocation->options;
        return 0;
    case ARGP_KEY_ARG:
        if (strcmp(argument, "help") == 0)
            argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* and exits */
        invocation->command = find_command(argument);
        if (!invocation->command)
            refuse_command(state, argument);
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
    invocation_t invocation = {.options.asks = true};
    command_line_parse(&argp, argc, argv, ARGP_IN_ORDER, &invocation);

    invocation.options.asks = invocation.command->asks;
    char name[64];
    snprintf(name, sizeof(name), "blinkctl %s", invocation.command->name);
    argv[invocation.first_word] = name;
    return finish(invocation.command->run(argc - invocation.first_word, argv + invocation.first_word,
                                          &invocation.options));
}
