/*
 * blinkd: flags, settings, devices, and then the server until a signal. With GPU_WORKER_FLAG the same program
 * is the GPU worker.
 */
#include "base/events.h"
#include "config.h"
#include "control/server.h"
#include "exec/host/pace.h"
#include "frame.h"
#include "machine.h"

#include "base/command_line.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum {
    FLAG_CHECK_CONFIG = 256,
    FLAG_PLAN_SECONDS,
    FLAG_OP_TIMEOUT,
    FLAG_INIT_TIMEOUT,
    FLAG_LOG_LEVEL,
    FLAG_WORKERS,
    FLAG_GPU_SHARING,
    FLAG_PROTOCOL
};

static const char doc[] =
    "The collective-communication daemon of a GPU node."
    "\vExamples:\n"
    "  blinkd --socket /tmp/blinkd.sock --devices host:8\n"
    "  blinkd --socket /tmp/blinkd.sock --devices host:8 --topology dgx1v_hybrid --pace\n"
    "  blinkd --socket /tmp/blinkd.sock --devices cuda:all\n"
    "  blinkd --config /etc/blink/blinkd.conf --check-config\n"
    "\n"
    "Flags override the configuration file (" CONFIG_PATH_DEFAULT
    " if it exists). SIGTERM, SIGINT and SIGHUP end the daemon "
    "cleanly.\n"
    "\n"
    "Exit status: 0 ended by a signal, or the configuration is good; 1 could not start (the reason is on "
    "standard "
    "error), or a setting is bad; 2 unknown flags.";

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "read this configuration file", 0},
    {"check-config", FLAG_CHECK_CONFIG, NULL, 0,
     "print the settings in force, or what is wrong with them, and exit", 0},
    {"socket", 's', "PATH", 0, "listen there (default " BLINK_SOCKET_DEFAULT ")", 0},
    {"devices", 'd', "DEVICES", 0,
     "auto (default: the GPUs if there are any, else host devices); host:N for N host devices; cuda:all, "
     "cuda:0,3 for GPUs; cuda:0x8 for GPU 0 cut into 8 devices; or a sum, cuda:all+host:4",
     0},
    {"gpu-sharing", FLAG_GPU_SHARING, "HOW", 0,
     "isolated (default): kernels of daemon and applications take turns; mps: by the machine's MPS daemon",
     0},
    {"topology", 't', "NAME|FILE", 0,
     "lay them out as a built-in topology, a blink-topology JSON file or an NCCL XML file (default: one "
     "plain memory)",
     0},
    {"protocol", FLAG_PROTOCOL, "PROTOCOL", 0,
     "simple, ll or ll128 for every op over links, to measure them; auto (default): the planner's choice", 0},
    {"pace", 'p', "SCALE", OPTION_ARG_OPTIONAL,
     "make every link obey its capacity times SCALE and its latency divided by SCALE; without SCALE, what "
     "this machine "
     "can keep up with",
     0},
    {"workers", FLAG_WORKERS, "N", 0, "threads that move data (default: one per core)", 0},
    {"plan-seconds", FLAG_PLAN_SECONDS, "SECONDS", 0,
     "how long finding the trees of one plan may take; then the best found so far is taken (default 5)", 0},
    {"op-timeout", FLAG_OP_TIMEOUT, "SECONDS", 0,
     "give a communicator up when a rank does not submit (default 300)", 0},
    {"init-timeout", FLAG_INIT_TIMEOUT, "SECONDS", 0,
     "how long ranks may take to join a communicator (default 60)", 0},
    {"log-level", FLAG_LOG_LEVEL, "LEVEL", 0, "error, warning, info (default) or debug", 0},
    {0},
};

enum { PACE_KEY = 0 };

/* A flag is a key of the configuration file by another name. */
static const struct {
    int flag;
    const char *section, *key;
} flag_keys[] = {
    [PACE_KEY] = {'p', "pace", "scale"},
    {'s', "daemon", "socket"},
    {'d', "devices", "devices"},
    {'t', "devices", "topology"},
    {FLAG_GPU_SHARING, "gpu", "sharing"},
    {FLAG_PROTOCOL, "plan", "protocol"},
    {FLAG_WORKERS, "workers", "count"},
    {FLAG_PLAN_SECONDS, "plan", "plan_seconds"},
    {FLAG_OP_TIMEOUT, "limits", "op_timeout_s"},
    {FLAG_INIT_TIMEOUT, "limits", "init_timeout_s"},
    {FLAG_LOG_LEVEL, "log", "level"},
};

#define FLAG_KEY_COUNT (sizeof(flag_keys) / sizeof(flag_keys[0]))

/* Values of flags are kept as text until the configuration file, which a flag may name, has been read. */
typedef struct command_line {
    const char *config_path;
    bool check_config;
    const char *values[FLAG_KEY_COUNT];
    bool pace_alone; /* --pace without a value so far */
} command_line_t;

/* The one argument there may be is the scale of `--pace SCALE`: an optional value is only attached by `=`. */
static void take_argument(command_line_t *line, const char *argument, const struct argp_state *state)
{
    if (!line->pace_alone)
        argp_error(state, "unexpected argument '%s'", argument);
    line->pace_alone = false;
    line->values[PACE_KEY] = argument;
}

