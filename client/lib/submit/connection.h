/*
 * The control connection of one context: requests that wait for their reply. The watcher (context/watcher.h)
 * receives; when the connection ends it first ends every unfinished op and then lets every waiting request
 * fail with DAEMON_LOST, so that no thread waits for a daemon that is gone.
 */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include "base/list.h"
#include "blink/blink.h"
#include "error.h"
#include "unique_id.h"

#include "blink.pb-c.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/** A successful reply, and the descriptor that came along, or -1. */
typedef struct connection_answer {
    Blinkwire__Reply *reply;
    int fd;
    uint64_t gpu_resets; /* connection_t's when it came */
} connection_answer_t;

void connection_answer_release(connection_answer_t *answer);

typedef struct connection {
    int socket_fd;
    pid_t daemon_pid;          /* 0: not known; constant, as the next */
    bool watches_threads;      /* the daemon does */
    double daemon_timeout_s;   /* after which a silent daemon is given up; 0: never */
    uint64_t received;         /* messages; the watcher's alone */
    pthread_mutex_t send_lock; /* serialises frame_send() */
    pthread_mutex_t lock;      /* for what follows, and for what the watcher writes to communicators */
    pthread_cond_t changed;    /* on CLOCK_MONOTONIC */
    list_t requests;           /* that wait */
    uint64_t last_id;
    bool closing;                           /* connection_close() has been called */
    bool lost;                              /* the connection is gone */
    char lost_text[BLINK_ERROR_TEXT_BYTES]; /* constant once `lost` is set */
    bool ended;                  /* and no op that the application waits for is unfinished any more */
    _Atomic uint64_t gpu_resets; /* GpuReset events that have come */
} connection_t;

/** Called by the watcher, under the lock, with a successful reply before anything that comes later. */
typedef void connection_accepted_t(void *owner, const Blinkwire__Reply *reply);

/** A request that waits for its reply. */
typedef struct connection_wait {
    list_t of_requests;
    uint64_t id;
    connection_accepted_t *accepted; /* NULL: the order does not matter */
    void *owner;
    connection_answer_t answer; /* under the lock, until it is there */
    bool answered;              /* under the lock */
    blink_result_t sent;
} connection_wait_t;

/** A daemon's version, "1.2.3"; longer ones are cut. */
#define VERSION_TEXT_BYTES 32

/** What the daemon gives to a client. */
typedef struct connection_hello {
    uint32_t device_count;
    unique_id_t home; /* what ids that are made here begin with; the nonce is of zeros */
    char daemon_version[VERSION_TEXT_BYTES];
    int ring_fd, doorbell_fd, completion_fd; /* the caller's */
} connection_hello_t;

/** Connect and say hello. connection_fini() after a success. Errors: CONNECT, PROTOCOL, QUOTA, SYSTEM,
 * DAEMON_LOST, INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t connection_init(connection_t *connection, const char *socket_path, connection_hello_t *hello);
void connection_fini(connection_t *connection);

/**
 * Send a request and wait for its reply. Thread-safe.
 * @param fds      descriptors to go along, at most FRAME_FDS_MAX; they stay the caller's.
 * @param answer   receives an answer to be released by the caller; NULL if only success matters.
 * Errors: whatever the daemon answers, with its sentence; DAEMON_LOST, only once all ops have ended.
 */
blink_result_t connection_call(connection_t *connection, Blinkwire__Request *request, const int *fds,
                               uint32_t fd_count, connection_answer_t *answer);

/** The same in two steps, so that a thread which must not wait (the watcher) may ask: each request is awaited
 * exactly once, which does not take long once it is answered. */
void connection_ask(connection_t *connection, Blinkwire__Request *request, connection_wait_t *wait);
bool connection_is_answered(connection_t *connection, const connection_wait_t *wait);
blink_result_t connection_await(connection_t *connection, connection_wait_t *wait);

/** The same for a request whose reply has to be taken in before what comes later: a rank that joins, before
 * it is told that its communicator is lost. */
void connection_ask_in_order(connection_t *connection, Blinkwire__Request *request,
                             connection_accepted_t *accepted, void *owner, connection_wait_t *wait);

/** Wait until a request is answered, or until `deadline` of CLOCK_MONOTONIC (NULL: for ever), without taking
 * the answer. Whether it is answered. Any number of threads may. */
bool connection_await_until(connection_t *connection, const connection_wait_t *wait,
                            const struct timespec *deadline);

/** Send a request whose answer matters to nobody, with a descriptor that stays the caller's (-1: none).
 * Thread-safe. Errors: DAEMON_LOST, SYSTEM, NO_MEMORY. */
blink_result_t connection_post(connection_t *connection, Blinkwire__Request *request, int fd);

/* ---- the watcher's ---- */

/** Receive a message, which is the caller's. Errors: DAEMON_LOST, TIMEOUT, PROTOCOL, SYSTEM. */
blink_result_t connection_receive(connection_t *connection, connection_answer_t *answer);

/** Hand a message to the request that waits for it. False if it answers none: it is still the caller's. */
bool connection_deliver(connection_t *connection, connection_answer_t *answer);

/** Whether a request waits for its reply. */
bool connection_is_awaited(connection_t *connection);

/** The connection is gone, for this reason; and then, once all ops have ended: let all requests fail. */
void connection_lose(connection_t *connection, const char *text);
void connection_end(connection_t *connection);

/** Disconnect; return once connection_end() has been called. The daemon is first given time to let go of this
 * client's memory. */
void connection_close(connection_t *connection);

/** The failure of a connection that is gone. Under the lock. */
blink_result_t connection_lost_error(const connection_t *connection);

#endif
