/*
 * Bytes and descriptors on one control socket: whole frames in, replies out, never blocking the loop. What
 * frames mean is for the handler given at creation.
 */
#ifndef BLINK_CONNECTION_H
#define BLINK_CONNECTION_H

#include "blink.pb-c.h"
#include "error.h"

#include <sys/types.h>
#include <uv.h>

typedef struct connection connection_t;

typedef struct connection_handler {
    /* A whole frame has come. connection_take_fd() fetches the descriptors that came with the frame. */
    void (*frame)(void *context, const uint8_t *bytes, size_t byte_count);
    /* The connection has ended: no frame comes any more, what is sent is lost. connection_destroy() follows,
     * now or later. */
    void (*ended)(void *context);
} connection_handler_t;

/* Take over an accepted socket, also on failure. Errors: NO_MEMORY, SYSTEM. */
blink_result_t connection_create(uv_loop_t *loop, int fd, const connection_handler_t *handler, void *context,
                                 connection_t **connection);

/* The connection has ended. The socket is closed from within the loop, later. */
void connection_destroy(connection_t *connection);

/* End the connection, if it has not ended. */
void connection_close(connection_t *connection);

/* The process at the other end, as it was when it connected. */
pid_t connection_pid(const connection_t *connection);
uid_t connection_uid(const connection_t *connection);

/* Queue a reply with up to FRAME_FDS_MAX descriptors, which stay the caller's. Never ends the connection; a
 * reply to one that has ended is lost. */
void connection_send(connection_t *connection, const Blinkwire__Reply *reply, const int *fds,
                     uint32_t fd_count);
void connection_reply_ok(connection_t *connection, uint64_t id);

/* The code with this thread's error text. */
void connection_reply_error(connection_t *connection, uint64_t id, blink_result_t code);

/* The same; then the connection ends as soon as everything queued is sent. */
void connection_fail(connection_t *connection, uint64_t id, blink_result_t code);

/* Take the oldest unclaimed descriptor; -1 if there is none. It is the caller's. */
int connection_take_fd(connection_t *connection);

#endif
