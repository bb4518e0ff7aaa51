/*
 * Bytes and descriptors on one control socket: whole frames in, replies out, never blocking the loop. What
 * frames mean is for the handler given at creation.
 *
 * Frames are handed over in slices of the tenant's work (control/turn.h). While whole frames wait, while
 * replies wait that the peer does not read, and while a request is held, nothing more is read.
 */
#ifndef BLINK_CONNECTION_H
#define BLINK_CONNECTION_H

#include "blink.pb-c.h"
#include "control/clients/peer.h"
#include "control/turn.h"
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

typedef struct connection_config {
    uv_loop_t *loop;
    turns_t *turns;
    tenant_t *tenant; /* at whose cost frames are handled */
    int fd;           /* an accepted socket, taken over, also on failure */
    peer_t peer;      /* identified */
    const connection_handler_t *handler;
    void *context;
} connection_config_t;

/* The connection reads only after connection_begin(). Errors: PEER_LOST, NO_MEMORY, SYSTEM. */
blink_result_t connection_create(const connection_config_t *config, connection_t **connection);

/* Begin to read. The connection may end here already, if the peer has gone. */
void connection_begin(connection_t *connection);

/* The connection has ended. The socket is closed from within the loop, later. */
void connection_destroy(connection_t *connection);

/* End the connection, if it has not ended. */
void connection_close(connection_t *connection);

/* The same, after sending of what is queued as much as takes no waiting. */
void connection_end(connection_t *connection);

/* Say why nothing is served on an accepted socket, if that takes no waiting, and close the socket: the code
 * with this thread's error text. */
void connection_refuse(int fd, blink_result_t code);

/* The process at the other end, as it was when it connected. */
pid_t connection_pid(const connection_t *connection);

/* Watch a thread of that process, too: peer_watch_thread(). */
blink_result_t connection_watch_thread(connection_t *connection, int thread_fd);

/* The largest request that may come from now on; at first it is CONNECTION_HELLO_MAX_BYTES. */
void connection_allow(connection_t *connection, uint32_t frame_max_bytes);
#define CONNECTION_HELLO_MAX_BYTES 1024u

/* Handle no more frames until the answer to the last one is released: it comes later, and costs memory until
 * it comes. To release what is not held does nothing. */
void connection_hold(connection_t *connection);
void connection_release(connection_t *connection);

/* Queue a reply with up to FRAME_FDS_MAX descriptors, which are taken over. Never ends the connection; a
 * reply to one that has ended is lost. */
void connection_send(connection_t *connection, const Blinkwire__Reply *reply, const int *fds,
                     uint32_t fd_count);
void connection_reply_ok(connection_t *connection, uint64_t id);

/* The code with this thread's error text. */
void connection_reply_error(connection_t *connection, uint64_t id, blink_result_t code);

/* The same; then the connection ends as soon as everything queued is sent. */
void connection_fail(connection_t *connection, uint64_t id, blink_result_t code);

/* The same, and the connection ends at once if that takes waiting. */
void connection_expire(connection_t *connection, blink_result_t code);

/* Take the oldest unclaimed descriptor; -1 if there is none. It is the caller's. */
int connection_take_fd(connection_t *connection);

/* Whether descriptors that came with the frames of this slice could not be had, or kept. None of those frames
 * has any then. */
bool connection_lost_fds(const connection_t *connection);

#endif
