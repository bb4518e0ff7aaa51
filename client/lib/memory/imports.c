/* The cache of imports, and what the daemon is told of them. */
#include "memory/import.h"

#include "frame.h"
#include "gpu/export.h"
#include "gpu/unusable.h"

#include <stdlib.h>
#include <string.h>

static_assert(GPU_EXTENTS_MAX <= FRAME_FDS_MAX, "a descriptor for each");

void imports_init(imports_t *imports, gpus_t *gpus, connection_t *connection, ops_t *ops)
{
    *imports = (imports_t){.gpus = gpus, .connection = connection, .ops = ops};
    pthread_rwlock_init(&imports->lock, NULL);
    pthread_mutex_init(&imports->register_lock, NULL);
    pthread_cond_init(&imports->released, NULL);
    list_init(&imports->leaving);
    list_init(&imports->releasing);
}

static void clear(imports_t *imports)
{
    for (size_t i = 0; i < imports->cache.count; i++)
        free(imports->cache.items[i]);
    imports->cache.count = 0;
}

void imports_fini(imports_t *imports)
{
    clear(imports);
    imports_free_leaving(imports);
    vec_free(&imports->cache);
    pthread_cond_destroy(&imports->released);
    pthread_mutex_destroy(&imports->register_lock);
    pthread_rwlock_destroy(&imports->lock);
}

void imports_reset(imports_t *imports)
{
    pthread_rwlock_wrlock(&imports->lock);
    clear(imports);
    pthread_rwlock_unlock(&imports->lock);
}

blink_result_t imports_refuse(imports_t *imports, const char *what, const void *pointer)
{
    const cuda_driver_t *driver = gpus_driver(imports->gpus);
    if (!driver)
        return gpus_refuse_unusable(imports->gpus, what, pointer);
    if (!gpu_memory_ask(driver, what, pointer, 1).on_device)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "%s buffer %p is GPU memory, but the communicator is on host devices", what, pointer);
}

/* ---- the cache ---- */

static bool contains(const gpu_import_t *import, const gpu_memory_t *memory)
{
    CUdeviceptr offset = memory->address - import->start;
    return memory->address >= import->start && offset < import->bytes &&
           memory->bytes <= import->bytes - offset;
}

/* Whether every extent that the memory touches is still what was registered. */
static bool is_current(const cuda_driver_t *driver, const gpu_import_t *import, const gpu_memory_t *memory)
{
    for (size_t i = 0; i < import->extent_count; i++) {
        const gpu_extent_t *extent = &import->extents[i];
        if (extent->start + extent->bytes <= memory->address)
            continue;
        if (extent->start >= memory->address + memory->bytes)
            break;
        bool first = extent->start <= memory->address;
        if ((first ? memory->id : gpu_memory_id(driver, extent->start)) != extent->id)
            return false;
    }
    return true;
}

/* Whether it is in the cache; then where. */
static bool find(imports_t *imports, const gpu_memory_t *memory, import_place_t *place)
{
    const cuda_driver_t *driver = gpus_driver(imports->gpus);
    bool found = false;
    pthread_rwlock_rdlock(&imports->lock);
    for (size_t i = 0; i < imports->cache.count && !found; i++) {
        const gpu_import_t *import = imports->cache.items[i];
        if (!contains(import, memory) || !is_current(driver, import, memory))
            continue;
        found = true;
        place->region = import->region;
        place->offset_bytes = memory->address - import->start;
    }
    pthread_rwlock_unlock(&imports->lock);
    return found;
}

/* Enter an import, unless the daemon has forgotten it already. After a success without that it is the
 * cache's. Under register_lock. */
static blink_result_t enter(imports_t *imports, gpu_import_t *import, uint64_t gpu_resets, bool *forgotten)
{
    blink_result_t result = BLINK_OK;
    pthread_rwlock_wrlock(&imports->lock);
    /* Relaxed: if it grows later, imports_reset() clears the cache later. */
    *forgotten = atomic_load_explicit(&imports->connection->gpu_resets, memory_order_relaxed) != gpu_resets;
    if (!*forgotten && !vec_push(&imports->cache, import))
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table of %zu GPU buffers",
                            imports->cache.count + 1);
    pthread_rwlock_unlock(&imports->lock);
    return result;
}

/* ---- registration ---- */

static gpu_import_t *make_import(const gpu_extents_t *extents)
{
    const size_t count = extents->count;
    const gpu_extent_t *first = &extents->items[0], *last = &extents->items[count - 1];
    gpu_import_t *import = malloc(sizeof(*import) + count * sizeof(*first));
    if (!import) {
        blink_error_set(BLINK_ERR_NO_MEMORY, "no memory for %zu extents of GPU memory", count);
        return NULL;
    }
    *import = (gpu_import_t){.start = first->start, .extent_count = count};
    import->bytes = last->start + last->bytes - import->start;
    list_init(&import->link);
    list_init(&import->of_releasing);
    memcpy(import->extents, first, count * sizeof(*first));
    return import;
}

