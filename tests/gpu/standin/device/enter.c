/* What every call finds out first: what the environment asks for, whether the driver is ready and the process
 * alive. */
#include "standin/standin.h"
#include "standin/streams/stream.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_MEMORY_BYTES (UINT64_C(4) << 30)

enum { DEFAULT_QUEUES = 8, FAILURES_MAX = 8, CALL_NAME_BYTES = 64, LAUNCH_DELAY_NS = 2000000 };

/* One of STANDIN_CUDA_FAIL. */
typedef struct failure {
    char call[CALL_NAME_BYTES];
    uint64_t number;
    CUresult error;
    bool hangs; /* it does not fail: it never returns */
    _Atomic uint64_t calls;
} failure_t;

static struct {
    standin_settings_t settings;
    failure_t failures[FAILURES_MAX];
    unsigned failure_count;
    _Atomic int process; /* that called cuInit(); 0: none */
    _Atomic int lost;    /* the error; 0: not lost */
    _Atomic uint64_t launches;
} driver;

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* As CUDA reads the list: up to the first entry that is no GPU's number. */
static void read_visible(standin_settings_t *settings, int machine_gpus)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text) {
        for (int i = 0; i < machine_gpus; i++)
            settings->gpus[settings->gpu_count++] = i;
        return;
    }
    while (settings->gpu_count < STANDIN_GPUS_MAX) {
        char *end;
        long gpu = strtol(text, &end, 10);
        if (end == text || gpu < 0 || gpu >= machine_gpus)
            return;
        settings->gpus[settings->gpu_count++] = (int)gpu;
        if (*end != ',')
            return;
        text = end + 1;
    }
}

/* The GPUs of a group, "0+1+2+3", reach one another. A list that says something else is the test's mistake.
 */
static const char *read_group(standin_settings_t *settings, const char *text)
{
    uint32_t group = 0;
    for (char *end;; text = end + 1) {
        unsigned long gpu = strtoul(text, &end, 10);
        if (end == text || gpu >= STANDIN_GPUS_MAX || !strchr("+,", *end)) {
            fprintf(stderr, "stand-in: STANDIN_CUDA_PEERS: no GPUs joined by '+': %s\n", text);
            abort();
        }
        group |= UINT32_C(1) << gpu;
        text = end;
        if (*end != '+')
            break;
    }
    for (int gpu = 0; gpu < STANDIN_GPUS_MAX; gpu++)
        settings->peers[gpu] |= group >> gpu & 1 ? group : 0;
    return text;
}

static void read_peers(standin_settings_t *settings)
{
    const char *text = getenv("STANDIN_CUDA_PEERS");
    memset(settings->peers, text ? 0 : 0xff, sizeof(settings->peers));
    while (text && *text) {
        text = read_group(settings, text);
        text += *text == ',';
    }
}

static void read_strangers(standin_settings_t *settings)
{
    const char *text = getenv("STANDIN_CUDA_STRANGERS");
    settings->refuses_users = text && strstr(text, "user");
    settings->refuses_networks = text && strstr(text, "network");
}

/* One "call:number[:error]", or "call:number:hang". */
static void read_failure(const char *text, size_t length)
{
    failure_t *failure = &driver.failures[driver.failure_count];
    size_t name_length = strcspn(text, ":,");
    if (name_length >= CALL_NAME_BYTES || name_length >= length)
        return;
    memcpy(failure->call, text, name_length);
    char *end;
    failure->number = strtoull(text + name_length + 1, &end, 10);
    failure->hangs = strncmp(end, ":hang", strlen(":hang")) == 0;
    failure->error = *end == ':' ? (CUresult)strtoul(end + 1, NULL, 10) : CUDA_ERROR_UNKNOWN;
    driver.failure_count++;
}

static void read_environment(void)
{
    standin_settings_t *settings = &driver.settings;
    uint64_t machine_gpus = number_from("STANDIN_CUDA_GPUS", 1);
    read_visible(settings, machine_gpus < STANDIN_GPUS_MAX ? (int)machine_gpus : STANDIN_GPUS_MAX);
    settings->has_no_ids = number_from("STANDIN_CUDA_NO_IDS", 0) != 0;
    settings->keeps_ordinals = number_from("STANDIN_CUDA_ORDINALS", 0) != 0;
    settings->has_no_dma_bufs = number_from("STANDIN_CUDA_DMA_BUFS", 1) == 0;
    settings->orders_writes = (int)number_from("STANDIN_CUDA_ORDERING", 0);
    read_peers(settings);
    settings->loses_contexts = number_from("STANDIN_CUDA_LOST_ALONE", 0) != 0;
    settings->multiprocessors = (uint32_t)number_from("STANDIN_CUDA_RESIDENCY", STANDIN_MULTIPROCESSORS);
    settings->is_exclusive = number_from("STANDIN_CUDA_EXCLUSIVE", 0) != 0;
    settings->has_mps = number_from("STANDIN_CUDA_MPS", 0) != 0;
    settings->has_short_words = number_from("STANDIN_CUDA_WORDS", 64) < 64;
    settings->opens_alone = number_from("STANDIN_CUDA_IPC_ALONE", 0) != 0;
    settings->has_residency = getenv("STANDIN_CUDA_RESIDENCY") != NULL;
    settings->has_lock = number_from("STANDIN_CUDA_LOCK", 0) != 0;
    settings->launches_block = number_from("CUDA_LAUNCH_BLOCKING", 0) != 0;
    settings->version = (int)number_from("STANDIN_CUDA_VERSION", CUDA_VERSION);
    settings->memory_bytes = number_from("STANDIN_CUDA_MEMORY", DEFAULT_MEMORY_BYTES);
    settings->fatal_launch = number_from("STANDIN_CUDA_LOST", 0);
    if (number_from("STANDIN_CUDA_QUEUES", 0) != 0)
        settings->queues = (uint32_t)number_from("CUDA_DEVICE_MAX_CONNECTIONS", DEFAULT_QUEUES);
    settings->switch_objects = (uint32_t)number_from("STANDIN_CUDA_SWITCH", 0);
    settings->depth = (uint32_t)number_from("STANDIN_CUDA_DEPTH", 0);
    settings->capability = (int)number_from("STANDIN_CUDA_CAPABILITY", 90);
    settings->domains = (int)number_from("STANDIN_CUDA_DOMAINS", 1);
    settings->meeting = (uint32_t)number_from("STANDIN_CUDA_MEET", 0);
    settings->faults = getenv("STANDIN_CUDA_FAULTS");
    settings->shared = getenv("STANDIN_CUDA_SHARED");
    read_strangers(settings);
    const char *text = getenv("STANDIN_CUDA_FAIL");
    while (text && *text && driver.failure_count < FAILURES_MAX) {
        size_t length = strcspn(text, ",");
        read_failure(text, length);
        text += length + (text[length] == ',');
    }
}

