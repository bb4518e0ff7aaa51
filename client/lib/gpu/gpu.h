/*
 * GPUs as this process's CUDA driver shows them: visits, copies and pinned memory. The driver is used only if
 * the application has loaded it. Built without CUDA all of this says that there is no GPU (no_cuda.c).
 * Nothing here names a type of CUDA; what does is in device.h.
 *
 * Visits. Calls that say so need the thread to be visiting the GPU: some context is current, and the calls
 * are allowed while streams are being captured.
 */
#ifndef CLIENT_GPU_H
#define CLIENT_GPU_H

#include "blink/blink.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_UUID_BYTES 16u

struct cuda_driver;

/** One GPU, opened. */
typedef struct gpu gpu_t;

/** The driver as one blink_context_t uses it, and the GPUs that its communicators have opened. */
typedef struct gpus {
    _Atomic(const struct cuda_driver *) driver; /* NULL until it has been found */
    _Atomic(void *) unusable_ask;               /* unusable.c's: NULL unless there is one that is of no use */
    pthread_mutex_t lock;                       /* for the list; what is in it stays */
    gpu_t *list;
} gpus_t;

void gpus_init(gpus_t *gpus);

/** Close all GPUs. No thread uses them any more. */
void gpus_fini(gpus_t *gpus);

/** Look for the driver. NULL, with the sentence recorded, if the application has loaded none yet, or one that
 * is of no use (unusable.h). Thread-safe. */
const struct cuda_driver *gpus_find_driver(gpus_t *gpus);

/** The driver if it has been found before: else no memory of GPUs has come here either. */
const struct cuda_driver *gpus_driver(gpus_t *gpus);

/** The GPU of the CUDA context that is current in this thread. False if there is none. */
bool gpus_current_uuid(gpus_t *gpus, uint8_t uuid[GPU_UUID_BYTES]);

/** The GPU with this UUID, opened if it has not been. Thread-safe. Errors: UNSUPPORTED (no driver),
 * INVALID_ARGUMENT (this process does not see it), SYSTEM, NO_MEMORY. */
blink_result_t gpus_open(gpus_t *gpus, const uint8_t uuid[GPU_UUID_BYTES], gpu_t **gpu);

typedef struct gpu_visit {
    gpu_t *gpu;
    bool pushed;
    int capture_mode;
} gpu_visit_t;

/** Visit a GPU; with NULL nothing is done. Errors: SYSTEM. */
blink_result_t gpu_enter(gpu_t *gpu, gpu_visit_t *visit);
void gpu_leave(const gpu_visit_t *visit);

/** Begin a copy between any two places in memory, and wait for those begun on this GPU. They wait for no
 * stream. Errors: SYSTEM. */
blink_result_t gpu_copy(gpu_t *gpu, void *to, const void *from, size_t bytes);
blink_result_t gpu_copy_end(gpu_t *gpu);

/** Whether the driver refuses to do anything there any more. */
bool gpu_is_lost(gpu_t *gpu);

/** Let GPUs reach memory of the host; `address` is where. gpu_unpin() before it is unmapped. Errors: SYSTEM,
 * NO_MEMORY. */
blink_result_t gpu_pin(gpu_t *gpu, void *base, size_t bytes, uint64_t *address);
void gpu_unpin(gpu_t *gpu, void *base);

#endif
