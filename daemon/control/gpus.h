/*
 * The GPUs as the control thread sees them: the worker that comes and goes, and the memory it imports.
 */
#ifndef BLINK_CONTROL_GPUS_H
#define BLINK_CONTROL_GPUS_H

#include "control/control.h"
#include "gpu_worker/start.h"

/* What the GPUs tell their owner. */
typedef struct gpus_handler {
    /* The worker has ended. Whoever waits for an answer is told soon, in slices; the engine has not been. */
    void (*lost)(control_t *control);
    /* Another worker has started; memory may be imported again. */
    void (*back)(control_t *control);
} gpus_handler_t;

/* After the engine. The worker, which has said hello, is taken over; later ones get the descriptor too, which
 * is borrowed (gpu_worker_start()). Errors: NO_MEMORY, SYSTEM. */
blink_result_t gpus_create(control_t *control, gpu_worker_t *worker, const gpu_hello_t *hello, int wire_fd,
                           gpus_handler_t handler, gpus_t **gpus);

/* Before the loop is closed, and before the engine is stopped. NULL is ignored. */
void gpus_destroy(gpus_t *gpus);

/* The facts of all GPUs; they stay the same over restarts of the worker. */
const gpu_hello_t *gpus_facts(const gpus_t *gpus);

/* 0: there is none at the moment. */
pid_t gpus_worker_pid(const gpus_t *gpus);
uint32_t gpus_restarts(const gpus_t *gpus);

/* The worker with this number, from 1 in the order in which the engine was told of them, does not end a run
 * that was aborted: it is killed, and another one started. Nothing if it has ended by itself meanwhile. */
void gpus_worker_stuck(gpus_t *gpus, uint32_t worker);

/* Errors: SYSTEM (there is no worker at the moment; says why). */
blink_result_t gpus_check(const gpus_t *gpus);

/* The number of the GPU with this UUID. Errors: INVALID_ARGUMENT (not a UUID), NOT_FOUND. */
blink_result_t gpus_find(const gpus_t *gpus, const uint8_t *uuid, size_t uuid_bytes, uint32_t *gpu);

/* Who hears how an import went; a failure's error text is the thread's. */
typedef struct gpu_answer {
    void (*call)(void *context, blink_result_t result, uint64_t address);
    void *context;
} gpu_answer_t;

/* Have memory imported (GPU_IMPORT) or mapped (GPU_MAP_HOST). The request's token is entered here. `fds` are
 * duplicated. The answer comes later, exactly once, or never if this fails. Errors: SYSTEM, NO_MEMORY. */
blink_result_t gpus_import(gpus_t *gpus, gpu_request_t *request, const int *fds, uint32_t fd_count,
                           gpu_answer_t answer);

/* Have extents imported that follow those of an earlier import, whose token the request has
 * (GPU_IMPORT_MORE). Else as gpus_import(). Errors: SYSTEM (also: the worker that has the first of them has
 * ended), NO_MEMORY. */
blink_result_t gpus_import_more(gpus_t *gpus, const gpu_request_t *request, const int *fds, uint32_t fd_count,
                                gpu_answer_t answer);

/* Whether the worker that was asked with this token is still there. */
bool gpus_has(const gpus_t *gpus, uint64_t token);

/* Give back what was imported. `answer` is called, unless its call is NULL, when the worker has closed it, or
 * has ended, or cannot be told. Errors, and no answer will come: NOT_FOUND (the worker that imported it has
 * ended already), NO_MEMORY, SYSTEM. */
blink_result_t gpus_release(gpus_t *gpus, uint64_t token, gpu_answer_t answer);

#endif
