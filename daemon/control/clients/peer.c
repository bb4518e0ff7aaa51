#include "control/clients/peer.h"

#include "control/descriptors.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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
    *peer = (peer_t){.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid, .pidfd = -1};
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

blink_result_t peer_watch(peer_t *peer, uv_loop_t *loop, int socket_fd, void (*ended)(void *context),
                          void *context)
{
    int pidfd = open_pidfd(peer, socket_fd);
    peer->ended = ended;
    peer->context = context;
    if (pidfd < 0 && says_gone(errno))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "process %d has connected and ended", peer->pid);
    if (pidfd < 0 && (descriptors_ran_out(errno) || errno == ENOMEM))
        return descriptors_fail("watch the process that connects");
    if (pidfd < 0)
        return BLINK_OK; /* an older kernel, or one that is told to refuse */
    if (uv_poll_init(loop, &peer->poll, pidfd) != 0) {
        close(pidfd);
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "watch process %d", peer->pid);
    }
    peer->pidfd = pidfd;
    peer->poll.data = peer;
    uv_poll_start(&peer->poll, UV_READABLE, on_readable);
    return BLINK_OK;
}

const char *peer_subject(const peer_t *peer, char text[PEER_SUBJECT_BYTES])
{
    snprintf(text, PEER_SUBJECT_BYTES, "pid %d", (int)peer->pid);
    return text;
}

void peer_ignore(peer_t *peer)
{
    if (peer->pidfd >= 0)
        uv_poll_stop(&peer->poll);
}

static void on_closed(uv_handle_t *handle)
{
    peer_t *peer = handle->data;
    close(peer->pidfd);
    peer->closed(peer->context);
}

void peer_close(peer_t *peer, void (*closed)(void *context))
{
    peer->closed = closed;
    if (peer->pidfd >= 0)
        uv_close((uv_handle_t *)&peer->poll, on_closed);
    else
        closed(peer->context);
}
