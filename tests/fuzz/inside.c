#include "inside.h"

#include "config.h"
#include "control/server.h"
#include "frame.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES 4u

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: %s: %s\n", what, blink_error_text());
    abort();
}

static void *serve(void *server)
{
    server_run(server);
    return NULL;
}

static settings_t settings;
static char directory[] = "/tmp/blink-fuzz-XXXXXX";

static void remove_socket(void)
{
    char lock[sizeof(settings.socket) + 8];
    snprintf(lock, sizeof(lock), "%s.lock", settings.socket);
    unlink(settings.socket);
    unlink(lock);
    rmdir(directory);
}

static void start(void)
{
    topo_t *topo;
    server_t *server;
    pthread_t thread;
    must(mkdtemp(directory), "mkdtemp");
    config_set_defaults(&settings);
    snprintf(settings.socket, sizeof(settings.socket), "%s/socket", directory);
    settings.workers = 1;
    settings.log_level = LOG_LEVEL_ERROR;
    log_init(settings.log_level, false);
    must(topo_load("dgx1v", &topo) == BLINK_OK, "topology");
    const server_config_t config = {
        .settings = &settings, .local = topo, .topo = topo, .device_count = DEVICES, .listen_fd = -1};
    must(server_create(&config, &server) == BLINK_OK, "server");
    must(pthread_create(&thread, NULL, serve, server) == 0, "thread");
    pthread_detach(thread);
    atexit(remove_socket);
}

int inside_connect(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int connection;
    pthread_once(&once, start);
    must(frame_connect(settings.socket, 0, &connection) == BLINK_OK, "connect");
    return connection;
}

static Blinkwire__Reply *receive(int connection, int *fds, uint32_t fd_count)
{
    frame_t frame;
    if (frame_receive(connection, &frame) != BLINK_OK)
        return NULL;
    for (uint32_t i = 0; i < fd_count && i < frame.fd_count; i++) {
        fds[i] = frame.fds[i];
        frame.fds[i] = -1;
    }
    Blinkwire__Reply *reply = blinkwire__reply__unpack(NULL, frame.byte_count, frame.bytes);
    frame_release(&frame);
    must(reply, "the daemon's reply is none");
    return reply;
}

Blinkwire__Reply *inside_ask(int connection, const Blinkwire__Request *request, int fd, int *fds,
                             uint32_t fd_count)
{
    uint8_t bytes[1024];
    must(blinkwire__request__get_packed_size(request) <= sizeof(bytes), "request");
    size_t byte_count = blinkwire__request__pack(request, bytes);
    if (frame_send(connection, bytes, byte_count, &fd, fd >= 0) != BLINK_OK)
        return NULL;
    Blinkwire__Reply *reply = receive(connection, fds, fd_count);
    while (reply && reply->id != request->id) {
        blinkwire__reply__free_unpacked(reply, NULL);
        reply = receive(connection, fds, fd_count);
    }
    return reply;
}

Blinkwire__Reply *inside_hello(int connection, bool want_ring, int fds[3])
{
    Blinkwire__Hello hello = BLINKWIRE__HELLO__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    hello.version_min = BLINK_WIRE_VERSION_MIN;
    hello.version_max = BLINK_WIRE_VERSION_MAX;
    hello.want_ring = want_ring;
    request.id = 1;
    request.body_case = BLINKWIRE__REQUEST__BODY_HELLO;
    request.hello = &hello;
    return inside_ask(connection, &request, -1, fds, 3);
}

void inside_leave(int connection)
{
    char bytes[4096];
    shutdown(connection, SHUT_WR);
    while (recv(connection, bytes, sizeof(bytes), 0) > 0) {
    }
    close(connection);
}

int inside_memory(size_t bytes)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0, "memfd");
    must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal");
    return fd;
}
