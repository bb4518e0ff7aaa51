/*
 * Opening one extent, of which the caller knows that it lies within its allocation.
 */
#ifndef BLINK_WORKER_IMPORT_H
#define BLINK_WORKER_IMPORT_H

#include "gpu_worker/process/gpu.h"

/* The allocation behind a descriptor, for cuMemMap(). Errors: INVALID_ARGUMENT, NO_MEMORY, UNSUPPORTED (the
 * driver does not take it). */
blink_result_t worker_open_vmm(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                               CUmemGenericAllocationHandle *handle);

/* Of larger ones in a pool none is opened: cuMemPoolImportPointer() of driver 580 was seen to crash from 5.2
 * GiB on. */
#define WORKER_POOLED_MOST_BYTES (UINT64_C(4) << 30)

/* What a pool's descriptor and an allocation's name in it lead to: the allocation's first byte. The pool is
 * imported for the first of its allocations, and stays until the last is closed. Errors: the same. */
struct worker_pool;
blink_result_t worker_open_pooled(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent, int fd,
                                  struct worker_pool **pool, CUdeviceptr *address);
void worker_close_pooled(worker_t *worker, struct worker_pool *pool, CUdeviceptr address);

/* A handle that is open already is shared: the driver has one mapping of it. Errors: the same. */
blink_result_t worker_open_ipc(worker_t *worker, uint32_t gpu, const gpu_extent_t *extent,
                               CUdeviceptr *address);
void worker_close_ipc(worker_t *worker, uint32_t gpu, CUdeviceptr address);

/* Whether what has been mapped at an address is memory of this GPU. Errors: INVALID_ARGUMENT (it is
 * another's), UNSUPPORTED (the driver does not tell). */
blink_result_t worker_check_gpu(const worker_t *worker, uint32_t gpu, CUdeviceptr address);

/* Fail over memory that the driver does not take: UNSUPPORTED, for which clients stage it, or NO_MEMORY. */
blink_result_t worker_import_fail(const worker_t *worker, const char *call, CUresult result);

/* Make a call of the driver's about a client's memory; if it fails, return that from the calling function. */
#define WORKER_IMPORT_TRY(worker, call, ...)                                                                 \
    do {                                                                                                     \
        CUresult worker_import_result = (worker)->cu->call(__VA_ARGS__);                                     \
        if (worker_import_result != CUDA_SUCCESS)                                                            \
            return worker_import_fail((worker), #call, worker_import_result);                                \
    } while (0)

/* Log a call that failed while memory was given back, if it did. */
void worker_log_failure(const worker_t *worker, const char *call, CUresult result);

#endif
