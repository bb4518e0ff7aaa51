/* Questions 3 and 7: one GPU, two processes. blinkd takes for granted that without MPS the kernels of daemon
 * and application take turns, that blocked streams cost others nothing, and that copy engines run beside
 * foreign kernels. */
#include "probe.h"

#include <stdio.h>

enum { SAMPLES = 4000, MEASURE_MS = 600, WORK_ROUNDS = 20000, JUMPS = 2000 };

/* ---- 3: kernels beside a blocked wait or a spinning kernel ---- */

/* Kernels of an application, one after the other; the rate tells what share of the GPU it had. */
static bool time_work(probe_t *p, CUstream stream, CUdeviceptr out, const char *when, double *per_s)
{
    static double us[SAMPLES];
    char what[96];
    unsigned count = 0;
    uint32_t rounds = WORK_ROUNDS;
    const uint64_t start_ns = probe_now_ns();
    uint64_t last_ns = start_ns;
    while (count < SAMPLES && last_ns - start_ns < MEASURE_MS * UINT64_C(1000000)) {
        PROBE_TRY(probe_launch(p, PROBE_WORK, (unsigned)p->multiprocessors, 256, stream,
                               (void *[]){&out, &rounds}));
        PROBE_TRY(probe_sync(p, stream, 12000));
        const uint64_t now_ns = probe_now_ns();
        us[count++] = (double)(now_ns - last_ns) * 1e-3;
        last_ns = now_ns;
    }
    *per_s = count / ((double)(last_ns - start_ns) * 1e-9);
    snprintf(what, sizeof(what), "us per kernel %s", when);
    probe_numbers(p, what, us, count);
    return true;
}

/* How long this process has the GPU at a time, and how long it is without. */
static bool time_slices(probe_t *p, CUstream stream)
{
    static double on_us[JUMPS], off_us[JUMPS];
    enum { COUNT_AT = 2 * JUMPS };
    uint32_t *words, capacity = JUMPS;
    CUdeviceptr from, to, count;
    PROBE_TRY(probe_host_words(p, 2 * (COUNT_AT + 1), &words, &from));
    const uint64_t *from_ns = (const uint64_t *)(const void *)words, *to_ns = from_ns + JUMPS;
    uint64_t run_ns = MEASURE_MS * UINT64_C(1000000), jump_ns = 30000;
    to = from + JUMPS * sizeof(uint64_t);
    count = from + COUNT_AT * sizeof(uint64_t);
    PROBE_TRY(probe_launch(p, PROBE_SLICES, 1, 1, stream,
                           (void *[]){&run_ns, &jump_ns, &from, &to, &count, &capacity}));
    PROBE_TRY(probe_sync(p, stream, 12000));
    const uint32_t found = words[2 * COUNT_AT];
    for (uint32_t i = 0; i < found; i++)
        off_us[i] = (double)(to_ns[i] - from_ns[i]) * 1e-3;
    for (uint32_t i = 1; i < found; i++)
        on_us[i - 1] = (double)(from_ns[i] - to_ns[i - 1]) * 1e-3;
    probe_numbers(p, "us of a slice of ours", on_us, found ? found - 1 : 0);
    probe_numbers(p, "us taken off the GPU", off_us, found);
    return true;
}

static bool ask_progress(probe_t *p)
{
    const neighbour_t kind = (neighbour_t)p->question->variant;
    CUstream stream;
    CUdeviceptr out;
    double alone_per_s, beside_per_s;
    PROBE_TRY(neighbour_fork(p, kind));
    PROBE_TRY(probe_open(p, p->question->mode) && probe_stream(p, &stream));
    PROBE_CU(cuMemAlloc(&out, sizeof(uint32_t)));
    PROBE_TRY(neighbour_ready(p));
    PROBE_TRY(time_work(p, stream, out, "beside an idle process", &alone_per_s));
    PROBE_TRY(neighbour_begin(p));
    PROBE_TRY(time_work(p, stream, out, "beside it", &beside_per_s));
    PROBE_TRY(time_slices(p, stream));
    PROBE_TRY(neighbour_end(p));
    const double share = beside_per_s / alone_per_s;
    /* Without MPS two busy processes take turns, so any fair share will do; otherwise nearly all must be
     * left. */
    const bool takes_turns = p->question->mode == PROBE_ISOLATED && kind != NEIGHBOUR_WAIT;
    probe_answer(p, share >= (takes_turns ? 0.2 : 0.8) ? PROBE_PASS : PROBE_FAIL,
                 "the other process goes on at %.0f%% of the kernels per second it had beside an idle one",
                 share * 100);
    return true;
}

/* ---- 7: copies beside a kernel that fills the GPU ---- */

enum { BULK_BYTES = 256 << 20, SMALL_BYTES = 4096, COPIES = 200, COPY_MS = 400 };
typedef enum direction { DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, DIRECTIONS } direction_t;
static const char *const direction_names[DIRECTIONS] = {"device to device", "device to host",
                                                        "host to device"};

typedef struct copy_buffers {
    CUdeviceptr device[2];
    uint32_t *host;
} copy_buffers_t;

