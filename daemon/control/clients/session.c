#include "control/clients/session.h"

#include "base/log.h"
#include "control/clients/cgroup.h"
#include "control/links.h"
#include "control/request.h"

#include <stdlib.h>
#include <unistd.h>

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
    connection_destroy(session->connection);
    if (session->charged)
        account_credit(&session->tenant->account, BUDGET_CONNECTIONS, 1);
    tenant_put(session->tenant);
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

/* Who is at the other end. NULL: no memory. */
static tenant_t *find_tenant(control_t *control, const connection_t *connection)
{
    char cgroup[CGROUP_BYTES] = "";
    if (control->settings->tenants_by_cgroup)
        cgroup_of(connection_pid(connection), cgroup);
    return tenant_get(&control->tenants, connection_uid(connection), cgroup);
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
    session->tenant = find_tenant(control, session->connection);
    if (!session->tenant) {
        connection_destroy(session->connection);
        free(session);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another user");
    }
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
    blink_result_t result = account_charge(&session->tenant->account, BUDGET_CONNECTIONS, 1);
    session->charged = result == BLINK_OK;
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
