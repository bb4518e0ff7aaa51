/*
 * Endpoints of two data planes in one process, joined by socket pairs.
 */
#ifndef ENDPOINTS_H
#define ENDPOINTS_H

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

#endif
