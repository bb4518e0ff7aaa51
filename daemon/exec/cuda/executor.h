/*
 * The executor: its channel to the worker, and what is under way.
 */
#ifndef BLINK_EXEC_CUDA_EXECUTOR_H
#define BLINK_EXEC_CUDA_EXECUTOR_H

#include "base/gpu_arena.h"
#include "base/list.h"
#include "exec/cuda/exec_cuda.h"
#include "exec/cuda/switch_pause.h"
#include "exec/instance.h"
#include "ring.h"

#include <pthread.h>

/* What has been granted on a GPU to runs that are under way (grant.h). */
typedef struct cuda_granted {
    uint32_t runs, blocks;
    uint64_t bytes;
} cuda_granted_t;

struct exec_cuda {
    exec_t base;
    exec_cuda_config_t config;
    bool attached;
    uint32_t generation; /* of the worker: objects of an earlier worker are gone */
    gpu_channel_t channel;
    device_memory_t *exported[GPU_MAX]; /* of the worker; NULL: none */
    ring_t ring;
    gpu_arena_t arena;
    list_t requests;   /* all that are not completed */
    list_t unsent;     /* those that wait for space in the ring or the arena, in order */
    uint32_t unreaped; /* sent, and not completed */
    list_t instances;
    list_t wired;                /* cuda_wires_t.link: whose runs' lanes have not ended */
    pthread_mutex_t event_mutex; /* of the channel's event, which others ring too */
    exec_turns_t turns;          /* of the runs that wait for their grant; its list of tenants has a lock */
    pthread_mutex_t tenants_mutex;
    cuda_granted_t granted[GPU_MAX];
    list_t
        aborted;  /* cuda_instance_t.queued: whose runs have been granted and aborted, the first one first */
    list_t ended; /* the same: whose runs have ended, until exec_poll() tells it */
    switch_pause_t switch_pause; /* the worker could not have memory that a switch reaches */
    uint64_t memory_bytes;       /* of the scratch of all instances, on all their GPUs */
    uint32_t last_object;
    uint64_t last_run;
    char lost_text[BLINK_ERROR_TEXT_BYTES]; /* why there is no worker */
};

#endif
