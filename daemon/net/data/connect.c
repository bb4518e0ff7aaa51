/* How an endpoint's connections come about: by which transport, who dials, and who waits. */
#include "net/data/connect.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/data/tcp/tcp.h"
#include "net/data/verbs/verbs.h"

#include <string.h>
#include <unistd.h>

static_assert(WIRE_TOKEN_BYTES == DATA_TOKEN_BYTES, "one number");

static blink_result_t use(data_endpoint_t *endpoint, const transport_calls_t *calls)
{
    const data_t *data = endpoint->data;
    const transport_config_t config = {.epoll_fd = data->epoll_fd,
                                       .trash = data->trash,
                                       .timeout_s = data->config.timeout_s,
                                       .outbox = &endpoint->outbox,
                                       .verbs = data->verbs,
                                       .events = &endpoint_events,
                                       .context = endpoint};
    BLINK_TRY(calls->create(&config, &endpoint->transport));
    if (endpoint->deadline_ns == 0)
        endpoint->deadline_ns = clock_ns() + endpoint_connect_ns(endpoint);
    return BLINK_OK;
}

/* The transport, which may be in a call, is not the endpoint's any more. */
static void retire(data_endpoint_t *endpoint)
{
    endpoint->transport->calls->close(endpoint->transport);
    endpoint->former = endpoint->transport;
    endpoint->transport = NULL;
}

static blink_result_t check_open(const data_endpoint_t *endpoint)
{
    if (data_endpoint_is_lost(endpoint))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "host %s: the data connections are gone", endpoint->peer);
    return BLINK_OK;
}

/* What is shown on each connection. */
static void fill_hellos(wire_hello_t hellos[DATA_STREAMS], uint64_t instance, const data_way_t *way)
{
    for (uint32_t i = 0; i < DATA_STREAMS; i++) {
        hellos[i] = (wire_hello_t){.instance = instance, .stream = i};
        memcpy(hellos[i].token, way->tokens[i], sizeof(hellos[i].token));
    }
}

/* ---- who dials ---- */

static void set_port(net_address_t *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = htons(port);
    else
        address->v4.sin_port = htons(port);
}

static blink_result_t dial_by(data_endpoint_t *endpoint, const transport_calls_t *calls,
                              const data_way_t *way, uint16_t port)
{
    const data_route_t *route = &endpoint->route;
    transport_path_t path = {.own = route->own, .peer = route->peer};
    wire_hello_t hellos[DATA_STREAMS];
    set_port(&path.own, 0);
    set_port(&path.peer, port);
    for (uint32_t i = 0; i < DATA_STREAMS - 1; i++) {
        path.moves[i] = route->moves[i];
        set_port(&path.moves[i].own, 0);
        set_port(&path.moves[i].peer, port);
    }
    fill_hellos(hellos, route->instance, way);
    BLINK_TRY(use(endpoint, calls));
    return endpoint->transport->calls->dial(endpoint->transport, &path, hellos);
}

static blink_result_t dial_tcp(data_endpoint_t *endpoint)
{
    return dial_by(endpoint, &tcp_transport, &endpoint->route.tcp, endpoint->route.tcp.port);
}

static blink_result_t dial_rdma(data_endpoint_t *endpoint)
{
    const data_route_t *route = &endpoint->route;
    endpoint->may_fall_back = endpoint->data->config.transport == SETTINGS_AUTO && route->tcp.port != 0;
    if (endpoint->may_fall_back)
        endpoint->fall_back_ns = clock_ns() + endpoint_connect_ns(endpoint) * 2 / 5;
    return dial_by(endpoint, &verbs_transport, &route->rdma, route->rdma.port);
}

static blink_result_t dial(data_endpoint_t *endpoint)
{
    const data_route_t *route = &endpoint->route;
    if (route->rdma.port != 0 && endpoint->data->verbs)
        return dial_rdma(endpoint);
    if (endpoint->data->config.transport == SETTINGS_RDMA)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "it takes no data connections by RDMA, and [network] transport is rdma here; set "
                          "auto, or see that RDMA works there");
    if (route->tcp.port == 0)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "it takes data connections by RDMA alone, and there is none here; set [network] "
                          "transport = auto there, or see that RDMA works here");
    return dial_tcp(endpoint);
}

