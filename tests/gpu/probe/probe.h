/* What the probe's files share: the driver's calls, one board per question that all its processes write on,
 * and the few helpers every question needs. A question runs in processes of its own that end with it, so
 * nothing is freed by hand. */
#ifndef BLINK_TESTS_GPU_PROBE_H
#define BLINK_TESTS_GPU_PROBE_H

#include "base/cuda_api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The driver's calls. cuda.h renames many to their current version (cuMemAlloc is cuMemAlloc_v2), and so do
 * these. */
/* clang-format off */
#define PROBE_CALLS(X) \
    X(cuInit) X(cuGetErrorName) X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetCount) \
    X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) \
    X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuStreamCreate) X(cuStreamQuery) \
    X(cuStreamWaitValue32) X(cuStreamWriteValue32) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
    X(cuStreamBatchMemOp) X(cuGraphInstantiate) \
    X(cuGraphLaunch) X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemHostAlloc) X(cuMemHostRegister) \
    X(cuMemHostGetDevicePointer) X(cuMemsetD32) X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) \
    X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuPointerGetAttribute) X(cuIpcGetMemHandle) \
    X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuMemAddressReserve) X(cuMemCreate) X(cuMemMap) \
    X(cuMemSetAccess) X(cuMemUnmap) X(cuMemRelease) X(cuMemExportToShareableHandle) \
    X(cuMemImportFromShareableHandle) X(cuMemGetAllocationPropertiesFromHandle) X(cuMemPoolCreate) \
    X(cuMemPoolDestroy) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemFreeHost) \
    X(cuMemHostUnregister) X(cuLaunchCooperativeKernel) X(cuStreamWaitValue64) X(cuStreamWriteValue64) \
    X(cuLaunchHostFunc) X(cuMemPoolExportToShareableHandle) X(cuMemPoolImportFromShareableHandle) \
    X(cuMemPoolExportPointer) X(cuMemPoolImportPointer)
/* clang-format on */

#define PROBE_FIELD(name) __typeof__(&name) name;
typedef struct probe_calls {
    PROBE_CALLS(PROBE_FIELD)
} probe_calls_t;
#undef PROBE_FIELD

typedef enum probe_kernel {
    PROBE_SPIN,
    PROBE_WORK,
    PROBE_SLICES,
    PROBE_READ,
    PROBE_MARK,
    PROBE_COUNT,
    PROBE_ECHO,
    PROBE_KERNELS
} probe_kernel_t;

typedef enum probe_mode { PROBE_ISOLATED, PROBE_MPS } probe_mode_t;
typedef enum probe_verdict { PROBE_NONE, PROBE_PASS, PROBE_FAIL, PROBE_UNSUPPORTED } probe_verdict_t;

enum { PROBE_STAGES = 8, PROBE_ERRORS = 6, PROBE_WORDS = 16 };

/* Shared by the main program and all processes of one question; what was written before a crash is still
 * reported. */
typedef struct probe_board {
    probe_verdict_t verdict;
    char answer[1024];
    char numbers[2048];
    _Atomic uint32_t error_count;
    char error[PROBE_ERRORS][160];
    _Atomic bool is_unsupported; /* some call said CUDA_ERROR_NOT_SUPPORTED */
    _Atomic bool is_actor_lost;  /* some actor gave up: nobody need wait for it */
    _Atomic uint32_t stage[PROBE_STAGES];
    _Atomic uint64_t word[PROBE_WORDS];
    CUipcMemHandle ipc_handle;
    CUmemPoolPtrExportData pool_pointer;
} probe_board_t;

typedef struct probe probe_t;

typedef struct probe_question {
    const char *number;
    const char *asked;
    const char *assumed; /* what blinkd takes for granted; PASS and FAIL are against this */
    bool (*run)(probe_t *p);
    int variant;       /* the question's own */
    probe_mode_t mode; /* MPS: asked only while an MPS daemon runs */
    unsigned deadline_s;
} probe_question_t;

extern const probe_question_t probe_word_questions[], probe_stream_questions[], probe_share_questions[],
    probe_memory_questions[], probe_beside_questions[], probe_stranger_questions[],
    probe_queue_questions[]; /* each ends with a NULL number */

struct probe {
    const probe_question_t *question;
    probe_board_t *board;
    const char *libcuda;     /* file name or path */
    const char *mps_pipe;    /* CUDA_MPS_PIPE_DIRECTORY of the running MPS daemon, or NULL */
    const char *no_mps_pipe; /* a path at which there is none */
    int fd_socket[2];        /* descriptors go from [0] to [1] */
    probe_calls_t cu;        /* valid after probe_open, in this process only */
    CUdevice device;
    CUfunction kernel[PROBE_KERNELS];
    int multiprocessors;
};

