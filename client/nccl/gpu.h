/* The GPU of a communicator, and being on it. */
#ifndef CLIENT_NCCL_GPU_H
#define CLIENT_NCCL_GPU_H

#include "fail.h"

#include "base/cuda_driver.h"

/** A CUDA context, and the number that CUDA gives to its GPU. */
typedef struct nccl_gpu {
    CUcontext context;
    int ordinal;
    bool retained; /* the context is this GPU's primary one, and is to be released */
} nccl_gpu_t;

/** The driver. Errors: SYSTEM_ERROR, INVALID_USAGE. */
abi_result_t nccl_driver(const cuda_driver_t **driver);

/** Fail with CUDA_ERROR, naming the driver's call; ABI_SUCCESS for CUDA_SUCCESS. */
abi_result_t nccl_cuda_result(const cuda_driver_t *driver, const char *call, CUresult result);

#define NCCL_CUDA_TRY(driver, name, ...)                                                                     \
    NCCL_TRY(nccl_cuda_result((driver), #name, (driver)->name(__VA_ARGS__)))

/** The GPU that is current in this thread. If none is, GPU 0 becomes so, as with CUDA's runtime. */
abi_result_t nccl_gpu_current(nccl_gpu_t *gpu);

/** The GPU with this number, by its primary context. */
abi_result_t nccl_gpu_numbered(int ordinal, nccl_gpu_t *gpu);

/** The same GPU for another communicator, to be released on its own. */
abi_result_t nccl_gpu_again(const nccl_gpu_t *gpu, nccl_gpu_t *again);

void nccl_gpu_release(const nccl_gpu_t *gpu);

/** Make the GPU current, if it is not: what the NULL stream is depends on it. *entered is for the other. */
abi_result_t nccl_gpu_enter(const nccl_gpu_t *gpu, bool *entered);
void nccl_gpu_leave(bool entered);

#endif
