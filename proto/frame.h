/*
 * Frames on the control socket: length, bytes, descriptors (see blink.proto). Used blocking by the client
 * library and the tools, and for its parsing half by the daemon's event loop.
 */
#ifndef BLINK_FRAME_H
#define BLINK_FRAME_H

#include "error.h"

#include <stdbool.h>
#include <sys/socket.h>

#define FRAME_HEADER_BYTES      4u
#define FRAME_MAX_BYTES         (16u << 20) /* a daemon's reply; a topology of 1,024 GPUs as JSON fits */
#define FRAME_REQUEST_MAX_BYTES (64u << 10)
#define FRAME_FDS_MAX           64u

/** Control protocol versions this tree speaks. */
#define BLINK_WIRE_VERSION_MIN 2u
#define BLINK_WIRE_VERSION_MAX 2u

/** Where blinkd listens unless told otherwise; the environment variable BLINK_SOCKET overrides it for
 * clients. */
#define BLINK_SOCKET_DEFAULT "/run/blinkd/blinkd.sock"
#define BLINK_SOCKET_ENV     "BLINK_SOCKET"

/** How the sentence begins that says that no daemon answers; the path follows. */
#define FRAME_NO_DAEMON "no daemon answers on "

/** After how many seconds without a sign of life clients give the daemon up; 0: never. */
#define BLINK_DAEMON_TIMEOUT_ENV     "BLINK_DAEMON_TIMEOUT"
#define BLINK_DAEMON_TIMEOUT_DEFAULT 30.0

/** A received frame. Descriptors are the holder's to close; frame_release() closes those not taken (set to
 * -1). */
typedef struct frame {
    uint8_t *bytes; /* malloc'd payload */
    uint32_t byte_count;
    int fds[FRAME_FDS_MAX];
    uint32_t fd_count;
} frame_t;

void frame_release(frame_t *frame);

/** The daemon time-out of this process: what the environment says, or the default. Errors: INVALID_ARGUMENT.
 */
blink_result_t frame_daemon_timeout(double *timeout_s);

/** Connect a blocking SOCK_STREAM to the path. What blocks on it, this call included, does so for no longer
 * than the time-out; 0: for ever. Errors: CONNECT (names path and errno), INVALID_ARGUMENT (too long),
 * TIMEOUT. */
blink_result_t frame_connect(const char *path, double timeout_s, int *socket_fd);

/** Send one frame whole, descriptors with its first byte; blocks. Never raises SIGPIPE. Errors: DAEMON_LOST
 * (the peer closed), TIMEOUT (the socket is of no more use), SYSTEM, INVALID_ARGUMENT (over FRAME_MAX_BYTES).
 * Callers serialise. */
blink_result_t frame_send(int socket_fd, const void *bytes, size_t byte_count, const int *fds,
                          uint32_t fd_count);

/** Receive one frame whole; blocks. Received descriptors are close-on-exec. Errors: DAEMON_LOST (end of
 * stream), TIMEOUT, PROTOCOL (length over FRAME_MAX_BYTES, too many descriptors), SYSTEM, NO_MEMORY. Callers
 * serialise. */
blink_result_t frame_receive(int socket_fd, frame_t *frame);

/* ---- for those who send and receive by themselves, like the daemon's event loop ---- */

/** Memory for the descriptors of one message, aligned as the kernel wants it. A receiver has some for a few
 * too many, so that they arrive and can be closed. */
typedef union frame_control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(2 * FRAME_FDS_MAX * sizeof(int))];
} frame_control_t;

/** Let up to FRAME_FDS_MAX descriptors travel with a message. message borrows control. */
void frame_attach_fds(struct msghdr *message, frame_control_t *control, const int *fds, uint32_t fd_count);

/** Append the descriptors of a received message to an array of FRAME_FDS_MAX; close those that do not fit.
 * Errors: PROTOCOL (there were such), NO_MEMORY (the process has no descriptors left for
 * some). */
blink_result_t frame_take_fds(struct msghdr *message, int fds[FRAME_FDS_MAX], uint32_t *fd_count);

#endif