/* Records a failed call by name on the board; true if it succeeded. */
bool probe_ok(probe_t *p, const char *call, CUresult result);
#define PROBE_CU(call)                                                                                       \
    do {                                                                                                     \
        if (!probe_ok(p, #call, p->cu.call))                                                                 \
            return false;                                                                                    \
    } while (0)
#define PROBE_TRY(expression)                                                                                \
    do {                                                                                                     \
        if (!(expression))                                                                                   \
            return false;                                                                                    \
    } while (0)

const char *probe_error_name(const probe_t *p, CUresult result);
void probe_note_error(probe_t *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void probe_answer(probe_t *p, probe_verdict_t verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends to the row's numbers. */
void probe_number(probe_t *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sorts the samples, appends "what: median, p99, min" and returns the median; 0 if there are none. */
double probe_numbers(probe_t *p, const char *what, double *samples, size_t count);

/* driver.c: loads libcuda (once per process, never before a fork) and initialises it. */
bool probe_load(probe_t *p);
/* probe_load in a process that is or is not a client of MPS, then device 0, its primary context and the
 * kernels. */
bool probe_open(probe_t *p, probe_mode_t mode);
/* In another thread of the process: the primary context. */
bool probe_be_current(probe_t *p);
bool probe_launch(probe_t *p, probe_kernel_t kernel, unsigned blocks, unsigned threads, CUstream stream,
                  void **arguments);
bool probe_stream(probe_t *p, CUstream *stream);
/* Waits for the stream by asking, so that a stream that never ends only costs its question the time. */
bool probe_sync(probe_t *p, CUstream stream, unsigned timeout_ms);
/* Zeroed pinned words that the CPU and the device see. */
bool probe_host_words(probe_t *p, size_t count, uint32_t **words, CUdeviceptr *device);

/* stage.c: processes and clocks. */
uint64_t probe_now_ns(void);
void probe_sleep_ms(unsigned ms);
/* Waits until another thread has stored true. */
bool probe_becomes_true(const _Atomic bool *word, unsigned timeout_ms);
/* Forks a process that runs role and ends; it dies with its parent. Fork before probe_open. */
bool probe_actor(probe_t *p, bool (*role)(probe_t *), pid_t *pid);
void probe_reach(probe_t *p, unsigned stage);
bool probe_await(probe_t *p, unsigned stage, unsigned timeout_ms);
/* Spins until the word, which a device or another process writes, is at least value. */
bool probe_spin_until(const uint32_t *word, uint32_t value, unsigned timeout_ms);
void probe_store(uint32_t *word, uint32_t value);
uint32_t probe_fetch(const uint32_t *word);
bool probe_send_fd(probe_t *p, int fd);
bool probe_receive_fd(probe_t *p, int *fd);

/* neighbour.c: the other process that holds the GPU in one of these ways. */
typedef enum neighbour { NEIGHBOUR_NONE, NEIGHBOUR_WAIT, NEIGHBOUR_SPIN, NEIGHBOUR_FILL } neighbour_t;
/* Forks it (before probe_open) in the question's mode; once ready it is idle until begun, and holds for at
 * most 10 s. */
bool neighbour_fork(probe_t *p, neighbour_t kind);
bool neighbour_ready(probe_t *p);
bool neighbour_begin(probe_t *p);
bool neighbour_end(probe_t *p);

/* share.c: device memory exported and imported in two ways. */
typedef enum share_way { SHARE_LEGACY, SHARE_VMM } share_way_t;
typedef struct share {
    share_way_t way;
    CUdeviceptr address;
    size_t bytes; /* a multiple of 2 MiB */
    CUmemGenericAllocationHandle handle;
} share_t;
bool share_create(probe_t *p, share_way_t way, size_t bytes, share_t *share);
/* Frees and allocates again; VMM at the same address, legacy wherever the driver puts it. */
bool share_renew(probe_t *p, share_t *share);
bool share_send(probe_t *p, const share_t *share);
bool share_receive(probe_t *p, share_way_t way, size_t bytes, share_t *share);
bool share_close_import(probe_t *p, share_t *share);
bool share_fill(probe_t *p, const share_t *share, uint32_t value);
bool share_buffer_id(probe_t *p, CUdeviceptr address, uint64_t *id);

#endif
