/* The command line of blinkrun. */
#include "run/options.h"

#include "base/command_line.h"
#include "run/hosts.h"
#include "tools/arguments.h"

#include <argp.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { KEY_HOSTS = 256, KEY_SSH, KEY_NO_PREFIX, KEY_KEEP_GOING, KEY_NAME, KEY_NODE };

/* Of a job's name, and for sscanf(). */
#define NAME_LETTERS "-A-Za-z0-9._"

#define SSH_DEFAULT "ssh -T -o BatchMode=yes"

static const char DOC[] =
    "Start PROGRAM as N ranks, which find each other by blink_comm_init_launched(), on this host or, by "
    "ssh, on others."
    "\v"
    "Each rank is told by BLINK_RANK, BLINK_SIZE, BLINK_LOCAL_RANK, BLINK_RENDEZVOUS and BLINK_JOB who it "
    "is and how it meets the others. It reads nothing: its standard input is /dev/null. Its output comes "
    "line by line, after its number; of ranks that begin by saying that no daemon answers only the first "
    "one's words are passed on.\n"
    "\n"
    "With --hosts the hosts share the ranks evenly, the first ranks on the first host. The daemon of the "
    "first host must listen for others by that name, blinkrun must be installed in the same place on "
    "every host, and the current directory must be there. No variable goes along: \"blinkrun ... env "
    "NAME=VALUE PROGRAM\" sets one.\n"
    "\n"
    "If a rank fails, the others are ended: by SIGTERM, and after 5 s by SIGKILL. SIGINT, SIGTERM and "
    "SIGHUP go on to all ranks, which then have 5 s; a second one ends them at once. With --keep-going the "
    "others go on when a rank fails, as blink_comm_shrink() needs; each that fails is named.\n"
    "\n"
    "Exit status: 0 if that of all ranks is; else that of the first rank that failed, 128 and the number "
    "of the signal if one ended it (with --keep-going on several hosts: of the first host that has "
    "ended with a rank that failed); 1 if ranks could not be started; 2 bad usage. Without "
    "--keep-going a rank that was killed counts as the first, though others may fail of that and end "
    "before.";

static const struct argp_option option_list[] = {
    {"ranks", 'n', "N", 0, "How many ranks there are", 0},
    {"hosts", KEY_HOSTS, "HOST,...", 0,
     "Where to start them (default: here); node[0-3,7] is node0 to node3 and node7, as for Slurm", 0},
    {"ssh", KEY_SSH, "COMMAND", 0,
     "What runs a command on another host, as ssh does: it is given the host and the command (default: "
     "$BLINK_SSH, else " SSH_DEFAULT ")",
     0},
    {"no-prefix", KEY_NO_PREFIX, NULL, 0, "Do not put the rank's number before each line", 0},
    {"keep-going", KEY_KEEP_GOING, NULL, 0, "When a rank fails, let the others go on", 0},
    {"name", KEY_NAME, "NAME", 0,
     "The job's name in blinkctl top and clients, before a random number of its own (default: the program's)",
     0},
    {"node", KEY_NODE, "FIRST:COUNT:JOB:RENDEZVOUS", OPTION_HIDDEN, NULL, 0},
    {0},
};

/* What the blinkrun of another host says, so that it is right unless somebody tries it out. */
static void take_node(struct argp_state *state, run_options_t *options, char *text)
{
    int used = 0;
    if (sscanf(text, "%u:%u:%63[" NAME_LETTERS "]:%n", &options->first_rank, &options->local_count,
               options->job, &used) < 3 ||
        used == 0 || !text[used])
        argp_error(state, "--node %s: it is blinkrun's own", text);
    options->is_node = true;
    options->rendezvous = text + used;
}

static bool is_name_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '.' || letter == '_' || letter == '-';
}

