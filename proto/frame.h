/*
 * Frames on the control socket: length, bytes, descriptors (see blink.proto). Used blocking by the client
 * library and the tools, and for its parsing half by the daemon's event loop.
 */
#ifndef BLINK_FRAME_H
#define BLINK_FRAME_H

#include "error.h"

#include <stdbool.h>

#define FRAME_HEADER_BYTES      4u
#define FRAME_MAX_BYTES         (16u << 20) /* a daemon's reply; a topology of 1,024 GPUs as JSON fits */
#define FRAME_REQUEST_MAX_BYTES (64u << 10)
#define FRAME_FDS_MAX           4u

/** Control protocol versions this tree speaks. */
#define BLINK_WIRE_VERSION_MIN 1u
#define BLINK_WIRE_VERSION_MAX 1u

/** Where blinkd listens unless told otherwise; the environment variable BLINK_SOCKET overrides it for
 * clients. */
#define BLINK_SOCKET_DEFAULT "/run/blinkd/blinkd.sock"
#define BLINK_SOCKET_ENV     "BLINK_SOCKET"

/** A received frame. Descriptors are the holder's to close; frame_release() closes those not taken (set to
 * -1). */
typedef struct frame {
    uint8_t *bytes; /* malloc'd payload */
    uint32_t byte_count;
    int fds[FRAME_FDS_MAX];
    uint32_t fd_count;
} frame_t;

void frame_release(frame_t *frame);

/** Connect a blocking SOCK_STREAM to the path. Errors: CONNECT (names path and errno), INVALID_ARGUMENT (too
 * long). */
blink_result_t frame_connect(const char *path, int *socket_fd);

/** Send one frame whole, descriptors with its first byte; blocks. Never raises SIGPIPE. Errors: DAEMON_LOST
 * (the peer closed), SYSTEM, INVALID_ARGUMENT (over FRAME_MAX_BYTES). Callers serialise. */
blink_result_t frame_send(int socket_fd, const void *bytes, size_t byte_count, const int *fds,
                          uint32_t fd_count);

/** Receive one frame whole; blocks. Received descriptors are close-on-exec. Errors: DAEMON_LOST (end of
 * stream), PROTOCOL (length over FRAME_MAX_BYTES, too many descriptors), SYSTEM, NO_MEMORY. Callers
 * serialise. */
blink_result_t frame_receive(int socket_fd, frame_t *frame);

#endif
