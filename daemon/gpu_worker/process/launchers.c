#include "gpu_worker/process/launchers.h"

#include "base/clock.h"
#include "base/log.h"
#include "gpu_worker/process/worker.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long a thread looks for the next launch before it sleeps: as the run thread does. */
#define SPIN_NS 100000u

/* To wake a thread costs the run thread about a third of a launch, and the thread comes a launch later: that
 * is worth it from so many launches on. Threads that are awake take theirs up within 100 ns. */
#define WAKING_LAUNCHES 4u

/* ---- launching ---- */

/* Where there are several domains of memory synchronization, a kernel's fences wait for what kernels of its
 * own domain have stored: not for what applications on the same GPU do, which are in another one. */
static uint32_t list_attributes(const worker_launcher_t *launcher, CUlaunchAttribute attributes[2])
{
    uint32_t count = 0;
    if (launcher->launch.is_cooperative)
        attributes[count++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    if (launcher->gpu->has_domains)
        attributes[count++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                .value = {.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE}};
    return count;
}

static void make(worker_launcher_t *launcher)
{
    worker_launch_t *launch = &launcher->launch;
    void *arguments[] = {&launch->run};
    CUlaunchAttribute attributes[2];
    const CUlaunchConfig config = {.gridDimX = launch->blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = LANE_ABI_THREADS,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = launch->stream,
                                   .attrs = attributes,
                                   .numAttrs = list_attributes(launcher, attributes)};
    launch->result = launcher->cu->cuLaunchKernelEx(&config, launch->function, arguments, NULL);
    launch->is_made = launch->result == CUDA_SUCCESS;
}

/* False: the other thread has it, or there is none. */
static bool take(worker_launcher_t *launcher)
{
    uint32_t open = OFFER_OPEN;
    /* Acquire: pairs with offer(). */
    return atomic_compare_exchange_strong_explicit(&launcher->offer, &open, OFFER_TAKEN, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void finish(worker_launcher_t *launcher)
{
    /* Release: pairs with worker_launchers_make(). */
    atomic_store_explicit(&launcher->offer, OFFER_DONE, memory_order_release);
}

/* ---- a GPU's thread ---- */

/* Returns when there may be an offer. */
static void sleep_for_offer(worker_launcher_t *launcher)
{
    /* Sequentially consistent, as what offer() does: either this thread sees the offer, or the run thread
     * sees that it sleeps. */
    atomic_store(&launcher->is_asleep, 1);
    if (atomic_load(&launcher->offer) != OFFER_OPEN)
        syscall(SYS_futex, &launcher->is_asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    atomic_store(&launcher->is_asleep, 0);
}

static void await_offer(worker_launcher_t *launcher)
{
    uint64_t since_ns = clock_ns();
    /* Relaxed: take() looks again. */
    while (atomic_load_explicit(&launcher->offer, memory_order_relaxed) != OFFER_OPEN) {
        if (clock_ns() - since_ns < SPIN_NS)
            continue;
        sleep_for_offer(launcher);
        since_ns = clock_ns();
    }
}

static void *launcher_main(void *argument)
{
    worker_launcher_t *launcher = argument;
    char name[16]; /* as long as a thread's may be */
    snprintf(name, sizeof(name), "blinkd-gpu%u", launcher->gpu->number);
    prctl(PR_SET_NAME, name);
    CUresult result = launcher->cu->cuCtxSetCurrent(launcher->gpu->context);
    if (result != CUDA_SUCCESS) {
        cuda_driver_fail(launcher->cu, "cuCtxSetCurrent", result);
        LOG_WARNING("GPU %u has no thread that launches there: %s", launcher->gpu->number,
                    blink_error_text());
        return NULL;
    }
    for (;;) {
        await_offer(launcher);
        if (take(launcher)) {
            make(launcher);
            finish(launcher);
        }
    }
    return NULL;
}

blink_result_t worker_launchers_start(worker_t *worker)
{
    for (uint32_t i = 0; i < worker->gpu_count; i++) {
        worker->launchers[i].gpu = &worker->gpus[i];
        worker->launchers[i].cu = worker->cu;
    }
    worker->launches_at_once = worker->gpu_count > 1 && worker->start.processors > worker->gpu_count;
    for (uint32_t i = 0; i < worker->gpu_count && worker->launches_at_once; i++) {
        pthread_t thread;
        int error = pthread_create(&thread, NULL, launcher_main, &worker->launchers[i]);
        if (error != 0)
            return BLINK_FAIL(BLINK_ERR_SYSTEM, "start a launching thread: %s", strerror(error));
        pthread_detach(thread);
    }
    return BLINK_OK;
}

/* ---- the run thread ---- */

static void offer(worker_launcher_t *launcher, bool wakes)
{
    /* Sequentially consistent: see sleep_for_offer(). It is a release, too: pairs with take(). */
    atomic_store(&launcher->offer, OFFER_OPEN);
    if (!wakes || !atomic_load(&launcher->is_asleep))
        return;
    atomic_store(&launcher->is_asleep, 0);
    syscall(SYS_futex, &launcher->is_asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void make_here(worker_t *worker, worker_launcher_t *launcher)
{
    launcher->launch.result = worker->cu->cuCtxSetCurrent(launcher->gpu->context);
    if (launcher->launch.result == CUDA_SUCCESS)
        make(launcher);
}

void worker_launchers_make(worker_t *worker, uint32_t gpus)
{
    const uint32_t count = (uint32_t)__builtin_popcount(gpus);
    const bool shares = worker->launches_at_once && count > 1;
    bool failed = false;
    for (uint32_t left = shares ? gpus : 0; left; left &= left - 1)
        offer(&worker->launchers[__builtin_ctz(left)], count >= WAKING_LAUNCHES);
    for (uint32_t left = gpus; left; left &= left - 1) {
        worker_launcher_t *launcher = &worker->launchers[__builtin_ctz(left)];
        if (shares && !take(launcher))
            continue;
        if (!failed)
            make_here(worker, launcher);
        failed |= !launcher->launch.is_made;
        finish(launcher);
    }
    for (uint32_t left = gpus; left; left &= left - 1) {
        worker_launcher_t *launcher = &worker->launchers[__builtin_ctz(left)];
        while (atomic_load_explicit(&launcher->offer, memory_order_acquire) != OFFER_DONE) /* finish() */
            sched_yield();
    }
}
