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

#include <cmocka.h>

static inline void join_endpoints(data_endpoint_t *a, data_endpoint_t *b)
{
    for (uint32_t s = 0; s < DATA_STREAMS; s++) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        assert_int_equal(data_endpoint_accept(a, s, fds[0]), BLINK_OK);
        assert_int_equal(data_endpoint_accept(b, s, fds[1]), BLINK_OK);
    }
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
    memset(route.rdma.tokens, 0x5a, sizeof(route.rdma.tokens));
    return route;
}

static inline void join_endpoints_by_verbs(data_endpoint_t *a, uint32_t device_a, data_endpoint_t *b,
                                           uint32_t device_b)
{
    net_address_t own = fake_address(device_b);
    data_route_t route = fake_route(device_a, device_b, 0);
    assert_int_equal(data_endpoint_listen(b, &own, route.instance, &route.rdma), BLINK_OK);
    assert_int_not_equal(route.rdma.port, 0);
    data_endpoint_dial(a, &route);
}

#endif
