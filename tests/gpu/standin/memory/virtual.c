/* Virtual memory management: memory, addresses and who may use them, each on its own. */
#include "standin/memory/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

static memory_t *from_handle(CUmemGenericAllocationHandle handle)
{
    memory_t *memory = memory_pointer(handle);
    return memory_is(memory, MEMORY_VIRTUAL) ? memory : NULL;
}

/* Of memory or of a multicast object. */
static memory_t *from_any_handle(CUmemGenericAllocationHandle handle)
{
    memory_t *memory = memory_pointer(handle);
    return memory_is(memory, MEMORY_VIRTUAL) || memory_is(memory, MEMORY_MULTICAST) ? memory : NULL;
}

/* A handle of the application's, of a reference that there is. */
static CUmemGenericAllocationHandle to_handle(memory_t *memory)
{
    memory->handles++;
    return (CUmemGenericAllocationHandle)(uintptr_t)memory;
}

static bool is_granular(uint64_t bytes)
{
    return bytes && bytes % MEMORY_GRANULARITY_BYTES == 0;
}

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
        properties->allocFlags.compressionType)
        return CUDA_ERROR_NOT_SUPPORTED;
    return standin_context_of(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    STANDIN_ENTER(cuMemGetAllocationGranularity, HEALTH);
    (void)option; /* minimum and recommended are the same */
    STANDIN_TRY(check_properties(properties));
    *bytes = MEMORY_GRANULARITY_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags)
{
    STANDIN_ENTER(cuMemAddressReserve, HEALTH);
    if (!address || !is_granular(bytes) || alignment & (alignment - 1) || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < MEMORY_GRANULARITY_BYTES)
        alignment = MEMORY_GRANULARITY_BYTES;
    pthread_mutex_lock(&memory_lock);
    *address = arena_take(bytes, alignment, (uintptr_t)wanted);
    pthread_mutex_unlock(&memory_lock);
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    STANDIN_ENTER(cuMemAddressFree, HEALTH);
    pthread_mutex_lock(&memory_lock);
    bool can = arena_is_taken((uintptr_t)address, bytes) && !range_first_in((uintptr_t)address, bytes);
    if (can)
        arena_give((uintptr_t)address);
    pthread_mutex_unlock(&memory_lock);
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    STANDIN_ENTER(cuMemCreate, HEALTH);
    STANDIN_TRY(check_properties(properties));
    if (!handle || !is_granular(bytes) || flags)
        return CUDA_ERROR_INVALID_VALUE;
    memory_t *memory;
    pthread_mutex_lock(&memory_lock);
    CUresult result = memory_create(MEMORY_VIRTUAL, standin_settings()->gpus[properties->location.id], bytes,
                                    properties->requestedHandleTypes, &memory);
    if (result == CUDA_SUCCESS)
        *handle = to_handle(memory);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    STANDIN_ENTER(cuMemRelease, HEALTH);
    pthread_mutex_lock(&memory_lock);
    memory_t *memory = from_any_handle(handle);
    if (memory) {
        memory->handles--;
        memory_put(memory);
    }
    pthread_mutex_unlock(&memory_lock);
    return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* With the lock held. */
static CUresult map(uintptr_t address, size_t bytes, memory_t *memory)
{
    if (!memory || bytes != memory->header.bytes || address % MEMORY_GRANULARITY_BYTES ||
        !arena_holds(address, bytes) || range_first_in(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const memory_team_t *team = memory->team;
    off_t offset = memory->offset + (off_t)MEMORY_PAGE_BYTES;
    if (team && (uint32_t)__builtin_popcount(team->devices) != team->device_count)
        return CUDA_ERROR_ILLEGAL_STATE; /* CUDA would wait for the rest */
    if (!team && !arena_map(address, bytes, PROT_NONE, memory->file, offset))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range_t range = {.address = address, .bytes = bytes, .kind = RANGE_VIRTUAL, .memory = memory};
    STANDIN_TRY(range_add(&range, NULL));
    memory_get(memory);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    STANDIN_ENTER(cuMemMap, HEALTH);
    if (offset || flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    CUresult result = map((uintptr_t)address, bytes, from_any_handle(handle));
    pthread_mutex_unlock(&memory_lock);
    return result;
}

/* Whether a stretch consists of whole mappings, side by side. */
static bool is_all_mapped(uintptr_t address, size_t bytes)
{
    const uintptr_t end = address + bytes;
    const range_t *range = range_find(address);
    while (range && range->kind == RANGE_VIRTUAL && range->address == address &&
           range->bytes <= end - address) {
        address += range->bytes;
        if (address == end)
            return true;
        range = range->next;
    }
    return false;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    STANDIN_ENTER(cuMemUnmap, HEALTH);
    pthread_mutex_lock(&memory_lock);
    bool can = is_all_mapped((uintptr_t)address, bytes);
    range_t *range;
    while (can && (range = range_first_in((uintptr_t)address, bytes)))
        range_remove(range);
    if (can)
        arena_unmap((uintptr_t)address, bytes);
    pthread_mutex_unlock(&memory_lock);
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_access(range_t *range, const CUmemAccessDesc *access)
{
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!standin_context_of(access->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    const memory_team_t *team = range->memory->team;
    if (team && !(team->devices >> access->location.id & 1))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!team && !standin_is_peer(access->location.id, memory_ordinal(range->memory)))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    uint32_t device = UINT32_C(1) << access->location.id;
    range->readers &= ~device;
    range->writers &= ~device;
    if (access->flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
        range->readers |= device;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        range->writers |= device;
    return CUDA_SUCCESS;
}

/* Processors cannot be told apart by device: what one of them may do, all can. At the address of a multicast
 * object none can do anything. */
static CUresult protect(const range_t *range)
{
    if (range->memory->team)
        return CUDA_SUCCESS;
    int protection = (range->readers ? PROT_READ : 0) | (range->writers ? PROT_WRITE : 0);
    return mprotect((void *)range->address, range->bytes, protection) ? CUDA_ERROR_OPERATING_SYSTEM
                                                                      : CUDA_SUCCESS;
}

/* With the lock held. */
static CUresult set_all_access(uintptr_t address, size_t bytes, const CUmemAccessDesc *accesses, size_t count)
{
    if (!is_all_mapped(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (range_t *range = range_find(address); range && range->address < address + bytes;
         range = range->next) {
        for (size_t i = 0; i < count; i++)
            STANDIN_TRY(set_access(range, &accesses[i]));
        STANDIN_TRY(protect(range));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *accesses, size_t count)
{
    STANDIN_ENTER(cuMemSetAccess, HEALTH);
    if (!accesses || !count)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    CUresult result = set_all_access((uintptr_t)address, bytes, accesses, count);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    STANDIN_ENTER(cuMemRetainAllocationHandle, HEALTH);
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find((uintptr_t)address);
    bool is_virtual = range && range->kind == RANGE_VIRTUAL;
    if (is_virtual)
        *handle = to_handle(memory_get(range->memory));
    pthread_mutex_unlock(&memory_lock);
    return is_virtual ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *file, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    STANDIN_ENTER(cuMemExportToShareableHandle, HEALTH);
    if (!file || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    const memory_t *memory = from_handle(handle);
    bool can = memory && memory->header.handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    int copy = can ? fcntl(memory->file, F_DUPFD_CLOEXEC, 0) : -1;
    pthread_mutex_unlock(&memory_lock);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)file = copy;
    return copy >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *file,
                                        CUmemAllocationHandleType type)
{
    STANDIN_ENTER(cuMemImportFromShareableHandle, HEALTH);
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    memory_t *memory;
    pthread_mutex_lock(&memory_lock);
    CUresult result = memory_import((int)(intptr_t)file, 0, MEMORY_VIRTUAL, &memory);
    if (result == CUDA_SUCCESS)
        *handle = to_handle(memory);
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle)
{
    STANDIN_ENTER(cuMemGetAllocationPropertiesFromHandle, HEALTH);
    pthread_mutex_lock(&memory_lock);
    const memory_t *memory = from_handle(handle);
    if (memory)
        *properties = (CUmemAllocationProp){
            .type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = (CUmemAllocationHandleType)memory->header.handle_types,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                         .id = standin_settings()->keeps_ordinals ? (int)memory->header.ordinal
                                                                  : memory_ordinal(memory)}};
    pthread_mutex_unlock(&memory_lock);
    return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
