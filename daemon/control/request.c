#include "control/request.h"

#include "control/comms/gathering.h"
#include "control/comms/leave.h"
#include "control/comms/survivors.h"
#include "control/memory/region.h"
#include "control/memory/region_gpu.h"
#include "control/peers/finding.h"
#include "control/query.h"
#include "frame.h"

#include <string.h>
#include <unistd.h>

static void send_hello(const session_t *session, uint64_t id, const int *fds, uint32_t fd_count)
{
    Blinkwire__HelloReply body = BLINKWIRE__HELLO_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.version = BLINK_WIRE_VERSION_MAX;
    body.daemon_version = BLINK_VERSION;
    body.pid = (uint32_t)getpid();
    body.device_count = session->control->device_count;
    body.home.data = (uint8_t *)(uintptr_t)&session->control->home; /* only read */
    body.home.len = UNIQUE_ID_HOME_BYTES;
    body.watches_threads = true;
    body.client_id = session->client ? session->client->number : 0;
    reply.id = id;
    reply.body_case = BLINKWIRE__REPLY__BODY_HELLO;
    reply.hello = &body;
    connection_send(session->connection, &reply, fds, fd_count);
}

static void refuse_client(const session_t *session, uint64_t id, blink_result_t result,
                          const int fds[CLIENT_FDS])
{
    for (int i = 0; i < CLIENT_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    connection_fail(session->connection, id, result);
}

static void become_client(session_t *session, uint64_t id, const Blinkwire__Hello *message)
{
    int fds[CLIENT_FDS];
    blink_result_t result =
        client_create(session->control, session->connection, session->tenant, message, fds, &session->client);
    if (result == BLINK_OK)
        send_hello(session, id, fds, CLIENT_FDS);
    else
        refuse_client(session, id, result, fds);
}

static void hello(session_t *session, uint64_t id, const Blinkwire__Hello *message)
{
    if (session->greeted) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a second Hello on one connection");
        connection_fail(session->connection, id, BLINK_ERR_PROTOCOL);
        return;
    }
    if (message->version_min > BLINK_WIRE_VERSION_MAX || message->version_max < BLINK_WIRE_VERSION_MIN) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL,
                   "the client speaks protocol versions %u to %u, this daemon (%s) %u to %u",
                   message->version_min, message->version_max, BLINK_VERSION, BLINK_WIRE_VERSION_MIN,
                   BLINK_WIRE_VERSION_MAX);
        connection_fail(session->connection, id, BLINK_ERR_PROTOCOL);
        return;
    }
    session_greet(session);
    if (message->want_ring)
        become_client(session, id, message);
    else
        send_hello(session, id, NULL, 0);
}

static void reply_lost_fds(const session_t *session, uint64_t id)
{
    BLINK_FAIL(BLINK_ERR_QUOTA,
               "the descriptor was not taken: the daemon has none left (LimitNOFILE=), or %u wait "
               "for this user's unfinished requests",
               session->tenant->unclaimed_fds);
    connection_reply_error(session->connection, id, BLINK_ERR_QUOTA);
}

static void mem_register(session_t *session, uint64_t id, const Blinkwire__MemRegister *message)
{
    int fd = connection_take_fd(session->connection);
    if (fd < 0 && connection_lost_fds(session->connection)) {
        reply_lost_fds(session, id);
        return;
    }
    region_register_host(session->client, id, message, fd);
    if (fd >= 0)
        close(fd);
}

/* One descriptor is claimed for each extent that needs one, no more: the next request's may have come. */
static void gpu_mem_register(session_t *session, uint64_t id, const Blinkwire__GpuMemRegister *message)
{
    int fds[FRAME_FDS_MAX];
    uint32_t fd_count = 0;
    for (uint32_t i = 0; i < message->n_extents && fd_count < FRAME_FDS_MAX; i++) {
        int fd = message->extents[i]->kind == BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_IPC
                     ? -1
                     : connection_take_fd(session->connection);
        if (fd >= 0)
            fds[fd_count++] = fd;
    }
    if (connection_lost_fds(session->connection))
        reply_lost_fds(session, id);
    else
        region_register_gpu(session->client, id, message, fds, fd_count);
    for (uint32_t i = 0; i < fd_count; i++)
        close(fds[i]);
}