bool endpoint_falls_back(data_endpoint_t *endpoint)
{
    if (!endpoint->may_fall_back || endpoint->connected)
        return false;
    endpoint->may_fall_back = false;
    LOG_INFO("host %s: data connections go by TCP, for there is no RDMA: %s", endpoint->peer,
             blink_error_text());
    if (endpoint->transport)
        retire(endpoint);
    /* Who waits has no port to dial, and waits on. */
    blink_result_t result = endpoint->route.tcp.port ? dial_tcp(endpoint) : BLINK_OK;
    if (result != BLINK_OK)
        endpoint_lose(endpoint, result);
    return true;
}

void data_endpoint_dial(data_endpoint_t *endpoint, const data_route_t *route)
{
    proxy_enter(endpoint->data);
    blink_result_t result = check_open(endpoint);
    if (result == BLINK_OK) {
        endpoint->route = *route;
        result = dial(endpoint);
    }
    if (result != BLINK_OK && !endpoint_falls_back(endpoint))
        endpoint_lose(endpoint, result);
    proxy_leave(endpoint->data);
}

/* ---- who waits ---- */

bool data_takes_tcp(const data_t *data)
{
    return data->config.transport != SETTINGS_RDMA;
}

static blink_result_t listen_by_rdma(data_endpoint_t *endpoint, const net_address_t *own, uint64_t instance,
                                     data_way_t *way)
{
    net_address_t address = *own;
    wire_hello_t hellos[DATA_STREAMS];
    fill_hellos(hellos, instance, way);
    set_port(&address, 0);
    BLINK_TRY(check_open(endpoint));
    if (endpoint->transport)
        return BLINK_OK;
    BLINK_TRY(use(endpoint, &verbs_transport));
    endpoint->may_fall_back = data_takes_tcp(endpoint->data);
    endpoint->fall_back_ns = UINT64_MAX;
    return endpoint->transport->calls->listen(endpoint->transport, &address, hellos, &way->port);
}

blink_result_t data_endpoint_listen(data_endpoint_t *endpoint, const net_address_t *own, uint64_t instance,
                                    data_way_t *way)
{
    bool must = endpoint->data->config.transport == SETTINGS_RDMA;
    way->port = 0;
    if (!endpoint->data->verbs)
        return BLINK_OK;
    proxy_enter(endpoint->data);
    blink_result_t result = listen_by_rdma(endpoint, own, instance, way);
    if (result != BLINK_OK && endpoint->transport && !data_endpoint_is_lost(endpoint)) {
        endpoint->may_fall_back = false;
        retire(endpoint);
    }
    proxy_leave(endpoint->data);
    if (result == BLINK_OK || must)
        return result;
    LOG_INFO("host %s: RDMA is not offered: %s", endpoint->peer, blink_error_text());
    way->port = 0;
    return BLINK_OK;
}

/* Have a transport that takes sockets. */
static blink_result_t take_sockets(data_endpoint_t *endpoint)
{
    BLINK_TRY(check_open(endpoint));
    if (!data_takes_tcp(endpoint->data))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "host %s: data connections go by RDMA alone, says [network] transport",
                          endpoint->peer);
    /* The peer was told of RDMA, and takes TCP. */
    if (endpoint->transport && !endpoint->transport->calls->accept && !endpoint->connected) {
        endpoint->may_fall_back = false;
        retire(endpoint);
    }
    if (!endpoint->transport)
        return use(endpoint, &tcp_transport);
    if (!endpoint->transport->calls->accept)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "host %s: data connections go by RDMA already", endpoint->peer);
    return BLINK_OK;
}

blink_result_t data_endpoint_accept(data_endpoint_t *endpoint, uint32_t stream, int fd)
{
    proxy_enter(endpoint->data);
    blink_result_t result = take_sockets(endpoint);
    if (result == BLINK_OK)
        result = endpoint->transport->calls->accept(endpoint->transport, stream, fd);
    else
        close(fd);
    proxy_leave(endpoint->data);
    return result;
}
