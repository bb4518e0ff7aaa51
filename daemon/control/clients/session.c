#include "control/clients/session.h"

#include "base/log.h"
#include "control/links.h"
#include "control/request.h"

#include <stdlib.h>
#include <unistd.h>

/* Connections of one user beyond the clients it may have: tools, and those that have not said hello yet. */
#define CONNECTIONS_BESIDE_CLIENTS 32u

static void stop_if_done(control_t *control)
{
    if (control->stopping && list_is_empty(&control->sessions))
        uv_stop(&control->loop);
}

/* Nobody uses the session any more. */
static void session_finish(void *context)
{
    session_t *session = context;
    control_t *control = session->control;
    list_remove(&session->link);
    session->tenant->session_count--;
    tenant_release(session->tenant);
    connection_destroy(session->connection);
    free(session);
    stop_if_done(control);
}

static void on_ended(void *context)
{
    session_t *session = context;
    links_forget(session->control->links, session->connection);
    if (session->client)
        client_leave(session->client, (engine_done_t){session_finish, session});
    else
        session_finish(session);
}

static void on_frame(void *context, const uint8_t *bytes, size_t byte_count)
{
    request_handle(context, bytes, byte_count);
}

static blink_result_t check_quota(const session_t *session)
{
    const tenant_t *tenant = session->tenant;
    uint32_t limit = session->control->settings->clients_per_tenant + CONNECTIONS_BESIDE_CLIENTS;
    if (tenant->session_count > limit)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "user %u has %u connections, the limit is %u", tenant->uid,
                          tenant->session_count - 1, limit);
    return BLINK_OK;
}

static blink_result_t session_create(control_t *control, int fd, session_t **created)
{
    static const connection_handler_t handler = {.frame = on_frame, .ended = on_ended};
    session_t *session = calloc(1, sizeof(*session));
    if (!session) {
        close(fd);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a session");
    }
    session->control = control;
    blink_result_t result = connection_create(&control->loop, fd, &handler, session, &session->connection);
    if (result != BLINK_OK) {
        free(session);
        return result;
    }
    session->tenant = tenant_of(&control->tenants, connection_uid(session->connection));
    if (!session->tenant) {
        connection_destroy(session->connection);
        free(session);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another user");
    }
    session->tenant->session_count++;
    list_append(&control->sessions, &session->link);
    *created = session;
    return BLINK_OK;
}

void session_start(control_t *control, int fd)
{
    session_t *session;
    if (session_create(control, fd, &session) != BLINK_OK) {
        LOG_WARNING("a connection could not be taken up: %s", blink_error_text());
        return;
    }
    blink_result_t result = check_quota(session);
    if (result != BLINK_OK)
        connection_fail(session->connection, 0, result);
}

void sessions_end_all(control_t *control)
{
    control->stopping = true;
    LIST_FOR_EACH (link, &control->sessions)
        connection_close(CONTAINER_OF(link, session_t, link)->connection);
    stop_if_done(control);
}
