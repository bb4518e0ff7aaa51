/*
 * An instance on GPUs: what the worker has of its program, and of the payload that it is bound to.
 */
#ifndef BLINK_EXEC_CUDA_INSTANCE_H
#define BLINK_EXEC_CUDA_INSTANCE_H

#include "exec/cuda/image.h"
#include "exec/cuda/request.h"
#include "exec/cuda/wires.h"

/* What a run of the bound program carries over one link, by paths that begin with another one. */
typedef struct cuda_load {
    uint32_t link, first_link;
    uint64_t bytes;
} cuda_load_t;

/* What its run does (grant.h). */
typedef enum cuda_run_stage {
    CUDA_RUN_NONE,
    CUDA_RUN_WAITS,
    CUDA_RUN_GRANTED,
    CUDA_RUN_PARKED /* its lanes have left, and wait for the network */
} cuda_run_stage_t;

/* A payload that it is or was bound to: the worker keeps the tables of some, since programs take the same few
 * sizes in turn, and to load them anew is several calls of the driver for each GPU. */
#define CUDA_BINDINGS 4u
typedef struct cuda_binding {
    uint64_t block_bytes;
    uint32_t slots;  /* that the instance may have (exec_limit_slots()) */
    uint32_t object; /* with the worker; 0: it has none */
    uint64_t number; /* of the latest bind */
} cuda_binding_t;

/* Slots, then semaphores: on every GPU of the instance, or once on the host. */
typedef struct cuda_memory {
    uint32_t object; /* of the worker */
    bool on_host;
    bool lacks_switch;     /* no switch reaches it, though the program is one by multicast */
    uint64_t bytes;        /* of the object; of each of its GPUs */
    uint64_t needed_bytes; /* for the payload that the instance is bound to; 0: none */
    uint64_t scratch_bytes, semaphores_offset;
} cuda_memory_t;

typedef struct cuda_instance {
    exec_instance_t base;
    exec_cuda_t *exec; /* base.exec */
    list_t link;       /* exec_cuda_t.instances */
    list_t queued;     /* exec_share_t.due, or exec_cuda_t.aborted or .ended */
    uint32_t *rank_gpu;
    uint32_t gpu_mask;
    uint32_t lane_first[GPU_MAX], lane_count[GPU_MAX];
    image_block_t image;
    bool only_moves;
    cuda_reach_t reach;
    cuda_wires_t wires;
    /* With the worker of this generation; 0: with none. */
    uint32_t generation;
    uint32_t program_object;
    cuda_binding_t bindings[CUDA_BINDINGS];
    uint64_t binds; /* made so far */
    cuda_memory_t memory, host_memory;
    /* The payload that it is bound to. */
    cuda_binding_t *bound; /* one of the bindings */
    image_block_t binding;
    cuda_load_t *loads;
    uint32_t load_count;
    uint64_t cost_bytes[GPU_MAX]; /* what its lanes on a GPU read and write, or more (GRANT_LEAST_BYTES) */
    uint64_t rounds;              /* runs since the semaphores were zero */
    /* The run under way. */
    cuda_run_stage_t stage;
    exec_share_t *share;
    bool copied;
    uint64_t number;
    cuda_request_t *request;
    uint32_t blocks[GPU_MAX];
    uint32_t resident[GPU_MAX]; /* of these, those that must be resident at once */
    blink_result_t abort_reason;
    uint64_t aborted_us;
    /* How the run ended. */
    exec_end_t end;
    char end_text[BLINK_ERROR_TEXT_BYTES];
    /* An object of it could not be made. */
    blink_result_t failed;
    char failed_text[BLINK_ERROR_TEXT_BYTES];
} cuda_instance_t;

/* The executor's side of exec_calls_t; the runs' is in run.h. */
blink_result_t cuda_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **instance);
void cuda_instance_destroy(exec_instance_t *instance);
blink_result_t cuda_instance_bind(exec_instance_t *instance, uint64_t block_bytes);

/* exec_wire_device(): of the first of the instance's GPUs, if the others are its peers. */
device_memory_t *cuda_instance_device(const cuda_instance_t *instance, bool *ordered);

/* Have the worker hold the program, what the instance is bound to, and its memory; nothing to do if it does
 * already. Errors: NO_MEMORY. */
blink_result_t cuda_instance_load(cuda_instance_t *instance);

/* Give scratch of idle instances back, but that of the most recent, until what is left is little enough. */
void cuda_trim_memory(exec_cuda_t *exec, const cuda_instance_t *recent);

#endif
