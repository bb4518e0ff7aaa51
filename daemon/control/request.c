/*
 * From the bytes of a frame to the call that serves it.
 */
#include "control/internal.h"

#include "base/log.h"

#include <string.h>
#include <unistd.h>

void hello_reply_init(const server_t *server, Blinkwire__HelloReply *reply)
{
    blinkwire__hello_reply__init(reply);
    reply->version = BLINK_WIRE_VERSION_MAX;
    reply->daemon_version = BLINK_VERSION;
    reply->device_count = server->config.device_count;
}

static void hello(connection_t *connection, uint64_t id, const Blinkwire__Hello *message)
{
    if (connection->greeted) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a second Hello on one connection");
        connection_fail(connection, id, BLINK_ERR_PROTOCOL);
        return;
    }
    if (message->version_min > BLINK_WIRE_VERSION_MAX || message->version_max < BLINK_WIRE_VERSION_MIN) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL,
                   "the client speaks protocol versions %u to %u, this daemon (%s) %u to %u",
                   message->version_min, message->version_max, BLINK_VERSION, BLINK_WIRE_VERSION_MIN,
                   BLINK_WIRE_VERSION_MAX);
        connection_fail(connection, id, BLINK_ERR_PROTOCOL);
        return;
    }
    connection->greeted = true;
    if (message->want_ring) {
        blink_result_t result = client_create(connection, id, message);
        if (result != BLINK_OK)
            connection_fail(connection, id, result);
        return;
    }
    Blinkwire__HelloReply body;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    hello_reply_init(connection->server, &body);
    reply.id = id;
    reply.body_case = BLINKWIRE__REPLY__BODY_HELLO;
    reply.hello = &body;
    connection_send(connection, &reply, NULL, 0);
}

static void mem_register(connection_t *connection, uint64_t id, const Blinkwire__MemRegister *message)
{
    int fd = connection_take_fd(connection);
    region_register_host(connection->client, id, message, fd);
    if (fd >= 0)
        close(fd);
}

/* Takes all descriptors that have come: the next request's come with it. */
static void gpu_mem_register(connection_t *connection, uint64_t id, const Blinkwire__GpuMemRegister *message)
{
    int fds[FRAME_FDS_MAX];
    uint32_t fd_count = 0;
    for (uint32_t i = 0; i < message->n_extents && fd_count < FRAME_FDS_MAX; i++) {
        int fd = message->extents[i]->kind == BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_IPC
                     ? -1
                     : connection_take_fd(connection);
        if (fd >= 0)
            fds[fd_count++] = fd;
    }
    region_register_gpu(connection->client, id, message, fds, fd_count);
    for (uint32_t i = 0; i < fd_count; i++)
        close(fds[i]);
}

/* Requests that only a client with rings may make. */
static void client_request(connection_t *connection, const Blinkwire__Request *request)
{
    client_t *client = connection->client;
    switch (request->body_case) {
    case BLINKWIRE__REQUEST__BODY_MEM_REGISTER:
        mem_register(connection, request->id, request->mem_register);
        return;
    case BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER: {
        blink_result_t result = region_deregister(client, request->mem_deregister->region, request->id);
        if (result != BLINK_OK)
            connection_reply_error(connection, request->id, result);
        return;
    }
    case BLINKWIRE__REQUEST__BODY_STAGING_CREATE:
        region_stage(client, request->id, request->staging_create);
        return;
    case BLINKWIRE__REQUEST__BODY_GPU_MEM_REGISTER:
        gpu_mem_register(connection, request->id, request->gpu_mem_register);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_INIT:
        comm_join(client, request->id, request->comm_init);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_DESTROY:
        comm_destroy(client, request->id, request->comm_destroy->member);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_ABORT:
        comm_abort(client, request->id, request->comm_abort->member);
        return;
    default:
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "request %lu asks for nothing this version knows",
                   (unsigned long)request->id);
        connection_fail(connection, request->id, BLINK_ERR_PROTOCOL);
    }
}

void request_handle(connection_t *connection, const uint8_t *bytes, size_t byte_count)
{
    Blinkwire__Request *request = blinkwire__request__unpack(NULL, byte_count, bytes);
    if (!request) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of %zu bytes is not a request", byte_count);
        connection_fail(connection, 0, BLINK_ERR_PROTOCOL);
        return;
    }
    if (request->body_case == BLINKWIRE__REQUEST__BODY_HELLO) {
        hello(connection, request->id, request->hello);
    } else if (!connection->greeted) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a request before Hello");
        connection_fail(connection, request->id, BLINK_ERR_PROTOCOL);
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_QUERY) {
        query_answer(connection, request->id, request->query->kind);
    } else if (!connection->client) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "this connection asked for no rings, so it can only query");
        connection_reply_error(connection, request->id, BLINK_ERR_PROTOCOL);
    } else {
        client_request(connection, request);
    }
    blinkwire__request__free_unpacked(request, NULL);
}
