/*
 * The control thread's loop, the listening socket, and the order in which everything starts and stops.
 */
#include "control/server.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/guard.h"
#include "base/holes.h"
#include "base/log.h"
#include "control/clients/session.h"
#include "control/comms/abort.h"
#include "control/comms/fabrics.h"
#include "control/comms/ops.h"
#include "control/comms/rendezvous.h"
#include "control/control.h"
#include "control/descriptors.h"
#include "control/gpus.h"
#include "control/hosts.h"
#include "control/links.h"
#include "control/memory/region_loss.h"
#include "control/peers/peers.h"
#include "control/peers/plans.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define LISTEN_BACKLOG   128
#define LOCK_PATH_BYTES  (SETTINGS_TEXT_BYTES + 8)
#define ACCEPT_PAUSE_MS  1000u
#define REFUSAL_LOG_NS   UINT64_C(1000000000)
#define ACCEPTS_PER_TURN 8u

/* So that a thread may be late for some heartbeats on a machine that is overloaded. */
#define BEATS_PER_WATCHDOG 4u

struct server {
    control_t control;
    pace_t *pace;
    exec_cuda_t *cuda; /* NULL: no GPUs */
    _Atomic uint64_t *link_bytes;
    mailbox_t mailbox;
    uv_async_t wake; /* the mailbox has items */
    uv_poll_t listener;
    uv_signal_t terminate, interrupt, hangup;
    uv_timer_t accept_again;
    uv_timer_t watchdog;
    uint64_t refusal_logged_ns;
    uint32_t refused_count; /* for want of descriptors, since that was logged */
    work_t stop;
    beat_asker_t watchdog_asker;
    bool loop_open;
    bool owns_socket; /* made here, not handed over */
    int listen_fd, lock_fd;
    int reserve_fd; /* open for nothing: closed for a moment to tell somebody that there are no descriptors
                       left */
};

/* ---- the socket ---- */

static void lock_path(const server_t *server, char path[LOCK_PATH_BYTES])
{
    snprintf(path, LOCK_PATH_BYTES, "%s.lock", server->control.settings->socket);
}

/* The default's folder is systemd's or root's to make: whoever starts a daemon by hand has another one. */
static blink_result_t cannot_make(const char *path)
{
    return BLINK_FAIL(BLINK_ERR_SYSTEM,
                      "cannot make %s: %s; --socket names another place, such as "
                      "--socket /tmp/blinkd.sock",
                      path, strerror(errno));
}

