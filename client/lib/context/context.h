/* A context: the connection to the daemon with everything that hangs off it. */
#ifndef CLIENT_CONTEXT_H
#define CLIENT_CONTEXT_H

#include "context/heartbeat.h"
#include "gpu/gpu.h"
#include "memory/imports.h"
#include "memory/regions.h"
#include "stream/streams.h"
#include "submit/connection.h"
#include "submit/ops.h"

struct blink_context {
    connection_t connection;
    ops_t ops;
    gpus_t gpus;
    regions_t regions;
    imports_t imports;
    streams_t streams;
    list_t comms; /* also those that have not been joined yet; under connection.lock */
    pthread_t watcher;
    heartbeat_t heartbeat; /* the watcher's */
    _Atomic bool stopping; /* the watcher is to end, if the connection has */
    uint32_t device_count; /* constant, as the next two */
    unique_id_t home;      /* what ids that are made here begin with; the nonce is of zeros */
    char daemon_version[VERSION_TEXT_BYTES];
};

/** Connect a zeroed context to the daemon at this socket. context_fini() after a success. Errors: CONNECT,
 * PROTOCOL, QUOTA, SYSTEM, DAEMON_LOST, NO_MEMORY. */
blink_result_t context_init(blink_context_t *context, const char *socket_path);

/** Disconnect, wait until the daemon has let go of the context's memory, but not for ever, and free
 * everything, communicators too. No thread uses the context any more. */
void context_fini(blink_context_t *context);

#endif
