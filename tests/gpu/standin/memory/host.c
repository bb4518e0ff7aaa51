/* Host memory that CUDA allocates, or is told of. A GPU uses it at the same address. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static CUresult allocate_host(void **address, size_t bytes, unsigned flags)
{
    if (!address || !bytes || bytes > SIZE_MAX / 2 ||
        flags &
            ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(capture_check_unsafe());
    size_t stretch = memory_round_up(bytes, MEMORY_PAGE_BYTES);
    void *memory = mmap(NULL, stretch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range_t range = {
        .address = (uintptr_t)memory, .bytes = bytes, .kind = RANGE_HOST, .context = standin_context()};
    pthread_mutex_lock(&memory_lock);
    CUresult result = range_add(&range, NULL);
    pthread_mutex_unlock(&memory_lock);
    if (result != CUDA_SUCCESS)
        munmap(memory, stretch);
    else
        *address = memory;
    return result;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
    STANDIN_ENTER(cuMemHostAlloc, CONTEXT);
    return allocate_host(address, bytes, flags);
}

CUresult cuMemAllocHost(void **address, size_t bytes)
{
    STANDIN_ENTER(cuMemAllocHost, CONTEXT);
    return allocate_host(address, bytes, 0);
}

CUresult cuMemFreeHost(void *address)
{
    STANDIN_ENTER(cuMemFreeHost, CONTEXT);
    if (!address)
        return CUDA_SUCCESS;
    STANDIN_TRY(capture_check_unsafe());
    STANDIN_TRY(stream_await(standin_context(), NULL)); /* as cuMemFree() */
    pthread_mutex_lock(&memory_lock);
    range_t *range = range_find((uintptr_t)address);
    bool is_ours = range && range->kind == RANGE_HOST && range->address == (uintptr_t)address;
    if (is_ours) {
        munmap(address, memory_round_up(range->bytes, MEMORY_PAGE_BYTES));
        range_remove(range);
    }
    pthread_mutex_unlock(&memory_lock);
    return is_ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Whether something is mapped at every page of it. */
static bool is_mapped(uintptr_t address, size_t bytes)
{
    uintptr_t begin = address / MEMORY_PAGE_BYTES * MEMORY_PAGE_BYTES;
    size_t length = address + bytes - begin;
    unsigned char *pages = malloc(length / MEMORY_PAGE_BYTES + 1);
    bool mapped = pages && !mincore((void *)begin, length, pages);
    free(pages);
    return mapped;
}

CUresult cuMemHostRegister(void *address, size_t bytes, unsigned int flags)
{
    STANDIN_ENTER(cuMemHostRegister, CONTEXT);
    if (!address || !bytes || bytes > UINTPTR_MAX - (uintptr_t)address ||
        flags & ~(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                            CU_MEMHOSTREGISTER_READ_ONLY))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_mapped((uintptr_t)address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (madvise(address, bytes, MADV_POPULATE_WRITE) &&
        errno == EFAULT) /* as pinning finds a hole that is kept */
        return CUDA_ERROR_OPERATING_SYSTEM;
    range_t range = {.address = (uintptr_t)address,
                     .bytes = bytes,
                     .kind = RANGE_REGISTERED,
                     .context = standin_context()};
    pthread_mutex_lock(&memory_lock);
    CUresult result = range_first_in(range.address, bytes) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                                           : range_add(&range, NULL);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMemHostUnregister(void *address)
{
    STANDIN_ENTER(cuMemHostUnregister, CONTEXT);
    STANDIN_TRY(stream_await(standin_context(), NULL)); /* as cuMemFree() */
    pthread_mutex_lock(&memory_lock);
    range_t *range = range_find((uintptr_t)address);
    bool is_registered = range && range->kind == RANGE_REGISTERED && range->address == (uintptr_t)address;
    if (is_registered)
        range_remove(range);
    pthread_mutex_unlock(&memory_lock);
    return is_registered ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device_address, void *address, unsigned int flags)
{
    STANDIN_ENTER(cuMemHostGetDevicePointer, CONTEXT);
    if (!device_address || flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find((uintptr_t)address);
    bool is_host = range && !range->memory;
    pthread_mutex_unlock(&memory_lock);
    *device_address = is_host ? (CUdeviceptr)(uintptr_t)address : 0;
    return is_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
