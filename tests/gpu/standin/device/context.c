/* Contexts: the primary one of every device, and each thread's stack of current ones. */
#include "standin/standin.h"
#include "standin/streams/stream.h"

#include <pthread.h>

enum { STACK_MAX = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* clang-format off */
static struct CUctx_st contexts[STANDIN_GPUS_MAX] = {
    {.ordinal = 0}, {.ordinal = 1}, {.ordinal = 2}, {.ordinal = 3}, {.ordinal = 4}, {.ordinal = 5},
    {.ordinal = 6}, {.ordinal = 7}, {.ordinal = 8}, {.ordinal = 9}, {.ordinal = 10}, {.ordinal = 11},
    {.ordinal = 12}, {.ordinal = 13}, {.ordinal = 14}, {.ordinal = 15}};
/* clang-format on */

static _Thread_local struct {
    CUcontext contexts[STACK_MAX]; /* the last is current */
    unsigned depth;
} stack;

CUcontext standin_context(void)
{
    return stack.depth ? stack.contexts[stack.depth - 1] : NULL;
}

void standin_use(CUcontext context)
{
    stack.contexts[0] = context;
    stack.depth = 1;
}

CUcontext standin_context_of(CUdevice ordinal)
{
    return ordinal >= 0 && ordinal < standin_settings()->gpu_count ? &contexts[ordinal] : NULL;
}

bool standin_context_is_usable(CUcontext context)
{
    pthread_mutex_lock(&lock);
    bool is_one = false;
    for (unsigned i = 0; i < STANDIN_GPUS_MAX; i++)
        is_one |= context == &contexts[i] && contexts[i].references > 0;
    pthread_mutex_unlock(&lock);
    return is_one;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    STANDIN_ENTER(cuDevicePrimaryCtxRetain, HEALTH);
    CUcontext found = standin_context_of(device);
    if (!found)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    found->references++;
    pthread_mutex_unlock(&lock);
    *context = found;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    STANDIN_ENTER(cuDevicePrimaryCtxRelease, DRIVER);
    CUcontext found = standin_context_of(device);
    if (!found)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    bool was_retained = found->references > 0;
    if (was_retained && --found->references == 0)
        found->peers = 0;
    pthread_mutex_unlock(&lock);
    return was_retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    STANDIN_ENTER(cuCtxGetCurrent, DRIVER);
    *context = standin_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    STANDIN_ENTER(cuCtxSetCurrent, DRIVER);
    if (context && !standin_context_is_usable(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth)
        stack.depth--;
    if (context)
        stack.contexts[stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    STANDIN_ENTER(cuCtxPushCurrent, DRIVER);
    if (!standin_context_is_usable(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth == STACK_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    stack.contexts[stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    STANDIN_ENTER(cuCtxPopCurrent, DRIVER);
    if (!stack.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack.depth--;
    if (context)
        *context = stack.contexts[stack.depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    STANDIN_ENTER(cuCtxGetDevice, DRIVER);
    if (!standin_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = standin_context()->ordinal;
    return CUDA_SUCCESS;
}

/* As GPUs of compute capability 9 say it. */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    STANDIN_ENTER(cuCtxGetStreamPriorityRange, CONTEXT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    STANDIN_ENTER(cuCtxSynchronize, CONTEXT);
    STANDIN_TRY(capture_check_unsafe());
    return stream_await(standin_context(), NULL);
}

bool standin_has_peer(CUdevice ordinal, CUdevice other)
{
    pthread_mutex_lock(&lock);
    bool has = ordinal == other || (contexts[ordinal].peers >> other & 1);
    pthread_mutex_unlock(&lock);
    return has;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    STANDIN_ENTER(cuCtxEnablePeerAccess, CONTEXT);
    CUcontext context = standin_context();
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!standin_context_is_usable(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer == context)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!standin_is_peer(context->ordinal, peer->ordinal))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    uint32_t bit = UINT32_C(1) << peer->ordinal;
    pthread_mutex_lock(&lock);
    bool was_enabled = context->peers & bit;
    context->peers |= bit;
    pthread_mutex_unlock(&lock);
    return was_enabled ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}
