/* What every call finds out first: what the environment asks for, whether the driver is ready and the process
 * alive. */
#include "standin/standin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MEMORY_BYTES (UINT64_C(1) << 30)

enum { FAILURES_MAX = 8, CALL_NAME_BYTES = 64 };

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
    settings->no_peer = number_from("STANDIN_CUDA_NO_PEER", 0) != 0;
    settings->launches_block = number_from("CUDA_LAUNCH_BLOCKING", 0) != 0;
    settings->memory_bytes = number_from("STANDIN_CUDA_MEMORY", DEFAULT_MEMORY_BYTES);
    settings->fatal_launch = number_from("STANDIN_CUDA_LOST", 0);
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

static CUresult asked_failure(const char *call)
{
    for (unsigned i = 0; i < driver.failure_count; i++) {
        failure_t *failure = &driver.failures[i];
        if (strcmp(failure->call, call) != 0 || atomic_fetch_add(&failure->calls, 1) + 1 != failure->number)
            continue;
        while (failure->hangs)
            pause();
        return failure->error;
    }
    return CUDA_SUCCESS;
}

CUresult standin_health(void)
{
    return (CUresult)atomic_load(&driver.lost);
}

void standin_lose(CUresult error)
{
    int expected = 0;
    atomic_compare_exchange_strong(&driver.lost, &expected, (int)error); /* the first reason stays */
}

bool standin_launch_is_fatal(void)
{
    return atomic_fetch_add(&driver.launches, 1) + 1 == standin_settings()->fatal_launch;
}

CUresult standin_enter(const char *call, standin_need_t need)
{
    standin_settings();
    STANDIN_TRY(asked_failure(call));
    if (need >= STANDIN_NEEDS_DRIVER && atomic_load(&driver.process) != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need >= STANDIN_NEEDS_HEALTH)
        STANDIN_TRY(standin_health());
    if (need >= STANDIN_NEEDS_CONTEXT && !standin_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (need >= STANDIN_NEEDS_CONTEXT && !standin_context_is_usable(standin_context()))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_SUCCESS;
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
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
