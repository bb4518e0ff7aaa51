/* libcuda at run time: finding it, one context on device 0 in the wanted mode, the kernels, and the few calls
 * that every question makes. The daemon loads CUDA with dlopen; whether that does is tried here. */
#include "probe.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The kernels as nvcc left them. */
__asm__(".section .rodata\n"
        ".balign 64\n"
        "probe_fatbin:\n"
        ".incbin \"" PROBE_FATBIN "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const unsigned char probe_fatbin[];

static const char *const kernel_names[PROBE_KERNELS] = {
    [PROBE_SPIN] = "probe_spin", [PROBE_WORK] = "probe_work", [PROBE_SLICES] = "probe_slices",
    [PROBE_READ] = "probe_read", [PROBE_MARK] = "probe_mark", [PROBE_COUNT] = "probe_count",
    [PROBE_ECHO] = "probe_echo",
};

const char *probe_error_name(const probe_t *p, CUresult result)
{
    const char *name = NULL;
    if (p->cu.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        return "an unnamed error";
    return name;
}

bool probe_ok(probe_t *p, const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return true;
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        atomic_store_explicit(&p->board->is_unsupported, true, memory_order_relaxed);
    probe_note_error(p, "%.*s: %s (%d)", (int)strcspn(call, "("), call, probe_error_name(p, result),
                     (int)result);
    return false;
}

#define NAME_OF(name)     NAME_OF_ONE(name)
#define NAME_OF_ONE(name) #name
/* dlsym's pointer is copied, as ISO C has no conversion from it to a function's. */
#define FIND(name)                                                                                           \
    symbol = dlsym(library, NAME_OF(name));                                                                  \
    memcpy(&p->cu.name, symbol ? (const void *)&symbol : (const void *)&none, sizeof(symbol));

/* In the place of a call that this driver does not have: only the questions that need it go without an
 * answer. */
static CUresult not_there(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool probe_load(probe_t *p)
{
    void *library = dlopen(p->libcuda, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        probe_note_error(p, "no CUDA driver: %s", dlerror());
        return false;
    }
    void *symbol;
    CUresult (*const none)(void) = not_there;
    PROBE_CALLS(FIND)
    PROBE_CU(cuInit(0));
    return true;
}

bool probe_open(probe_t *p, probe_mode_t mode)
{
    /* A process is a client of MPS if it finds the daemon's pipe. Kernels loaded lazily could wait for a
     * spinning one. */
    setenv("CUDA_MPS_PIPE_DIRECTORY", mode == PROBE_MPS ? p->mps_pipe : p->no_mps_pipe, 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    PROBE_TRY(probe_load(p));

    CUcontext context;
    CUmodule module;
    int is_mps = 0;
    PROBE_CU(cuDeviceGet(&p->device, 0));
    PROBE_CU(cuDeviceGetAttribute(&p->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, p->device));
    PROBE_CU(cuDevicePrimaryCtxRetain(&context, p->device));
    PROBE_CU(cuCtxSetCurrent(context));
    /* Said in the row only: drivers older than the attribute do not know it. */
    if (p->cu.cuDeviceGetAttribute(&is_mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, p->device) == CUDA_SUCCESS &&
        (is_mps != 0) != (mode == PROBE_MPS))
        probe_note_error(p, "the driver says that this context is %s of MPS",
                         is_mps ? "a client" : "no client");
    PROBE_CU(cuModuleLoadData(&module, probe_fatbin));
    for (unsigned i = 0; i < PROBE_KERNELS; i++)
        PROBE_CU(cuModuleGetFunction(&p->kernel[i], module, kernel_names[i]));
    return true;
}

bool probe_launch(probe_t *p, probe_kernel_t kernel, unsigned blocks, unsigned threads, CUstream stream,
                  void **arguments)
{
    PROBE_CU(cuLaunchKernel(p->kernel[kernel], blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL));
    return true;
}

bool probe_stream(probe_t *p, CUstream *stream)
{
    PROBE_CU(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    return true;
}

bool probe_sync(probe_t *p, CUstream stream, unsigned timeout_ms)
{
    const uint64_t end_ns = probe_now_ns() + timeout_ms * UINT64_C(1000000);
    CUresult result;
    do {
        result = p->cu.cuStreamQuery(stream);
    } while (result == CUDA_ERROR_NOT_READY && probe_now_ns() < end_ns);
    if (result == CUDA_ERROR_NOT_READY) {
        probe_note_error(p, "a stream was not done after %u ms", timeout_ms);
        return false;
    }
    return probe_ok(p, "stream", result);
}

bool probe_host_words(probe_t *p, size_t count, uint32_t **words, CUdeviceptr *device)
{
    void *memory;
    PROBE_CU(cuMemHostAlloc(&memory, count * sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
    memset(memory, 0, count * sizeof(uint32_t));
    PROBE_CU(cuMemHostGetDevicePointer(device, memory, 0));
    *words = memory;
    return true;
}

bool probe_be_current(probe_t *p)
{
    CUcontext context;
    PROBE_CU(cuDevicePrimaryCtxRetain(&context, p->device));
    PROBE_CU(cuCtxSetCurrent(context));
    return true;
}
