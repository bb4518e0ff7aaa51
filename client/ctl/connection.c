#include "ctl/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

blink_result_t connection_check(int fd, const char *option, const char *unit, const char *without)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "%s answers on a socket that is handed in as standard input, as %s does; without %s %s",
                      option, unit, option, without);
}

void connection_limit(connection_t *connection, uint64_t ms)
{
    connection->deadline_ns = clock_ns() + ms * 1000000u;
}

/* Wait until the socket is ready, up to the limit. */
static blink_result_t await(const connection_t *connection, short events)
{
    struct pollfd ready = {.fd = connection->fd, .events = events};
    uint64_t now_ns = clock_ns();
    int left_ms =
        now_ns < connection->deadline_ns ? (int)((connection->deadline_ns - now_ns) / 1000000u) + 1 : 0;
    int count = left_ms > 0 ? poll(&ready, 1, left_ms) : 0;
    if (count < 0 && errno != EINTR)
        return BLINK_FAIL_ERRNO("poll");
    return count == 0 ? BLINK_FAIL(BLINK_ERR_TIMEOUT, "the other end takes too long") : BLINK_OK;
}

blink_result_t connection_receive(const connection_t *connection, char *bytes, size_t most, size_t *count)
{
    ssize_t got;
    do {
        BLINK_TRY(await(connection, POLLIN));
        got = recv(connection->fd, bytes, most, MSG_DONTWAIT);
    } while (got < 0 && (errno == EAGAIN || errno == EINTR));
    if (got < 0)
        return BLINK_FAIL_ERRNO("read a request");
    *count = (size_t)got;
    return BLINK_OK;
}

blink_result_t connection_send(const connection_t *connection, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(connection->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return BLINK_FAIL_ERRNO("send the answer");
        if (sent < 0)
            BLINK_TRY(await(connection, POLLOUT));
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return BLINK_OK;
}
