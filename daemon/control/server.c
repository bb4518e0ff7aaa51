/*
 * The control thread: its loop, the listening socket and the order in which everything starts and stops.
 */
#include "control/internal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
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

#define LISTEN_BACKLOG  128
#define LOCK_PATH_BYTES (SETTINGS_TEXT_BYTES + 8)
#define ACCEPT_PAUSE_MS 1000u

/* ---- the socket ---- */

static void lock_path(const server_t *server, char path[LOCK_PATH_BYTES])
{
    snprintf(path, LOCK_PATH_BYTES, "%s.lock", server->config.settings->socket);
}

/* Two daemons that start at once must not both take a stale socket over. The lock goes with the process. */
static blink_result_t lock_socket(server_t *server)
{
    char path[LOCK_PATH_BYTES];
    lock_path(server, path);
    server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (server->lock_fd < 0)
        return BLINK_FAIL_ERRNO("lock file %s", path);
    if (flock(server->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "a daemon already runs on %s", server->config.settings->socket);
    return BLINK_OK;
}

/* Before anything is made beside it: the path may be somebody's file. */
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
    if (frame_connect(path, &probe) == BLINK_OK) {
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
    const char *path = server->config.settings->socket;
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
        return BLINK_FAIL_ERRNO("bind %s", path);
    if (chmod(path, server->config.settings->socket_mode) != 0 ||
        listen(server->listen_fd, LISTEN_BACKLOG) != 0)
        return BLINK_FAIL_ERRNO("listen on %s", path);
    return BLINK_OK;
}

static void close_socket(server_t *server)
{
    bool own = server->config.listen_fd < 0;
    if (server->listen_fd >= 0) {
        close(server->listen_fd);
        if (own)
            unlink(server->config.settings->socket);
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
    if (!server->stopping)
        uv_poll_start(&server->listener, UV_READABLE, on_listener);
}

/* Without descriptors or memory for another connection, those that wait would wake the loop without end. */
static void pause_accepting(server_t *server, int error)
{
    LOG_WARNING("no new connections for %u ms: %s", ACCEPT_PAUSE_MS, strerror(error));
    uv_poll_stop(&server->listener);
    uv_timer_start(&server->accept_again, on_accept_again, ACCEPT_PAUSE_MS, 0);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    server_t *server = poll->data;
    (void)events;
    while (status == 0 && !server->stopping) {
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                pause_accepting(server, errno);
            return;
        }
        connection_accept(server, fd);
    }
}

static void on_mailbox(uv_async_t *async)
{
    server_t *server = async->data;
    mailbox_run(&server->mailbox);
}

/* On the posting thread. */
static void wake_control(void *context)
{
    server_t *server = context;
    uv_async_send(&server->wake);
}

/* Both threads turn. */
static void on_heartbeat(void *context)
{
    server_t *server = context;
    server->heartbeat_pending = false;
    sd_notify(0, "WATCHDOG=1");
}

static void on_watchdog(uv_timer_t *timer)
{
    server_t *server = timer->data;
    if (server->heartbeat_pending)
        return;
    server->heartbeat_pending = true;
    engine_heartbeat(server->engine, (engine_done_t){on_heartbeat, server});
}

uint32_t server_gpu_of_device(const server_t *server, uint32_t device)
{
    const gpu_setup_t *setup = server->config.gpus;
    return setup ? setup->gpu_of_node[server->config.topo->gpus[device]] : EXEC_CUDA_NO_GPU;
}

void server_stop_if_done(server_t *server)
{
    if (server->stopping && !server->connections)
        uv_stop(&server->loop);
}

static void on_signal(uv_signal_t *signal, int number)
{
    server_t *server = signal->data;
    if (server->stopping)
        return;
    LOG_INFO("%s: stopping", strsignal(number));
    sd_notify(0, "STOPPING=1");
    server->stopping = true;
    uv_poll_stop(&server->listener);
    comm_end_all(server);
    connection_t *next;
    for (connection_t *connection = server->connections; connection; connection = next) {
        next = connection->next;
        connection_close(connection);
    }
    server_stop_if_done(server);
}

static blink_result_t start_loop(server_t *server)
{
    if (uv_loop_init(&server->loop) != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "event loop");
    server->loop_open = true;
    mailbox_init(&server->mailbox, wake_control, server);
    server->wake.data = server->listener.data = server->terminate.data = server->interrupt.data = server;
    server->init_timer.data = server->watchdog.data = server->accept_again.data = server->hangup.data =
        server;
    if (uv_async_init(&server->loop, &server->wake, on_mailbox) != 0 ||
        uv_signal_init(&server->loop, &server->terminate) != 0 ||
        uv_signal_init(&server->loop, &server->interrupt) != 0 ||
        uv_signal_init(&server->loop, &server->hangup) != 0 ||
        uv_timer_init(&server->loop, &server->init_timer) != 0 ||
        uv_timer_init(&server->loop, &server->watchdog) != 0 ||
        uv_timer_init(&server->loop, &server->accept_again) != 0 ||
        uv_poll_init(&server->loop, &server->listener, server->listen_fd) != 0 ||
        uv_poll_start(&server->listener, UV_READABLE, on_listener) != 0 ||
        uv_signal_start(&server->terminate, on_signal, SIGTERM) != 0 ||
        uv_signal_start(&server->interrupt, on_signal, SIGINT) != 0 ||
        uv_signal_start(&server->hangup, on_signal, SIGHUP) != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "event loop");
    uint64_t watchdog_ms = server->config.watchdog_us / 2000;
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
    uv_walk(&server->loop, close_handle, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
}

/* ---- workers and engine ---- */

/* Moves go to the copy engines where kernels of the daemon and of applications take turns. */
static blink_result_t create_cuda(server_t *server)
{
    const gpu_setup_t *setup = server->config.gpus;
    if (!setup)
        return BLINK_OK;
    exec_cuda_config_t config = {.gpu_count = setup->hello.gpu_count,
                                 .gpus = setup->hello.gpus,
                                 .gpu_of_node = setup->gpu_of_node,
                                 .moves_by_copy_engines = !server->config.settings->gpu_mps,
                                 .link_count = server->config.topo->link_count,
                                 .link_bytes = server->link_bytes};
    return exec_cuda_create(&config, &server->cuda);
}

static blink_result_t start_threads(server_t *server)
{
    const server_config_t *config = &server->config;
    uint32_t link_count = config->topo->link_count;
    server->link_bytes = calloc(link_count ? link_count : 1, sizeof(*server->link_bytes));
    if (!server->link_bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u links", link_count);
    if (config->settings->pace_scale > 0)
        BLINK_TRY(pace_create(config->topo, config->settings->pace_scale, &server->pace));
    exec_host_config_t exec_config = {.workers = config->settings->workers,
                                      .bind = true,
                                      .pace = server->pace,
                                      .link_count = link_count,
                                      .link_bytes = server->link_bytes};
    BLINK_TRY(exec_host_create(&exec_config, &server->exec));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    BLINK_TRY(create_cuda(server));
    engine_config_t engine_config = {.settings = config->settings,
                                     .exec = server->exec,
                                     .cuda = server->cuda,
                                     .gpu_of_node = config->gpus ? config->gpus->gpu_of_node : NULL,
                                     .topo = config->topo,
                                     .cores = cores > 0 ? (uint32_t)cores : 1,
                                     .control = &server->mailbox,
                                     .comm_lost = comm_lost_by_engine,
                                     .context = server};
    BLINK_TRY(engine_create(&engine_config, &server->engine));
    return config->gpus ? gpus_create(server, config->gpus, &server->gpus) : BLINK_OK;
}

blink_result_t server_create(const server_config_t *config, server_t **server)
{
    server_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the server");
    created->config = *config;
    created->lock_fd = -1;
    created->listen_fd = config->listen_fd;
    created->started_ns = uv_hrtime();
    blink_result_t result = region_install_sigbus_handler();
    if (result == BLINK_OK && config->listen_fd < 0)
        result = open_socket(created);
    if (result == BLINK_OK)
        result = start_loop(created);
    if (result == BLINK_OK)
        result = links_create(created, &created->links);
    if (result == BLINK_OK)
        result = start_threads(created);
    if (result != BLINK_OK) {
        server_destroy(created);
        return result;
    }
    *server = created;
    return BLINK_OK;
}

void server_run(server_t *server)
{
    uv_run(&server->loop, UV_RUN_DEFAULT);
}

void server_destroy(server_t *server)
{
    if (!server)
        return;
    gpus_destroy(server->gpus);
    engine_stop(server->engine);
    exec_cuda_destroy(server->cuda);
    exec_host_destroy(server->exec);
    engine_destroy(server->engine);
    pace_destroy(server->pace);
    close_loop(server);
    links_destroy(server->links);
    comm_free_tenants(server);
    close_socket(server);
    free(server->link_bytes);
    free(server);
}
