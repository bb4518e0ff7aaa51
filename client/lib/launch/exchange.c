/* Bytes over a descriptor that may be somebody else's: whether it blocks is not known, and not changed. */
#include "launch/exchange.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

blink_result_t exchange_await(int fd, short events, uint64_t deadline_ns, const char *whom)
{
    struct pollfd polled = {.fd = fd, .events = events};
    for (;;) {
        uint64_t now_ns = clock_ns();
        if (now_ns >= deadline_ns)
            return BLINK_FAIL(BLINK_ERR_TIMEOUT, "%s does not answer in time: not all ranks have come", whom);
        int timeout_ms = (int)((deadline_ns - now_ns) / 1000000 % 1000000) + 1;
        int ready = poll(&polled, 1, timeout_ms);
        if (ready < 0 && errno != EINTR)
            return BLINK_FAIL_ERRNO("wait for %s", whom);
        if (ready > 0)
            return BLINK_OK;
    }
}

/* The call that has just failed: OK if it is to be tried again. */
static blink_result_t judge(const char *what, const char *whom)
{
    if (errno == EINTR || errno == EAGAIN)
        return BLINK_OK;
    if (errno == EPIPE || errno == ECONNRESET)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s has closed the connection", whom);
    return BLINK_FAIL_ERRNO("%s %s", what, whom);
}

blink_result_t exchange_send(int fd, const void *bytes, size_t byte_count, uint64_t deadline_ns,
                             const char *whom)
{
    for (size_t done = 0; done < byte_count;) {
        BLINK_TRY(exchange_await(fd, POLLOUT, deadline_ns, whom));
        ssize_t sent = send(fd, (const char *)bytes + done, byte_count - done, MSG_NOSIGNAL);
        if (sent < 0)
            BLINK_TRY(judge("send to", whom));
        done += sent > 0 ? (size_t)sent : 0;
    }
    return BLINK_OK;
}

blink_result_t exchange_receive(int fd, void *bytes, size_t byte_count, uint64_t deadline_ns,
                                const char *whom)
{
    for (size_t done = 0; done < byte_count;) {
        BLINK_TRY(exchange_await(fd, POLLIN, deadline_ns, whom));
        ssize_t received = recv(fd, (char *)bytes + done, byte_count - done, 0);
        if (received == 0)
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s has closed the connection", whom);
        if (received < 0)
            BLINK_TRY(judge("receive from", whom));
        done += received > 0 ? (size_t)received : 0;
    }
    return BLINK_OK;
}
