/*
 * Where others connect. Accepts have a bound per turn, and so have the handshakes under way: while there are
 * as many as may be, who connects waits in the kernel's queue.
 */
#include "base/log.h"
#include "net/session.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG          1024
#define ACCEPTS_PER_TURN 8u
#define ACCEPT_PAUSE_MS  1000u

typedef struct listener {
    net_t *net;
    list_t link; /* on net->listeners */
    uv_poll_t poll;
    int fd;
} listener_t;

static void on_connection(uv_poll_t *poll, int status, int events);

void listen_go_on(net_t *net)
{
    if (net->handshake_count >= NET_HANDSHAKES_MAX || uv_is_active((uv_handle_t *)&net->accept_again))
        return;
    LIST_FOR_EACH (link, &net->listeners)
        uv_poll_start(&CONTAINER_OF(link, listener_t, link)->poll, UV_READABLE, on_connection);
}

static void pause_all(net_t *net)
{
    LIST_FOR_EACH (link, &net->listeners)
        uv_poll_stop(&CONTAINER_OF(link, listener_t, link)->poll);
}

static void on_accept_again(uv_timer_t *timer)
{
    listen_go_on(timer->data);
}

/* Without descriptors or memory, a connection that waits would wake the loop without end. */
static void pause_for_a_while(net_t *net, int error)
{
    LOG_WARNING("no new sessions for %u ms: %s", ACCEPT_PAUSE_MS, strerror(error));
    pause_all(net);
    uv_timer_start(&net->accept_again, on_accept_again, ACCEPT_PAUSE_MS, 0);
}

static bool are_too_many(const net_t *net, const net_address_t *address, session_same_t *same)
{
    return session_count_handshakes(net, address, same) >= NET_HANDSHAKES_PER_ADDRESS_MAX;
}

/* All hosts of a cluster may dial at once, and their addresses be of one network. A stranger from elsewhere
 * may have such a network to himself. */
static void make_room(net_t *net, const net_address_t *address)
{
    session_same_t *same = address_same_network;
    if (!are_too_many(net, address, same))
        return;
    if (address_is_neighbour(address) || dials_are_for(net, address))
        same = address_is_same_host;
    if (!are_too_many(net, address, same))
        return;
    refusals_log(&net->refusals, address, "it has too many handshakes under way");
    session_drop_oldest_handshake(net, address, same);
}

static void take(net_t *net, int fd, const net_address_t *address)
{
    make_room(net, address);
    if (session_accept(net, fd, address) != BLINK_OK)
        refusals_log(&net->refusals, address, blink_error_text());
}

/* False: nobody waits any more, or no more can be accepted. */
static bool accept_one(listener_t *listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_storage storage;
    } from;
    net_address_t address;
    socklen_t from_bytes = sizeof(from);
    int fd = accept4(listener->fd, &from.any, &from_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && address_take(&from.any, &address)) {
        take(listener->net, fd, &address);
        return true;
    }
    if (fd >= 0)
        close(fd);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        pause_for_a_while(listener->net, errno);
    return errno == EINTR || errno == ECONNABORTED;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    listener_t *listener = poll->data;
    net_t *net = listener->net;
    (void)events;
    for (uint32_t i = 0; i < ACCEPTS_PER_TURN && status == 0 && net->handshake_count < NET_HANDSHAKES_MAX;
         i++) {
        if (!accept_one(listener))
            break;
    }
    if (net->handshake_count >= NET_HANDSHAKES_MAX)
        pause_all(net);
}

/* ---- the socket ---- */

static blink_result_t fail_listen(const net_address_t *address)
{
    char text[ADDRESS_TEXT_BYTES];
    address_write(address, text);
    if (errno == EADDRINUSE)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "listen on %s: another program does already", text);
    if (errno == EADDRNOTAVAIL)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "listen on %s: this machine has no such address", text);
    return BLINK_FAIL_ERRNO("listen on %s", text);
}

static blink_result_t open_socket(net_address_t *address, int *opened)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t bytes = address_bytes(address);
    if (fd < 0)
        return fail_listen(address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    if (bind(fd, &address->any, bytes) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, &address->any, &bytes) != 0) {
        blink_result_t result = fail_listen(address);
        close(fd);
        return result;
    }
    *opened = fd;
    return BLINK_OK;
}

blink_result_t net_listen(net_t *net, net_address_t *address)
{
    int fd = -1;
    BLINK_TRY(open_socket(address, &fd));
    listener_t *listener = calloc(1, sizeof(*listener));
    if (!listener || uv_poll_init(net->loop, &listener->poll, fd) != 0) {
        close(fd);
        free(listener);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to listen");
    }
    listener->net = net;
    listener->fd = fd;
    listener->poll.data = listener;
    list_append(&net->listeners, &listener->link);
    net->holds++;
    listen_go_on(net);
    return BLINK_OK;
}

void listen_init(net_t *net)
{
    list_init(&net->listeners);
    uv_timer_init(net->loop, &net->accept_again);
    net->accept_again.data = net;
    net->holds++;
}

static void on_listener_closed(uv_handle_t *handle)
{
    listener_t *listener = handle->data;
    net_t *net = listener->net;
    close(listener->fd);
    free(listener);
    net_put(net);
}

static void on_timer_closed(uv_handle_t *handle)
{
    net_put(handle->data);
}

void listen_end(net_t *net)
{
    LIST_FOR_EACH (link, &net->listeners) {
        list_remove(link);
        uv_close((uv_handle_t *)&CONTAINER_OF(link, listener_t, link)->poll, on_listener_closed);
    }
    uv_close((uv_handle_t *)&net->accept_again, on_timer_closed);
}
