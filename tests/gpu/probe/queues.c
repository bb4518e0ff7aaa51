/* Question 14: what streams of one process, and imports of pools, cost each other. Nothing of it is wrong
 * whatever the answer, but ops are late where it is slow. */
#include "probe.h"

#include <pthread.h>

enum {
    FULL_OPS = 1 << 15,
    SETTLE_MS = 200,
    CALL_MS = 1000,
    END_MS = 6000,
    FUNCTIONS = 4,
    FUNCTION_MS = 20,
    IMPORTS = 20,
    POOL_BYTES = 1 << 20
};
enum { GATE = 0, FILLED = 16, CALLED = 32, LINES = 48 }; /* words, a cache line each */
enum { STAGE_SENT, STAGE_OVER };

/* ---- 14a: a stream that is full, and a call on another ---- */

typedef struct full {
    probe_t *p;
    CUdeviceptr device_words;
    CUstream blocked, other;
    _Atomic unsigned sent;
    _Atomic bool is_filled, is_called; /* a thread's word to the main one, release and acquire */
    double call_us;
} full_t;

static bool fill(full_t *full)
{
    probe_t *p = full->p;
    PROBE_TRY(probe_be_current(p));
    for (unsigned i = 0; i < FULL_OPS; i++) {
        PROBE_CU(cuStreamWriteValue64(full->blocked, full->device_words + FILLED * sizeof(uint32_t), i,
                                      CU_STREAM_WRITE_VALUE_DEFAULT));
        atomic_store_explicit(&full->sent, i + 1, memory_order_relaxed);
    }
    return true;
}

static void *fill_in_thread(void *argument)
{
    full_t *full = argument;
    if (fill(full))
        atomic_store_explicit(&full->is_filled, true, memory_order_release);
    return NULL;
}

static bool call(full_t *full)
{
    probe_t *p = full->p;
    const uint64_t start_ns = probe_now_ns();
    PROBE_TRY(probe_be_current(p));
    PROBE_CU(cuStreamWriteValue64(full->other, full->device_words + CALLED * sizeof(uint32_t), 1,
                                  CU_STREAM_WRITE_VALUE_DEFAULT));
    full->call_us = (double)(probe_now_ns() - start_ns) * 1e-3;
    return true;
}

static void *call_in_thread(void *argument)
{
    full_t *full = argument;
    if (call(full))
        atomic_store_explicit(&full->is_called, true, memory_order_release);
    return NULL;
}

/* Until the thread that fills the stream has done, or gets no further. */
static void await_full(full_t *full)
{
    unsigned before, now = 0;
    do {
        before = now;
        if (probe_becomes_true(&full->is_filled, SETTLE_MS))
            return;
        now = atomic_load_explicit(&full->sent, memory_order_relaxed);
    } while (now > before);
}

static bool ask_full(probe_t *p)
{
    full_t full = {.p = p};
    uint32_t *words;
    pthread_t filler, caller;
    PROBE_TRY(probe_open(p, p->question->mode) && probe_host_words(p, LINES, &words, &full.device_words) &&
              probe_stream(p, &full.blocked) && probe_stream(p, &full.other));
    PROBE_CU(cuStreamWaitValue64(full.blocked, full.device_words, 1, CU_STREAM_WAIT_VALUE_GEQ));
    PROBE_TRY(pthread_create(&filler, NULL, fill_in_thread, &full) == 0);
    await_full(&full);
    const bool is_full = !atomic_load_explicit(&full.is_filled, memory_order_acquire);
    const unsigned sent = atomic_load_explicit(&full.sent, memory_order_relaxed);
    PROBE_TRY(pthread_create(&caller, NULL, call_in_thread, &full) == 0);
    const bool is_called = probe_becomes_true(&full.is_called, CALL_MS);
    probe_store(&words[GATE], 1);
    if (!is_full)
        probe_answer(p, PROBE_PASS, "%u ops behind one that waits do not fill a stream", sent);
    else
        probe_answer(p, is_called ? PROBE_PASS : PROBE_FAIL,
                     "a stream is full with %u ops; a call on another stream meanwhile %s", sent,
                     is_called ? "returns" : "WAITS");
    if (is_called)
        probe_number(p, "the call on the other stream: %.0f us", full.call_us);
    return probe_becomes_true(&full.is_filled, END_MS) && probe_sync(p, full.blocked, END_MS) &&
           probe_sync(p, full.other, END_MS);
}

/* ---- 14b: functions of the host in several streams ---- */

static void CUDA_CB sleep_in_stream(void *argument)
{
    (void)argument;
    probe_sleep_ms(FUNCTION_MS);
}

static bool ask_functions(probe_t *p)
{
    CUstream streams[FUNCTIONS];
    PROBE_TRY(probe_open(p, p->question->mode));
    for (unsigned i = 0; i < FUNCTIONS; i++)
        PROBE_TRY(probe_stream(p, &streams[i]));
    const uint64_t start_ns = probe_now_ns();
    for (unsigned i = 0; i < FUNCTIONS; i++)
        PROBE_CU(cuLaunchHostFunc(streams[i], sleep_in_stream, NULL));
    for (unsigned i = 0; i < FUNCTIONS; i++)
        PROBE_TRY(probe_sync(p, streams[i], END_MS));
    const double ms = (double)(probe_now_ns() - start_ns) * 1e-6;
    probe_answer(p, PROBE_PASS, "%d functions of %d ms, on a stream each, take %.0f ms: %s", FUNCTIONS,
                 FUNCTION_MS, ms,
                 ms < 0.75 * FUNCTIONS * FUNCTION_MS ? "they run at the same time" : "one after the other");
    return true;
}

