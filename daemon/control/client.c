/*
 * A connection that has rings: made by its Hello, ended when its process goes.
 */
#include "control/internal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Submissions a client may have under way, and completions it may leave unread. */
#define RING_SQ_ENTRIES 1024u
#define RING_CQ_ENTRIES 1024u

enum { FD_RING, FD_DOORBELL, FD_COMPLETION, FD_COUNT };

static blink_result_t check_quota(const connection_t *connection)
{
    uint32_t same_tenant = 0;
    for (const connection_t *other = connection->server->connections; other; other = other->next)
        same_tenant += other->client && other->uid == connection->uid;
    uint32_t limit = connection->server->config.settings->clients_per_tenant;
    if (same_tenant >= limit)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "user %u has %u clients connected, the limit is %u",
                          connection->uid, same_tenant, limit);
    return BLINK_OK;
}

static blink_result_t make_rings(engine_client_config_t *config, int fds[FD_COUNT])
{
    BLINK_TRY(ring_create(RING_SQ_ENTRIES, RING_CQ_ENTRIES, &config->ring, &fds[FD_RING]));
    fds[FD_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fds[FD_COMPLETION] = ring_create_event();
    if (fds[FD_DOORBELL] >= 0)
        config->doorbell_fd = fcntl(fds[FD_DOORBELL], F_DUPFD_CLOEXEC, 0);
    if (fds[FD_COMPLETION] >= 0)
        config->completion_fd = fcntl(fds[FD_COMPLETION], F_DUPFD_CLOEXEC, 0);
    if (config->doorbell_fd < 0 || config->completion_fd < 0)
        return BLINK_FAIL_ERRNO("doorbell and completion event of a client");
    return BLINK_OK;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* The engine's half; its descriptors are duplicates of those that travel to the client. */
static blink_result_t add_to_engine(client_t *client, int fds[FD_COUNT])
{
    engine_client_config_t config = {.client = client->client, .doorbell_fd = -1, .completion_fd = -1};
    blink_result_t result = make_rings(&config, fds);
    if (result != BLINK_OK) {
        ring_unmap(&config.ring);
        close_if_open(config.doorbell_fd);
        close_if_open(config.completion_fd);
        return result;
    }
    return engine_client_add(client->server->engine, &config, &client->engine);
}

static void send_hello(connection_t *connection, uint64_t id, const int fds[FD_COUNT])
{
    Blinkwire__HelloReply body;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    hello_reply_init(connection->server, &body);
    body.client_id = connection->client->client;
    reply.id = id;
    reply.body_case = BLINKWIRE__REPLY__BODY_HELLO;
    reply.hello = &body;
    connection_send(connection, &reply, fds, FD_COUNT);
}

/* It is shown in logs and on terminals: only what is harmless there. */
static void set_program(client_t *client, const char *program)
{
    snprintf(client->program, sizeof(client->program), "%s", program);
    for (char *at = client->program; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

blink_result_t client_create(connection_t *connection, uint64_t id, const Blinkwire__Hello *hello)
{
    server_t *server = connection->server;
    BLINK_TRY(check_quota(connection));
    client_t *client = calloc(1, sizeof(*client));
    if (!client)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another client");
    int fds[FD_COUNT] = {-1, -1, -1};
    client->server = server;
    client->connection = connection;
    client->client = ++server->next_client;
    set_program(client, hello->program);
    blink_result_t result = add_to_engine(client, fds);
    if (result == BLINK_OK) {
        connection->client = client;
        server->client_count++;
        LOG_INFO("client %u: %s (pid %d, user %u)", client->client, client->program, connection->pid,
                 connection->uid);
        send_hello(connection, id, fds);
    } else {
        free(client);
    }
    for (int i = 0; i < FD_COUNT; i++)
        close_if_open(fds[i]);
    return result;
}

/* The engine has forgotten the client: nothing reads or writes its memory any more. */
static void on_removed(void *context)
{
    client_t *client = context;
    connection_t *connection = client->connection;
    LOG_INFO("client %u: gone", client->client);
    region_release_all(client);
    client->server->client_count--;
    free(client);
    connection_finish(connection);
}

void client_disconnect(client_t *client)
{
    comm_client_lost(client);
    region_leave_pending(client);
    engine_client_remove(client->engine, (engine_done_t){on_removed, client});
}
