/*
 * Endpoints of two data planes in one process, joined by socket pairs, or by RDMA that is in memory.
 */
#ifndef ENDPOINTS_H
#define ENDPOINTS_H

#include "fake_verbs.h"
#include "net/data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Of endpoints that nobody has told of several NICs. */
enum { ENDPOINT_STREAMS = 1 + DATA_MOVE_STREAMS_LEAST };

/* What an endpoint no longer takes concerns a round that is over. `wires`, unless NULL, receive what the
 * connections can be cut by. */
static inline void join_round(data_endpoint_t *a, data_endpoint_t *b, uint32_t round,
                              int wires[ENDPOINT_STREAMS])
{
    for (uint32_t s = 0; s < ENDPOINT_STREAMS; s++) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        if (wires && wires[s] > 0)
            close(wires[s]);
        if (wires)
            wires[s] = dup(fds[0]);
        blink_result_t results[2] = {data_endpoint_accept(a, round, s, fds[0]),
                                     data_endpoint_accept(b, round, s, fds[1])};
        for (uint32_t i = 0; i < 2; i++)
            assert_true(results[i] == BLINK_OK || (round > 0 && results[i] == BLINK_ERR_PEER_LOST));
    }
}

static inline void join_endpoints(data_endpoint_t *a, data_endpoint_t *b)
{
    join_round(a, b, 0, NULL);
}

/* The address of the fake RDMA device with this number. */
static inline net_address_t fake_address(uint32_t device)
{
    net_address_t address = {.v4.sin_family = AF_INET};
    address.v4.sin_addr.s_addr = htonl(FAKE_FIRST_ADDRESS + device);
    return address;
}

/* How `a`, at one device, dials a peer at another one. */
static inline data_route_t fake_route(uint32_t device_a, uint32_t device_b, uint16_t port)
{
    data_route_t route = {
        .own = fake_address(device_a), .peer = fake_address(device_b), .instance = 7, .rdma.port = port};
    route.rdma_ends = (data_ends_t){route.own, route.peer};
    memset(route.rdma.tokens, 0x5a, sizeof(route.rdma.tokens));
    return route;
}

/* A device of a host that has so many, of which the first one has this number. */
static inline uint32_t fake_nic(uint32_t first, uint32_t nic, uint32_t count)
{
    return (first + nic * FAKE_DEVICES / count) % FAKE_DEVICES;
}

static inline uint32_t fake_second(uint32_t first)
{
    return fake_nic(first, 1, 2);
}

/* Moves go by so many NICs of each host, of which the first one is that of the connection for control. */
static inline void add_nics(data_route_t *route, uint32_t device_a, uint32_t device_b, uint32_t count)
{
    for (uint32_t i = 0; i < count && count > 1; i++)
        route->moves[i] = (data_ends_t){fake_address(fake_nic(device_a, i, count)),
                                        fake_address(fake_nic(device_b, i, count))};
}

/* The same route from the other end. */
static inline data_route_t fake_route_back(const data_route_t *route)
{
    data_route_t back = {.round = route->round, .own = route->peer, .peer = route->own};
    back.rdma_ends = (data_ends_t){route->rdma_ends.peer, route->rdma_ends.own};
    for (uint32_t i = 0; i < DATA_MOVE_STREAMS_MOST; i++)
        back.moves[i] = (data_ends_t){route->moves[i].peer, route->moves[i].own};
    return back;
}

static inline void join_round_by_verbs(data_endpoint_t *a, uint32_t device_a, data_endpoint_t *b,
                                       uint32_t device_b, uint32_t round, uint32_t nics)
{
    data_route_t route = fake_route(device_a, device_b, 0);
    route.round = round;
    add_nics(&route, device_a, device_b, nics);
    data_route_t back = fake_route_back(&route);
    blink_result_t result = data_endpoint_listen(b, &back, route.instance, &route.rdma);
    assert_true(result == BLINK_OK || (round > 0 && result == BLINK_ERR_PEER_LOST));
    assert_true(round > 0 || route.rdma.port != 0);
    data_endpoint_dial(a, &route);
}

static inline void join_endpoints_by_verbs(data_endpoint_t *a, uint32_t device_a, data_endpoint_t *b,
                                           uint32_t device_b)
{
    join_round_by_verbs(a, device_a, b, device_b, 0, 1);
}

#endif
