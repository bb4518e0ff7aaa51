#include "control/clients/peer.h"

#include "control/descriptors.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Since Linux 6.5; the headers of older systems lack the name. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Most users are in no more groups. */
#define GROUPS_USUAL 64

blink_result_t peer_identify(peer_t *peer, int socket_fd)
{
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
        return BLINK_FAIL_ERRNO("who is at the other end of a connection");
    *peer = (peer_t){.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
    return BLINK_OK;
}

static bool is_among(const gid_t *groups, size_t count, gid_t group)
{
    for (size_t i = 0; i < count; i++) {
        if (groups[i] == group)
            return true;
    }
    return false;
}

bool peer_is_member(const peer_t *peer, int socket_fd, gid_t group)
{
    gid_t some[GROUPS_USUAL], *groups = some;
    socklen_t bytes = sizeof(some);
    int status = getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes);
    if (status != 0 && errno == ERANGE && (groups = malloc(bytes)))
        status = getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes);
    bool is_member = peer->gid == group || (status == 0 && is_among(groups, bytes / sizeof(*groups), group));
    if (groups != some)
        free(groups);
    return is_member;
}

/* The process's pidfd, or -1 with errno. The socket's own is preferred, for the number may be another
 * process's by now. */
static int open_pidfd(const peer_t *peer, int socket_fd)
{
    int pidfd;
    socklen_t bytes = sizeof(pidfd);
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0)
        return pidfd;
    if (errno != ENOPROTOOPT || peer->pid == 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer->pid, 0);
}

static bool says_gone(int error)
{
    return error == ESRCH || error == EINVAL; /* EINVAL: of SO_PEERPIDFD before Linux 6.16 */
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    peer_t *peer = poll->data;
    (void)status, (void)events;
    peer_ignore(peer);
    peer->ended(peer->context);
}

/* The pidfd becomes the peer's, or is closed. */
static blink_result_t watch_pidfd(peer_t *peer, uv_loop_t *loop, int fd)
{
    struct peer_pidfd *pidfd = &peer->pidfds[peer->pidfd_count];
    if (uv_poll_init(loop, &pidfd->poll, fd) != 0) {
        close(fd);
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "watch process %d", peer->pid);
    }
    pidfd->fd = fd;
    pidfd->poll.data = peer;
    uv_poll_start(&pidfd->poll, UV_READABLE, on_readable);
    peer->pidfd_count++;
    return BLINK_OK;
}

blink_result_t peer_watch(peer_t *peer, uv_loop_t *loop, int socket_fd, void (*ended)(void *context),
                          void *context)
{
    int fd = open_pidfd(peer, socket_fd);
    peer->ended = ended;
    peer->context = context;
    if (fd < 0 && says_gone(errno))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "process %d has connected and ended", peer->pid);
    if (fd < 0 && (descriptors_ran_out(errno) || errno == ENOMEM))
        return descriptors_fail("watch the process that connects");
    if (fd < 0)
        return BLINK_OK; /* an older kernel, or one that is told to refuse */
    return watch_pidfd(peer, loop, fd);
}

/* The kernel looks at nothing of a descriptor that is not one: a file whose system answers slowly, or not at
 * all, holds up nobody here. A pidfd is of no child of the daemon's. */
static bool is_pidfd(int fd)
{
    siginfo_t info;
    return waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno == ECHILD;
}

blink_result_t peer_watch_thread(peer_t *peer, int thread_fd)
{
    blink_result_t result = BLINK_OK;
    if (thread_fd < 0 || !is_pidfd(thread_fd))
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "what came is no pidfd of a thread");
    else if (peer->pidfd_count > PEER_THREADS_MAX)
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u threads of this client are watched already",
                            PEER_THREADS_MAX);
    else if (peer->pidfd_count > 0)
        return watch_pidfd(peer, peer->pidfds[0].poll.loop, thread_fd);
    if (thread_fd >= 0)
        close(thread_fd);
    return result;
}

const char *peer_subject(const peer_t *peer, char text[PEER_SUBJECT_BYTES])
{
    snprintf(text, PEER_SUBJECT_BYTES, "pid %d", (int)peer->pid);
    return text;
}

void peer_ignore(peer_t *peer)
{
    for (uint32_t i = 0; i < peer->pidfd_count; i++)
        uv_poll_stop(&peer->pidfds[i].poll);
}

static void on_closed(uv_handle_t *handle)
{
    peer_t *peer = handle->data;
    close(peer->pidfds[--peer->pidfd_count].fd);
    if (peer->pidfd_count == 0)
        peer->closed(peer->context);
}

void peer_close(peer_t *peer, void (*closed)(void *context))
{
    peer->closed = closed;
    for (uint32_t i = 0; i < peer->pidfd_count; i++)
        uv_close((uv_handle_t *)&peer->pidfds[i].poll, on_closed);
    if (peer->pidfd_count == 0)
        closed(peer->context);
}
