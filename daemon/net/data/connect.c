/* How an endpoint's connections come about: by which transport, who dials, and who waits. */
#include "net/data/endpoint.h"

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
                                       .stream_count = endpoint->stream_count,
                                       .outbox = &endpoint->outbox,
                                       .verbs = data->verbs,
                                       .adaptive_routing = data->config.adaptive_routing,
                                       .events = &endpoint_events,
                                       .context = endpoint};
    BLINK_TRY(calls->create(&config, &endpoint->transport));
    if (endpoint->deadline_ns == 0)
        endpoint->deadline_ns = clock_ns() + endpoint_connect_ns(endpoint);
    return BLINK_OK;
}

static blink_result_t check_open(const data_endpoint_t *endpoint)
{
    if (data_endpoint_is_lost(endpoint))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "the data connections are gone");
    return BLINK_OK;
}

/* Whether connections of this round are still to be made. */
static bool is_in_round(const data_endpoint_t *endpoint, uint32_t round)
{
    return !data_endpoint_is_lost(endpoint) && endpoint->round == round && !endpoint->retries;
}

/* What is shown on each connection. */
static void fill_hellos(wire_hello_t hellos[DATA_STREAMS_MOST], uint64_t instance, const data_way_t *way)
{
    for (uint32_t i = 0; i < DATA_STREAMS_MOST; i++) {
        hellos[i] = (wire_hello_t){.instance = instance, .stream = i};
        memcpy(hellos[i].token, way->tokens[i], sizeof(hellos[i].token));
    }
}

/* ---- who dials ---- */

/* The ends of the connection for control and the route's for moves, with the peer's port. */
static transport_path_t path_of(const data_route_t *route, const data_ends_t *control, uint16_t port)
{
    transport_path_t path = {.own = control->own, .peer = control->peer};
    address_set_port(&path.own, 0);
    address_set_port(&path.peer, port);
    for (uint32_t i = 0; i < DATA_MOVE_STREAMS_MOST; i++) {
        path.moves[i] = route->moves[i];
        address_set_port(&path.moves[i].own, 0);
        address_set_port(&path.moves[i].peer, port);
    }
    return path;
}

static blink_result_t dial_by(data_endpoint_t *endpoint, const transport_calls_t *calls,
                              const data_way_t *way, const data_ends_t *ends)
{
    const data_route_t *route = &endpoint->route;
    const transport_path_t path = path_of(route, ends, way->port);
    wire_hello_t hellos[DATA_STREAMS_MOST];
    fill_hellos(hellos, route->instance, way);
    BLINK_TRY(use(endpoint, calls));
    return endpoint->transport->calls->dial(endpoint->transport, &path, hellos);
}

static blink_result_t dial_tcp(data_endpoint_t *endpoint)
{
    const data_route_t *route = &endpoint->route;
    endpoint->fall_back_ns = 0;
    return dial_by(endpoint, &tcp_transport, &route->tcp, &(data_ends_t){route->own, route->peer});
}

/* RDMA connections cannot be made, says this thread's error text, or are gone: TCP connections are made or
 * waited for in their stead. */
static void fall_back(data_endpoint_t *endpoint)
{
    LOG_INFO("host %s: data connections go by TCP, for there is no RDMA: %s", endpoint->peer,
             blink_error_text());
    if (endpoint->transport)
        endpoint_retire_transport(endpoint);
    /* Who waits has no port to dial, and waits on. */
    blink_result_t result = endpoint->route.tcp.port ? dial_tcp(endpoint) : BLINK_OK;
    if (result != BLINK_OK)
        endpoint_fail(endpoint, result);
}