/* ---- 14c: a pool, imported anew for every allocation ---- */

static bool export_pool(probe_t *p)
{
    const CUmemPoolProps property = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemoryPool pool;
    CUdeviceptr address;
    CUstream stream;
    int fd;
    PROBE_TRY(probe_open(p, p->question->mode) && probe_stream(p, &stream));
    PROBE_CU(cuMemPoolCreate(&pool, &property));
    PROBE_CU(cuMemAllocFromPoolAsync(&address, POOL_BYTES, pool, stream));
    PROBE_TRY(probe_sync(p, stream, 2000));
    PROBE_CU(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    PROBE_CU(cuMemPoolExportPointer(&p->board->pool_pointer, address));
    PROBE_TRY(probe_send_fd(p, fd));
    probe_reach(p, STAGE_SENT);
    return probe_await(p, STAGE_OVER, 2 * END_MS);
}

static bool import_pool(probe_t *p, int fd, double *import_us, double *close_us)
{
    CUmemPoolPtrExportData pointer = p->board->pool_pointer;
    CUmemoryPool pool;
    CUdeviceptr address;
    const uint64_t start_ns = probe_now_ns();
    PROBE_CU(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    PROBE_CU(cuMemPoolImportPointer(&address, pool, &pointer));
    const uint64_t there_ns = probe_now_ns();
    PROBE_CU(cuMemFree(address));
    PROBE_CU(cuMemPoolDestroy(pool));
    *import_us = (double)(there_ns - start_ns) * 1e-3;
    *close_us = (double)(probe_now_ns() - there_ns) * 1e-3;
    return true;
}

static bool ask_pools(probe_t *p)
{
    double import_us[IMPORTS], close_us[IMPORTS];
    pid_t exporter;
    int fd;
    PROBE_TRY(probe_actor(p, export_pool, &exporter) && probe_open(p, p->question->mode) &&
              probe_await(p, STAGE_SENT, 10000) && probe_receive_fd(p, &fd));
    for (unsigned i = 0; i < IMPORTS; i++)
        PROBE_TRY(import_pool(p, fd, &import_us[i], &close_us[i]));
    const double imported_us = probe_numbers(p, "us to import", import_us, IMPORTS);
    const double closed_us = probe_numbers(p, "us to close", close_us, IMPORTS);
    probe_answer(p, PROBE_PASS, "to import a pool and an allocation of it takes %.0f us, to close both %.0f",
                 imported_us, closed_us);
    probe_reach(p, STAGE_OVER);
    return true;
}

/* ---- 14d: what waits for an op on the NULL stream ---- */

enum { BLOCKING = 16, NON_BLOCKING = 32 };

static bool mark(probe_t *p, CUstream stream, CUdeviceptr word)
{
    uint32_t value = 1;
    return probe_launch(p, PROBE_MARK, 1, 1, stream, (void *[]){&word, &value});
}

static bool ask_null_stream(probe_t *p)
{
    CUdeviceptr device_words;
    CUstream blocking, non_blocking;
    uint32_t *words;
    PROBE_TRY(probe_open(p, p->question->mode) && probe_host_words(p, LINES, &words, &device_words) &&
              probe_stream(p, &non_blocking));
    PROBE_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    PROBE_CU(cuStreamWaitValue64(CU_STREAM_LEGACY, device_words, 1, CU_STREAM_WAIT_VALUE_GEQ));
    PROBE_TRY(mark(p, non_blocking, device_words + NON_BLOCKING * sizeof(uint32_t)) &&
              mark(p, blocking, device_words + BLOCKING * sizeof(uint32_t)));
    const bool runs = probe_spin_until(&words[NON_BLOCKING], 1, CALL_MS);
    const bool blocking_runs = probe_spin_until(&words[BLOCKING], 1, SETTLE_MS);
    probe_store(&words[GATE], 1);
    probe_answer(p, runs ? PROBE_PASS : PROBE_FAIL,
                 "while the NULL stream waits, kernels on non-blocking streams %s, on others they %s",
                 runs ? "run" : "WAIT, too", blocking_runs ? "run as well" : "wait, too");
    return probe_sync(p, blocking, END_MS) && probe_sync(p, non_blocking, END_MS);
}

const probe_question_t probe_queue_questions[] = {
    {"14a", "a call on a stream while a thread is blocked because another stream is full",
     "a thread that is blocked by a full stream holds no lock that calls on other streams need", ask_full, 0,
     PROBE_ISOLATED, 20},
    {"14b", "functions of the host in several streams",
     "staged ops on streams copy by such functions, which may have to take turns", ask_functions, 0,
     PROBE_ISOLATED, 20},
    {"14c", "a pool imported and closed again and again",
     "as memory of pools is registered, for every allocation anew", ask_pools, 0, PROBE_ISOLATED, 20},
    {"14d", "what waits while the NULL stream waits for its op",
     "streams that were created as non-blocking go on, as the library's own are", ask_null_stream, 0,
     PROBE_ISOLATED, 20},
    {0},
};
