/* Questions 10 to 12: what happens beside a kernel of this process that spins. The GPU worker maps, registers
 * and frees memory on one thread while another launches the halves of a run, which wait for one another on
 * the GPUs. A call that waits for kernels is a stall; one that launches wait for, too, is a deadlock. */
#include "probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BYTES = 8 << 20,
    HOST_BYTES = 1 << 20,
    COPY_BYTES = 64 << 20,
    WAIT_MS = 400,
    LAUNCH_MS = 2000,
    END_MS = 6000,
    LAUNCHES = 200
};
enum { STAGE_SENT, STAGE_OVER };
enum { STOP = 0, STARTED = 16, MARKED = 32, OTHER = 48, LINES = 64 }; /* words, a cache line each */

typedef struct beside {
    probe_t *p;
    uint32_t *words;
    CUdeviceptr device_words;
    CUstream spinning, other;
    /* What the call is about, as far as it is prepared beforehand. */
    void *host;
    share_t share;
    CUmemoryPool pool;
    /* One thread's word to the main one, release and acquire. */
    _Atomic bool is_called, is_launched, is_right;
    double call_us, launch_us;
} beside_t;

/* ---- the calls ---- */

static bool prepare_nothing(beside_t *b)
{
    (void)b;
    return true;
}

static bool prepare_pages(beside_t *b)
{
    b->host = aligned_alloc(4096, HOST_BYTES);
    return b->host != NULL;
}

