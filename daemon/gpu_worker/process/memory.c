/* What the service asked to import or map, by its token: whole requests, of one extent or several side by
 * side, and the way back. */
#include "gpu_worker/process/memory.h"

#include "base/holes.h"
#include "gpu_worker/process/import.h"
#include "gpu_worker/process/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum import_kind { IMPORT_VMM, IMPORT_POOL, IMPORT_IPC, IMPORT_HOST } import_kind_t;

struct worker_import {
    uint64_t token;
    import_kind_t kind;
    uint32_t gpu;
    CUdeviceptr address;      /* of the first allocation, not of what the service asked for */
    uint64_t bytes;           /* VMM, HOST */
    uint64_t mapped_bytes;    /* VMM: fewer as long as requests are to follow */
    uint64_t offset_bytes;    /* VMM: from `address` to what the service asked for */
    struct worker_pool *pool; /* POOL */
    void *host;               /* HOST */
    struct worker_import *next;
};

static blink_result_t fail_extent(blink_result_t result, const gpu_request_t *request, uint32_t index)
{
    return BLINK_FAIL(result, "extent %u of %u: %s", index, request->extent_count, blink_error_text());
}

/* ---- what is asked for ---- */

static bool has_descriptor(const gpu_extent_t *extent)
{
    return extent->kind == GPU_EXTENT_VMM || extent->kind == GPU_EXTENT_POOL;
}

static blink_result_t check_extent(const worker_t *worker, const gpu_extent_t *extent)
{
    if (extent->kind > GPU_EXTENT_IPC)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "kind %u is none", extent->kind);
    if (extent->kind == GPU_EXTENT_IPC && !worker->start.legacy_ipc)
        return BLINK_FAIL(BLINK_ERR_PERMISSION, "a CUDA IPC handle, which this daemon does not accept");
    if (extent->bytes == 0 || extent->offset_bytes > extent->allocation_bytes ||
        extent->bytes > extent->allocation_bytes - extent->offset_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%" PRIu64 " bytes at %" PRIu64 " of an allocation of %" PRIu64, extent->bytes,
                          extent->offset_bytes, extent->allocation_bytes);
    return BLINK_OK;
}

/* Whole allocations are mapped, so what is between the first byte and the last must be whole; and so must be
 * all of several requests, which tell how many bytes follow, and not of how large allocations. */
static blink_result_t check_adjoins(const gpu_request_t *request, uint32_t index)
{
    const gpu_extent_t *extent = &request->extents[index];
    const uint64_t end = extent->offset_bytes + extent->bytes;
    const bool is_one_of_several = request->kind == GPU_IMPORT_MORE || request->following_bytes > 0;
    if (request->extent_count == 1 && !is_one_of_several)
        return BLINK_OK;
    if (extent->kind != GPU_EXTENT_VMM)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "only VMM memory can be mapped beside other memory");
    if ((index > 0 || is_one_of_several) && extent->offset_bytes != 0)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "it begins %" PRIu64 " bytes into its allocation",
                          extent->offset_bytes);
    if ((index + 1 < request->extent_count || is_one_of_several) && end != extent->allocation_bytes)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "it ends %" PRIu64 " bytes before its allocation",
                          extent->allocation_bytes - end);
    return BLINK_OK;
}

static blink_result_t check_request(const worker_t *worker, const gpu_request_t *request, uint32_t fd_count)
{
    uint32_t descriptors = 0;
    if (request->gpu >= worker->gpu_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "GPU %u: there are %u", request->gpu,
                          worker->gpu_count);
    if (request->extent_count == 0 || request->extent_count > GPU_EXTENTS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u extents: need 1 to %u", request->extent_count,
                          GPU_EXTENTS_MAX);
    for (uint32_t i = 0; i < request->extent_count; i++) {
        blink_result_t result = check_extent(worker, &request->extents[i]);
        if (result == BLINK_OK)
            result = check_adjoins(request, i);
        if (result != BLINK_OK)
            return fail_extent(result, request, i);
        descriptors += has_descriptor(&request->extents[i]);
    }
    if (descriptors != fd_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u descriptors for extents that need %u", fd_count,
                          descriptors);
    return BLINK_OK;
}

/* ---- VMM: allocations side by side ---- */

static void unmap(const worker_t *worker, CUdeviceptr address, uint64_t mapped_bytes, uint64_t bytes)
{
    if (mapped_bytes > 0)
        worker_log_failure(worker, "cuMemUnmap", worker->cu->cuMemUnmap(address, mapped_bytes));
    worker_log_failure(worker, "cuMemAddressFree", worker->cu->cuMemAddressFree(address, bytes));
}

/* Let GPUs use what has been mapped from an address on, which must be memory of the GPU that was named. */
static blink_result_t open_mapped(const worker_t *worker, const gpu_request_t *request, CUdeviceptr address,
                                  uint64_t bytes)
{
    CUmemAccessDesc access[GPU_MAX];
    WORKER_IMPORT_TRY(worker, cuMemSetAccess, address, bytes, access,
                      worker_accessors(worker, request->gpu, access));
    for (uint32_t i = 0; i < request->extent_count; i++) {
        blink_result_t result = worker_check_gpu(worker, request->gpu, address);
        if (result != BLINK_OK)
            return fail_extent(result, request, i);
        address += request->extents[i].allocation_bytes;
    }
    return BLINK_OK;
}

