/* Memory pools: all of a pool's memory lies in one file, which is what another process imports. */
#include "standin/memory/memory.h"
#include "standin/streams/stream.h"

#include <fcntl.h>
#include <string.h>

#define POINTER_MAGIC UINT64_C(0x7274702d6e696473)

/* What is in a CUmemPoolPtrExportData. */
typedef struct pointer {
    uint64_t magic;
    uint64_t pool_cookie, cookie;
    int64_t offset; /* in the pool's file */
    uint64_t reserved[4];
} pointer_t;

_Static_assert(sizeof(pointer_t) == sizeof(CUmemPoolPtrExportData), "CUDA says how large it is");

static memory_t *from_handle(CUmemoryPool handle)
{
    memory_t *memory = (memory_t *)(void *)handle;
    return memory_is(memory, MEMORY_POOL) ? memory : NULL;
}

static CUmemoryPool to_handle(memory_t *memory)
{
    memory->handles = 1;
    return (CUmemoryPool)(void *)memory;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    STANDIN_ENTER(cuMemPoolCreate, HEALTH);
    if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (properties->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!standin_context_of(properties->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    memory_t *memory;
    pthread_mutex_lock(&memory_lock);
    CUresult result = memory_create(MEMORY_POOL, standin_settings()->gpus[properties->location.id], 0,
                                    properties->handleTypes, &memory);
    if (result == CUDA_SUCCESS)
        *pool = to_handle(memory);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

/* The pools that nobody has to make, by ordinal: made when somebody asks, and there to the end. Under the
 * lock. */
static memory_t *default_pools[STANDIN_GPUS_MAX];

/* The device's current pool, which is its default one: nothing here makes another one current. No other
 * process can have it. */
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    STANDIN_ENTER(cuDeviceGetMemPool, HEALTH);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (!standin_context_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memory_t **own = &default_pools[device];
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&memory_lock);
    if (!*own)
        result =
            memory_create(MEMORY_POOL, standin_settings()->gpus[device], 0, CU_MEM_HANDLE_TYPE_NONE, own);
    if (result == CUDA_SUCCESS)
        *pool = to_handle(*own);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    STANDIN_ENTER(cuMemPoolDestroy, HEALTH);
    pthread_mutex_lock(&memory_lock);
    memory_t *pool = from_handle(handle);
    if (pool && pool == default_pools[memory_ordinal(pool)])
        pool = NULL; /* which cannot be destroyed */
    if (pool) {
        pool->handles = 0;
        memory_put(pool); /* its memory has it until that is freed */
    }
    pthread_mutex_unlock(&memory_lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only how much a pool may keep of what was freed, which is remembered: nothing is kept here. */
static CUresult check_attribute(CUmemPool_attribute attribute, const void *value)
{
    if (!value || attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    STANDIN_ENTER(cuMemPoolGetAttribute, HEALTH);
    STANDIN_TRY(check_attribute(attribute, value));
    pthread_mutex_lock(&memory_lock);
    const memory_t *pool = from_handle(handle);
    if (pool)
        memcpy(value, &pool->release_threshold, sizeof(pool->release_threshold));
    pthread_mutex_unlock(&memory_lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    STANDIN_ENTER(cuMemPoolSetAttribute, HEALTH);
    STANDIN_TRY(check_attribute(attribute, value));
    pthread_mutex_lock(&memory_lock);
    memory_t *pool = from_handle(handle);
    if (pool)
        memcpy(&pool->release_threshold, value, sizeof(pool->release_threshold));
    pthread_mutex_unlock(&memory_lock);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_access(const memory_t *pool, const CUmemAccessDesc *access)
{
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_INVALID_VALUE;
    if (!standin_context_of(access->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!standin_is_peer(access->location.id, memory_ordinal(pool)))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    bool takes_own = access->location.id == memory_ordinal(pool) && !access->flags;
    return takes_own ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void set_access(memory_t *pool, const CUmemAccessDesc *access)
{
    uint32_t device = UINT32_C(1) << access->location.id;
    pool->accessors = access->flags ? pool->accessors | device : pool->accessors & ~device;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *accesses, size_t count)
{
    STANDIN_ENTER(cuMemPoolSetAccess, HEALTH);
    pthread_mutex_lock(&memory_lock);
    memory_t *pool = from_handle(handle);
    CUresult result = pool && (accesses || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        result = check_access(pool, &accesses[i]);
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        set_access(pool, &accesses[i]);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

/* Map a pool's memory, whose reference passes to the range. With the lock held. */
static CUresult map(memory_t *memory, CUdeviceptr *address)
{
    range_t *range;
    CUresult result = range_map(memory, RANGE_POOLED, NULL, &range);
    memory_put(memory);
    if (result == CUDA_SUCCESS)
        *address = range->address;
    return result;
}

/* There at once, earlier than the stream's order asks for. */
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool handle, CUstream stream)
{
    STANDIN_ENTER(cuMemAllocFromPoolAsync, CONTEXT);
    if (!address || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    STANDIN_TRY(stream_find_uncaptured(stream, &stream));
    memory_t *memory;
    pthread_mutex_lock(&memory_lock);
    memory_t *pool = from_handle(handle);
    CUresult result =
        pool && pool->is_own ? memory_create_in(pool, bytes, &memory) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = map(memory, address);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

/* The range of a pool's memory that begins there; NULL: there is none. */
static range_t *find_pooled(CUdeviceptr address)
{
    range_t *range = range_find((uintptr_t)address);
    return range && range->kind == RANGE_POOLED && range->address == address ? range : NULL;
}

static void free_pooled(const op_t *op)
{
    pthread_mutex_lock(&memory_lock);
    range_t *range = find_pooled(op->memory.address);
    if (range && range->number == op->memory.number) /* else it was freed twice */
        range_unmap(range);
    pthread_mutex_unlock(&memory_lock);
}

static const op_type_t free_type = {.run = free_pooled};

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    STANDIN_ENTER(cuMemFreeAsync, CONTEXT);
    STANDIN_TRY(stream_find_uncaptured(stream, &stream));
    pthread_mutex_lock(&memory_lock);
    range_t *range = find_pooled(address);
    uint64_t number = range ? range->number : 0;
    if (range)
        range->freed = true;
    pthread_mutex_unlock(&memory_lock);
    if (!number)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_submit(stream, &(op_t){.type = &free_type, .memory = {address, number}});
}

CUresult cuMemPoolExportToShareableHandle(void *file, CUmemoryPool handle, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    STANDIN_ENTER(cuMemPoolExportToShareableHandle, HEALTH);
    if (!file || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    memory_t *pool = from_handle(handle);
    bool can = pool && pool->is_own && pool->header.handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    int copy = can ? fcntl(pool->file, F_DUPFD_CLOEXEC, 0) : -1;
    if (can)
        pool->was_exported = true;
    pthread_mutex_unlock(&memory_lock);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)file = copy;
    return copy >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *file, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    STANDIN_ENTER(cuMemPoolImportFromShareableHandle, HEALTH);
    if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    memory_t *memory;
    pthread_mutex_lock(&memory_lock);
    CUresult result = memory_import((int)(intptr_t)file, 0, MEMORY_POOL, &memory);
    if (result == CUDA_SUCCESS)
        *pool = to_handle(memory);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    STANDIN_ENTER(cuMemPoolExportPointer, HEALTH);
    pthread_mutex_lock(&memory_lock);
    const range_t *range = find_pooled(address);
    const memory_t *memory = range ? range->memory : NULL;
    bool can = memory && memory->is_own && memory->pool->was_exported;
    pointer_t pointer = {.magic = POINTER_MAGIC};
    if (can) {
        pointer.pool_cookie = memory->pool->header.cookie;
        pointer.cookie = memory->header.cookie;
        pointer.offset = memory->offset;
    }
    pthread_mutex_unlock(&memory_lock);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &pointer, sizeof(pointer));
    return CUDA_SUCCESS;
}

/* With the lock held. */
static CUresult import_pointer(memory_t *pool, const pointer_t *pointer, CUdeviceptr *address)
{
    if (!pool || pool->is_own || pointer->magic != POINTER_MAGIC || pointer->offset < 0 ||
        pool->header.cookie != pointer->pool_cookie)
        return CUDA_ERROR_INVALID_VALUE;
    memory_t *memory;
    STANDIN_TRY(memory_import(pool->file, pointer->offset, MEMORY_POOLED, &memory));
    memory->pool = memory_get(pool);
    if (memory->header.cookie == pointer->cookie)
        return map(memory, address);
    memory_put(memory);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool handle, CUmemPoolPtrExportData *data)
{
    STANDIN_ENTER(cuMemPoolImportPointer, HEALTH);
    if (!address || !data)
        return CUDA_ERROR_INVALID_VALUE;
    pointer_t pointer;
    memcpy(&pointer, data, sizeof(pointer));
    pthread_mutex_lock(&memory_lock);
    CUresult result = import_pointer(from_handle(handle), &pointer, address);
    pthread_mutex_unlock(&memory_lock);
    return result;
}
