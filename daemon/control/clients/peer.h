/*
 * The process at the other end of a connection. A pidfd tells when that process ends: its socket alone does
 * not, for children that it forked may hold the socket open. Pidfds of two of its threads tell it earlier.
 */
#ifndef BLINK_PEER_H
#define BLINK_PEER_H

#include "error.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#define PEER_THREADS_MAX 2u

typedef struct peer {
    pid_t pid; /* as it was when it connected; 0: it is in a pid namespace that the daemon does not see */
    uid_t uid;
    gid_t gid;
    struct peer_pidfd {
        int fd;
        uv_poll_t poll;
    } pidfds[1 + PEER_THREADS_MAX]; /* the process's, then threads' */
    uint32_t pidfd_count;           /* 0: the kernel gives none, and the socket alone tells of the end */
    void (*ended)(void *context);
    void (*closed)(void *context); /* peer_close()'s */
    void *context;
} peer_t;

/* Ask the kernel who is there; then watch the process, whose end is told once. Errors: PEER_LOST (it has
 * ended already), QUOTA (no descriptors), SYSTEM. Of a failed peer_watch() nothing remains to be closed. */
blink_result_t peer_identify(peer_t *peer, int socket_fd);
blink_result_t peer_watch(peer_t *peer, uv_loop_t *loop, int socket_fd, void (*ended)(void *context),
                          void *context);

/* Watch a thread of the process, too: the end of either is told, and once. It ends no later than the process
 * and, when that is killed, often long before, for only the last thread waits until the memory has been taken
 * apart. `thread_fd` is a pidfd of the peer's own making, and the watch's from now on, also after an error.
 * Nothing is done where the process is not watched. Errors: INVALID_ARGUMENT (it is no pidfd, or so many
 * threads are watched already), SYSTEM. */
blink_result_t peer_watch_thread(peer_t *peer, int thread_fd);

/* Whether the process was in the group when it connected. What cannot be found out is not so. */
bool peer_is_member(const peer_t *peer, int socket_fd, gid_t group);

#define PEER_SUBJECT_BYTES 32

/* "pid 71", for events. Returns `text`. */
const char *peer_subject(const peer_t *peer, char text[PEER_SUBJECT_BYTES]);

/* Hear nothing more of it. */
void peer_ignore(peer_t *peer);

/* Give the pidfds back; `closed` is called later, from within the loop. */
void peer_close(peer_t *peer, void (*closed)(void *context));

#endif
