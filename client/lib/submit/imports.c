/*
 * Whose memory a pointer is, and the cache of what has been registered.
 *
 * An address says nothing: memory may have been freed and other memory be there. So every use asks the driver
 * for the number of the buffer that is there now, and an import counts only if it is of that one. What nobody
 * can name any more is given back when something new is registered, so that the daemon does not keep freed
 * memory for ever.
 */
#include "gpu/export.h"

#include "context/comm.h"
#include "context/context.h"
#include "frame.h"

#include <stdlib.h>
#include <string.h>

static_assert(GPU_EXTENTS_MAX <= FRAME_FDS_MAX, "a descriptor for each");

void gpu_imports_init(gpu_imports_t *imports)
{
    *imports = (gpu_imports_t){0};
    pthread_rwlock_init(&imports->lock, NULL);
    pthread_mutex_init(&imports->register_lock, NULL);
}

static void clear(gpu_imports_t *imports)
{
    for (size_t i = 0; i < imports->count; i++)
        free(imports->items[i]);
    imports->count = 0;
}

void gpu_imports_fini(gpu_imports_t *imports)
{
    clear(imports);
    free(imports->items);
    pthread_mutex_destroy(&imports->register_lock);
    pthread_rwlock_destroy(&imports->lock);
}

/* NULL if the driver has not been found: then no memory of GPUs has come here either. */
static gpus_t *known_gpus(blink_context_t *context)
{
    /* Acquire: pairs with the store in gpus_find(). */
    return atomic_load_explicit(&context->gpus, memory_order_acquire);
}

void gpus_reset(blink_context_t *context)
{
    gpus_t *gpus = known_gpus(context);
    if (!gpus)
        return;
    pthread_rwlock_wrlock(&gpus->imports.lock);
    clear(&gpus->imports);
    pthread_rwlock_unlock(&gpus->imports.lock);
}

/* ---- what a pointer is ---- */

typedef struct memory {
    const char *what; /* "send" or "recv" */
    CUdeviceptr address;
    size_t bytes;
    unsigned long long id;
    int ordinal;
    bool on_device, is_managed;
} memory_t;

/* What the driver does not know is ordinary memory. */
static memory_t ask(const cuda_driver_t *driver, const char *what, const void *pointer, size_t bytes)
{
    unsigned int type = 0, is_managed = 0;
    memory_t memory = {.what = what, .address = (CUdeviceptr)(uintptr_t)pointer, .bytes = bytes};
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &is_managed, &memory.id, &memory.ordinal};
    if (driver->cuPointerGetAttributes(4, names, values, memory.address) != CUDA_SUCCESS)
        return memory;
    memory.is_managed = is_managed != 0;
    memory.on_device = type == CU_MEMORYTYPE_DEVICE || memory.is_managed;
    return memory;
}

blink_result_t gpus_refuse(blink_context_t *context, const char *what, const void *pointer)
{
    const gpus_t *gpus = known_gpus(context);
    if (!gpus || !ask(gpus->driver, what, pointer, 1).on_device)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "%s buffer %p is GPU memory, but the communicator is on host devices", what, pointer);
}

static blink_result_t check_gpu(const gpus_t *gpus, const blink_comm_t *comm, const gpu_t *gpu,
                                const memory_t *memory)
{
    if (gpu && gpu->device == (CUdevice)memory->ordinal)
        return BLINK_OK;
    char theirs[GPU_UUID_TEXT_BYTES], own[GPU_UUID_TEXT_BYTES];
    CUdevice device = -1;
    (void)gpus->driver->cuDeviceGet(&device, memory->ordinal);
    gpu_device_text(gpus->driver, device, theirs);
    gpu_uuid_text(comm->gpu_uuid, own);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s buffer %#llx is memory of %s, but rank %u is on %s",
                      memory->what, memory->address, theirs, comm->rank, own);
}

/* 0: no buffer. */
static unsigned long long buffer_at(const cuda_driver_t *driver, CUdeviceptr address)
{
    unsigned long long id = 0;
    CUresult result = driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    return result == CUDA_SUCCESS ? id : 0;
}

/* ---- the cache ---- */

static bool contains(const gpu_import_t *import, const memory_t *memory)
{
    CUdeviceptr offset = memory->address - import->start;
    return memory->address >= import->start && offset < import->bytes &&
           memory->bytes <= import->bytes - offset;
}

/* Whether every extent that the memory touches is still what was registered. */
static bool is_current(const cuda_driver_t *driver, const gpu_import_t *import, const memory_t *memory)
{
    for (uint32_t i = 0; i < import->extent_count; i++) {
        const gpu_extent_t *extent = &import->extents[i];
        if (extent->start + extent->bytes <= memory->address)
            continue;
        if (extent->start >= memory->address + memory->bytes)
            break;
        bool first = extent->start <= memory->address;
        if ((first ? memory->id : buffer_at(driver, extent->start)) != extent->id)
            return false;
    }
    return true;
}