/* Take the daemon's number from its answer to a message of a registration. */
static blink_result_t take_number(gpu_import_t *import, const Blinkwire__Reply *reply)
{
    const bool has_number = reply->body_case == BLINKWIRE__REPLY__BODY_MEM_REGISTER;
    const uint32_t region = has_number ? reply->mem_register->region : 0;
    if (region == 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon registered GPU memory at %#llx but gave no number",
                          import->start);
    if (import->region != 0 && import->region != region)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL,
                          "the daemon, older than this library, cannot register the %zu mappings of GPU "
                          "memory at %#llx in several messages: restart it with this version",
                          import->extent_count, import->start);
    import->region = region;
    return BLINK_OK;
}

/* Send a message of a registration, after which so many bytes are to follow. The import's number is 0 after
 * it if the daemon does not want the memory, or after an error. */
static blink_result_t send_export(imports_t *imports, gpu_t *gpu, gpu_export_t *made,
                                  uint64_t following_bytes, gpu_import_t *import, uint64_t *gpu_resets)
{
    Blinkwire__GpuMemRegister body = BLINKWIRE__GPU_MEM_REGISTER__INIT;
    body.gpu_uuid.data = gpu->uuid;
    body.gpu_uuid.len = GPU_UUID_BYTES;
    body.extents = made->list;
    body.n_extents = made->count;
    body.following_bytes = import->region == 0 ? following_bytes : 0;
    body.region = import->region;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_GPU_MEM_REGISTER;
    request.gpu_mem_register = &body;
    connection_answer_t answer;
    blink_result_t result =
        connection_call(imports->connection, &request, made->fds, made->fd_count, &answer);
    if (result != BLINK_OK)
        import->region = 0;
    if (result == BLINK_ERR_PERMISSION || result == BLINK_ERR_UNSUPPORTED)
        return BLINK_OK;
    if (result != BLINK_OK)
        return result;
    *gpu_resets = answer.gpu_resets;
    result = take_number(import, answer.reply);
    connection_answer_release(&answer);
    return result;
}

/* What the daemon has of a registration that cannot go on is of no use. */
static blink_result_t withdraw(imports_t *imports, gpu_import_t *import)
{
    import_ask_back(imports, import);
    import->region = 0;
    return connection_await(imports->connection, &import->given_back);
}

/* Export the extents in as many messages as it takes; the import has no number if that cannot be done. */
static blink_result_t send_extents(imports_t *imports, gpu_t *gpu, gpu_import_t *import, uint64_t *gpu_resets)
{
    uint64_t following_bytes = import->bytes;
    uint32_t count;
    for (size_t sent = 0; sent < import->extent_count; sent += count) {
        const gpu_extent_t *extents = &import->extents[sent];
        const size_t left = import->extent_count - sent;
        gpu_export_t made;
        count = left < GPU_EXTENTS_MAX ? (uint32_t)left : GPU_EXTENTS_MAX;
        for (uint32_t i = 0; i < count; i++)
            following_bytes -= extents[i].bytes;
        if (!gpu_export(gpu, extents, count, &made))
            return import->region != 0 ? withdraw(imports, import) : BLINK_OK;
        blink_result_t result = send_export(imports, gpu, &made, following_bytes, import, gpu_resets);
        gpu_export_release(&made);
        if (result != BLINK_OK || import->region == 0)
            return result;
    }
    return BLINK_OK;
}

/* Register the extents, or note that it cannot be done. Under register_lock. */
static blink_result_t import_extents(imports_t *imports, gpu_t *gpu, const gpu_extents_t *extents,
                                     uint32_t *region, bool *forgotten)
{
    uint64_t gpu_resets = atomic_load_explicit(&imports->connection->gpu_resets, memory_order_relaxed);
    gpu_import_t *import = make_import(extents);
    if (!import)
        return BLINK_ERR_NO_MEMORY; /* make_import() has said why */
    *forgotten = false;
    blink_result_t result = send_extents(imports, gpu, import, &gpu_resets);
    *region = import->region;
    if (result == BLINK_OK)
        result = enter(imports, import, gpu_resets, forgotten);
    if (result != BLINK_OK || *forgotten)
        free(import);
    return result;
}

/* What has no id cannot be told from what may be at its address later. */
static bool has_ids(const gpu_extents_t *extents)
{
    for (size_t i = 0; i < extents->count; i++) {
        if (extents->items[i].id == 0)
            return false;
    }
    return true;
}

/* Whether it may be told from other memory at its address later, and may stay open in the daemon until it is
 * freed. Of memory of a pool nothing may be asked once it is freed, and it must be closed elsewhere before:
 * the application has to say so. */
static bool may_be_kept(imports_t *imports, const gpu_extents_t *extents)
{
    return has_ids(extents) && (imports_is_promised(imports) ||
                                !gpu_is_pooled(gpus_driver(imports->gpus), extents->items[0].start));
}

