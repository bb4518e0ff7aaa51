/*
 * Ranges for NVIDIA's profilers (NVTX): what a thread does in a call of the library, shown beside its
 * kernels. Without a profiler a range is a load and a branch at either end. Built without the header of NVTX
 * there are none.
 */
#ifndef CLIENT_RANGE_H
#define CLIENT_RANGE_H

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

static inline void range_begin(const char *name)
{
    (void)nvtxRangePushA(name);
}

static inline void range_end(void)
{
    (void)nvtxRangePop();
}

#else

static inline void range_begin(const char *name)
{
    (void)name;
}

static inline void range_end(void) {}

#endif

#endif
