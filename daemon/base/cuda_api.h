/*
 * cuda.h, as every file here includes it: of calls that have several versions it is to mean those that the
 * oldest driver has which blinkd supports, CUDA_API_OLDEST. Newer headers rename a call to its latest version
 * and no longer declare the earlier ones, although every driver keeps those.
 */
#ifndef BLINK_CUDA_API_H
#define BLINK_CUDA_API_H

#include <cuda.h>

/** As cuDriverGetVersion() says it; and how NVIDIA names the drivers. */
#define CUDA_API_OLDEST      12000
#define CUDA_API_OLDEST_TEXT "CUDA 12.0 (R525)"

#define CUDA_API_MAJOR(version) ((version) / 1000)
#define CUDA_API_MINOR(version) ((version) % 1000 / 10)

#if CUDA_VERSION < CUDA_API_OLDEST
#error "blinkd needs the cuda.h of CUDA 12.0 or later"
#endif

/* CUDA 12.8 has another one, for events of several contexts. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

/* CUDA 12.3 has another one, which tells more of the edges; nobody here asks for edges. */
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *number,
                                           CUgraph *graph, const CUgraphNode **dependencies,
                                           size_t *dependency_count);

/* Calls and names for switches that reduce came with CUDA 12.1. A driver may lack the calls: cuda_driver.h.
 */
#define CUDA_API_HAS_MULTICAST (CUDA_VERSION >= 12010)

/* Headers name it since CUDA 12.3; drivers before that answer with CUDA_ERROR_INVALID_VALUE. */
#define CU_DEVICE_ATTRIBUTE_MPS_ENABLED ((CUdevice_attribute)133)

#endif
