/* Sending and receiving whole frames, and the descriptors that travel with them, on a blocking Unix socket.
 */
#include "frame.h"

#include "environment.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* About a year: far from what a timeval cannot hold. */
#define TIMEOUT_MAX_S 3e7

void frame_release(frame_t *frame)
{
    for (uint32_t i = 0; i < frame->fd_count; i++) {
        if (frame->fds[i] >= 0)
            close(frame->fds[i]);
    }
    free(frame->bytes);
    *frame = (frame_t){0};
}

blink_result_t frame_daemon_timeout(double *timeout_s)
{
    *timeout_s = BLINK_DAEMON_TIMEOUT_DEFAULT;
    return environment_seconds(BLINK_DAEMON_TIMEOUT_ENV, 0, TIMEOUT_MAX_S, timeout_s);
}

/* Of a socket of the caller's own this cannot fail. */
static void set_timeout(int fd, double timeout_s)
{
    time_t seconds = (time_t)timeout_s;
    struct timeval timeout = {seconds, (suseconds_t)((timeout_s - (double)seconds) * 1e6)};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

static blink_result_t timed_out(void)
{
    return BLINK_FAIL(BLINK_ERR_TIMEOUT, "the daemon does not answer");
}

static blink_result_t not_connected(const char *path, int error)
{
    const char *advice =
        "start one (blinkd --socket PATH or systemctl start blinkd.socket) or set BLINK_SOCKET";
    if (error == EACCES)
        advice = "the socket is for a group: see its mode, and SocketGroup= in blinkd.socket";
    return BLINK_FAIL(BLINK_ERR_CONNECT, FRAME_NO_DAEMON "%s: %s; %s", path, strerror(error), advice);
}

blink_result_t frame_connect(const char *path, double timeout_s, int *socket_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(address.sun_path))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "socket path \"%s\" has %zu bytes, not 1 to %zu", path,
                          length, sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, length + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("socket");
    set_timeout(fd, timeout_s);
    int status;
    do {
        status = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    } while (status != 0 && errno == EINTR);
    if (status != 0) {
        blink_result_t result = errno == EAGAIN ? timed_out() : not_connected(path, errno);
        close(fd);
        return result;
    }
    *socket_fd = fd;
    return BLINK_OK;
}

static blink_result_t lost(void)
{
    return BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "the connection to the daemon is closed");
}

void frame_attach_fds(struct msghdr *message, frame_control_t *control, const int *fds, uint32_t fd_count)
{
    size_t bytes = fd_count * sizeof(int);
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(header), fds, bytes);
}

/* Drop the first `bytes` of what the two parts still hold. */
static void advance(struct iovec parts[2], size_t bytes)
{
    for (int i = 0; i < 2; i++) {
        size_t step = bytes < parts[i].iov_len ? bytes : parts[i].iov_len;
        parts[i].iov_base = (char *)parts[i].iov_base + step;
        parts[i].iov_len -= step;
        bytes -= step;
    }
}

blink_result_t frame_send(int socket_fd, const void *bytes, size_t byte_count, const int *fds,
                          uint32_t fd_count)
{
    if (byte_count > FRAME_MAX_BYTES || fd_count > FRAME_FDS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "a frame of %zu bytes and %u descriptors is over the limit of %u bytes and %u",
                          byte_count, fd_count, FRAME_MAX_BYTES, FRAME_FDS_MAX);
    uint32_t length = htole32((uint32_t)byte_count);
    struct iovec parts[2] = {{&length, sizeof(length)}, {(void *)bytes, byte_count}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    frame_control_t control = {0};
    if (fd_count > 0)
        frame_attach_fds(&message, &control, fds, fd_count);
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t sent = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EPIPE || errno == ECONNRESET)
                return lost();
            if (errno == EAGAIN)
                return timed_out();
            return BLINK_FAIL_ERRNO("send %zu bytes to the daemon", byte_count);
        }
        advance(parts, (size_t)sent);
        message.msg_control = NULL; /* the descriptors went with the first byte */
        message.msg_controllen = 0;
    }
    return BLINK_OK;
}

blink_result_t frame_take_fds(struct msghdr *message, int fds[FRAME_FDS_MAX], uint32_t *fd_count)
{
    bool surplus = false;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            if (*fd_count < FRAME_FDS_MAX) {
                fds[(*fd_count)++] = fd;
            } else {
                close(fd);
                surplus = true;
            }
        }
    }
    if (surplus)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame with more than %u descriptors", FRAME_FDS_MAX);
    /* There is memory for more than the peer may send, so what is cut off is what this process may not have.
     */
    if (message->msg_flags & MSG_CTRUNC)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY,
                          "descriptors came, and this process may open no more (ulimit -n)");
    return BLINK_OK;
}

/* Fill `bytes` whole; descriptors that come along are added to the frame. */
static blink_result_t receive_exactly(int socket_fd, void *bytes, size_t byte_count, frame_t *frame)
{
    struct iovec part = {bytes, byte_count};
    while (part.iov_len > 0) {
        frame_control_t control;
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        ssize_t got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return lost();
        if (got < 0 && errno == EAGAIN)
            return timed_out();
        if (got < 0)
            return BLINK_FAIL_ERRNO("receive from the daemon");
        BLINK_TRY(frame_take_fds(&message, frame->fds, &frame->fd_count));
        part.iov_base = (char *)part.iov_base + got;
        part.iov_len -= (size_t)got;
    }
    return BLINK_OK;
}

blink_result_t frame_receive(int socket_fd, frame_t *frame)
{
    uint32_t length = 0;
    *frame = (frame_t){0};
    blink_result_t result = receive_exactly(socket_fd, &length, sizeof(length), frame);
    if (result != BLINK_OK)
        goto fail;
    frame->byte_count = le32toh(length);
    if (frame->byte_count > FRAME_MAX_BYTES) {
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "a frame of %u bytes is over the limit of %u",
                            frame->byte_count, FRAME_MAX_BYTES);
        goto fail;
    }
    frame->bytes = malloc(frame->byte_count > 0 ? frame->byte_count : 1);
    if (!frame->bytes) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a frame of %u bytes", frame->byte_count);
        goto fail;
    }
    result = receive_exactly(socket_fd, frame->bytes, frame->byte_count, frame);
    if (result == BLINK_OK)
        return BLINK_OK;
fail:
    frame_release(frame);
    return result;
}
