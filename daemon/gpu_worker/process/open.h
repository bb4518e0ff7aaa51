/*
 * The worker's start on the GPUs.
 */
#ifndef BLINK_WORKER_OPEN_H
#define BLINK_WORKER_OPEN_H

#include "gpu_worker/process/gpu.h"

/* Initialise the driver and make every GPU ready: facts, contexts, peers, kernels, what the run thread needs
 * of each. Errors: NOT_FOUND (no driver that will do, no GPU), INTERNAL (a kernel is missing), SYSTEM,
 * NO_MEMORY. */
blink_result_t worker_open_gpus(worker_t *worker);

#endif
