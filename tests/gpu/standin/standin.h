/*
 * A stand-in for libcuda.so.1: the calls of daemon/base/cuda_driver.h over host memory, and some that are
 * made besides by cuda.core, NVIDIA's package for Python; for tests of several processes on a machine without
 * a GPU. Found only through LD_LIBRARY_PATH, never installed.
 *
 * Read from the environment, once per process:
 *   STANDIN_CUDA_GPUS     how many GPUs the machine has: 1 unless told otherwise, at most 16
 *   CUDA_VISIBLE_DEVICES  as for CUDA, numbers only: which of them this process sees, in which order
 *   CUDA_LAUNCH_BLOCKING  as for CUDA, 1: a launch returns when the kernel has ended
 *   STANDIN_CUDA_PEERS    "0+1+2+3,0+4": GPUs of the machine, in groups in which each reaches the memory of
 *                         each; two that share no group do not reach each other's. Unset: all do; empty: none
 *   STANDIN_CUDA_CAPABILITY  the compute capability of GPUs, 90 (for 9.0) unless told otherwise; they can do
 *                         what they can all the same
 *   STANDIN_CUDA_VERSION  what cuDriverGetVersion() says: that of the cuda.h that this was built with
 *   STANDIN_CUDA_MEMORY   bytes of a GPU that this process may allocate: 4 GiB
 *   STANDIN_CUDA_FAIL     "cuMemAlloc:3", "cuMemAlloc:3:2", "cuMemAlloc:3:hang", also several with
 *                         commas: the third call fails with CUDA_ERROR_UNKNOWN, or with the error of that
 *                         number, and does nothing; or it never returns. With an error after which a context
 *                         is of no more use, as 700, an illegal address, the call only tells of it: all calls
 *                         do from then on
 *   STANDIN_CUDA_NO_IDS   1: no memory has a buffer id
 *   STANDIN_CUDA_ORDINALS 1: the properties of imported memory have the number of the GPU in the process that
 *                         exported it
 *   STANDIN_CUDA_FAULTS   a file to which a line is added for each thing that CUDA leaves undefined: a free
 *                         of memory of cuMemAlloc() or of a pool that another process has imported (which
 *                         then finds poison there, and the memory stays taken until it has closed it), and
 *                         an attribute of what cuMemFreeAsync() has freed
 *   STANDIN_CUDA_DMA_BUFS 0: no memory can be had as a dma-buf. Else a dma-buf is the memfd that the
 *                         memory lies in, behind a page that says what it is
 *   STANDIN_CUDA_ORDERING 100 or 200: what others than GPUs write to the memory of a GPU is in order for
 *                         that GPU, or for all
 *   STANDIN_CUDA_LOCK     1: one lock for all GPUs, which every launch takes, and which calls that may wait
 *                         for a GPU hold while they wait for all that all GPUs have to do
 *   STANDIN_CUDA_DOMAINS  N: GPUs have N domains of memory synchronization, 1 unless told otherwise. With one
 *                         no launch may name a domain; with several, kernels of lanes must be in the remote
 *                         one. CUDA is content with either
 *   STANDIN_CUDA_SWITCH   N: a switch joins all GPUs, which reduces and copies, and has room for N multicast
 *                         objects; 0 unless told otherwise: there is none
 *   STANDIN_CUDA_MEET     N: no launch returns before N launches have been called at the same time
 *   STANDIN_CUDA_QUEUES   1: a context has as many queues as CUDA_DEVICE_MAX_CONNECTIONS says, 8 unless
 *                         it says something, and streams share them: what one of them waits for holds up
 *                         what was put on the others of its queue later
 *   STANDIN_CUDA_DEPTH    N: a stream holds N operations; who puts another one there waits until one has run
 *   STANDIN_CUDA_LOST     N: the N-th kernel never runs, and every call that could notice fails from then on
 *                         with CUDA_ERROR_ILLEGAL_ADDRESS
 *   STANDIN_CUDA_LOST_ALONE  1: only the context of that kernel is lost, as for CUDA, not other GPUs'
 *   STANDIN_CUDA_EXCLUSIVE   1: GPUs say that they are in compute mode EXCLUSIVE_PROCESS
 *   STANDIN_CUDA_MPS         1: and that an MPS daemon serves the process
 *   STANDIN_CUDA_WORDS       32: streams neither write nor await words of 64 bits
 *   STANDIN_CUDA_IPC_ALONE   1: what cuIpcOpenMemHandle() has opened is reached by the GPU of the context in
 *                         which it was opened alone, and not by peers
 *   STANDIN_CUDA_RESIDENCY   N: a GPU has N multiprocessors, at most 32, and blocks wait until it has room
 *                         for them: those of a cooperative launch until there is room for all of them,
 *                         those of others one by one
 *   STANDIN_CUDA_SHARED   a file: all processes that name it share the GPUs. With STANDIN_CUDA_MPS the blocks
 *                         of all of them count for STANDIN_CUDA_RESIDENCY; without it they take turns:
 * kernels of one process at a time run on a GPU, and are stopped for those of another after 2 ms. A process
 * that is killed leaves its room, or its turn, to the others STANDIN_CUDA_STRANGERS  "user", "network", or
 * both with a comma: cuIpcOpenMemHandle() refuses handles of processes of another user, of another network
 * namespace. Those of another PID namespace it always refuses, as CUDA does; of the others nobody says.
 * Descriptors are nobody's
 *
 * It has the calls of the oldest driver that blinkd supports and those that blinkd can do without, and no
 * others (exports.map). The same in standin/too_old/ lacks one of the first, cuStreamGetId(), and in
 * standin/no_multicast/ one of the others, cuMulticastCreate().
 *
 * Where it is simpler than CUDA: the NULL stream is a stream like others, that orders nothing but itself (the
 * per-thread default stream is the same one); kernels are kept from memory that their GPU does not reach
 * before they start, by what the program of their lanes names (streams/reach.c); a process is lost as a
 * whole, unless the environment says otherwise; releasing the last reference to a primary context makes it
 * unusable but frees nothing; kernels that run when the process is lost run on; multiprocessors are those of
 * one process, and it has all time, unless the environment says otherwise; fresh
 * memory is zero.
 *
 * This header: what a call finds out before it does anything, devices and contexts.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include "base/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STANDIN_GPUS_MAX = 16,
    STANDIN_MULTIPROCESSORS = 32,          /* unless the environment says otherwise */
    STANDIN_BLOCKS_PER_MULTIPROCESSOR = 2, /* that are resident at once */
    STANDIN_BLOCK_THREADS_MAX = 1024,
};