/* How many bytes the request's extents take, and those that follow. Errors: INVALID_ARGUMENT. */
static blink_result_t sum_bytes(const gpu_request_t *request, uint64_t *bytes)
{
    *bytes = request->following_bytes;
    for (uint32_t i = 0; i < request->extent_count; i++) {
        if (__builtin_add_overflow(*bytes, request->extents[i].allocation_bytes, bytes))
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the extents have no sum of 64 bits");
    }
    return BLINK_OK;
}

/* Take addresses for all extents, those of further requests, too. */
static blink_result_t reserve(const worker_t *worker, const gpu_request_t *request,
                              struct worker_import *import)
{
    import->offset_bytes = request->extents[0].offset_bytes;
    BLINK_TRY(sum_bytes(request, &import->bytes));
    WORKER_IMPORT_TRY(worker, cuMemAddressReserve, &import->address, import->bytes, 0, 0, 0);
    return BLINK_OK;
}

static blink_result_t map_side_by_side(const worker_t *worker, const gpu_request_t *request,
                                       const CUmemGenericAllocationHandle *handles,
                                       struct worker_import *import)
{
    const uint64_t begin = import->mapped_bytes;
    for (uint32_t i = 0; i < request->extent_count; i++) {
        const uint64_t bytes = request->extents[i].allocation_bytes;
        CUresult mapped =
            worker->cu->cuMemMap(import->address + import->mapped_bytes, bytes, 0, handles[i], 0);
        if (mapped != CUDA_SUCCESS) /* most likely there is less of it than was said */
            return fail_extent(worker_import_fail(worker, "cuMemMap", mapped), request, i);
        import->mapped_bytes += bytes;
    }
    return open_mapped(worker, request, import->address + begin, import->mapped_bytes - begin);
}

/* Open the request's extents and map them behind what is mapped already. */
static blink_result_t import_extents(worker_t *worker, const gpu_request_t *request, const int *fds,
                                     struct worker_import *import)
{
    CUmemGenericAllocationHandle handles[GPU_EXTENTS_MAX];
    blink_result_t result = BLINK_OK;
    uint32_t opened = 0;
    BLINK_TRY(worker_select(worker, &worker->gpus[request->gpu]));
    while (result == BLINK_OK && opened < request->extent_count) {
        result =
            worker_open_vmm(worker, request->gpu, &request->extents[opened], fds[opened], &handles[opened]);
        if (result == BLINK_OK)
            opened++;
        else
            fail_extent(result, request, opened);
    }
    if (result == BLINK_OK && import->bytes == 0)
        result = reserve(worker, request, import);
    if (result == BLINK_OK)
        result = map_side_by_side(worker, request, handles, import);
    /* The mappings keep the memory. */
    for (uint32_t i = 0; i < opened; i++)
        worker_log_failure(worker, "cuMemRelease", worker->cu->cuMemRelease(handles[i]));
    return result;
}

static blink_result_t import_vmm(worker_t *worker, const gpu_request_t *request, const int *fds,
                                 struct worker_import *import)
{
    blink_result_t result = import_extents(worker, request, fds, import);
    if (result != BLINK_OK && import->address != 0)
        unmap(worker, import->address, import->mapped_bytes, import->bytes);
    return result;
}

/* ---- requests ---- */

static struct worker_import **place_of(worker_t *worker, uint64_t token)
{
    struct worker_import **place = &worker->imports;
    while (*place && (*place)->token != token)
        place = &(*place)->next;
    return place;
}

static blink_result_t import_create(worker_t *worker, const gpu_request_t *request,
                                    struct worker_import **import)
{
    if (request->token == 0 || *place_of(worker, request->token))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "token %" PRIu64 " is %s", request->token,
                          request->token == 0 ? "none" : "taken");
    *import = calloc(1, sizeof(**import));
    if (!*import)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an import");
    (*import)->token = request->token;
    (*import)->gpu = request->gpu;
    return BLINK_OK;
}

/* Keep it, or forget it after a failure. */
static blink_result_t import_settle(worker_t *worker, struct worker_import *import, blink_result_t result)
{
    if (result != BLINK_OK) {
        free(import);
        return result;
    }
    import->next = worker->imports;
    worker->imports = import;
    return BLINK_OK;
}

blink_result_t worker_import(worker_t *worker, const gpu_request_t *request, const int *fds,
                             uint32_t fd_count, uint64_t *address)
{
    const gpu_extent_t *first = &request->extents[0];
    struct worker_import *import;
    blink_result_t result;
    BLINK_TRY(check_request(worker, request, fd_count));
    BLINK_TRY(import_create(worker, request, &import));
    switch ((gpu_extent_kind_t)first->kind) {
    case GPU_EXTENT_VMM:
        import->kind = IMPORT_VMM;
        result = import_vmm(worker, request, fds, import);
        break;
    case GPU_EXTENT_POOL:
        import->kind = IMPORT_POOL;
        result = worker_open_pooled(worker, request->gpu, first, fds[0], &import->pool, &import->address);
        break;
    default:
        import->kind = IMPORT_IPC;
        result = worker_open_ipc(worker, request->gpu, first, &import->address);
        break;
    }
    if (result != BLINK_OK && first->kind != GPU_EXTENT_VMM)
        fail_extent(result, request, 0);
    *address = import->address + first->offset_bytes;
    return import_settle(worker, import, result);
}