static error_t parse_flag(int flag, char *argument, struct argp_state *state)
{
    command_line_t *line = state->input;
    if (flag == 'c')
        line->config_path = argument;
    else if (flag == FLAG_CHECK_CONFIG)
        line->check_config = true;
    else if (flag == ARGP_KEY_ARG)
        take_argument(line, argument, state);
    for (size_t i = 0; i < FLAG_KEY_COUNT; i++) {
        if (flag_keys[i].flag == flag) {
            line->values[i] = argument ? argument : "auto"; /* only --pace may stand alone */
            line->pace_alone |= !argument;
            return 0;
        }
    }
    return flag == 'c' || flag == FLAG_CHECK_CONFIG || flag == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

static const char *flag_name(int flag)
{
    const struct argp_option *option = options;
    while (option->key != flag)
        option++;
    return option->name;
}

static blink_result_t read_settings(const command_line_t *line, settings_t *settings)
{
    config_set_defaults(settings);
    if (line->config_path)
        BLINK_TRY(config_read_file(line->config_path, settings));
    else if (access(CONFIG_PATH_DEFAULT, F_OK) == 0)
        BLINK_TRY(config_read_file(CONFIG_PATH_DEFAULT, settings));
    for (size_t i = 0; i < FLAG_KEY_COUNT; i++) {
        blink_result_t result = BLINK_OK;
        if (line->values[i])
            result = config_set(settings, flag_keys[i].section, flag_keys[i].key, line->values[i]);
        if (result != BLINK_OK)
            return BLINK_FAIL(result, "--%s: %s", flag_name(flag_keys[i].flag), blink_error_text());
    }
    return BLINK_OK;
}

/* ---- running ---- */

static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long device, inode;
    struct stat status;
    return stream && sscanf(stream, "%lu:%lu", &device, &inode) == 2 && fstat(STDERR_FILENO, &status) == 0 &&
           status.st_dev == device && status.st_ino == inode;
}

/* The service manager has made the socket: its path goes into the settings, with a warning if the settings
 * asked for something else. */
static void adopt_socket(int listen_fd, settings_t *settings)
{
    settings_t defaults;
    struct sockaddr_un address = {0};
    socklen_t bytes = sizeof(address) - 1; /* leaves the path terminated */
    config_set_defaults(&defaults);
    if (getsockname(listen_fd, (struct sockaddr *)&address, &bytes) != 0 || address.sun_family != AF_UNIX)
        return;
    bool other_path =
        strcmp(settings->socket, defaults.socket) != 0 && strcmp(settings->socket, address.sun_path) != 0;
    if (other_path || settings->socket_mode != defaults.socket_mode)
        LOG_WARNING("the service manager handed over %s: the settings socket and socket_mode have no effect",
                    address.sun_path);
    snprintf(settings->socket, sizeof(settings->socket), "%s", address.sun_path);
}

static blink_result_t serve(settings_t *settings)
{
    machine_t machine;
    char devices[96];
    server_t *server = NULL;
    BLINK_TRY(machine_make(settings, &machine));
    server_config_t config = {.settings = settings,
                              .listen_fd = -1,
                              .local = machine.topo,
                              .topo = machine.with_network ? machine.with_network : machine.topo,
                              .device_count = machine.device_count,
                              .gpu_of_node = machine.gpu_of_node,
                              .wires = machine.wires,
                              .gpu_worker = machine.has_gpus ? &machine.worker : NULL,
                              .gpu_hello = machine.has_gpus ? &machine.hello : NULL};
    if (settings->pace_scale == SETTINGS_PACE_AUTO)
        settings->pace_scale = pace_default_scale(machine.topo, settings->workers);
    if (sd_listen_fds(1) == 1) {
        config.listen_fd = SD_LISTEN_FDS_START;
        adopt_socket(config.listen_fd, settings);
    }
    sd_watchdog_enabled(1, &config.watchdog_us);
    blink_result_t result = server_create(&config, &server);
    if (result == BLINK_OK) {
        machine_describe(&machine, devices, sizeof(devices));
        event_log_host(EVENT_DAEMON_STARTED, "blinkd " BLINK_VERSION, LOG_LEVEL_INFO, "%s, %s", devices,
                       settings->socket);
        if (settings->pace_scale > 0)
            LOG_INFO("links are paced at %g of their capacity", settings->pace_scale);
        sd_notifyf(0, "READY=1\nSTATUS=%s", devices);
        server_run(server);
    }
    server_destroy(server);
    machine_fini(&machine);
    return result;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse_flag, NULL, doc, NULL, NULL, NULL};
    command_line_t line = {0};
    settings_t settings;
#ifdef BLINK_HAVE_CUDA
    if (argc == 3 && strcmp(argv[1], GPU_WORKER_FLAG) == 0)
        return gpu_worker_main(atoi(argv[2]));
#endif
    argp_program_version = "blinkd " BLINK_VERSION;
    argp_err_exit_status = EXIT_USAGE;
    command_line_parse(&argp, argc, argv, 0, &line);
    signal(SIGPIPE, SIG_IGN);
    blink_result_t result = read_settings(&line, &settings);
    log_init(result == BLINK_OK ? settings.log_level : LOG_LEVEL_INFO, stderr_is_journal());
    if (result == BLINK_OK && line.check_config) {
        machine_t machine;
        result = machine_make(&settings, &machine);
        if (result == BLINK_OK) {
            config_print(&settings);
            machine_fini(&machine);
        }
    } else if (result == BLINK_OK) {
        result = serve(&settings);
    }
    if (result == BLINK_OK && fflush(stdout) != 0)
        result = BLINK_FAIL_ERRNO("standard output");
    if (result != BLINK_OK) {
        fprintf(stderr, "%sblinkd: %s\n", stderr_is_journal() ? SD_ERR : "", blink_error_text());
        return EXIT_FAILED;
    }
    return EXIT_SUCCESS;
}