/* Two daemons that start at once must not both take a stale socket over. The lock ends with the process. */
static blink_result_t lock_socket(server_t *server)
{
    char path[LOCK_PATH_BYTES];
    lock_path(server, path);
    server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (server->lock_fd < 0)
        return cannot_make(path);
    if (flock(server->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "a daemon already runs on %s", server->control.settings->socket);
    return BLINK_OK;
}

/* The path may be somebody's file: then nothing is made beside it. */
static blink_result_t check_is_socket_or_free(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? BLINK_OK : BLINK_FAIL_ERRNO("socket %s", path);
    if (!S_ISSOCK(status.st_mode))
        return BLINK_FAIL(BLINK_ERR_EXISTS, "%s exists and is not a socket", path);
    return BLINK_OK;
}

static blink_result_t remove_stale_socket(const char *path)
{
    int probe;
    if (access(path, F_OK) != 0)
        return BLINK_OK;
    if (frame_connect(path, BLINK_DAEMON_TIMEOUT_DEFAULT, &probe) == BLINK_OK) {
        close(probe);
        return BLINK_FAIL(BLINK_ERR_EXISTS, "a daemon already listens on %s", path);
    }
    LOG_INFO("taking over the stale socket %s", path);
    if (unlink(path) != 0)
        return BLINK_FAIL_ERRNO("remove the stale socket %s", path);
    return BLINK_OK;
}

/* The default's directory is made by systemd (RuntimeDirectory=), or here when root starts the daemon by
 * hand. */
static void make_default_directory(const char *path)
{
    if (strcmp(path, BLINK_SOCKET_DEFAULT) == 0 && mkdir("/run/blinkd", 0755) != 0 && errno != EEXIST)
        LOG_DEBUG("mkdir /run/blinkd: %s", strerror(errno));
}

static blink_result_t open_socket(server_t *server)
{
    const char *path = server->control.settings->socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "socket path %s has %zu bytes, at most %zu are possible", path, strlen(path),
                          sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    make_default_directory(path);
    BLINK_TRY(check_is_socket_or_free(path));
    BLINK_TRY(lock_socket(server));
    BLINK_TRY(remove_stale_socket(path));
    server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listen_fd < 0)
        return BLINK_FAIL_ERRNO("socket");
    if (bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return cannot_make(path);
    if (chmod(path, server->control.settings->socket_mode) != 0 ||
        listen(server->listen_fd, LISTEN_BACKLOG) != 0)
        return BLINK_FAIL_ERRNO("listen on %s", path);
    return BLINK_OK;
}

static void close_socket(server_t *server)
{
    if (server->reserve_fd >= 0)
        close(server->reserve_fd);
    if (server->listen_fd >= 0) {
        close(server->listen_fd);
        if (server->owns_socket)
            unlink(server->control.settings->socket);
    }
    if (server->lock_fd >= 0) {
        char path[LOCK_PATH_BYTES];
        lock_path(server, path);
        if (server->listen_fd >= 0)
            unlink(path);
        close(server->lock_fd);
    }
}

/* ---- the loop ---- */

static void on_listener(uv_poll_t *poll, int status, int events);

static void on_accept_again(uv_timer_t *timer)
{
    server_t *server = timer->data;
    if (!server->control.stopping)
        uv_poll_start(&server->listener, UV_READABLE, on_listener);
}

/* Without memory for another connection, a connection that waits would wake the loop without end. */
static void pause_accepting(server_t *server, int error)
{
    LOG_WARNING("no new connections for %u ms: %s", ACCEPT_PAUSE_MS, strerror(error));
    uv_poll_stop(&server->listener);
    uv_timer_start(&server->accept_again, on_accept_again, ACCEPT_PAUSE_MS, 0);
}

/* There are no descriptors left. One line a second says so, whoever connects. */
static void refuse(server_t *server, int fd)
{
    uint64_t now_ns = clock_ns();
    errno = EMFILE;
    connection_refuse(fd, descriptors_fail("connect"));
    server->refused_count++;
    if (server->refusal_logged_ns > 0 && now_ns - server->refusal_logged_ns < REFUSAL_LOG_NS)
        return;
    LOG_WARNING("connections refused: %u, %s", server->refused_count, blink_error_text());
    server->refusal_logged_ns = now_ns;
    server->refused_count = 0;
}

static void open_reserve(server_t *server)
{
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Who connects hears that there are no descriptors left, by means of the one in reserve. False: that one is
 * gone, too. */
static bool refuse_next(server_t *server)
{
    if (server->reserve_fd < 0)
        open_reserve(server);
    if (server->reserve_fd < 0)
        return false;
    close(server->reserve_fd);
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        refuse(server, fd);
    open_reserve(server);
    return true;
}

static void accept_failed(server_t *server, int error)
{
    if (error == EAGAIN || error == EINTR || error == ECONNABORTED)
        return;
    if (!descriptors_ran_out(error) || !refuse_next(server))
        pause_accepting(server, error);
}

/* A few: who connects in a loop keeps nobody waiting who is connected. */
static void on_listener(uv_poll_t *poll, int status, int events)
{
    server_t *server = poll->data;
    (void)events;
    for (uint32_t i = 0; i < ACCEPTS_PER_TURN && status == 0 && !server->control.stopping; i++) {
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            accept_failed(server, errno);
            return;
        }
        turns_count(&server->control.turns, 1);
        if (descriptors_are_scarce(fd))
            refuse(server, fd);
        else
            session_start(&server->control, fd);
    }
}

/* The mailbox is emptied in slices, at the end of this turn and of those that follow. */
static void on_mailbox(uv_async_t *async)
{
    (void)async;
}

/* On the posting thread. */
static void wake_control(void *context)
{
    server_t *server = context;
    uv_async_send(&server->wake);
}

/* The engine has answered, on this thread: all turn. */
static void on_beat(beat_asker_t *asker)
{
    (void)asker;
    sd_notify(0, "WATCHDOG=1");
}

static void on_watchdog(uv_timer_t *timer)
{
    server_t *server = timer->data;
    if (exec_host_turns(server->control.exec) && engine_planner_turns(server->control.engine))
        beat_ask(&server->control.beat, &server->watchdog_asker);
}

/* First all ranks hear of the end, then all connections are closed. */
static bool stop_slice(work_t *work)
{
    control_t *control = &CONTAINER_OF(work, server_t, stop)->control;
    return rosters_abort_some(control->rosters) || sessions_end_some(control);
}

static void on_left(void *context)
{
    control_t *control = context;
    control->is_leaving = false;
    sessions_stop_if_done(control);
}

/* Other hosts hear that before they hear of anything that comes of it. */
static void leave_hosts(control_t *control)
{
    peers_t *peers = control->peers;
    if (!peers)
        return;
    control->peers = NULL;
    control->is_leaving = true;
    /* Release: on_data_lost() loads it. */
    atomic_store_explicit(&control->is_quiet, true, memory_order_release);
    peers_leave(peers, on_left, control);
}

static void on_signal(uv_signal_t *signal, int number)
{
    server_t *server = signal->data;
    control_t *control = &server->control;
    if (control->stopping)
        return;
    LOG_INFO("%s: stopping", strsignal(number));
    sd_notify(0, "STOPPING=1");
    uv_poll_stop(&server->listener);
    control->stopping = true;
    leave_hosts(control);
    rosters_begin_to_stop(control->rosters);
    work_init(&server->stop, stop_slice);
    turns_post(&control->turns, NULL, &server->stop);
}

static blink_result_t start_loop(server_t *server, uint64_t watchdog_us)
{
    uv_loop_t *loop = &server->control.loop;
    if (uv_loop_init(loop) != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "event loop");
    server->loop_open = true;
    mailbox_init(&server->mailbox, wake_control, server);
    server->wake.data = server->listener.data = server->terminate.data = server->interrupt.data = server;
    server->watchdog.data = server->accept_again.data = server->hangup.data = server;
    if (uv_async_init(loop, &server->wake, on_mailbox) != 0 ||
        uv_signal_init(loop, &server->terminate) != 0 || uv_signal_init(loop, &server->interrupt) != 0 ||
        uv_signal_init(loop, &server->hangup) != 0 || uv_timer_init(loop, &server->watchdog) != 0 ||
        uv_timer_init(loop, &server->accept_again) != 0 ||
        uv_poll_init(loop, &server->listener, server->listen_fd) != 0 ||
        uv_poll_start(&server->listener, UV_READABLE, on_listener) != 0 ||
        uv_signal_start(&server->terminate, on_signal, SIGTERM) != 0 ||
        uv_signal_start(&server->interrupt, on_signal, SIGINT) != 0 ||
        uv_signal_start(&server->hangup, on_signal, SIGHUP) != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "event loop");
    BLINK_TRY(turns_init(&server->control.turns, loop, &server->mailbox));
    sessions_init(&server->control);
    uint64_t watchdog_ms = watchdog_us / 1000 / BEATS_PER_WATCHDOG;
    if (watchdog_ms > 0)
        uv_timer_start(&server->watchdog, on_watchdog, watchdog_ms, watchdog_ms);
    return BLINK_OK;
}

static void close_handle(uv_handle_t *handle, void *argument)
{
    (void)argument;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_loop(server_t *server)
{
    if (!server->loop_open)
        return;
    uv_walk(&server->control.loop, close_handle, NULL);
    uv_run(&server->control.loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->control.loop);
}

/* ---- workers, engine and GPUs ---- */

/* Moves go to the copy engines where kernels of the daemon and of applications take turns. */
static blink_result_t create_cuda(server_t *server, const server_config_t *asked)
{
    const control_t *control = &server->control;
    const gpu_hello_t *hello = asked->gpu_hello;
    const exec_cuda_config_t config = {.gpu_count = hello->gpu_count,
                                       .gpus = hello->gpus,
                                       .gpu_of_node = control->gpu_of_node,
                                       .wires = asked->wires,
                                       .moves_by_copy_engines = !control->settings->gpu_mps,
                                       .link_count = control->topo->link_count,
                                       .link_bytes = server->link_bytes};
    return exec_cuda_create(&config, &server->cuda);
}

static blink_result_t create_executors(server_t *server, const server_config_t *asked)
{
    control_t *control = &server->control;
    const settings_t *settings = control->settings;
    if (settings->pace_scale > 0)
        BLINK_TRY(pace_create(control->topo, settings->pace_scale, &server->pace));
    const exec_host_config_t config = {.workers = settings->workers,
                                       .bind = true,
                                       .pace = server->pace,
                                       .link_count = control->topo->link_count,
                                       .link_bytes = server->link_bytes};
    BLINK_TRY(exec_host_create(&config, &control->exec));
    return asked->gpu_hello ? create_cuda(server, asked) : BLINK_OK;
}

static void on_comm_ended(void *context, uint32_t comm, blink_result_t reason, const char *text)
{
    rosters_abort_by_engine(((control_t *)context)->rosters, comm, reason, text);
}

static void on_gpu_worker_stuck(void *context, uint32_t worker)
{
    const control_t *control = context;
    if (control->gpus)
        gpus_worker_stuck(control->gpus, worker);
}

static void on_plan_word(void *context, data_endpoint_t *endpoint, const plan_word_t *word)
{
    (void)context;
    peer_plan_tell(endpoint, word);
}

static blink_result_t start_engine(server_t *server)
{
    control_t *control = &server->control;
    const engine_config_t config = {.settings = control->settings,
                                    .exec = control->exec,
                                    .cuda = server->cuda,
                                    .gpu_of_node = control->gpu_of_node,
                                    .topo = control->topo,
                                    .local = control->local,
                                    .data = control->data,
                                    .cores = cores_allowed(),
                                    .control = &server->mailbox,
                                    .comm_ended = on_comm_ended,
                                    .gpu_worker_stuck = on_gpu_worker_stuck,
                                    .tell_plan = on_plan_word,
                                    .context = control};
    return engine_create(&config, &control->engine);
}

static blink_result_t start_threads(server_t *server, const server_config_t *config)
{
    control_t *control = &server->control;
    const bool has_gpus = config->gpu_hello;
    const pages_source_t landings = has_gpus ? wire_memory_pages(config->wires) : pages_of_system();
    BLINK_TRY(create_executors(server, config));
    BLINK_TRY(hosts_start_data(control, landings));
    BLINK_TRY(start_engine(server));
    beat_init(&control->beat, control->engine);
    if (!config->gpu_worker)
        return BLINK_OK;
    const gpus_handler_t handler = {.lost = regions_lose_gpus, .back = regions_map_again};
    return gpus_create(control, config->gpu_worker, config->gpu_hello, wire_memory_fd(config->wires), handler,
                       &control->gpus);
}

/* ---- all of it ---- */

static blink_result_t make_objects(server_t *server)
{
    control_t *control = &server->control;
    uint32_t link_count = control->topo->link_count;
    server->link_bytes = calloc(link_count + 1, sizeof(*server->link_bytes));
    if (!server->link_bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u links", link_count);
    BLINK_TRY(rosters_create(control, &control->rosters));
    return links_create(control, server->link_bytes, &control->links);
}

/* The group's number; -1: there is no such group, so nobody is in it. */
static int64_t find_group(const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (*name && !*end && number < UINT32_MAX)
        return (int64_t)number;
    const struct group *group = *name ? getgrnam(name) : NULL;
    if (*name && !group)
        LOG_DEBUG("there is no group %s, whose members would see everybody's objects", name);
    return group ? (int64_t)group->gr_gid : -1;
}

static void init_control(const server_config_t *config, control_t *control)
{
    control->settings = config->settings;
    control->topo = config->topo;
    control->local = config->local;
    control->device_count = config->device_count;
    control->gpu_of_node = config->gpu_of_node;
    control->started_ns = clock_ns();
    control->home.version = UNIQUE_ID_VERSION; /* without a network it has no address */
    control->admin_group = find_group(control->settings->admin_group);
    tenants_init(&control->tenants, control->settings->limits);
    control->tenants.weights = control->settings->weights;
    control->tenants.weight_count = control->settings->weight_count;
    list_init(&control->clients);
    list_init(&control->fabrics);
    list_init(&control->ops_asked);
    regions_init_gpus(control);
}

/* All serves without: then pages are the daemon's that clients have it touch first. */
static void open_holes(control_t *control)
{
    if (holes_open(&control->holes) == BLINK_OK)
        return;
    control->holes = -1;
    LOG_WARNING("pages that clients do not populate may be charged to blinkd's cgroup: %s",
                blink_error_text());
}

blink_result_t server_create(const server_config_t *config, server_t **created)
{
    server_t *server = calloc(1, sizeof(*server));
    if (!server)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the server");
    init_control(config, &server->control);
    open_holes(&server->control);
    beat_asker_init(&server->watchdog_asker, on_beat);
    server->lock_fd = -1;
    open_reserve(server);
    server->listen_fd = config->listen_fd;
    server->owns_socket = config->listen_fd < 0;
    blink_result_t result = guard_install();
    if (result == BLINK_OK && server->owns_socket)
        result = open_socket(server);
    if (result == BLINK_OK)
        result = start_loop(server, config->watchdog_us);
    if (result == BLINK_OK)
        result = make_objects(server);
    if (result == BLINK_OK)
        result = start_threads(server, config);
    if (result == BLINK_OK)
        result = hosts_start_peers(&server->control);
    if (result != BLINK_OK) {
        server_destroy(server);
        return result;
    }
    *created = server;
    return BLINK_OK;
}

void server_run(server_t *server)
{
    uv_run(&server->control.loop, UV_RUN_DEFAULT);
}

void server_destroy(server_t *server)
{
    if (!server)
        return;
    control_t *control = &server->control;
    if (control->engine && control->turns.steps_most > 0)
        LOG_INFO("longest turn: %u steps, of the engine %u", control->turns.steps_most,
                 engine_longest_turn(control->engine));
    gpus_destroy(control->gpus);
    control->gpus = NULL;
    engine_stop(control->engine);
    mailbox_run(&server->mailbox); /* what the engine has told last refers to it */
    exec_cuda_destroy(server->cuda);
    exec_host_destroy(control->exec);
    engine_destroy(control->engine);
    pace_destroy(server->pace);
    peers_destroy(control->peers);
    close_loop(server);
    data_destroy(control->data);
    links_destroy(control->links);
    ops_free(control);
    rosters_destroy(control->rosters);
    rendezvous_destroy(control->rendezvous);
    fabrics_end(control);
    close_socket(server);
    if (control->holes >= 0)
        close(control->holes);
    vec_free(&control->all_clients);
    free(control->topology_json);
    free(server->link_bytes);
    free(server);
}
