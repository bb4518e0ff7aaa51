#include "control/clients/session.h"

#include "control/clients/cgroup.h"
#include "control/comms/ops.h"
#include "control/links.h"
#include "control/peers/peers.h"
#include "control/request.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void sessions_stop_if_done(control_t *control)
{
    if (control->stopping && !control->is_leaving && list_is_empty(&control->sessions) &&
        list_is_empty(&control->ending))
        uv_stop(&control->loop);
}

/* Nobody uses the session any more. */
static void session_finish(void *context)
{
    session_t *session = context;
    control_t *control = session->control;
    list_remove(&session->link);
    list_remove(&session->of_ungreeted);
    connection_destroy(session->connection);
    account_credit(&session->tenant->account, BUDGET_CONNECTIONS, 1);
    tenant_put(session->tenant);
    free(session);
    sessions_stop_if_done(control);
}

static void on_ended(void *context)
{
    session_t *session = context;
    links_forget(session->control->links, session->connection);
    ops_forget(session->control, session->connection);
    peers_forget(session->control->peers, session->connection);
    if (session->client)
        client_leave(session->client, (engine_done_t){session_finish, session});
    else
        session_finish(session);
}

static void on_frame(void *context, const uint8_t *bytes, size_t byte_count)
{
    request_handle(context, bytes, byte_count);
}

/* ---- who has not said hello ---- */

/* A connection has so long for its Hello. */
#define HELLO_MAX_MS 5000u

static void on_hello_timer(uv_timer_t *timer);

/* All have the same time, so the one that came first is the first to be out of it. */
static void arm_hello_timer(control_t *control)
{
    const session_t *first = LIST_FIRST(&control->ungreeted, session_t, of_ungreeted);
    if (first && !uv_is_active((uv_handle_t *)&control->hello_timer))
        turns_set_timer(&control->hello_timer, first->hello_deadline_ms, on_hello_timer);
}

/* A connection that has been told so, and does not read it, is closed all the same. */
static void on_hello_timer(uv_timer_t *timer)
{
    control_t *control = timer->data;
    uint64_t now_ms = uv_now(&control->loop);
    session_t *session;
    while ((session = LIST_FIRST(&control->ungreeted, session_t, of_ungreeted)) &&
           session->hello_deadline_ms <= now_ms && !turns_is_over(&control->turns)) {
        turns_count(&control->turns, 1);
        list_remove(&session->of_ungreeted);
        connection_expire(session->connection,
                          BLINK_FAIL(BLINK_ERR_TIMEOUT, "no Hello came within %u s", HELLO_MAX_MS / 1000));
    }
    arm_hello_timer(control);
}

void sessions_init(control_t *control)
{
    list_init(&control->sessions);
    list_init(&control->ending);
    list_init(&control->ungreeted);
    uv_timer_init(&control->loop, &control->hello_timer);
    control->hello_timer.data = control;
}

static void expect_hello(session_t *session)
{
    control_t *control = session->control;
    session->hello_deadline_ms = uv_now(&control->loop) + HELLO_MAX_MS;
    list_append(&control->ungreeted, &session->of_ungreeted);
    arm_hello_timer(control);
}

/* ---- beginning ---- */

/* Who is at the other end, held. NULL: no memory. */
static tenant_t *find_tenant(control_t *control, const peer_t *peer)
{
    char cgroup[CGROUP_BYTES] = "";
    if (control->settings->tenants_by_cgroup)
        cgroup_of(peer->pid, cgroup);
    return tenant_get(&control->tenants, peer->uid, cgroup);
}

static bool sees_all(const control_t *control, const peer_t *peer, int fd)
{
    return peer->uid == 0 ||
           (control->admin_group >= 0 && peer_is_member(peer, fd, (gid_t)control->admin_group));
}

/* The tenant's hold passes to the session. */
static blink_result_t session_create(control_t *control, tenant_t *tenant, const peer_t *peer, int fd,
                                     session_t **created)
{
    static const connection_handler_t handler = {.frame = on_frame, .ended = on_ended};
    session_t *session = calloc(1, sizeof(*session));
    if (!session) {
        close(fd);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a session");
    }
    const connection_config_t config = {.loop = &control->loop,
                                        .turns = &control->turns,
                                        .tenant = tenant,
                                        .fd = fd,
                                        .peer = *peer,
                                        .handler = &handler,
                                        .context = session};
    blink_result_t result = connection_create(&config, &session->connection);
    if (result != BLINK_OK) {
        free(session);
        return result;
    }
    session->control = control;
    session->tenant = tenant;
    session->sees_all = sees_all(control, peer, fd);
    list_init(&session->of_ungreeted);
    list_append(&control->sessions, &session->link);
    *created = session;
    return BLINK_OK;
}

/* Charge the tenant and make the session; if that fails, the other end has heard why. */
static blink_result_t admit(control_t *control, tenant_t *tenant, const peer_t *peer, int fd,
                            session_t **session)
{
    blink_result_t result = account_charge(&tenant->account, BUDGET_CONNECTIONS, 1);
    if (result != BLINK_OK) {
        connection_refuse(fd, result);
        return result;
    }
    result = session_create(control, tenant, peer, fd, session);
    if (result != BLINK_OK)
        account_credit(&tenant->account, BUDGET_CONNECTIONS, 1);
    return result;
}

static bool has_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void session_start(control_t *control, int fd)
{
    session_t *session;
    peer_t peer;
    if (has_ended(fd) || peer_identify(&peer, fd) != BLINK_OK) {
        close(fd);
        return;
    }
    tenant_t *tenant = find_tenant(control, &peer);
    if (!tenant) {
        connection_refuse(fd, BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another user"));
        return;
    }
    if (admit(control, tenant, &peer, fd, &session) != BLINK_OK) {
        char subject[PEER_SUBJECT_BYTES];
        tenant_event(tenant, EVENT_CLIENT_REFUSED, 0, peer_subject(&peer, subject), LOG_LEVEL_WARNING,
                     "not connected: %s", blink_error_text());
        tenant_put(tenant);
        return;
    }
    expect_hello(session);
    connection_begin(session->connection);
}

/* ---- the end of all ---- */

bool sessions_end_some(control_t *control)
{
    list_t *link;
    while (!turns_slice_is_over(&control->turns) && (link = list_take_first(&control->sessions))) {
        list_append(&control->ending, link);
        turns_count(&control->turns, 1);
        connection_end(CONTAINER_OF(link, session_t, link)->connection);
    }
    sessions_stop_if_done(control);
    return !list_is_empty(&control->sessions);
}
