/*
 * Whose memory a pointer is: what the driver knows of a buffer of the application, and of the allocations it
 * lies in. Visiting the GPU.
 */
#ifndef CLIENT_GPU_POINTER_H
#define CLIENT_GPU_POINTER_H

#include "base/vec.h"
#include "gpu/device.h"
#include "gpu/rank_gpu.h"

/** A buffer. */
typedef struct gpu_memory {
    const char *what; /* "send" or "recv", for sentences */
    CUdeviceptr address;
    size_t bytes;
    unsigned long long id;      /* of the allocation; what the driver does not know has none */
    int ordinal;                /* of the GPU that it is on */
    bool on_device, is_managed; /* in GPU memory, or managed memory; the latter */
} gpu_memory_t;

/** A stretch of GPU memory that the driver allocated, or mapped, at once. */
typedef struct gpu_extent {
    CUdeviceptr start;
    size_t bytes;
    unsigned long long id; /* of the allocation: another one at the same address has another; 0: not known */
} gpu_extent_t;

/** Extents that adjoin, in their order. */
typedef VEC(gpu_extent_t) gpu_extents_t;

/** What the driver does not know is ordinary memory. */
gpu_memory_t gpu_memory_ask(const cuda_driver_t *driver, const char *what, const void *pointer, size_t bytes);

/** A rank's GPU memory must be on the rank's GPU. Errors: INVALID_ARGUMENT (names both GPUs). */
blink_result_t gpu_memory_check(const cuda_driver_t *driver, const rank_gpu_t *rank, const gpu_t *gpu,
                                const gpu_memory_t *memory);

/** The id of the allocation that is at an address now; 0 if there is none, or the driver does not say. */
unsigned long long gpu_memory_id(const cuda_driver_t *driver, CUdeviceptr address);

/** Whether the driver says that the allocation of this id is not at the address any more. */
bool gpu_memory_is_gone(const cuda_driver_t *driver, CUdeviceptr address, unsigned long long id);

/** Whether the memory at this address, which is allocated, is of a memory pool. */
bool gpu_is_pooled(const cuda_driver_t *driver, CUdeviceptr address);

/** Find the extents that a buffer lies in; what was in the array goes. Errors: OUT_OF_RANGE (the buffer
 * passes the end of its memory), SYSTEM, NO_MEMORY. */
blink_result_t gpu_memory_extents(const cuda_driver_t *driver, const gpu_memory_t *memory,
                                  gpu_extents_t *extents);

/** Whether the memory at this address is a mapping of the virtual memory management: only such extents can
 * adjoin in one registration. */
bool gpu_is_mapping(const cuda_driver_t *driver, CUdeviceptr address);

#endif
