/*
 * The executor: its channel to the worker, and what is under way.
 */
#ifndef BLINK_EXEC_CUDA_EXECUTOR_H
#define BLINK_EXEC_CUDA_EXECUTOR_H

#include "base/list.h"
#include "exec/cuda/exec_cuda.h"
#include "exec/cuda/gpu_arena.h"
#include "exec/instance.h"
#include "ring.h"

struct exec_cuda {
    exec_t base;
    exec_cuda_config_t config;
    bool attached;
    uint32_t generation; /* of the worker: objects of an earlier worker are gone */
    gpu_channel_t channel;
    ring_t ring;
    gpu_arena_t arena;
    list_t requests;   /* all that are not completed */
    list_t unsent;     /* those that wait for space in the ring or the arena, in order */
    uint32_t unreaped; /* sent, and not completed */
    list_t instances;
    list_t waiting; /* instances whose runs wait for their grant, in order */
    list_t ended;   /* instances whose runs have ended, until exec_poll() tells it */
    uint32_t granted_blocks[GPU_MAX];
    uint64_t memory_bytes; /* of the scratch of all instances, on all their GPUs */
    uint32_t last_object;
    uint64_t last_run;
    char lost_text[BLINK_ERROR_TEXT_BYTES]; /* why there is no worker */
};

#endif