static void watch_thread(const session_t *session, uint64_t id)
{
    int fd = connection_take_fd(session->connection);
    if (fd < 0 && connection_lost_fds(session->connection)) {
        reply_lost_fds(session, id);
        return;
    }
    blink_result_t result = connection_watch_thread(session->connection, fd);
    if (result == BLINK_OK)
        connection_reply_ok(session->connection, id);
    else
        connection_reply_error(session->connection, id, result);
}

/* Requests that only a client with rings may make. */
static void client_request(session_t *session, const Blinkwire__Request *request)
{
    client_t *client = session->client;
    switch (request->body_case) {
    case BLINKWIRE__REQUEST__BODY_MEM_REGISTER:
        mem_register(session, request->id, request->mem_register);
        return;
    case BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER:
        region_deregister(client, request->id, request->mem_deregister->region);
        return;
    case BLINKWIRE__REQUEST__BODY_STAGING_CREATE:
        region_stage(client, request->id, request->staging_create);
        return;
    case BLINKWIRE__REQUEST__BODY_GPU_MEM_REGISTER:
        gpu_mem_register(session, request->id, request->gpu_mem_register);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_INIT:
        roster_join(client, request->id, request->comm_init);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_GIVE_UP:
        roster_give_up(client, request->id, request->comm_give_up->request);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_DESTROY:
        roster_leave(client, request->id, request->comm_destroy->member);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_ABORT:
        roster_abort(client, request->id, request->comm_abort->member);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_TIMEOUT:
        roster_set_timeout(client, request->id, request->comm_timeout);
        return;
    case BLINKWIRE__REQUEST__BODY_COMM_SURVIVORS:
        roster_tell_survivors(client, request->id, request->comm_survivors);
        return;
    case BLINKWIRE__REQUEST__BODY_WATCH_THREAD:
        watch_thread(session, request->id);
        return;
    case BLINKWIRE__REQUEST__BODY_FIND_HOME:
        finding_begin(session->control, session->connection, session->tenant, request->id,
                      request->find_home);
        return;
    default:
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "request %lu asks for nothing this version knows",
                   (unsigned long)request->id);
        connection_fail(session->connection, request->id, BLINK_ERR_PROTOCOL);
    }
}

/* ---- what tools ask ---- */

static void on_hold(void *context)
{
    connection_hold(context);
}

static void on_answer(void *context, const Blinkwire__Reply *reply)
{
    connection_send(context, reply, NULL, 0);
    connection_release(context);
}

static void query(const session_t *session, uint64_t id, const Blinkwire__Query *message)
{
    static const asker_calls_t calls = {on_hold, on_answer};
    control_t *control = session->control;
    const asker_t asker = {.view = {control, session->tenant, session->sees_all},
                           .calls = &calls,
                           .context = session->connection,
                           .request = id,
                           .host = control->peers ? peers_own(control->peers)->name : ""};
    if (!peers_ask(control->peers, &asker, message))
        query_answer(&asker, message);
}

/* ---- all requests ---- */

void request_handle(session_t *session, const uint8_t *bytes, size_t byte_count)
{
    Blinkwire__Request *request = blinkwire__request__unpack(NULL, byte_count, bytes);
    if (!request) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of %zu bytes is not a request", byte_count);
        connection_fail(session->connection, 0, BLINK_ERR_PROTOCOL);
        return;
    }
    if (session->control->stopping) {
        BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "the daemon is stopping");
        connection_reply_error(session->connection, request->id, BLINK_ERR_DAEMON_LOST);
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_HELLO) {
        hello(session, request->id, request->hello);
    } else if (!session->greeted) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "a request before Hello");
        connection_fail(session->connection, request->id, BLINK_ERR_PROTOCOL);
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_PING) {
        connection_reply_ok(session->connection, request->id);
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_QUERY) {
        query(session, request->id, request->query);
    } else if (!session->client) {
        BLINK_FAIL(BLINK_ERR_PROTOCOL, "this connection asked for no rings, so it can only query");
        connection_reply_error(session->connection, request->id, BLINK_ERR_PROTOCOL);
    } else {
        client_request(session, request);
    }
    blinkwire__request__free_unpacked(request, NULL);
}