/* Whether it is in the cache; then where. */
static bool find(gpus_t *gpus, const memory_t *memory, gpu_place_t *place)
{
    gpu_imports_t *imports = &gpus->imports;
    bool found = false;
    pthread_rwlock_rdlock(&imports->lock);
    for (size_t i = 0; i < imports->count && !found; i++) {
        const gpu_import_t *import = imports->items[i];
        if (!contains(import, memory) || !is_current(gpus->driver, import, memory))
            continue;
        found = true;
        place->region = import->region;
        place->offset_bytes = memory->address - import->start;
    }
    pthread_rwlock_unlock(&imports->lock);
    return found;
}

static bool has_live_extent(const cuda_driver_t *driver, const gpu_import_t *import)
{
    for (uint32_t i = 0; i < import->extent_count; i++) {
        if (buffer_at(driver, import->extents[i].start) == import->extents[i].id)
            return true;
    }
    return false;
}

/*
 * Memory of CUDA IPC must be given back before other memory at its address is registered, and is freed only
 * when no op can be using it any more: that answer is waited for. Pooled memory may be freed in the order of
 * a stream, while ops that use it wait for other ranks: waiting for it here could wait for ever.
 */
static void deregister(blink_context_t *context, const gpu_import_t *import)
{
    Blinkwire__MemDeregister body = BLINKWIRE__MEM_DEREGISTER__INIT;
    body.region = import->region;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER;
    request.mem_deregister = &body;
    /* A failure tells of a daemon that is lost, or has forgotten the region: then there is nothing to give
     * back. */
    if (import->kind == BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_IPC)
        (void)control_call(context, &request, NULL, 0, NULL, NULL);
    else
        (void)control_post(context, &request);
}

/* Take an import of freed memory out of the cache; NULL if there is none. Under register_lock. */
static gpu_import_t *take_freed(gpus_t *gpus)
{
    gpu_imports_t *imports = &gpus->imports;
    gpu_import_t *freed = NULL;
    /* Ops that are parked name their regions to the daemon later. */
    bool is_parked = ops_has_parked(&gpus->context->ops, NULL);
    pthread_rwlock_wrlock(&imports->lock);
    for (size_t i = 0; i < imports->count && !freed; i++) {
        gpu_import_t *import = imports->items[i];
        bool may_be_named = is_parked && import->kind == BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_POOL;
        if (may_be_named || has_live_extent(gpus->driver, import))
            continue;
        freed = import;
        imports->items[i] = imports->items[--imports->count];
    }
    pthread_rwlock_unlock(&imports->lock);
    return freed;
}

/* Under register_lock. */
static void sweep(gpus_t *gpus)
{
    for (gpu_import_t *freed; (freed = take_freed(gpus)) != NULL; free(freed)) {
        if (freed->region != 0)
            deregister(gpus->context, freed);
    }
}

/* Enter an import, unless the daemon has forgotten it already. After a success without that it is the
 * cache's. Under register_lock. */
static blink_result_t enter(gpus_t *gpus, gpu_import_t *import, uint64_t gpu_resets, bool *forgotten)
{
    gpu_imports_t *imports = &gpus->imports;
    blink_result_t result = BLINK_OK;
    pthread_rwlock_wrlock(&imports->lock);
    /* Relaxed: if it grows later, gpus_reset() clears the cache later. */
    *forgotten = atomic_load_explicit(&gpus->context->control.gpu_resets, memory_order_relaxed) != gpu_resets;
    if (!*forgotten && imports->count == imports->capacity) {
        size_t capacity = imports->capacity > 0 ? 2 * imports->capacity : 16;
        gpu_import_t **items = realloc(imports->items, capacity * sizeof(gpu_import_t *));
        if (items) {
            imports->items = items;
            imports->capacity = capacity;
        } else {
            result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table of %zu GPU buffers", capacity);
        }
    }
    if (!*forgotten && result == BLINK_OK)
        imports->items[imports->count++] = import;
    pthread_rwlock_unlock(&imports->lock);
    return result;
}

/* ---- registration ---- */

/* Find the extents that the memory lies in; one more than GPU_EXTENTS_MAX: more than that. */
static blink_result_t find_extents(const cuda_driver_t *driver, const memory_t *memory, gpu_extent_t *extents,
                                   uint32_t *count)
{
    CUdeviceptr end = memory->address + memory->bytes, next = memory->address;
    for (*count = 0; next < end; (*count)++) {
        if (*count == GPU_EXTENTS_MAX) {
            (*count)++;
            return BLINK_OK;
        }
        gpu_extent_t *extent = &extents[*count];
        CUresult result = driver->cuMemGetAddressRange(&extent->start, &extent->bytes, next);
        if (result != CUDA_SUCCESS && *count == 0)
            return cuda_driver_fail(driver, "cuMemGetAddressRange", result);
        bool adjoins = result == CUDA_SUCCESS && (*count == 0 || gpu_is_mapping(driver, extents[0].start));
        if (!adjoins)
            return BLINK_FAIL(
                BLINK_ERR_OUT_OF_RANGE,
                "%s buffer %#llx of %zu bytes runs %zu bytes past the end of its memory at %#llx",
                memory->what, memory->address, memory->bytes, (size_t)(end - next), next);
        extent->id = buffer_at(driver, next);
        next = extent->start + extent->bytes;
    }
    return BLINK_OK;
}

