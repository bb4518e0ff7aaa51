/*
 * The GPU worker as a process: starting it, hearing what it found, ending it. What it does is in link.h.
 */
#ifndef BLINK_GPU_START_H
#define BLINK_GPU_START_H

#include "base/settings.h"
#include "gpu_worker/channel.h"
#include "gpu_worker/link.h"

#include <sys/types.h>

/* The hidden first argument of blinkd that makes it a worker; the second is the number of its socket. */
#define GPU_WORKER_FLAG "--gpu-worker"

typedef struct gpu_worker {
    pid_t pid;     /* 0: none */
    int socket_fd; /* -1: closed. SOCK_SEQPACKET, blocking */
    gpu_channel_t channel;
} gpu_worker_t;

/* Start this program again as a worker and tell it to begin; gpu_worker_receive_hello() follows. `wire_fd` is
 * the memfd of what GPUs and the network share. Errors: SYSTEM, NO_MEMORY. */
blink_result_t gpu_worker_start(const settings_t *settings, int wire_fd, gpu_worker_t *worker);

/* Wait for the worker to say what it found; it takes a driver seconds. If hello->is_opening, wait again.
 * Errors: TIMEOUT, SYSTEM (it ended), and the worker's own (NOT_FOUND: there is no driver, or no GPU). */
blink_result_t gpu_worker_receive_hello(gpu_worker_t *worker, int timeout_ms, gpu_hello_t *hello);

/* The channel is the caller's from now on. */
gpu_channel_t gpu_worker_take_channel(gpu_worker_t *worker);

/* Close what is open, and see the process end: within a moment, or killed. Its end in words, for messages:
 * "ended with status 1". Nothing if there is none. */
void gpu_worker_end(gpu_worker_t *worker, char *text, size_t text_bytes);

#endif
