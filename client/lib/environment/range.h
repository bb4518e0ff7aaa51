/*
 * Ranges for NVIDIA's profilers (NVTX): what a thread does in a call of the library, shown beside its
 * kernels. Without a profiler a range is a load and a branch at either end. Built without the header of NVTX
 * there are none.
 */
#ifndef CLIENT_RANGE_H
#define CLIENT_RANGE_H

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static inline void range_find_profiler(void)
{
    nvtxInitialize(NULL);
}

/* Before the process's threads have ranges: NVTX looks for a profiler at the first use, without a lock. */
static inline void range_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, range_find_profiler);
}

static inline void range_begin(const char *name)
{
    (void)nvtxRangePushA(name);
}

static inline void range_end(void)
{
    (void)nvtxRangePop();
}

#else

static inline void range_prepare(void) {}

static inline void range_begin(const char *name)
{
    (void)name;
}

static inline void range_end(void) {}

#endif

#endif