static bool copy(probe_t *p, const copy_buffers_t *buffers, direction_t direction, size_t bytes,
                 CUstream stream)
{
    if (direction == DEVICE_TO_DEVICE)
        PROBE_CU(cuMemcpyDtoDAsync(buffers->device[1], buffers->device[0], bytes, stream));
    else if (direction == DEVICE_TO_HOST)
        PROBE_CU(cuMemcpyDtoHAsync(buffers->host, buffers->device[0], bytes, stream));
    else
        PROBE_CU(cuMemcpyHtoDAsync(buffers->device[1], buffers->host, bytes, stream));
    return probe_sync(p, stream, 12000);
}

/* Copies of both sizes; the bulk's rate is returned. Stops early where copies wait for the neighbour's
 * kernel. */
static bool time_copies(probe_t *p, const copy_buffers_t *buffers, direction_t direction, CUstream stream,
                        const char *when, double *GBps)
{
    static double us[COPIES];
    char what[96];
    double median_us = 0;
    for (unsigned is_small = 0; is_small < 2; is_small++) {
        const size_t bytes = is_small ? SMALL_BYTES : BULK_BYTES;
        const uint64_t end_ns = probe_now_ns() + COPY_MS * UINT64_C(1000000);
        unsigned count = 0;
        do {
            const uint64_t start_ns = probe_now_ns();
            PROBE_TRY(copy(p, buffers, direction, bytes, stream));
            us[count++] = (double)(probe_now_ns() - start_ns) * 1e-3;
        } while (count < COPIES && probe_now_ns() < end_ns);
        snprintf(what, sizeof(what), "us %s %s, %s", direction_names[direction],
                 is_small ? "4 KiB" : "256 MiB", when);
        const double this_us = probe_numbers(p, what, us, count);
        if (!is_small)
            median_us = this_us;
    }
    *GBps = BULK_BYTES / (median_us * 1e3);
    return true;
}

static bool ask_copy_engine(probe_t *p)
{
    CUstream stream;
    copy_buffers_t buffers;
    CUdeviceptr host_alias;
    double alone[DIRECTIONS], beside[DIRECTIONS];
    PROBE_TRY(neighbour_fork(p, NEIGHBOUR_FILL));
    PROBE_TRY(probe_open(p, p->question->mode) && probe_stream(p, &stream));
    PROBE_CU(cuMemAlloc(&buffers.device[0], BULK_BYTES));
    PROBE_CU(cuMemAlloc(&buffers.device[1], BULK_BYTES));
    PROBE_TRY(probe_host_words(p, BULK_BYTES / sizeof(uint32_t), &buffers.host, &host_alias));
    PROBE_TRY(neighbour_ready(p));
    for (direction_t d = 0; d < DIRECTIONS; d++)
        PROBE_TRY(time_copies(p, &buffers, d, stream, "alone", &alone[d]));
    PROBE_TRY(neighbour_begin(p));
    for (direction_t d = 0; d < DIRECTIONS; d++)
        PROBE_TRY(time_copies(p, &buffers, d, stream, "beside", &beside[d]));
    PROBE_TRY(neighbour_end(p));
    const bool is_independent = beside[DEVICE_TO_DEVICE] >= 0.8 * alone[DEVICE_TO_DEVICE];
    probe_answer(p, is_independent ? PROBE_PASS : PROBE_FAIL,
                 "GB/s alone and beside a kernel that fills the GPU: device to device %.0f and %.0f, device "
                 "to host %.1f and %.1f, host "
                 "to device %.1f and %.1f",
                 alone[0], beside[0], alone[1], beside[1], alone[2], beside[2]);
    return true;
}

#define ASSUME_WAIT   "a stream blocked at a word takes nothing from another process"
#define ASSUME_TURNS  "without MPS kernels of two processes take turns, whatever they do"
#define ASSUME_BESIDE "under MPS the daemon's few blocks run beside the application's"
#define ASSUME_FULL                                                                                          \
    "under MPS a kernel that fills the GPU holds others back (a FAIL here is why the daemon keeps to a "     \
    "budget)"
#define ASSUME_COPY "a move on a copy engine keeps 0.8 of its rate beside a foreign kernel that fills the GPU"

const probe_question_t probe_share_questions[] = {
    {"3a", "another process's kernels beside a blocked stream wait", ASSUME_WAIT, ask_progress,
     NEIGHBOUR_WAIT, PROBE_ISOLATED, 20},
    {"3b", "beside a spinning block; time slices", ASSUME_TURNS, ask_progress, NEIGHBOUR_SPIN, PROBE_ISOLATED,
     20},
    {"3c", "beside a spinning kernel that fills the GPU; time slices", ASSUME_TURNS, ask_progress,
     NEIGHBOUR_FILL, PROBE_ISOLATED, 20},
    {"3d", "3a under MPS", ASSUME_WAIT, ask_progress, NEIGHBOUR_WAIT, PROBE_MPS, 20},
    {"3e", "3b under MPS", ASSUME_BESIDE, ask_progress, NEIGHBOUR_SPIN, PROBE_MPS, 20},
    {"3f", "3c under MPS", ASSUME_FULL, ask_progress, NEIGHBOUR_FILL, PROBE_MPS, 25},
    {"7a", "copies beside another process's kernel that fills the GPU", ASSUME_COPY, ask_copy_engine, 0,
     PROBE_ISOLATED, 25},
    {"7b", "7a under MPS", ASSUME_COPY, ask_copy_engine, 0, PROBE_MPS, 25},
    {0},
};