const standin_settings_t *standin_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    return &driver.settings;
}

/* After which, cuda.h says, any further work returns the same error. */
static bool is_sticky(CUresult error)
{
    return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_TIMEOUT ||
           error == CUDA_ERROR_ASSERT || error == CUDA_ERROR_EXTERNAL_DEVICE ||
           error == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
           (error >= CUDA_ERROR_HARDWARE_STACK_ERROR && error <= CUDA_ERROR_LAUNCH_FAILED);
}

static CUresult asked_failure(const char *call)
{
    for (unsigned i = 0; i < driver.failure_count; i++) {
        failure_t *failure = &driver.failures[i];
        if (strcmp(failure->call, call) != 0 || atomic_fetch_add(&failure->calls, 1) + 1 != failure->number)
            continue;
        while (failure->hangs)
            pause();
        if (is_sticky(failure->error))
            stream_lose(standin_context(), failure->error);
        return failure->error;
    }
    return CUDA_SUCCESS;
}

CUresult standin_health_of(CUcontext context)
{
    const int lost = context ? atomic_load(&context->lost) : 0;
    return (CUresult)(lost ? lost : atomic_load(&driver.lost));
}

CUresult standin_health(void)
{
    return standin_health_of(standin_context());
}

void standin_lose(CUcontext context, CUresult error)
{
    int expected = 0;
    _Atomic int *lost = context && standin_settings()->loses_contexts ? &context->lost : &driver.lost;
    atomic_compare_exchange_strong(lost, &expected, (int)error); /* the first reason stays */
}

/* A line at once is written whole, whoever else writes. */
void standin_fault(const char *format, ...)
{
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    int file = open(standin_settings()->faults, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    line[length] = '\n';
    if (file < 0 || write(file, line, (size_t)length + 1) < 0) {
        perror("stand-in: STANDIN_CUDA_FAULTS");
        abort();
    }
    close(file);
}

bool standin_launch_is_fatal(void)
{
    return atomic_fetch_add(&driver.launches, 1) + 1 == standin_settings()->fatal_launch;
}

static bool is_one_of(const char *call, const char *const *calls)
{
    while (*calls && strcmp(*calls, call) != 0)
        calls++;
    return *calls != NULL;
}

/* STANDIN_CUDA_LOCK. A launch comes a little late to the lock, so that others may come before it. */
static CUresult pass_lock(const char *call)
{
    static const char *const launch[] = {"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuLaunchKernelEx",
                                         NULL};
    static const char *const wait[] = {"cuMemAlloc",
                                       "cuMemFree",
                                       "cuMemAllocHost",
                                       "cuMemHostAlloc",
                                       "cuMemFreeHost",
                                       "cuMemHostRegister",
                                       "cuMemUnmap",
                                       "cuMemHostUnregister",
                                       "cuMemSetAccess",
                                       "cuStreamCreate",
                                       "cuIpcCloseMemHandle",
                                       "cuMemPoolDestroy",
                                       NULL};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const bool launches = is_one_of(call, launch), waits = is_one_of(call, wait);
    CUresult result = CUDA_SUCCESS;
    if (!launches && !waits)
        return result;
    if (launches)
        nanosleep(&(struct timespec){.tv_nsec = LAUNCH_DELAY_NS}, NULL);
    pthread_mutex_lock(&lock);
    if (waits)
        result = stream_await(NULL, NULL);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult standin_enter(const char *call, standin_need_t need)
{
    standin_settings();
    STANDIN_TRY(asked_failure(call));
    if (need >= STANDIN_NEEDS_DRIVER && atomic_load(&driver.process) != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need >= STANDIN_NEEDS_HEALTH)
        STANDIN_TRY(standin_health_of(NULL)); /* of the process */
    if (need >= STANDIN_NEEDS_CONTEXT && !standin_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (need >= STANDIN_NEEDS_CONTEXT && !standin_context_is_usable(standin_context()))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (need >= STANDIN_NEEDS_CONTEXT)
        STANDIN_TRY(standin_health());
    return standin_settings()->has_lock ? pass_lock(call) : CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    STANDIN_ENTER(cuInit, NOTHING);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    int nobody = 0;
    atomic_compare_exchange_strong(&driver.process, &nobody, getpid());
    return atomic_load(&driver.process) == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDriverGetVersion(int *version)
{
    STANDIN_ENTER(cuDriverGetVersion, NOTHING);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = standin_settings()->version;
    return CUDA_SUCCESS;
}
