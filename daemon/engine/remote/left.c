/*
 * Standing landings of communicators that have left this host: other hosts may send there until they say that
 * they do not.
 */
#include "base/clock.h"
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdlib.h>

/* Hosts that wait to hear LEFT are looked at so often. */
#define ASKED_US 10000u

void remote_tell_left(data_endpoint_t *endpoint, uint64_t home, uint32_t number, uint32_t flags)
{
    const left_t left = {.home = home, .comm = number, .flags = flags};
    (void)data_send(endpoint, WIRE_LEFT, &left, sizeof(left)); /* if that fails the endpoint is lost */
}

/* ---- communicators that have left ---- */

/* Unless some host may still send there. */
static void let_go_of(remote_left_t *left)
{
    if (data_standing_is_needed(left->standing))
        return;
    data_standing_destroy(left->standing);
    list_remove(&left->link);
    left->remotes->left_count--;
    free(left);
}

static void tell_hosts(const remote_comm_t *remote)
{
    for (uint32_t host = 0; host < remote->host_count; host++) {
        bool asks = data_standing_is_open(remote->standing, host);
        if (asks || data_standing_is_told(remote->standing, host) || remote->asking[host])
            remote_tell_left(remote->endpoints[host], remote->home, remote->number, asks ? LEFT_ASKS : 0);
    }
}

void remote_leave_landings(remote_comm_t *remote)
{
    remotes_t *remotes = &remote->comm->engine->remotes;
    remote_left_t *left = malloc(sizeof(*left));
    list_remove(&remote->of_asked);
    tell_hosts(remote);
    data_standing_leave(remote->standing);
    if (!left)
        return;
    *left = (remote_left_t){.remotes = remotes,
                            .home = remote->home,
                            .number = remote->number,
                            .since_us = clock_us(),
                            .standing = remote->standing};
    remote->standing = NULL;
    list_init(&left->link);
    list_append(&remotes->left, &left->link);
    remotes->left_count++;
    let_go_of(left);
}

static void heed_left(remotes_t *remotes, const data_endpoint_t *endpoint, const left_t *said)
{
    LIST_FOR_EACH (link, &remotes->left) {
        remote_left_t *left = CONTAINER_OF(link, remote_left_t, link);
        if (left->home != said->home || left->number != said->comm)
            continue;
        remote_left_lost(left, endpoint);
        return;
    }
}

void remote_left_lost(remote_left_t *left, const data_endpoint_t *endpoint)
{
    data_standing_peer_left(left->standing, endpoint);
    let_go_of(left);
}

/* ---- hosts that have left before this one ---- */

/* An op that runs may have moves to be made there; those that begin later have none. */
static bool may_send(const remote_comm_t *remote, uint32_t host)
{
    uint32_t looks = 0;
    LIST_FOR_EACH (link, &remote->unended) {
        const remote_op_t *of = CONTAINER_OF(link, remote_op_t, of_unended);
        if (looks++ == DATA_STANDING_OPS)
            break;
        if (of->run && data_run_sends(of->run, host))
            return true;
    }
    return false;
}

static void answer_asking(remote_comm_t *remote)
{
    bool any = false;
    for (uint32_t host = 0; host < remote->host_count; host++) {
        if (!remote->asking[host])
            continue;
        remote->asking[host] = may_send(remote, host);
        any |= remote->asking[host];
        if (!remote->asking[host])
            remote_tell_left(remote->endpoints[host], remote->home, remote->number, 0);
    }
    if (!any)
        list_remove(&remote->of_asked);
}

static void heed_left_of(remote_comm_t *remote, const data_endpoint_t *endpoint, const left_t *said)
{
    uint32_t host = remote_host_of(remote, endpoint);
    if (host == UINT32_MAX)
        return;
    data_standing_peer_left(remote->standing, endpoint);
    if (!(said->flags & LEFT_ASKS))
        return;
    data_standing_stop(remote->standing, host);
    remote->asking[host] = true;
    if (list_is_empty(&remote->of_asked))
        list_append(&remote->comm->engine->remotes.asked, &remote->of_asked);
    answer_asking(remote);
}

void remotes_heed_left(remotes_t *remotes, data_endpoint_t *endpoint, const left_t *said)
{
    remote_comm_t *remote = remote_find(remotes, said->home, said->comm);
    if (remote) {
        heed_left_of(remote, endpoint, said);
        return;
    }
    heed_left(remotes, endpoint, said);
    if (said->flags & LEFT_ASKS)
        remote_tell_left(endpoint, said->home, said->comm, 0);
}

/* ---- time ---- */

/* Lose the hosts that have not said LEFT for too long of the communicator that left first. */
static uint64_t check_silent(const engine_t *engine, uint64_t now_us)
{
    const remote_left_t *oldest = LIST_FIRST(&engine->remotes.left, remote_left_t, link);
    if (!oldest)
        return UINT64_MAX;
    double silent_s = REMOTE_SILENT_TIMEOUTS * engine->config.settings->network_timeout_s;
    uint64_t deadline_us = oldest->since_us + (uint64_t)(silent_s * 1e6);
    if (now_us < deadline_us)
        return deadline_us;
    data_standing_lose_silent(oldest->standing, silent_s); /* which is posted as a loss */
    return UINT64_MAX;
}

uint64_t remotes_check_left(engine_t *engine, uint64_t now_us)
{
    remotes_t *remotes = &engine->remotes;
    LIST_FOR_EACH (link, &remotes->asked)
        answer_asking(CONTAINER_OF(link, remote_comm_t, of_asked));
    uint64_t asked_us = list_is_empty(&remotes->asked) ? UINT64_MAX : now_us + ASKED_US;
    uint64_t silent_us = check_silent(engine, now_us);
    return silent_us < asked_us ? silent_us : asked_us;
}
