/*
 * Sessions that this side wants: the addresses of one host in turn, again and again, with pauses that grow.
 */
#include "net/session.h"

#include "base/clock.h"
#include "base/table.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_LEAST_MS 50u
#define PAUSE_MOST_MS  5000u

struct net_dial {
    net_t *net;
    list_t link; /* on net->dials */
    net_dial_config_t config;
    net_address_t addresses[ADDRESSES_MAX];
    uint32_t next;          /* of the addresses */
    net_session_t *session; /* the try under way; NULL: none */
    uv_timer_t timer;       /* the next try */
    uint32_t pause_ms;
};

static void on_timer_closed(uv_handle_t *handle)
{
    net_dial_t *dial = handle->data;
    net_t *net = dial->net;
    free(dial);
    net_put(net);
}

static void end_dial(net_dial_t *dial)
{
    list_remove(&dial->link);
    uv_close((uv_handle_t *)&dial->timer, on_timer_closed);
}

/* ---- a try ---- */

static blink_result_t connect_to(net_dial_t *dial, const net_address_t *address)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("socket");
    if (connect(fd, &address->any, address_bytes(address)) != 0 && errno != EINPROGRESS) {
        blink_result_t result = BLINK_FAIL(BLINK_ERR_CONNECT, "no connection: %s", strerror(errno));
        close(fd);
        return result;
    }
    return session_dial(dial->net, fd, address, dial, &dial->session);
}

static void on_timer(uv_timer_t *timer)
{
    net_dial_t *dial = timer->data;
    const net_address_t *address = &dial->addresses[dial->next];
    blink_result_t result = connect_to(dial, address);
    if (result == BLINK_OK)
        return;
    dial_failed(dial, result);
}

/* Some daemons that lost the same host do not come back at the same moment: half of the pause is random. */
static void pause_and_retry(net_dial_t *dial)
{
    uint64_t random = table_hash(clock_ns() ^ dial->net->hello.instance);
    uv_timer_start(&dial->timer, on_timer, dial->pause_ms / 2 + random % (dial->pause_ms / 2 + 1), 0);
    dial->pause_ms = dial->pause_ms * 2 < PAUSE_MOST_MS ? dial->pause_ms * 2 : PAUSE_MOST_MS;
}

void dial_failed(net_dial_t *dial, blink_result_t code)
{
    dial->session = NULL;
    if (code == BLINK_ERR_EXISTS) {
        pause_and_retry(dial);
        return;
    }
    dial->next = (dial->next + 1) % dial->config.address_count;
    if (dial->next > 0) {
        uv_timer_start(&dial->timer, on_timer, 0, 0);
        return;
    }
    pause_and_retry(dial);
    dial->config.failed(dial->config.context, code);
}

blink_result_t dial_check(const net_dial_t *dial, const net_session_t *session)
{
    const hello_t *peer = &session->peer;
    uint64_t wanted = dial->config.instance;
    if (wanted != 0 && peer->instance != wanted)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "the daemon that was there has ended: '%s' is there now",
                          peer->host);
    if (dial->config.is_users && !hello_names(peer, &session->address))
        return BLINK_FAIL(BLINK_ERR_PERMISSION, "the daemon of '%s' does not name this address as its own",
                          peer->host);
    return BLINK_OK;
}

void dial_connected(net_dial_t *dial, net_session_t *session)
{
    end_dial(dial);
    dial->config.connected(dial->config.context, session);
}

/* ---- for the owner ---- */

blink_result_t net_dial(net_t *net, const net_dial_config_t *config, net_dial_t **created)
{
    net_dial_t *dial = calloc(1, sizeof(*dial));
    if (!dial)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to dial");
    *dial = (net_dial_t){.net = net, .config = *config, .pause_ms = PAUSE_LEAST_MS};
    memcpy(dial->addresses, config->addresses, config->address_count * sizeof(*config->addresses));
    uv_timer_init(net->loop, &dial->timer);
    dial->timer.data = dial;
    net->holds++;
    list_append(&net->dials, &dial->link);
    uv_timer_start(&dial->timer, on_timer, 0, 0);
    *created = dial;
    return BLINK_OK;
}

void net_dial_cancel(net_dial_t *dial)
{
    net_session_t *session = dial->session;
    end_dial(dial);
    if (!session)
        return;
    session->dial = NULL;
    if (session->state < SESSION_OPEN)
        session_drop(session);
}

bool dials_are_for(const net_t *net, const net_address_t *address)
{
    LIST_FOR_EACH (link, &net->dials) {
        const net_dial_t *dial = CONTAINER_OF(link, net_dial_t, link);
        for (uint32_t i = 0; i < dial->config.address_count; i++)
            if (address_is_same_host(&dial->addresses[i], address))
                return true;
    }
    return false;
}

void dials_end(net_t *net)
{
    LIST_FOR_EACH (link, &net->dials)
        net_dial_cancel(CONTAINER_OF(link, net_dial_t, link));
}
