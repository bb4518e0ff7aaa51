/*
 * GPUs as this process's CUDA driver shows them: whose memory a pointer is, what the daemon calls it, and
 * copies. The driver is used only if the application has loaded it. Built without CUDA all of this says that
 * there is none (no_cuda.c). Nothing here names a type of CUDA: what does is in gpu_internal.h.
 *
 * Visits. Calls that say so need the thread to be visiting the GPU: some context is current, and the calls
 * are allowed while streams are being captured.
 */
#ifndef CLIENT_GPU_H
#define CLIENT_GPU_H

#include "blink/blink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_UUID_BYTES 16u

/** The driver as one context of ours uses it, and one GPU of it. */
typedef struct gpus gpus_t;
typedef struct gpu gpu_t;

/** The driver of this process; NULL if the application has loaded none. The first success is kept in the
 * context. */
gpus_t *gpus_find(blink_context_t *context);

/** Free everything. No thread uses it any more. */
void gpus_fini(blink_context_t *context);

/** The daemon has lost all GPU memory of this client: what is registered is forgotten. Thread-safe. */
void gpus_reset(blink_context_t *context);

/** The GPU of the CUDA context that is current in this thread. False if there is none. */
bool gpus_current_uuid(blink_context_t *context, uint8_t uuid[GPU_UUID_BYTES]);

/** For a communicator on host devices: refuse memory of a GPU. Errors: INVALID_ARGUMENT (names the pointer).
 */
blink_result_t gpus_refuse(blink_context_t *context, const char *what, const void *pointer);

/** The GPU of a communicator's rank; NULL if that is a host device, or this process has no driver or does not
 * see the GPU: then it has no memory there either. */
gpu_t *gpu_of(blink_comm_t *comm);

/** The same for calls that cannot do without. Errors: UNSUPPORTED (a host device; no driver),
 * INVALID_ARGUMENT (this process does not see the GPU), SYSTEM. */
blink_result_t gpu_require(blink_comm_t *comm, gpu_t **gpu);

typedef struct gpu_visit {
    gpu_t *gpu;
    bool pushed;
    int capture_mode;
} gpu_visit_t;

/** Visit a GPU; with NULL nothing is done. Errors: SYSTEM. */
blink_result_t gpu_enter(gpu_t *gpu, gpu_visit_t *visit);
void gpu_leave(const gpu_visit_t *visit);

/** Where a buffer is. */
typedef struct gpu_place {
    bool on_device;  /* in GPU memory, or managed memory */
    uint32_t region; /* the daemon's; 0: it has to be staged */
    uint64_t offset_bytes;
} gpu_place_t;

/**
 * Find a buffer of a rank on a GPU; memory that the daemon does not know is exported to it. Visiting, where
 * there is a GPU to visit. Thread-safe. Errors: INVALID_ARGUMENT (memory of another GPU; names both),
 * OUT_OF_RANGE (it passes the end of its memory), SYSTEM, or what the daemon refuses, but for PERMISSION and
 * UNSUPPORTED.
 */
blink_result_t gpu_place(blink_comm_t *comm, const char *what, const void *pointer, size_t bytes,
                         gpu_place_t *place);

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