/** What a call cannot do without. Each includes those before it. */
typedef enum standin_need {
    STANDIN_NEEDS_NOTHING,
    STANDIN_NEEDS_DRIVER, /* cuInit(), in this process: not in its parent */
    STANDIN_NEEDS_HEALTH, /* the process is not lost */
    STANDIN_NEEDS_CONTEXT /* a current one, which is not lost */
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

/** CUDA_SUCCESS, or what a context (NULL: this thread's current one) was lost by, if only one was, or the
 * process. Thread-safe, as the next. */
CUresult standin_health(void);
CUresult standin_health_of(CUcontext context);

/** Lose the context, or the process (NULL: that). It is the caller's to wake who waits, as stream_lose()
 * does. */
void standin_lose(CUcontext context, CUresult error);

/** STANDIN_CUDA_FAULTS: add a line. */
void standin_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Count a kernel's launch. true: this is the one that the process is lost at. */
bool standin_launch_is_fatal(void);

/** What the environment says. */
typedef struct standin_settings {
    int gpus[STANDIN_GPUS_MAX];       /* by ordinal: which GPU of the machine that is */
    int gpu_count;                    /* that this process sees */
    uint32_t peers[STANDIN_GPUS_MAX]; /* by GPU of the machine: a bit for each that it reaches */
    bool launches_block, has_lock, has_no_ids, keeps_ordinals, loses_contexts, has_residency, is_exclusive,
        has_mps;
    bool has_no_dma_bufs, has_short_words, opens_alone, refuses_users, refuses_networks;
    int orders_writes;        /* CUGPUDirectRDMAWritesOrdering */
    uint32_t multiprocessors; /* of a GPU */
    uint32_t switch_objects;  /* multicast objects that there may be */
    int capability;           /* 90 for 9.0 */
    int domains;              /* of memory synchronization */
    uint32_t meeting;         /* launches that wait for each other; 0: none do */
    uint32_t queues;          /* that the streams of a context share; 0: each has its own */
    uint32_t depth;           /* operations that a stream holds; 0: any number */
    int version;              /* of the driver */
    uint64_t memory_bytes;
    uint64_t fatal_launch; /* 0: none */
    const char *faults;    /* STANDIN_CUDA_FAULTS; NULL: nobody wants to know */
    const char *shared;    /* STANDIN_CUDA_SHARED; NULL: each process has the GPUs for itself */
} standin_settings_t;

/** Valid from the first call on, and constant. */
const standin_settings_t *standin_settings(void);

/** One per device: the primary context. Lives as long as the process. */
struct CUctx_st {
    int ordinal;         /* constant */
    uint32_t references; /* under context.c's lock, as what follows */
    uint32_t peers;      /* bits by ordinal: enabled by cuCtxEnablePeerAccess() */
    _Atomic int lost;    /* STANDIN_CUDA_LOST_ALONE: the error; 0: not lost */
};

/** This thread's; NULL: none. */
CUcontext standin_context(void);

/** Make a context current in a thread of the stand-in's own. */
void standin_use(CUcontext context);

/** Of a device that this process sees, or NULL. */
CUcontext standin_context_of(CUdevice ordinal);

/** Whether it is one, and retained. */
bool standin_context_is_usable(CUcontext context);

/** Which device of this process a GPU of the machine is; -1: none, it is not visible. */
int standin_ordinal(int gpu);

/** Whether one device could use another's memory, or its own. */
bool standin_is_peer(CUdevice ordinal, CUdevice other);

/** Whether one device may use what another's context holds: cuCtxEnablePeerAccess() has said so, or it is its
 * own. */
bool standin_has_peer(CUdevice ordinal, CUdevice other);

#endif
