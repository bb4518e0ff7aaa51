/*
 * Entries on their way to the worker.
 */
#ifndef BLINK_EXEC_CUDA_REQUEST_H
#define BLINK_EXEC_CUDA_REQUEST_H

#include "exec/cuda/executor.h"

/* An entry that the worker has, or will get. */
typedef struct cuda_request {
    list_t link;   /* exec_cuda_t.requests */
    list_t unsent; /* exec_cuda_t.unsent */
    ring_sqe_t sqe;
    struct cuda_instance *instance; /* GPU_RUN: whose run; else NULL */
    uint32_t object;                /* GPU_LOAD, GPU_ALLOC */
    /* What the entry does not hold. It is moved to the arena only when the entry is sent, so that requests
     * that wait take no space there. */
    bool in_arena;
    uint64_t bytes;
    _Alignas(max_align_t) char data[];
} cuda_request_t;

/* An entry for the worker with space for what goes through the arena (0 bytes: without). Errors: NO_MEMORY.
 */
blink_result_t cuda_request_make(exec_cuda_t *exec, uint8_t opcode, uint64_t arena_bytes,
                                 cuda_request_t **request);

/* Send it after all that were sent before, as soon as the ring and the arena have space for it. */
void cuda_request_send(exec_cuda_t *exec, cuda_request_t *request);

/* Send those that have waited for space, as far as there is some. */
void cuda_requests_flush(exec_cuda_t *exec);

void cuda_request_free(exec_cuda_t *exec, cuda_request_t *request);

/* Have the engine's thread look for news, as the worker does. Any thread. */
void cuda_wake(exec_cuda_t *exec);

#endif