/* What may not be kept is staged, and asked about anew each time, which is little beside the copies. Under
 * register_lock. */
static blink_result_t register_extents(imports_t *imports, gpu_t *gpu, const gpu_memory_t *memory,
                                       gpu_extents_t *extents, import_place_t *place)
{
    bool forgotten = true;
    while (forgotten) {
        BLINK_TRY(gpu_memory_extents(gpus_driver(imports->gpus), memory, extents));
        if (!may_be_kept(imports, extents))
            return BLINK_OK;
        BLINK_TRY(import_extents(imports, gpu, extents, &place->region, &forgotten));
        place->offset_bytes = memory->address - extents->items[0].start;
    }
    return BLINK_OK;
}

/* Under register_lock. */
static blink_result_t register_memory(imports_t *imports, gpu_t *gpu, const gpu_memory_t *memory,
                                      import_place_t *place)
{
    gpu_extents_t extents = {0};
    if (find(imports, memory, place))
        return BLINK_OK; /* another thread came first */
    imports_sweep(imports);
    blink_result_t result = register_extents(imports, gpu, memory, &extents, place);
    vec_free(&extents);
    return result;
}

/* Visiting. */
static blink_result_t find_or_register(imports_t *imports, gpu_t *gpu, const gpu_memory_t *memory,
                                       import_place_t *place)
{
    if (find(imports, memory, place))
        return BLINK_OK;
    pthread_mutex_lock(&imports->register_lock);
    blink_result_t result = register_memory(imports, gpu, memory, place);
    pthread_mutex_unlock(&imports->register_lock);
    return result;
}

blink_result_t imports_place(imports_t *imports, rank_gpu_t *rank, const char *what, const void *pointer,
                             size_t bytes, import_place_t *place)
{
    const cuda_driver_t *driver = gpus_driver(imports->gpus);
    *place = (import_place_t){0};
    if (!driver)
        return gpus_refuse_unusable(imports->gpus, what, pointer);
    const gpu_memory_t memory = gpu_memory_ask(driver, what, pointer, bytes);
    place->on_device = memory.on_device;
    if (!memory.on_device || memory.is_managed)
        return BLINK_OK;
    /* Acquire: pairs with the store in rank_gpu_require(). */
    gpu_t *gpu = atomic_load_explicit(&rank->found, memory_order_acquire);
    BLINK_TRY(gpu_memory_check(driver, rank, gpu, &memory));
    return find_or_register(imports, gpu, &memory, place);
}

/* ---- before it is used ---- */

/* The GPU that the memory is on. */
static blink_result_t open_gpu_of(imports_t *imports, const gpu_memory_t *memory, gpu_t **gpu)
{
    const cuda_driver_t *driver = gpus_driver(imports->gpus);
    CUdevice device;
    CUuuid uuid;
    CUDA_DRIVER_TRY(driver, cuDeviceGet, &device, memory->ordinal);
    CUDA_DRIVER_TRY(driver, cuDeviceGetUuid, &uuid, device);
    return gpus_open(imports->gpus, (const uint8_t *)uuid.bytes, gpu);
}

/* Visiting, unless it is managed memory. */
static blink_result_t say_staged(const cuda_driver_t *driver, const gpu_memory_t *memory)
{
    if (memory->is_managed)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%#llx is staged: it is managed memory", memory->address);
    if (gpu_is_pooled(driver, memory->address))
        return BLINK_FAIL(
            BLINK_ERR_UNSUPPORTED,
            "%#llx is staged: it is of a memory pool, which has to be shareable as a descriptor, "
            "of an allocation of 4 GiB at most, and blink_mem_promise_release() has to come first",
            memory->address);
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                      "%#llx is staged: daemons with devices on GPUs open memory that is shareable as a "
                      "descriptor and, unless legacy_ipc = no, that of cudaMalloc()",
                      memory->address);
}

blink_result_t imports_prepare(imports_t *imports, const void *pointer, size_t bytes, bool *on_device)
{
    const cuda_driver_t *driver = gpus_find_driver(imports->gpus);
    import_place_t place = {0};
    gpu_visit_t visit;
    gpu_t *gpu;
    *on_device = false;
    if (!driver)
        return gpus_refuse_unusable(imports->gpus, "the", pointer);
    const gpu_memory_t memory = gpu_memory_ask(driver, "the", pointer, bytes);
    *on_device = memory.on_device;
    if (!memory.on_device)
        return BLINK_OK;
    if (memory.is_managed)
        return say_staged(driver, &memory);
    BLINK_TRY(open_gpu_of(imports, &memory, &gpu));
    BLINK_TRY(gpu_enter(gpu, &visit));
    blink_result_t result = find_or_register(imports, gpu, &memory, &place);
    if (result == BLINK_OK && place.region == 0)
        result = say_staged(driver, &memory);
    gpu_leave(&visit);
    return result;
}