static bool host_alloc(beside_t *b)
{
    probe_t *p = b->p;
    PROBE_CU(cuMemHostAlloc(&b->host, HOST_BYTES, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    return true;
}

static bool host_free(beside_t *b)
{
    probe_t *p = b->p;
    PROBE_CU(cuMemFreeHost(b->host));
    return true;
}

static bool host_register(beside_t *b)
{
    probe_t *p = b->p;
    PROBE_CU(
        cuMemHostRegister(b->host, HOST_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
    return true;
}

static bool prepare_registered(beside_t *b)
{
    return prepare_pages(b) && host_register(b);
}

static bool host_unregister(beside_t *b)
{
    probe_t *p = b->p;
    PROBE_CU(cuMemHostUnregister(b->host));
    return true;
}

static bool stream_create(beside_t *b)
{
    CUstream stream;
    return probe_stream(b->p, &stream);
}

static bool legacy_alloc(beside_t *b)
{
    return share_create(b->p, SHARE_LEGACY, BYTES, &b->share);
}

static bool legacy_free(beside_t *b)
{
    probe_t *p = b->p;
    PROBE_CU(cuMemFree(b->share.address));
    return true;
}

static bool vmm_create(beside_t *b)
{
    return share_create(b->p, SHARE_VMM, BYTES, &b->share);
}

static bool import_close(beside_t *b)
{
    return share_close_import(b->p, &b->share);
}

static bool legacy_open(beside_t *b)
{
    return share_receive(b->p, SHARE_LEGACY, BYTES, &b->share);
}

static bool prepare_pool(beside_t *b)
{
    probe_t *p = b->p;
    CUdeviceptr address;
    const CUmemPoolProps property = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    PROBE_CU(cuMemPoolCreate(&b->pool, &property));
    PROBE_CU(cuMemAllocFromPoolAsync(&address, BYTES, b->pool, b->other));
    PROBE_CU(cuMemFreeAsync(address, b->other));
    return probe_sync(p, b->other, 2000);
}

static bool pool_destroy(beside_t *b)
{
    probe_t *p = b->p;
    PROBE_CU(cuMemPoolDestroy(b->pool));
    return true;
}

typedef struct beside_call {
    bool (*prepare)(beside_t *b);
    bool (*call)(beside_t *b);
    bool has_exporter; /* of legacy memory */
} beside_call_t;

enum {
    HOST_ALLOC,
    HOST_FREE,
    HOST_REGISTER,
    HOST_UNREGISTER,
    STREAM_CREATE,
    LEGACY_ALLOC,
    LEGACY_FREE,
    VMM_CREATE,
    VMM_UNMAP,
    IPC_OPEN,
    IPC_CLOSE,
    POOL_DESTROY
};

static const beside_call_t calls[] = {
    [HOST_ALLOC] = {prepare_nothing, host_alloc, false},
    [HOST_FREE] = {host_alloc, host_free, false},
    [HOST_REGISTER] = {prepare_pages, host_register, false},
    [HOST_UNREGISTER] = {prepare_registered, host_unregister, false},
    [STREAM_CREATE] = {prepare_nothing, stream_create, false},
    [LEGACY_ALLOC] = {prepare_nothing, legacy_alloc, false},
    [LEGACY_FREE] = {legacy_alloc, legacy_free, false},
    [VMM_CREATE] = {prepare_nothing, vmm_create, false},
    [VMM_UNMAP] = {vmm_create, import_close, false},
    [IPC_OPEN] = {prepare_nothing, legacy_open, true},
    [IPC_CLOSE] = {legacy_open, import_close, true},
    [POOL_DESTROY] = {prepare_pool, pool_destroy, false},
};

/* ---- 10: a call, and a launch while it is under way ---- */

static void *call_in_thread(void *argument)
{
    beside_t *b = argument;
    const uint64_t start_ns = probe_now_ns();
    const bool is_right = probe_be_current(b->p) && calls[b->p->question->variant].call(b);
    b->call_us = (double)(probe_now_ns() - start_ns) * 1e-3;
    atomic_store_explicit(&b->is_right, is_right, memory_order_relaxed);
    atomic_store_explicit(&b->is_called, true, memory_order_release);
    return NULL;
}

static void *launch_in_thread(void *argument)
{
    beside_t *b = argument;
    CUdeviceptr flag = b->device_words + MARKED * sizeof(uint32_t);
    uint32_t value = 1;
    const uint64_t start_ns = probe_now_ns();
    if (probe_be_current(b->p) && probe_launch(b->p, PROBE_MARK, 1, 1, b->other, (void *[]){&flag, &value}) &&
        probe_spin_until(&b->words[MARKED], 1, END_MS)) {
        b->launch_us = (double)(probe_now_ns() - start_ns) * 1e-3;
        atomic_store_explicit(&b->is_launched, true, memory_order_release);
    }
    return NULL;
}

static bool start_spinning(beside_t *b, unsigned blocks, unsigned threads)
{
    CUdeviceptr started = b->device_words + STARTED * sizeof(uint32_t);
    CUdeviceptr stop = b->device_words + STOP * sizeof(uint32_t);
    uint64_t limit_ns = END_MS * UINT64_C(1000000) / 2; /* it ends by itself, whatever waits for it */
    PROBE_TRY(
        probe_launch(b->p, PROBE_SPIN, blocks, threads, b->spinning, (void *[]){&started, &stop, &limit_ns}));
    if (probe_spin_until(&b->words[STARTED], 1, 2000))
        return true;
    probe_note_error(b->p, "the spinning kernel did not start in 2 s");
    return false;
}

static bool open_beside(beside_t *b)
{
    probe_t *p = b->p;
    return probe_open(p, p->question->mode) && probe_host_words(p, LINES, &b->words, &b->device_words) &&
           probe_stream(p, &b->spinning) && probe_stream(p, &b->other);
}

static bool export_legacy(probe_t *p)
{
    share_t share;
    PROBE_TRY(probe_open(p, p->question->mode) && share_create(p, SHARE_LEGACY, BYTES, &share) &&
              share_send(p, &share));
    probe_reach(p, STAGE_SENT);
    return probe_await(p, STAGE_OVER, 2 * END_MS);
}

static void tell(beside_t *b, bool is_called, bool is_launched)
{
    char called[64], launched[64];
    snprintf(called, sizeof(called), "returns after %.0f us", b->call_us);
    snprintf(launched, sizeof(launched), "runs after %.0f us", b->launch_us);
    probe_answer(b->p, is_launched ? PROBE_PASS : PROBE_FAIL,
                 "beside the spinning kernel the call %s; a launch on another stream meanwhile %s",
                 is_called ? called : "waits for the kernel to end", is_launched ? launched : "WAITS, too");
}

static bool ask_beside(probe_t *p)
{
    const beside_call_t *call = &calls[p->question->variant];
    beside_t b = {.p = p};
    pthread_t caller, launcher;
    pid_t exporter;
    if (call->has_exporter)
        PROBE_TRY(probe_actor(p, export_legacy, &exporter));
    PROBE_TRY(open_beside(&b));
    if (call->has_exporter)
        PROBE_TRY(probe_await(p, STAGE_SENT, 10000));
    PROBE_TRY(call->prepare(&b) && start_spinning(&b, 1, 1));
    PROBE_TRY(pthread_create(&caller, NULL, call_in_thread, &b) == 0);
    bool is_called = probe_becomes_true(&b.is_called, WAIT_MS);
    PROBE_TRY(pthread_create(&launcher, NULL, launch_in_thread, &b) == 0);
    const bool is_launched = probe_becomes_true(&b.is_launched, LAUNCH_MS);
    is_called = is_called && atomic_load_explicit(&b.is_called, memory_order_acquire);
    tell(&b, is_called, is_launched);
    probe_store(&b.words[STOP], 1);
    if (!probe_becomes_true(&b.is_called, END_MS))
        probe_note_error(p, "the call did not return when the kernel had ended");
    else if (!atomic_load_explicit(&b.is_right, memory_order_relaxed))
        probe_answer(p, PROBE_NONE, "the call failed");
    probe_reach(p, STAGE_OVER);
    return true;
}

/* ---- 11: two cooperative launches of one context ---- */

static bool launch_cooperatively(beside_t *b, unsigned word, CUstream stream)
{
    probe_t *p = b->p;
    CUdeviceptr started = b->device_words + word * sizeof(uint32_t), stop = b->device_words;
    uint64_t limit_ns = END_MS * UINT64_C(1000000) / 2;
    PROBE_CU(cuLaunchCooperativeKernel(p->kernel[PROBE_SPIN], 1, 1, 1, 1, 1, 1, 0, stream,
                                       (void *[]){&started, &stop, &limit_ns}));
    return true;
}

static bool ask_cooperative(probe_t *p)
{
    beside_t b = {.p = p};
    PROBE_TRY(open_beside(&b));
    PROBE_TRY(launch_cooperatively(&b, STARTED, b.spinning));
    if (!probe_spin_until(&b.words[STARTED], 1, 2000)) {
        probe_note_error(p, "the first one did not start in 2 s");
        return false;
    }
    PROBE_TRY(launch_cooperatively(&b, OTHER, b.other));
    const bool is_beside = probe_spin_until(&b.words[OTHER], 1, WAIT_MS);
    probe_store(&b.words[STOP], 1);
    PROBE_TRY(probe_sync(p, b.spinning, END_MS) && probe_sync(p, b.other, END_MS));
    probe_answer(p, PROBE_PASS, "the second one %s",
                 is_beside ? "runs beside the first" : "begins when the first has ended");
    return true;
}

/* Of kernels that end at once. */
static bool time_launches(beside_t *b, bool is_cooperative, const char *what, double *median_us)
{
    probe_t *p = b->p;
    CUdeviceptr started = b->device_words + OTHER * sizeof(uint32_t), stop = b->device_words;
    uint64_t limit_ns = END_MS * UINT64_C(1000000) / 2;
    double us[LAUNCHES];
    for (unsigned i = 0; i < LAUNCHES; i++) {
        const uint64_t start_ns = probe_now_ns();
        PROBE_TRY(is_cooperative
                      ? launch_cooperatively(b, OTHER, b->other)
                      : probe_launch(p, PROBE_SPIN, 1, 1, b->other, (void *[]){&started, &stop, &limit_ns}));
        us[i] = (double)(probe_now_ns() - start_ns) * 1e-3;
        PROBE_TRY(probe_sync(p, b->other, END_MS));
    }
    *median_us = probe_numbers(p, what, us, LAUNCHES);
    return true;
}

static bool ask_launch_cost(probe_t *p)
{
    beside_t b = {.p = p};
    double warm_us, plain_us, cooperative_us;
    PROBE_TRY(open_beside(&b));
    probe_store(&b.words[STOP], 1);
    PROBE_TRY(time_launches(&b, true, "us to launch, first", &warm_us) &&
              time_launches(&b, false, "us to launch", &plain_us) &&
              time_launches(&b, true, "us to launch cooperatively", &cooperative_us));
    probe_answer(p, PROBE_PASS, "a cooperative launch takes %.1f us, another one %.1f", cooperative_us,
                 plain_us);
    return true;
}

/* ---- 12: does a copy within a GPU need its multiprocessors? ---- */

static bool ask_copy(probe_t *p)
{
    beside_t b = {.p = p};
    CUdeviceptr from, to;
    int blocks = 1;
    PROBE_TRY(open_beside(&b));
    PROBE_CU(cuMemAlloc(&from, COPY_BYTES));
    PROBE_CU(cuMemAlloc(&to, COPY_BYTES));
    PROBE_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, p->kernel[PROBE_SPIN], 1024, 0));
    PROBE_TRY(start_spinning(&b, (unsigned)(blocks * p->multiprocessors), 1024));
    const uint64_t start_ns = probe_now_ns();
    PROBE_CU(cuMemcpyDtoDAsync(to, from, COPY_BYTES, b.other));
    bool is_done = false;
    while (!is_done && probe_now_ns() - start_ns < WAIT_MS * UINT64_C(1000000))
        is_done = p->cu.cuStreamQuery(b.other) == CUDA_SUCCESS;
    probe_number(p, "%d MiB in %.0f us", COPY_BYTES >> 20, (double)(probe_now_ns() - start_ns) * 1e-3);
    probe_store(&b.words[STOP], 1);
    PROBE_TRY(probe_sync(p, b.spinning, END_MS) && probe_sync(p, b.other, END_MS));
    probe_answer(p, is_done ? PROBE_PASS : PROBE_FAIL,
                 is_done ? "the copy is done while a kernel has all multiprocessors"
                         : "the copy WAITS for multiprocessors");
    return true;
}

#define ASSUME_LAUNCH                                                                                        \
    "calls that map, register, free may wait for kernels, but no launch waits for such a call: a run that "  \
    "is launched half becomes whole"
#define BESIDE(letter, name, call)                                                                           \
    {                                                                                                        \
        "10" letter, name " beside a spinning kernel, and a launch meanwhile", ASSUME_LAUNCH, ask_beside,    \
            call, PROBE_ISOLATED, 20                                                                         \
    }

const probe_question_t probe_beside_questions[] = {
    BESIDE("a", "cuMemHostAlloc", HOST_ALLOC),
    BESIDE("b", "cuMemFreeHost", HOST_FREE),
    BESIDE("c", "cuMemHostRegister", HOST_REGISTER),
    BESIDE("d", "cuMemHostUnregister", HOST_UNREGISTER),
    BESIDE("e", "cuStreamCreate", STREAM_CREATE),
    BESIDE("f", "cuMemAlloc", LEGACY_ALLOC),
    BESIDE("g", "cuMemFree", LEGACY_FREE),
    BESIDE("h", "cuMemCreate, cuMemMap and cuMemSetAccess", VMM_CREATE),
    BESIDE("i", "cuMemUnmap and cuMemRelease", VMM_UNMAP),
    BESIDE("j", "cuIpcOpenMemHandle", IPC_OPEN),
    BESIDE("k", "cuIpcCloseMemHandle", IPC_CLOSE),
    BESIDE("l", "cuMemPoolDestroy", POOL_DESTROY),
    {"11", "two cooperative launches of one context, a stream each",
     "not relied upon: grants bound what is resident, in the same order on all GPUs", ask_cooperative, 0,
     PROBE_ISOLATED, 20},
    {"11b", "what a cooperative launch takes longer than another one",
     "launches are cooperative, which costs little", ask_launch_cost, 0, PROBE_ISOLATED, 20},
    {"12", "a copy within the GPU while a kernel has all multiprocessors",
     "copies go by copy engines, also within a GPU", ask_copy, 0, PROBE_ISOLATED, 20},
    {0},
};
