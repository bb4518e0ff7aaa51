/*
 * The control connection of one context: requests that wait for their reply, and the watcher thread that
 * receives.
 *
 * When the connection ends the watcher has every unfinished op and every waiting request fail with
 * DAEMON_LOST, so that no thread waits for a daemon that is gone. From then on until the context is closed it
 * does the daemon's part for streams, which is to let them go on.
 */
#ifndef CLIENT_CONTROL_H
#define CLIENT_CONTROL_H

#include "blink/blink.h"
#include "error.h"

#include "blink.pb-c.h"

#include <pthread.h>

typedef struct control_request control_request_t;

/** A successful reply, and the descriptor that came along, or -1. */
typedef struct control_answer {
    Blinkwire__Reply *reply;
    int fd;
    uint64_t gpu_resets; /* control_t's when it came */
} control_answer_t;

void control_answer_release(control_answer_t *answer);

typedef struct control {
    int socket_fd;
    pthread_t watcher;
    pthread_mutex_t send_lock; /* serialises frame_send() */
    pthread_mutex_t
        lock; /* for what follows, and for what CommInitReply and CommLost write to communicators */
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    control_request_t *requests;
    uint64_t last_id;
    bool lost;                   /* the connection is gone */
    bool ended;                  /* and no op that the application waits for is unfinished any more */
    _Atomic bool stopping;       /* the watcher is to end, if the connection has */
    _Atomic uint64_t gpu_resets; /* GpuReset events that have come; by the watcher, before it acts on one */
    blink_comm_t *comms;
} control_t;

/** Say hello on a connected socket; takes it over. ops_init() is done here, with the ring that came along.
 * Errors: PROTOCOL, QUOTA, SYSTEM, DAEMON_LOST, NO_MEMORY. After a success control_start(), then
 * control_stop(). */
blink_result_t control_hello(blink_context_t *context, int socket_fd);

/** Start the watcher. Errors: SYSTEM; the caller then closes the socket itself. */
blink_result_t control_start(blink_context_t *context);

/** Disconnect; wait until the daemon has let go of the context's memory, but not for ever, and streams have
 * passed the ops that they waited for; end the watcher. */
void control_stop(blink_context_t *context);

/**
 * Send a request and wait for its reply. Thread-safe.
 * @param fds      descriptors to go along, at most FRAME_FDS_MAX; they stay the caller's.
 * @param joining  the communicator that a CommInit is for: the watcher enters it before it handles anything
 * that comes later, CommLost for instance. NULL otherwise.
 * @param answer   receives an answer to be released by the caller; NULL if only success matters.
 * Errors: whatever the daemon answers, with its sentence; DAEMON_LOST, only once all ops have ended.
 */
blink_result_t control_call(blink_context_t *context, Blinkwire__Request *request, const int *fds,
                            uint32_t fd_count, blink_comm_t *joining, control_answer_t *answer);

/** Send a request whose answer matters to nobody. Thread-safe. Errors: DAEMON_LOST, SYSTEM, NO_MEMORY. */
blink_result_t control_post(blink_context_t *context, Blinkwire__Request *request);

#endif
