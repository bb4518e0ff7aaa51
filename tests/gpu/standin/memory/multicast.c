/* Multicast objects: one address for a piece of memory on each GPU of a team. They are bound as a whole,
 * which is all that blinkd does. A processor of the host has no instruction for such an address: the kernels
 * ask where the pieces are. */
#include "standin/memory/memory.h"

#include "host_kernels.h"
#include "lane_abi.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if CUDA_API_HAS_MULTICAST

#define RECOMMENDED_BYTES ((size_t)512 << 20)

static uint32_t object_count;     /* under memory_lock */
static _Atomic uint64_t bindings; /* that were made and undone; changed under memory_lock */

static memory_t *object_of(CUmemGenericAllocationHandle handle)
{
    memory_t *memory = memory_pointer(handle);
    return memory_is(memory, MEMORY_MULTICAST) ? memory : NULL;
}

static bool is_complete(const memory_team_t *team)
{
    return (uint32_t)__builtin_popcount(team->devices) == team->device_count;
}

static CUresult check_properties(const CUmulticastObjectProp *properties)
{
    if (!properties || properties->numDevices < 1 || !properties->size || properties->flags)
        return CUDA_ERROR_INVALID_VALUE;
    return standin_settings()->switch_objects ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *properties,
                                   CUmulticastGranularity_flags option)
{
    STANDIN_ENTER(cuMulticastGetGranularity, HEALTH);
    STANDIN_TRY(check_properties(properties));
    *bytes = option == CU_MULTICAST_GRANULARITY_MINIMUM ? MEMORY_GRANULARITY_BYTES : RECOMMENDED_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *properties)
{
    STANDIN_ENTER(cuMulticastCreate, HEALTH);
    STANDIN_TRY(check_properties(properties));
    if (!handle || properties->size % MEMORY_GRANULARITY_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    memory_t *object;
    pthread_mutex_lock(&memory_lock);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (object_count < standin_settings()->switch_objects)
        result = memory_create_multicast(properties->size, properties->numDevices, &object);
    if (result == CUDA_SUCCESS) {
        object_count++;
        object->handles++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)object;
    }
    pthread_mutex_unlock(&memory_lock);
    return result;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    STANDIN_ENTER(cuMulticastAddDevice, HEALTH);
    if (!standin_context_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&memory_lock);
    memory_t *object = object_of(handle);
    bool can = object && !is_complete(object->team) && !(object->team->devices >> device & 1);
    if (can)
        object->team->devices |= UINT32_C(1) << device;
    pthread_mutex_unlock(&memory_lock);
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* With the lock held. */
static CUresult bind(memory_t *object, memory_t *piece)
{
    if (!object || !memory_is(piece, MEMORY_VIRTUAL) || piece->header.bytes != object->header.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    memory_team_t *team = object->team;
    const int ordinal = memory_ordinal(piece);
    if (!is_complete(team)) /* CUDA would wait for the rest, and who calls could not add it */
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!(team->devices >> ordinal & 1) || team->pieces[ordinal])
        return CUDA_ERROR_INVALID_DEVICE;
    void *view = mmap(NULL, piece->header.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, piece->file,
                      piece->offset + (off_t)MEMORY_PAGE_BYTES);
    if (view == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    team->views[ordinal] = view;
    team->pieces[ordinal] = memory_get(piece);
    atomic_fetch_add(&bindings, 1);
    return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t object_offset,
                            CUmemGenericAllocationHandle piece, size_t piece_offset, size_t bytes,
                            unsigned long long flags)
{
    STANDIN_ENTER(cuMulticastBindMem, HEALTH);
    if (object_offset || piece_offset || flags)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&memory_lock);
    memory_t *object = object_of(handle);
    CUresult result = object && bytes == object->header.bytes ? bind(object, memory_pointer(piece))
                                                              : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&memory_lock);
    return result;
}

static void unbind(memory_team_t *team, int ordinal, size_t bytes)
{
    atomic_fetch_add(&bindings, 1);
    munmap(team->views[ordinal], bytes);
    memory_put(team->pieces[ordinal]);
    team->pieces[ordinal] = NULL;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes)
{
    STANDIN_ENTER(cuMulticastUnbind, HEALTH);
    if (!standin_context_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&memory_lock);
    memory_t *object = object_of(handle);
    bool can = object && !offset && bytes == object->header.bytes && object->team->pieces[device];
    if (can)
        unbind(object->team, device, bytes);
    pthread_mutex_unlock(&memory_lock);
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void memory_free_team(memory_team_t *team, size_t bytes)
{
    object_count--;
    for (int i = 0; i < STANDIN_GPUS_MAX; i++)
        if (team->pieces[i])
            unbind(team, i, bytes);
    free(team);
}

/* ---- for kernels ---- */

/* An object's addresses, and where its pieces are. */
typedef struct view {
    uint64_t bindings; /* as many as there had ever been */
    uintptr_t begin, end;
    uint32_t count;
    char *places[STANDIN_GPUS_MAX];
} view_t;

static view_t find_view(uint64_t address)
{
    view_t view = {0};
    pthread_mutex_lock(&memory_lock);
    const range_t *range = range_find((uintptr_t)address);
    const memory_team_t *team = range && range->memory ? range->memory->team : NULL;
    for (int i = 0; team && i < STANDIN_GPUS_MAX; i++)
        if (team->pieces[i])
            view.places[view.count++] = team->views[i];
    if (!team || view.count != team->device_count) {
        fprintf(stderr, "stand-in: no switch reaches %#llx\n", (unsigned long long)address);
        abort();
    }
    view.begin = range->address;
    view.end = range->address + range->bytes;
    view.bindings = atomic_load(&bindings);
    pthread_mutex_unlock(&memory_lock);
    return view;
}

/* All threads of all kernels ask for each unit that they move: one that asks for the same object again takes
 * no lock. An object that is at an address anew has been bound anew. */
static uint32_t find_places(uint64_t address, uint64_t *places)
{
    static _Thread_local view_t view;
    if (address < view.begin || address >= view.end || view.bindings != atomic_load(&bindings))
        view = find_view(address);
    for (uint32_t i = 0; i < view.count; i++)
        places[i] = (uintptr_t)view.places[i] + (address - view.begin);
    return view.count;
}

__attribute__((constructor)) static void offer_places(void)
{
    host_switch_places = find_places;
}

#else

void memory_free_team(memory_team_t *team, size_t bytes)
{
    (void)team;
    (void)bytes;
}

#endif
