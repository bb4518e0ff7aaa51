/* blinkctl web: a page of the daemon's state for a browser on this machine. */
#include "ctl/ctl.h"

#include "base/command_line.h"
#include "base/value.h"
#include "ctl/host.h"
#include "ctl/web/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTEN_DEFAULT "127.0.0.1:8674"
#define BACKLOG        16

typedef struct web_options {
    ctl_options_t *common;
    const char *listen;
} web_options_t;

static error_t parse_web(int key, char *argument, struct argp_state *state)
{
    web_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        return 0;
    case 'l':
        options->listen = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- where it listens ---- */

static blink_result_t listen_at(const char *where, const struct sockaddr *address, socklen_t bytes,
                                int *listener)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0)
        return BLINK_FAIL_ERRNO("make a socket for %s", where);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, address, bytes) == 0 && listen(fd, BACKLOG) == 0) {
        *listener = fd;
        return BLINK_OK;
    }
    blink_result_t result = BLINK_FAIL_ERRNO("listen on %s", where);
    close(fd);
    return result;
}

/* Others may not even connect. */
static blink_result_t listen_at_path(const char *path, int *listener)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "--listen %s: a path of %zu bytes at most", path,
                          sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    mode_t before = umask(0177);
    blink_result_t result = listen_at(path, (struct sockaddr *)&address, sizeof(address), listener);
    umask(before);
    if (result != BLINK_OK && access(path, F_OK) == 0)
        return BLINK_FAIL(result,
                          "--listen %s: something is there already; if no other blinkctl web serves there, "
                          "remove it",
                          path);
    return result;
}

static blink_result_t bad_listen(const char *where)
{
    return BLINK_FAIL(
        BLINK_ERR_INVALID_ARGUMENT,
        "--listen %s: PORT, 127.0.0.1:PORT, [::1]:PORT or the path of a Unix socket. From other machines: "
        "ssh -L 8674:127.0.0.1:8674 HOST",
        where);
}

static blink_result_t listen_at_port(const char *where, int *listener)
{
    uint64_t port;
    const char *colon = strrchr(where, ':');
    if (!value_parse_number(colon ? colon + 1 : where, UINT16_MAX, &port))
        return bad_listen(where);
    size_t bytes = colon ? (size_t)(colon - where) : 0;
    if (strncmp(where, "[::1]", bytes) == 0 && bytes == 5) {
        const struct sockaddr_in6 six = {
            .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_loopback};
        return listen_at(where, (const struct sockaddr *)&six, sizeof(six), listener);
    }
    if (colon && (strncmp(where, "127.0.0.1", bytes) != 0 || bytes != 9) &&
        (strncmp(where, "localhost", bytes) != 0 || bytes != 9))
        return bad_listen(where);
    const struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return listen_at(where, (const struct sockaddr *)&four, sizeof(four), listener);
}

static uint16_t port_of(int listener)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof(address);
    getsockname(listener, (struct sockaddr *)&address, &bytes);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static blink_result_t make_key(char key[SERVER_KEY_BYTES])
{
    unsigned char bytes[(SERVER_KEY_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return BLINK_FAIL_ERRNO("get random numbers for a key");
    for (size_t i = 0; i < sizeof(bytes); i++)
        sprintf(key + 2 * i, "%02x", bytes[i]);
    return BLINK_OK;
}

/* ---- the command ---- */

static void wait_for_end(const sigset_t *ends)
{
    int which;
    while (sigwait(ends, &which) != 0)
        ;
}

/* The page says it, too, and looks for the daemon again and again. */
static void note_absent_daemon(const ctl_options_t *common)
{
    Blinkwire__Reply *reply;
    if (ctl_ask(common, BLINKWIRE__QUERY_KIND__STATUS, &reply) == BLINK_OK)
        blinkwire__reply__free_unpacked(reply, NULL);
    else
        fprintf(stderr, "blinkctl: %s; the page shows it as soon as it answers\n", blink_error_text());
}

static blink_result_t serve(const web_options_t *options, int listener, const char *key, const char *address,
                            const sigset_t *ends)
{
    server_t *server;
    BLINK_TRY(server_start(options->common, listener, key, &server));
    printf("%s\n", address);
    fflush(stdout);
    note_absent_daemon(options->common);
    wait_for_end(ends);
    server_stop(server);
    return BLINK_OK;
}

static blink_result_t serve_on_port(const web_options_t *options, const sigset_t *ends)
{
    int listener;
    char key[SERVER_KEY_BYTES], address[128];
    BLINK_TRY(make_key(key));
    BLINK_TRY(listen_at_port(options->listen, &listener));
    snprintf(address, sizeof(address), "http://%s:%u/%s/", *options->listen == '[' ? "[::1]" : "127.0.0.1",
             port_of(listener), key);
    return serve(options, listener, key, address, ends);
}

static blink_result_t serve_on_path(const web_options_t *options, const sigset_t *ends)
{
    int listener;
    BLINK_TRY(listen_at_path(options->listen, &listener));
    blink_result_t result = serve(options, listener, "", options->listen, ends);
    unlink(options->listen);
    return result;
}

blink_result_t ctl_web(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"listen", 'l', "WHERE", 0,
         "PORT (0: a free one) of this machine, also as 127.0.0.1:PORT or [::1]:PORT, or the path of a Unix "
         "socket (default " LISTEN_DEFAULT ")",
         0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = own,
        .parser = parse_web,
        .doc =
            "Serve a page with the topology and live links, communicators and their trees, and jobs, to "
            "browsers on this machine, until interrupted. Prints the page's address. It shows what you may "
            "see, to whoever has the address, which has a key in it; a Unix socket is yours alone.",
        .children = children};
    web_options_t options = {.common = common, .listen = LISTEN_DEFAULT};
    sigset_t ends;
    command_line_parse(&argp, argc, argv, 0, &options);
    if (host_is_all(common))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "web shows one host: name it");
    /* The server's thread inherits the mask, so that the signals come to this one. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return *options.listen == '/' || *options.listen == '.' ? serve_on_path(&options, &ends)
                                                            : serve_on_port(&options, &ends);
}
