/*
 * The service's ends of what it shares with a GPU worker for runs: the ring, and the arena for what does not
 * fit into the ring's entries (link.h).
 */
#ifndef BLINK_GPU_CHANNEL_H
#define BLINK_GPU_CHANNEL_H

#include "gpu_worker/link.h"

#include <stdint.h>

typedef struct gpu_channel {
    int ring_fd, doorbell_fd, event_fd; /* -1: closed */
    void *arena;                        /* mapped; NULL: not */
    uint64_t arena_bytes;
    uint64_t wire_address; /* as gpu_hello_t tells it */
    /* Exported memory of GPUs, by GPU: where GPUs find it, 0: there is none; and the dma-buf. */
    uint64_t exported_address[GPU_MAX];
    int exported_fd[GPU_MAX];
} gpu_channel_t;

/* A channel of which nothing is open. */
#define GPU_CHANNEL_NONE ((gpu_channel_t){.ring_fd = -1, .doorbell_fd = -1, .event_fd = -1})

/* Open a channel, and the arena's memfd, which is for the worker. gpu_channel_close() must follow on failure
 * too. Errors: NO_MEMORY, SYSTEM. */
blink_result_t gpu_channel_open(gpu_channel_t *channel, int *arena_fd);

/* Close what is open of it. */
void gpu_channel_close(gpu_channel_t *channel);

#endif