static blink_result_t dial_rdma(data_endpoint_t *endpoint)
{
    const data_route_t *route = &endpoint->route;
    bool may_fall_back = endpoint->data->config.transport == SETTINGS_AUTO && route->tcp.port != 0;
    endpoint->fall_back = may_fall_back ? fall_back : NULL;
    endpoint->fall_back_ns = clock_ns() + endpoint_connect_ns(endpoint) * 2 / 5;
    return dial_by(endpoint, &verbs_transport, &route->rdma, &route->rdma_ends);
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

void data_endpoint_dial(data_endpoint_t *endpoint, const data_route_t *route)
{
    proxy_enter(endpoint->data);
    if (is_in_round(endpoint, route->round)) {
        endpoint->route = *route;
        blink_result_t result = dial(endpoint);
        if (result != BLINK_OK)
            endpoint_fail(endpoint, result);
    }
    proxy_leave(endpoint->data);
}

/* ---- who waits ---- */

bool data_takes_tcp(const data_t *data)
{
    return data->config.transport != SETTINGS_RDMA;
}

static blink_result_t listen_by_rdma(data_endpoint_t *endpoint, const data_route_t *route, uint64_t instance,
                                     data_way_t *way)
{
    const transport_path_t path = path_of(route, &route->rdma_ends, 0);
    wire_hello_t hellos[DATA_STREAMS_MOST];
    fill_hellos(hellos, instance, way);
    BLINK_TRY(check_open(endpoint));
    if (endpoint->transport)
        return BLINK_OK;
    BLINK_TRY(use(endpoint, &verbs_transport));
    endpoint->fall_back = data_takes_tcp(endpoint->data) ? fall_back : NULL;
    endpoint->fall_back_ns = UINT64_MAX;
    return endpoint->transport->calls->listen(endpoint->transport, &path, hellos, &way->port);
}

blink_result_t data_endpoint_listen(data_endpoint_t *endpoint, const data_route_t *route, uint64_t instance,
                                    data_way_t *way)
{
    bool must = endpoint->data->config.transport == SETTINGS_RDMA && route->round == 0;
    way->port = 0;
    if (!endpoint->data->verbs)
        return BLINK_OK;
    proxy_enter(endpoint->data);
    bool is_over = !data_endpoint_is_lost(endpoint) && !is_in_round(endpoint, route->round);
    blink_result_t result = is_over ? BLINK_OK : listen_by_rdma(endpoint, route, instance, way);
    if (result != BLINK_OK && endpoint->transport && !data_endpoint_is_lost(endpoint)) {
        endpoint->fall_back = NULL;
        endpoint_retire_transport(endpoint);
    }
    proxy_leave(endpoint->data);
    if (result == BLINK_OK || must)
        return result;
    LOG_INFO("host %s: RDMA is not offered: %s", endpoint->peer, blink_error_text());
    way->port = 0;
    return BLINK_OK;
}

/* Have a transport that takes sockets. */
static blink_result_t take_sockets(data_endpoint_t *endpoint, uint32_t round)
{
    BLINK_TRY(check_open(endpoint));
    if (!is_in_round(endpoint, round))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "a data connection of round %u in round %u", round,
                          endpoint->round);
    if (!data_takes_tcp(endpoint->data))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "host %s: data connections go by RDMA alone, says [network] transport",
                          endpoint->peer);
    /* The peer was told of RDMA, and takes TCP. */
    if (endpoint->transport && !endpoint->transport->calls->accept && !endpoint->connected) {
        endpoint->fall_back = NULL;
        endpoint_retire_transport(endpoint);
    }
    if (!endpoint->transport)
        return use(endpoint, &tcp_transport);
    if (!endpoint->transport->calls->accept)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "host %s: data connections go by RDMA already", endpoint->peer);
    return BLINK_OK;
}

blink_result_t data_endpoint_accept(data_endpoint_t *endpoint, uint32_t round, uint32_t stream, int fd)
{
    proxy_enter(endpoint->data);
    blink_result_t result = take_sockets(endpoint, round);
    if (result == BLINK_OK)
        result = endpoint->transport->calls->accept(endpoint->transport, stream, fd);
    else
        close(fd);
    proxy_leave(endpoint->data);
    return result;
}
