/* What gpu.h hides: the driver's types. For the files that call the driver. */
#ifndef CLIENT_GPU_INTERNAL_H
#define CLIENT_GPU_INTERNAL_H

#include "gpu/gpu.h"

#include "base/cuda_driver.h"

#include <pthread.h>

#define GPU_UUID_TEXT_BYTES 41u /* "GPU-" and 36 characters */

struct gpu {
    struct gpu *next;
    const cuda_driver_t *driver;
    uint8_t uuid[GPU_UUID_BYTES];
    CUdevice device;
    CUcontext primary; /* retained */
    CUstream copies;   /* waits for no other */
};

/** A stretch of GPU memory that the driver allocated, or mapped, at once. */
typedef struct gpu_extent {
    CUdeviceptr start;
    size_t bytes;
    unsigned long long id; /* of the buffer: another one at the same address has another */
} gpu_extent_t;

/** Registered memory: extents that adjoin. */
typedef struct gpu_import {
    uint32_t region; /* 0: it cannot be registered */
    uint32_t kind;   /* of its extents, as Blinkwire__GpuExtentKind */
    CUdeviceptr start;
    size_t bytes;
    uint32_t extent_count;
    gpu_extent_t extents[];
} gpu_import_t;

typedef struct gpu_imports {
    pthread_rwlock_t lock;
    pthread_mutex_t register_lock; /* one thread at a time exports; taken first */
    gpu_import_t **items;          /* this and the counts under the lock */
    size_t count, capacity;
} gpu_imports_t;

struct gpus {
    blink_context_t *context;
    const cuda_driver_t *driver;
    pthread_mutex_t lock; /* for the list; what is in it stays */
    gpu_t *list;
    gpu_imports_t imports;
};

void gpu_imports_init(gpu_imports_t *imports);
void gpu_imports_fini(gpu_imports_t *imports);

void gpu_uuid_text(const uint8_t uuid[GPU_UUID_BYTES], char text[GPU_UUID_TEXT_BYTES]);

/** The UUID of a device, as text; "?" if the driver does not say. */
void gpu_device_text(const cuda_driver_t *driver, CUdevice device, char text[GPU_UUID_TEXT_BYTES]);

#endif