static void take_name(struct argp_state *state, run_options_t *options, const char *name)
{
    size_t length = 0;
    while (is_name_letter(name[length]))
        length++;
    if (length == 0 || name[length] || length >= RUN_NAME_BYTES)
        argp_error(state, "--name \"%s\": 1 to %d letters, digits, dots, dashes and underscores", name,
                   RUN_NAME_BYTES - 1);
    strcpy(options->name, name);
}

/* The end of the program's path, cut, and with other letters replaced. */
static void name_by_program(run_options_t *options)
{
    const char *slash = strrchr(options->program[0], '/'), *name = slash ? slash + 1 : options->program[0];
    snprintf(options->name, sizeof(options->name), "%s", *name ? name : "job");
    for (char *at = options->name; *at; at++)
        *at = is_name_letter(*at) ? *at : '_';
}

static void make_job(struct argp_state *state, run_options_t *options)
{
    uint8_t bytes[RUN_RANDOM_BYTES];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        argp_failure(state, RUN_EXIT_FAILED, 0, "no random numbers");
    char *end = options->job + sprintf(options->job, "%s-", options->name);
    for (size_t i = 0; i < sizeof(bytes); i++)
        end += sprintf(end, "%02x", bytes[i]);
}

/* The name by which the ranks find the daemon of rank 0, without who is to log in there. */
static const char *rendezvous_at(const char *host)
{
    const char *at = strrchr(host, '@');
    return at ? at + 1 : host;
}

static void finish(struct argp_state *state, run_options_t *options)
{
    if (options->rank_count == 0)
        argp_error(state, "how many ranks? -n N");
    if (options->host_count > options->rank_count)
        argp_error(state, "%u hosts for %u ranks: each host gets one at least", options->host_count,
                   options->rank_count);
    if (options->host_count > 1 && strcmp(rendezvous_at(options->hosts[0]), "localhost") == 0)
        argp_error(state, "--hosts localhost,...: the other hosts find the first one by its name");
    if (options->is_node && (options->local_count == 0 || options->first_rank >= options->rank_count ||
                             options->local_count > options->rank_count - options->first_rank))
        argp_error(state, "--node: ranks %u to %u of %u", options->first_rank,
                   options->first_rank + options->local_count - 1, options->rank_count);
    if (options->is_node)
        return;
    if (!*options->name)
        name_by_program(options);
    make_job(state, options);
    options->local_count = options->rank_count;
    options->rendezvous = options->host_count > 1 ? rendezvous_at(options->hosts[0]) : "localhost";
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    run_options_t *options = state->input;
    switch (key) {
    case 'n':
        options->rank_count = (uint32_t)argument_number(state, "-n", argument, 1, RUN_RANKS_MAX);
        return 0;
    case KEY_HOSTS:
        run_take_hosts(state, options, argument);
        return 0;
    case KEY_SSH:
        options->ssh = argument;
        return 0;
    case KEY_NO_PREFIX:
        options->has_prefix = false;
        return 0;
    case KEY_KEEP_GOING:
        options->keeps_going = true;
        return 0;
    case KEY_NAME:
        take_name(state, options, argument);
        return 0;
    case KEY_NODE:
        take_node(state, options, argument);
        return 0;
    case ARGP_KEY_ARG: /* this and all that follows is the program's */
        options->program = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "start which program?");
        return 0;
    case ARGP_KEY_END:
        finish(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void run_parse_options(int argc, char **argv, run_options_t *options)
{
    static const struct argp argp = {
        .options = option_list, .parser = parse_option, .args_doc = "PROGRAM [ARGUMENT...]", .doc = DOC};
    const char *ssh = getenv("BLINK_SSH");
    argp_program_version = "blinkrun " BLINK_VERSION;
    argp_err_exit_status = RUN_EXIT_USAGE;
    *options = (run_options_t){.ssh = ssh && *ssh ? ssh : SSH_DEFAULT, .has_prefix = true};
    command_line_parse(&argp, argc, argv, ARGP_IN_ORDER, options);
}
