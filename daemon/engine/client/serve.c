#include "engine/client/serve.h"

#include "base/clock.h"
#include "engine/client/replay.h"
#include "engine/client/stored.h"
#include "engine/client/submit.h"
#include "engine/loop.h"
#include "engine/op/await.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

/* In one turn: tenants, clients of each of them, and steps after which no more of its clients are visited. */
#define TENANTS_PER_TURN 16u
#define CLIENTS_PER_TURN 16u
#define STEPS_PER_TURN   256u

/* How long a client does nothing before it rests: as long as an application computes between two ops. Where a
 * tenant has many active clients, they rest sooner. */
#define REST_US      20000u
#define REST_SOON_US 1000u
#define MANY_CLIENTS 64u

/* A client that keeps the engine awake hears this often that the engine turns. */
#define PONG_US 10000u

#define EPOLL_EVENTS 64

/* ---- who rests ---- */

static bool may_rest(const engine_client_t *client)
{
    uint64_t quiet_us = client->engine->now_us - client->active_us;
    return quiet_us >= (client->tenant->active_count > MANY_CLIENTS ? REST_SOON_US : REST_US) &&
           list_is_empty(&client->stored) && !client->storing && client->awaited_gpu_ops == 0;
}

/* A step towards resting: tell the client; then, once nothing is owed, look at its ring once more. */
static void rest(engine_client_t *client)
{
    if (!client->told)
        client_tell(client, true);
    else if (client->settled)
        client_deactivate(client);
}

/* A visit has found nothing. A client that has been told is settled if there still is nothing. */
static void settle(engine_client_t *client)
{
    bool is_settled =
        client->told && client->looks_owed == 0 && !client->deferred && !ring_has_submission(&client->ring);
    if (is_settled)
        client_settle(client);
}

/* ---- visits ---- */

/* Handle what the client has submitted; once that is nothing, what has been deferred until then. */
static bool take_requests(engine_client_t *client)
{
    bool worked = submit_poll(client) || client_run_deferred(client);
    worked |= !list_is_empty(&client->stored) && replay_look(client);
    return worked;
}

static bool visit(engine_client_t *client)
{
    bool worked = true;
    if (client->replaying)
        replay_go_on(client);
    else
        worked = take_requests(client);
    worked |= client->awaited_count > 0 && await_look(client);
    engine_count(client->engine, 1);
    if (client->engine->now_us - client->pong_us >= PONG_US)
        client_answer_ping(client);
    if (client->removed)
        return true;
    if (client->crowded != client->engine->crowded)
        client_update_wait_policy(client);
    if (worked) {
        client->active_us = client->engine->now_us;
        client_tell(client, client->engine->drowsy);
        client_unsettle(client);
        return true;
    }
    settle(client);
    if (may_rest(client))
        rest(client);
    else
        client_tell(client, client->engine->drowsy);
    return false;
}

static bool visit_clients_of(tenant_t *tenant)
{
    bool worked = false;
    list_t *last = tenant->active_clients.previous, *link = NULL;
    uint32_t steps = 0;
    for (uint32_t visits = 0; visits < CLIENTS_PER_TURN && steps < STEPS_PER_TURN && link != last; visits++) {
        link = list_take_first(&tenant->active_clients);
        if (!link)
            break;
        list_append(&tenant->active_clients, link);
        engine_client_t *client = CONTAINER_OF(link, engine_client_t, of_active);
        uint32_t before = client->engine->turn_steps;
        worked |= visit(client);
        steps += client->engine->turn_steps - before;
    }
    return worked;
}

static bool serve_leaving(engine_t *engine)
{
    list_t *link;
    uint32_t before = engine->turn_steps;
    while (engine->turn_steps - before < STEPS_PER_TURN && (link = list_take_first(&engine->leaving))) {
        client_leave_slice(CONTAINER_OF(link, engine_client_t, of_active));
        engine_count(engine, 1);
    }
    return engine->turn_steps > before;
}

bool clients_serve(engine_t *engine)
{
    bool worked = serve_leaving(engine);
    list_t *last = engine->active_tenants.previous, *link = NULL;
    for (uint32_t visits = 0; visits < TENANTS_PER_TURN && link != last; visits++) {
        link = list_take_first(&engine->active_tenants);
        if (!link)
            break;
        list_append(&engine->active_tenants, link);
        worked |= visit_clients_of(CONTAINER_OF(link, tenant_t, of_active));
    }
    return worked;
}

/* ---- sleeping and waking ---- */

void clients_listen(engine_t *engine, const struct timespec *timeout)
{
    struct epoll_event events[EPOLL_EVENTS];
    /* All of them are watched for edges: nothing is read, which a client could make block. */
    int count = epoll_pwait2(engine->epoll_fd, events, EPOLL_EVENTS, timeout, NULL);
    if (count < 0 && errno == ENOSYS) /* a kernel older than 5.11: a coarse nap */
        count = epoll_wait(engine->epoll_fd, events, EPOLL_EVENTS,
                           timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0 ? 0 : 1);
    if (count > 0)
        engine->now_us = clock_us();
    for (int i = 0; i < count; i++) {
        engine_client_t *client = events[i].data.ptr;
        if (!client)
            continue;
        client_activate(client);
        client_answer_ping(client);
        client_unsettle(client);
        if (client->told) /* it may have written any of its words since they were looked at */
            client_set_looks_owed(client, client->awaited_count);
    }
    engine->unheard = 0;
}
