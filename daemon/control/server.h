/*
 * The control side of the daemon: one thread, one event loop, that owns every object clients see. The calls
 * below are all there is for main.
 */
#ifndef BLINK_CONTROL_SERVER_H
#define BLINK_CONTROL_SERVER_H

#include "base/settings.h"
#include "error.h"
#include "exec/cuda/wire_memory.h"
#include "gpu_worker/start.h"
#include "topo/topo.h"

#include <stdbool.h>

typedef struct server server_t;

typedef struct server_config {
    const settings_t *settings;  /* all that is pointed to is borrowed and outlives the server */
    const topo_t *local;         /* by which communicators of this host alone are planned */
    const topo_t *topo;          /* the same with NICs, if there are other hosts: what is counted and shown */
    uint32_t device_count;       /* the first so many gpus of either */
    const uint32_t *gpu_of_node; /* by topology node; NULL: no device is on a GPU, and no worker */
    gpu_worker_t *gpu_worker;    /* has said gpu_hello; taken over */
    const gpu_hello_t *gpu_hello;
    wire_memory_t *wires; /* that the worker has; borrowed */
    int listen_fd;        /* a listening socket handed over by systemd; -1: make one at the setting's path */
    uint64_t watchdog_us; /* tell systemd four times as often that all threads turn; 0: never */
} server_config_t;

/* Listen and start the engine and the workers. Errors: EXISTS (a daemon already listens on the socket),
 * SYSTEM, INVALID_ARGUMENT (socket path), NO_MEMORY. */
blink_result_t server_create(const server_config_t *config, server_t **server);

/* Serve until SIGTERM, SIGINT or SIGHUP, then end every connection and wait until nothing touches client
 * memory any more. */
void server_run(server_t *server);

/* Undo server_create(): the socket is removed, unless it was handed over. */
void server_destroy(server_t *server);

#endif
