/*
 * The CUDA driver's calls, found at run time: nothing of blinkd links CUDA. Used by the daemon's GPU worker,
 * by the client library and by blink-perf; only where BLINK_HAVE_CUDA says that cuda.h was there to build
 * with.
 */
#ifndef BLINK_CUDA_DRIVER_H
#define BLINK_CUDA_DRIVER_H

#include "base/cuda_api.h"
#include "error.h"

#include <stdbool.h>

/* cuda.h renames many to a later version (cuMemAlloc is cuMemAlloc_v2), and so do these. The tests' stand-in
 * has those of the oldest driver only (tests/gpu/standin/exports.map). */
/* clang-format off */
#define CUDA_DRIVER_CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) \
    X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceGetPCIBusId) \
    X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDeviceCanAccessPeer) \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) X(cuCtxSetCurrent) \
    X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuCtxEnablePeerAccess) \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuFuncGetAttribute) X(cuLaunchKernelEx) \
    X(cuLaunchHostFunc) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamGetCtx) \
    X(cuStreamGetId) \
    X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) \
    X(cuEventElapsedTime) \
    X(cuStreamWriteValue64) X(cuStreamWaitValue64) X(cuStreamBatchMemOp) \
    X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo_v2) \
    X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuThreadExchangeStreamCaptureMode) \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy) \
    X(cuUserObjectCreate) X(cuGraphRetainUserObject) \
    X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemAllocHost) X(cuMemHostAlloc) X(cuMemFreeHost) \
    X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) \
    X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemsetD8) X(cuMemsetD8Async) \
    X(cuPointerGetAttribute) X(cuPointerGetAttributes) X(cuMemGetAddressRange) \
    X(cuMemGetHandleForAddressRange) \
    X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
    X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) \
    X(cuMemRelease) \
    X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemRetainAllocationHandle) \
    X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
    X(cuMemGetAllocationPropertiesFromHandle) \
    X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAccess) X(cuMemAllocFromPoolAsync) \
    X(cuMemFreeAsync) \
    X(cuMemPoolExportToShareableHandle) X(cuMemPoolImportFromShareableHandle) \
    X(cuMemPoolExportPointer) X(cuMemPoolImportPointer)

/* Those that a driver may lack: they are NULL then. */
#if CUDA_API_HAS_MULTICAST
#define CUDA_DRIVER_OPTIONAL_CALLS(X) \
    X(cuMulticastCreate) X(cuMulticastAddDevice) X(cuMulticastBindMem) X(cuMulticastUnbind) \
    X(cuMulticastGetGranularity)
#else
#define CUDA_DRIVER_OPTIONAL_CALLS(X)
#endif
/* clang-format on */

#define CUDA_DRIVER_FIELD(name) __typeof__(&name) name;
typedef struct cuda_driver {
    CUDA_DRIVER_CALLS(CUDA_DRIVER_FIELD)
    CUDA_DRIVER_OPTIONAL_CALLS(CUDA_DRIVER_FIELD)
} cuda_driver_t;
#undef CUDA_DRIVER_FIELD

/**
 * The driver, libcuda.so.1, found once per process; valid for ever, for it is never unloaded. Thread-safe.
 * cuInit() is the caller's.
 * @param load  whether to load it if this process has not. NULL, with the sentence recorded: NOT_FOUND (no
 * driver: the loader's reason, or that it is not loaded), UNSUPPORTED (it is too old: what it is, and which
 * call it lacks).
 */
const cuda_driver_t *cuda_driver_find(bool load);

/** Fail with SYSTEM, or NO_MEMORY if that is what the driver ran out of, naming the call and the driver's
 * error. */
blink_result_t cuda_driver_fail(const cuda_driver_t *driver, const char *call, CUresult result);

#define CUDA_DRIVER_TRY(driver, name, ...)                                                                   \
    do {                                                                                                     \
        CUresult cuda_result_ = (driver)->name(__VA_ARGS__);                                                 \
        if (cuda_result_ != CUDA_SUCCESS)                                                                    \
            return cuda_driver_fail((driver), #name, cuda_result_);                                          \
    } while (0)

#endif
