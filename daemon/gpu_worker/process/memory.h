/*
 * Memory that the service asks to import or map. For the main thread.
 */
#ifndef BLINK_WORKER_MEMORY_H
#define BLINK_WORKER_MEMORY_H

#include "gpu_worker/process/gpu.h"

/* `fds` stay the caller's. Errors: as gpu_reply_t says. */
blink_result_t worker_import(worker_t *worker, const gpu_request_t *request, const int *fds,
                             uint32_t fd_count, uint64_t *address);
blink_result_t worker_import_more(worker_t *worker, const gpu_request_t *request, const int *fds,
                                  uint32_t fd_count, uint64_t *address);
blink_result_t worker_map_host(worker_t *worker, const gpu_request_t *request, const int *fds,
                               uint32_t fd_count, uint64_t *address);

/* Errors: INVALID_ARGUMENT (no such token). What the driver says on the way is only logged. */
blink_result_t worker_release(worker_t *worker, uint64_t token);

#endif
