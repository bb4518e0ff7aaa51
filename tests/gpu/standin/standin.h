/*
 * A stand-in for libcuda.so.1: the calls of daemon/base/cuda_driver.h over host memory, for tests of several
 * processes on a machine without a GPU. Found only through LD_LIBRARY_PATH, never installed.
 *
 * Read from the environment, once per process:
 *   STANDIN_CUDA_GPUS     how many GPUs the machine has: 1 unless told otherwise, at most 16
 *   CUDA_VISIBLE_DEVICES  as for CUDA, numbers only: which of them this process sees, in which order
 *   CUDA_LAUNCH_BLOCKING  as for CUDA, 1: a launch returns when the kernel has ended
 *   STANDIN_CUDA_NO_PEER  1: no GPU reaches another's memory
 *   STANDIN_CUDA_MEMORY   bytes of a GPU that this process may allocate: 1 GiB
 *   STANDIN_CUDA_FAIL     "cuMemAlloc:3", "cuMemAlloc:3:2", "cuMemAlloc:3:hang", also several with
 *                         commas: the third call fails with CUDA_ERROR_UNKNOWN, or with the error of that
 *                         number, and does nothing; or it never returns
 *   STANDIN_CUDA_LOST     N: the N-th kernel never runs, and every call that could notice fails from then
 *                         on with CUDA_ERROR_ILLEGAL_ADDRESS
 *
 * Where it is simpler than CUDA: the NULL stream is a stream like others, that orders nothing but itself (the
 * per-thread default stream is the same one); a process is lost as a whole, not one context of it; releasing
 * the last reference to a primary context makes it unusable but frees nothing; kernels that run when the
 * process is lost run on; no launch waits for the multiprocessors that others occupy; fresh memory is zero.
 *
 * This header: what a call finds out before it does anything, devices and contexts.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STANDIN_GPUS_MAX = 16,
    STANDIN_MULTIPROCESSORS = 32,
    STANDIN_BLOCKS_PER_MULTIPROCESSOR = 2, /* that are resident at once */
    STANDIN_BLOCK_THREADS_MAX = 1024,
};

/** What a call cannot do without. Each includes those before it. */
typedef enum standin_need {
    STANDIN_NEEDS_NOTHING,
    STANDIN_NEEDS_DRIVER, /* cuInit(), in this process: not in its parent */
    STANDIN_NEEDS_HEALTH, /* the process is not lost */
    STANDIN_NEEDS_CONTEXT /* a current one */
} standin_need_t;

/** What to return at once, if not CUDA_SUCCESS: a failure that the environment asks for, or a need that is
 * not met. */
CUresult standin_enter(const char *call, standin_need_t need);

/** The first line of every call. `name` as in cuda.h's documentation, without version. */
#define STANDIN_ENTER(name, need)                                                                            \
    do {                                                                                                     \
        CUresult enter_ = standin_enter(#name, STANDIN_NEEDS_##need);                                        \
        if (enter_ != CUDA_SUCCESS)                                                                          \
            return enter_;                                                                                   \
    } while (0)

/** Pass a failure up. */
#define STANDIN_TRY(expression)                                                                              \
    do {                                                                                                     \
        CUresult try_ = (expression);                                                                        \
        if (try_ != CUDA_SUCCESS)                                                                            \
            return try_;                                                                                     \
    } while (0)

/** CUDA_SUCCESS, or what the process was lost by. Thread-safe. */
CUresult standin_health(void);

/** Lose the process. It is the caller's to wake who waits, as stream_lose() does. */
void standin_lose(CUresult error);

/** Count a kernel's launch. true: this is the one that the process is lost at. */
bool standin_launch_is_fatal(void);

/** What the environment says. */
typedef struct standin_settings {
    int gpus[STANDIN_GPUS_MAX]; /* by ordinal: which GPU of the machine that is */
    int gpu_count;              /* that this process sees */
    bool no_peer, launches_block;
    uint64_t memory_bytes;
    uint64_t fatal_launch; /* 0: none */
} standin_settings_t;

/** Valid from the first call on, and constant. */
const standin_settings_t *standin_settings(void);

/** One per device: the primary context. Lives as long as the process. */
struct CUctx_st {
    int ordinal;         /* constant */
    uint32_t references; /* under context.c's lock, as what follows */
    uint32_t peers;      /* bits by ordinal: enabled by cuCtxEnablePeerAccess() */
};

/** This thread's; NULL: none. */
CUcontext standin_context(void);

/** Of a device that this process sees, or NULL. */
CUcontext standin_context_of(CUdevice ordinal);

/** Whether it is one, and retained. */
bool standin_context_is_usable(CUcontext context);

/** Which device of this process a GPU of the machine is; -1: none, it is not visible. */
int standin_ordinal(int gpu);

/** Whether one device may use another's memory, or its own. */
bool standin_is_peer(CUdevice ordinal, CUdevice other);

#endif
