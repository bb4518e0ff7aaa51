/* Plain GPU memory, and its sharing through handles that name the process: CUDA's legacy way. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_MAGIC UINT64_C(0x6370692d6e696473)

/* What is in a CUipcMemHandle. */
typedef struct handle {
    uint64_t magic;
    int32_t process;
    int32_t file; /* in that process */
    uint64_t cookie;
    uint64_t namespace; /* that the number of the process belongs to */
    uint64_t network;   /* namespace */
    uint32_t user, reserved;
    uint64_t reserved_words[2];
} handle_t;

_Static_assert(sizeof(handle_t) == sizeof(CUipcMemHandle), "CUDA says how large a handle is");

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    STANDIN_ENTER(cuMemGetInfo, CONTEXT);
    const standin_settings_t *settings = standin_settings();
    pthread_mutex_lock(&memory_lock);
    *free_bytes = settings->memory_bytes - memory_used(settings->gpus[standin_context()->ordinal]);
    pthread_mutex_unlock(&memory_lock);
    *total_bytes = settings->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    STANDIN_ENTER(cuMemAlloc, CONTEXT);
    if (!address || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(capture_check_unsafe());
    CUcontext context = standin_context();
    memory_t *memory;
    range_t *range;
    pthread_mutex_lock(&memory_lock);
    CUresult result =
        memory_create(MEMORY_LEGACY, standin_settings()->gpus[context->ordinal], bytes, 0, &memory);
    if (result == CUDA_SUCCESS) {
        result = range_map(memory, RANGE_LEGACY, context, &range);
        memory_put(memory); /* the range has it */
    }
    if (result == CUDA_SUCCESS)
        *address = range->address;
    pthread_mutex_unlock(&memory_lock);
    return result;
}

/* The range of memory that this process allocated, or imported into a pool, and that begins there; NULL:
 * there is none. */
static range_t *find_allocation(CUdeviceptr address)
{
    range_t *range = range_find((uintptr_t)address);
    bool is_allocation =
        range && range->address == address && (range->kind == RANGE_LEGACY || range->kind == RANGE_POOLED);
    return is_allocation ? range : NULL;
}

CUresult cuMemFree(CUdeviceptr address)
{
    STANDIN_ENTER(cuMemFree, CONTEXT);
    if (!address)
        return CUDA_SUCCESS;
    STANDIN_TRY(capture_check_unsafe());
    pthread_mutex_lock(&memory_lock);
    range_t *range = find_allocation(address);
    CUcontext context = range ? standin_context_of(memory_ordinal(range->memory)) : NULL;
    pthread_mutex_unlock(&memory_lock);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(stream_await(context, NULL)); /* as CUDA does, for something may still use it */
    pthread_mutex_lock(&memory_lock);
    range = find_allocation(address);
    if (range)
        range_unmap(range);
    pthread_mutex_unlock(&memory_lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    STANDIN_ENTER(cuMemGetHandleForAddressRange, CONTEXT);
    if (!handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (standin_settings()->has_no_dma_bufs)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&memory_lock);
    const range_t *range = find_allocation(address);
    bool is_whole =
        range && range->kind == RANGE_LEGACY && range->bytes == bytes && bytes % MEMORY_PAGE_BYTES == 0;
    int file = is_whole ? fcntl(range->memory->file, F_DUPFD_CLOEXEC, 0) : -1;
    pthread_mutex_unlock(&memory_lock);
    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(handle, &file, sizeof(file));
    return CUDA_SUCCESS;
}

static uint64_t namespace_of(const char *path)
{
    struct stat found = {0};
    (void)stat(path, &found);
    return found.st_ino;
}

/* Who this process is, as handles of its have it. */
static handle_t describe_process(void)
{
    return (handle_t){.magic = HANDLE_MAGIC,
                      .process = getpid(),
                      .namespace = namespace_of("/proc/self/ns/pid"),
                      .network = namespace_of("/proc/self/ns/net"),
                      .user = geteuid()};
}

/* Whether a handle's process is one whose memory this one may open. */
static bool is_acceptable(const handle_t *handle)
{
    const standin_settings_t *settings = standin_settings();
    const handle_t own = describe_process();
    return handle->process != own.process && handle->namespace == own.namespace &&
           (handle->network == own.network || !settings->refuses_networks) &&
           (handle->user == own.user || !settings->refuses_users);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    STANDIN_ENTER(cuIpcGetMemHandle, CONTEXT);
    handle_t made = describe_process();
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find((uintptr_t)address);
    bool is_legacy = range && range->kind == RANGE_LEGACY;
    if (is_legacy) {
        made.file = range->memory->file;
        made.cookie = range->memory->header.cookie;
    }
    pthread_mutex_unlock(&memory_lock);
    if (!is_legacy)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(handle, &made, sizeof(made));
    return CUDA_SUCCESS;
}

/* The range where this process has already opened the memory with this cookie; NULL: it has not. */
static range_t *find_opened(uint64_t cookie)
{
    for (range_t *range = range_first_in(0, UINTPTR_MAX); range; range = range->next) {
        if (range->kind == RANGE_IPC && range->memory->header.cookie == cookie)
            return range;
    }
    return NULL;
}

/* Map memory that the handle's process still has. With the lock held. */
static CUresult open_new(const handle_t *handle, int file, range_t **range)
{
    memory_t *memory;
    CUcontext context = standin_context();
    STANDIN_TRY(memory_import(file, 0, MEMORY_LEGACY, &memory));
    CUresult result;
    if (memory->header.cookie != handle->cookie)
        result = CUDA_ERROR_INVALID_VALUE; /* that was freed, and its file's number used again */
    else if (!standin_is_peer(context->ordinal, memory_ordinal(memory)))
        result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    else
        result = range_map(memory, RANGE_IPC, context, range);
    memory_put(memory);
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle given, unsigned int flags)
{
    STANDIN_ENTER(cuIpcOpenMemHandle, CONTEXT);
    handle_t handle;
    memcpy(&handle, &given, sizeof(handle));
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != HANDLE_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_acceptable(&handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    STANDIN_TRY(capture_check_unsafe());
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle.process, handle.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    range_t *range = find_opened(handle.cookie);
    CUresult result = CUDA_SUCCESS;
    if (range)
        range->opened++;
    else
        result = open_new(&handle, file, &range);
    if (result == CUDA_SUCCESS)
        *address = range->address;
    pthread_mutex_unlock(&memory_lock);
    close(file);
    return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    STANDIN_ENTER(cuIpcCloseMemHandle, CONTEXT);
    pthread_mutex_lock(&memory_lock);
    range_t *range = range_find((uintptr_t)address);
    bool is_opened = range && range->kind == RANGE_IPC && range->address == address;
    if (is_opened && --range->opened == 0)
        range_unmap(range);
    pthread_mutex_unlock(&memory_lock);
    return is_opened ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