static gpu_import_t *make_import(const gpu_extent_t *extents, uint32_t count)
{
    gpu_import_t *import = malloc(sizeof(*import) + count * sizeof(*extents));
    if (!import) {
        blink_error_set(BLINK_ERR_NO_MEMORY, "no memory for %u extents of GPU memory", count);
        return NULL;
    }
    *import = (gpu_import_t){.start = extents[0].start, .extent_count = count};
    import->bytes = extents[count - 1].start + extents[count - 1].bytes - import->start;
    memcpy(import->extents, extents, count * sizeof(*extents));
    return import;
}

/* The daemon's number for what was exported; 0 if it does not want it. */
static blink_result_t send_export(gpus_t *gpus, gpu_t *gpu, gpu_export_t *made, gpu_import_t *import,
                                  uint64_t *gpu_resets)
{
    Blinkwire__GpuMemRegister body = BLINKWIRE__GPU_MEM_REGISTER__INIT;
    body.gpu_uuid.data = gpu->uuid;
    body.gpu_uuid.len = GPU_UUID_BYTES;
    body.extents = made->list;
    body.n_extents = made->count;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_GPU_MEM_REGISTER;
    request.gpu_mem_register = &body;
    control_answer_t answer;
    import->kind = made->extents[0].kind;
    blink_result_t result = control_call(gpus->context, &request, made->fds, made->fd_count, NULL, &answer);
    if (result == BLINK_ERR_PERMISSION || result == BLINK_ERR_UNSUPPORTED)
        return BLINK_OK;
    if (result != BLINK_OK)
        return result;
    if (answer.reply->body_case == BLINKWIRE__REPLY__BODY_MEM_REGISTER)
        import->region = answer.reply->mem_register->region;
    *gpu_resets = answer.gpu_resets;
    control_answer_release(&answer);
    if (import->region == 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon registered GPU memory at %#llx but gave no number",
                          import->start);
    return BLINK_OK;
}

/* Register the extents, or note that it cannot be done. Under register_lock. */
static blink_result_t import_extents(gpus_t *gpus, gpu_t *gpu, const gpu_extent_t *extents, uint32_t count,
                                     uint32_t *region, bool *forgotten)
{
    gpu_export_t made;
    uint64_t gpu_resets = atomic_load_explicit(&gpus->context->control.gpu_resets, memory_order_relaxed);
    gpu_import_t *import = make_import(extents, count);
    if (!import)
        return BLINK_ERR_NO_MEMORY; /* make_import() has said why */
    *forgotten = false;
    blink_result_t result = BLINK_OK;
    if (gpu_export(gpu, extents, count, &made)) {
        result = send_export(gpus, gpu, &made, import, &gpu_resets);
        gpu_export_release(&made);
    }
    *region = import->region;
    if (result == BLINK_OK)
        result = enter(gpus, import, gpu_resets, forgotten);
    if (result != BLINK_OK || *forgotten)
        free(import);
    return result;
}

/* Under register_lock. */
static blink_result_t register_memory(gpus_t *gpus, gpu_t *gpu, const memory_t *memory, gpu_place_t *place)
{
    gpu_extent_t extents[GPU_EXTENTS_MAX];
    uint32_t count;
    bool forgotten;
    if (find(gpus, memory, place))
        return BLINK_OK; /* another thread came first */
    sweep(gpus);
    do {
        BLINK_TRY(find_extents(gpus->driver, memory, extents, &count));
        if (count > GPU_EXTENTS_MAX)
            return BLINK_OK; /* staged: asked anew each time, which is little beside the copies */
        BLINK_TRY(import_extents(gpus, gpu, extents, count, &place->region, &forgotten));
        place->offset_bytes = memory->address - extents[0].start;
    } while (forgotten);
    return BLINK_OK;
}

blink_result_t gpu_place(blink_comm_t *comm, const char *what, const void *pointer, size_t bytes,
                         gpu_place_t *place)
{
    gpus_t *gpus = known_gpus(comm->context);
    *place = (gpu_place_t){0};
    if (!gpus)
        return BLINK_OK;
    const memory_t memory = ask(gpus->driver, what, pointer, bytes);
    place->on_device = memory.on_device;
    if (!memory.on_device || memory.is_managed)
        return BLINK_OK;
    /* Acquire: pairs with the store in gpu_require(). */
    gpu_t *gpu = atomic_load_explicit(&comm->gpu, memory_order_acquire);
    BLINK_TRY(check_gpu(gpus, comm, gpu, &memory));
    if (find(gpus, &memory, place))
        return BLINK_OK;
    pthread_mutex_lock(&gpus->imports.register_lock);
    blink_result_t result = register_memory(gpus, gpu, &memory, place);
    pthread_mutex_unlock(&gpus->imports.register_lock);
    return result;
}