blink_result_t worker_import_more(worker_t *worker, const gpu_request_t *request, const int *fds,
                                  uint32_t fd_count, uint64_t *address)
{
    struct worker_import *import = *place_of(worker, request->token);
    uint64_t bytes;
    BLINK_TRY(check_request(worker, request, fd_count));
    BLINK_TRY(sum_bytes(request, &bytes));
    if (!import || import->kind != IMPORT_VMM || import->gpu != request->gpu ||
        bytes != import->bytes - import->mapped_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%" PRIu64 " bytes on GPU %u do not go on with what token %" PRIu64 " imported",
                          bytes, request->gpu, request->token);
    *address = import->address + import->offset_bytes;
    return import_extents(worker, request, fds, import);
}

/* ---- host memory ---- */

/* All GPUs must find the memory at one address, since a region has only one. */
static blink_result_t register_host(worker_t *worker, struct worker_import *import)
{
    const cuda_driver_t *cu = worker->cu;
    blink_result_t result = BLINK_OK;
    BLINK_TRY(worker_select(worker, &worker->gpus[0]));
    CUDA_DRIVER_TRY(cu, cuMemHostRegister, import->host, import->bytes,
                    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    for (uint32_t i = 0; i < worker->gpu_count && result == BLINK_OK; i++) {
        CUdeviceptr address = 0;
        CUresult found = CUDA_SUCCESS;
        result = worker_select(worker, &worker->gpus[i]);
        if (result == BLINK_OK)
            found = cu->cuMemHostGetDevicePointer(&address, import->host, 0);
        if (found != CUDA_SUCCESS)
            result = cuda_driver_fail(cu, "cuMemHostGetDevicePointer", found);
        else if (i > 0 && address != import->address)
            result = BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "GPU %u finds host memory elsewhere than GPU 0", i);
        import->address = address;
    }
    if (result != BLINK_OK)
        worker_log_failure(worker, "cuMemHostUnregister", cu->cuMemHostUnregister(import->host));
    return result;
}

static blink_result_t map_host(worker_t *worker, const gpu_request_t *request, int fd,
                               struct worker_import *import)
{
    uint64_t offset_bytes = request->offset_bytes;
    struct stat status;
    if (fstat(fd, &status) != 0)
        return BLINK_FAIL_ERRNO("host memory");
    uint64_t size_bytes = (uint64_t)status.st_size;
    if (import->bytes == 0 || offset_bytes > size_bytes || import->bytes > size_bytes - offset_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "host memory: %" PRIu64 " bytes at %" PRIu64 " of a file of %" PRIu64,
                          import->bytes, offset_bytes, size_bytes);
    import->host = mmap(NULL, import->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset_bytes);
    if (import->host == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map %" PRIu64 " bytes of host memory", import->bytes);
    int holes = -1;
    if (request->keep_holes)
        (void)holes_open(&holes); /* where it is not to be had, the service has said so */
    blink_result_t result = holes_keep(holes, import->host, import->bytes);
    if (result == BLINK_OK)
        result = register_host(worker, import);
    if (holes >= 0)
        close(holes); /* what is registered is pinned */
    if (result != BLINK_OK)
        munmap(import->host, import->bytes);
    return result;
}

blink_result_t worker_map_host(worker_t *worker, const gpu_request_t *request, const int *fds,
                               uint32_t fd_count, uint64_t *address)
{
    struct worker_import *import;
    if (fd_count != 1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "host memory: %u descriptors", fd_count);
    BLINK_TRY(import_create(worker, request, &import));
    import->kind = IMPORT_HOST;
    import->bytes = request->bytes;
    blink_result_t result = map_host(worker, request, fds[0], import);
    *address = import->address;
    return import_settle(worker, import, result);
}

blink_result_t worker_release(worker_t *worker, uint64_t token)
{
    struct worker_import **place = place_of(worker, token), *import = *place;
    if (!import)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "token %" PRIu64 " names nothing", token);
    *place = import->next;
    switch (import->kind) {
    case IMPORT_VMM:
        unmap(worker, import->address, import->mapped_bytes, import->bytes);
        break;
    case IMPORT_POOL:
        worker_close_pooled(worker, import->pool, import->address);
        break;
    case IMPORT_IPC:
        worker_close_ipc(worker, import->gpu, import->address);
        break;
    case IMPORT_HOST:
        worker_log_failure(worker, "cuMemHostUnregister", worker->cu->cuMemHostUnregister(import->host));
        munmap(import->host, import->bytes);
        break;
    }
    free(import);
    return BLINK_OK;
}
