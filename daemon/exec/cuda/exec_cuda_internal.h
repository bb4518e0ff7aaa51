/*
 * What the executor (exec_cuda.c) and its instances (cuda_instance.c) share.
 */
#ifndef BLINK_EXEC_CUDA_INTERNAL_H
#define BLINK_EXEC_CUDA_INTERNAL_H

#include "base/list.h"
#include "exec/cuda/exec_cuda.h"
#include "exec/cuda/gpu_arena.h"
#include "exec/cuda/image.h"
#include "exec/instance.h"
#include "ring.h"

typedef struct cuda_instance cuda_instance_t;

/* An entry that the worker has, or will get. */
typedef struct cuda_request {
    list_t link;   /* exec_cuda_t.requests */
    list_t unsent; /* exec_cuda_t.unsent */
    ring_sqe_t sqe;
    cuda_instance_t *instance; /* GPU_RUN: whose run; else NULL */
    uint32_t object;           /* GPU_LOAD, GPU_ALLOC */
    /* What the entry does not hold lies in the arena from when it is sent: what waits takes nobody's room
     * there. */
    bool in_arena;
    uint64_t bytes;
    _Alignas(max_align_t) char room[];
} cuda_request_t;

struct exec_cuda {
    exec_t base;
    exec_cuda_config_t config;
    bool attached;
    uint32_t generation; /* of the worker; what another one had been given is gone */
    gpu_channel_t channel;
    ring_t ring;
    arena_t arena;
    list_t requests;   /* all that are not completed */
    list_t unsent;     /* those that the ring or the arena had no room for, in order */
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

/* What a run of the bound program carries over one link. */
typedef struct cuda_load {
    uint32_t link;
    uint64_t bytes;
} cuda_load_t;

struct cuda_instance {
    exec_instance_t base;
    exec_cuda_t *exec; /* base.exec */
    list_t link;       /* exec_cuda_t.instances */
    list_t queued;     /* exec_cuda_t.waiting or .ended */
    uint32_t *rank_gpu;
    uint32_t gpu_mask;
    uint32_t lane_first[GPU_MAX], lane_count[GPU_MAX];
    image_block_t image;
    bool only_moves;
    bool through_host; /* slots and semaphores are in host memory */
    /* With the worker of this generation; 0: with none. */
    uint32_t generation;
    uint32_t program_object, binding_object, memory_object;
    uint64_t memory_bytes, semaphores_offset;
    /* The payload that it is bound to. */
    uint64_t scratch_bytes;
    image_block_t binding;
    cuda_load_t *loads;
    uint32_t load_count;
    uint64_t rounds; /* runs since the semaphores were zero */
    /* The run under way. */
    bool running, granted, copied;
    uint64_t number;
    cuda_request_t *request;
    uint32_t blocks[GPU_MAX];
    blink_result_t abort_reason;
    /* How the run ended. */
    exec_end_t end;
    char end_text[BLINK_ERROR_TEXT_BYTES];
    /* An object of it could not be made. */
    blink_result_t failed;
    char failed_text[BLINK_ERROR_TEXT_BYTES];
};

/* The executor's side of exec_calls_t. */
blink_result_t cuda_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **instance);
void cuda_instance_destroy(exec_instance_t *instance);
blink_result_t cuda_instance_start(exec_instance_t *instance, uint64_t block_bytes, bool *under_way);
void cuda_instance_abort(exec_instance_t *instance, blink_result_t reason);
const char *cuda_instance_transport(const exec_instance_t *instance);

/* Whether devices on these nodes meet in host memory: some of their GPUs cannot reach others'. */
bool cuda_needs_host(const exec_cuda_t *exec, const uint32_t *nodes, uint32_t rank_count);

/* An entry for the worker with room for what goes through the arena (0 bytes: without). Errors: NO_MEMORY. */
blink_result_t cuda_request_make(exec_cuda_t *exec, uint8_t opcode, uint64_t arena_bytes,
                                 cuda_request_t **request);

/* Send it after all that were sent before. */
void cuda_request_send(exec_cuda_t *exec, cuda_request_t *request);
void cuda_request_free(exec_cuda_t *exec, cuda_request_t *request);

/* Have the worker hold the program, and bind it to a payload; nothing to do if both are so already. Errors:
 * NO_MEMORY. */
blink_result_t cuda_instance_load(cuda_instance_t *instance);
blink_result_t cuda_instance_bind(cuda_instance_t *instance, uint64_t block_bytes);

/* Give scratch of idle instances back, but that of the most recent, until what is left is little enough. */
void cuda_trim_memory(exec_cuda_t *exec, const cuda_instance_t *recent);

/* The run is over: exec_poll() will tell so. */
void cuda_instance_end(cuda_instance_t *instance, blink_result_t result, const char *text);

/* Send the run, which has been granted. */
void cuda_instance_launch(cuda_instance_t *instance);

/* Whether the run has to wait for residence, and take or give it. */
bool cuda_grant(exec_cuda_t *exec, const cuda_instance_t *instance);

#endif
