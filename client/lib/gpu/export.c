/* The three ways of exporting. That one does not work is no error, but the reason to try the next. */
#include "gpu/export.h"

#include <string.h>
#include <unistd.h>

static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(((gpu_export_t *)0)->handle),
              "as the daemon takes it");
static_assert(sizeof(CUipcMemHandle) == sizeof(((gpu_export_t *)0)->handle), "as the daemon takes it");

void gpu_export_release(gpu_export_t *made)
{
    while (made->fd_count > 0)
        close(made->fds[--made->fd_count]);
}

static Blinkwire__GpuExtent *add(gpu_export_t *made, Blinkwire__GpuExtentKind kind,
                                 const gpu_extent_t *extent)
{
    Blinkwire__GpuExtent *added = &made->extents[made->count];
    blinkwire__gpu_extent__init(added);
    added->kind = kind;
    added->allocation_bytes = extent->bytes;
    added->bytes = extent->bytes;
    made->list[made->count++] = added;
    return added;
}

static void add_handle(gpu_export_t *made, Blinkwire__GpuExtent *extent)
{
    extent->handle.data = made->handle;
    extent->handle.len = sizeof(made->handle);
}

static bool export_mapping(const cuda_driver_t *driver, const gpu_extent_t *extent, gpu_export_t *made)
{
    CUmemGenericAllocationHandle handle;
    int fd = -1;
    if (driver->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)extent->start) != CUDA_SUCCESS)
        return false;
    CUresult result =
        driver->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    (void)driver->cuMemRelease(handle);
    if (result != CUDA_SUCCESS)
        return false;
    made->fds[made->fd_count++] = fd;
    (void)add(made, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_VMM, extent);
    return true;
}

static bool export_mappings(const cuda_driver_t *driver, const gpu_extent_t *extents, uint32_t count,
                            gpu_export_t *made)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!export_mapping(driver, &extents[i], made)) {
            gpu_export_release(made);
            made->count = 0;
            return false;
        }
    }
    return true;
}

/* The pool first: before it was exported the driver names none of its memory to others. */
static bool export_pooled(const cuda_driver_t *driver, const gpu_extent_t *extent, gpu_export_t *made)
{
    CUmemoryPool pool = NULL;
    CUmemPoolPtrExportData data;
    int fd = -1;
    if (driver->cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, extent->start) !=
            CUDA_SUCCESS ||
        !pool)
        return false;
    if (driver->cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) !=
        CUDA_SUCCESS)
        return false;
    made->fds[made->fd_count++] = fd;
    if (driver->cuMemPoolExportPointer(&data, extent->start) != CUDA_SUCCESS) {
        gpu_export_release(made);
        return false;
    }
    memcpy(made->handle, &data, sizeof(made->handle));
    Blinkwire__GpuExtent *added = add(made, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_POOL, extent);
    add_handle(made, added);
    added->pool = (uintptr_t)pool; /* no other has this handle while it has memory */
    return true;
}

static bool export_legacy(const cuda_driver_t *driver, const gpu_extent_t *extent, gpu_export_t *made)
{
    CUipcMemHandle handle;
    if (driver->cuIpcGetMemHandle(&handle, extent->start) != CUDA_SUCCESS)
        return false;
    memcpy(made->handle, &handle, sizeof(made->handle));
    add_handle(made, add(made, BLINKWIRE__GPU_EXTENT_KIND__GPU_EXTENT_IPC, extent));
    return true;
}

/* The context that the memory belongs to, or the primary one. False if that cannot be told or entered. */
static bool push_context_of(gpu_t *gpu, CUdeviceptr address)
{
    CUcontext context = NULL;
    return gpu->driver->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address) ==
               CUDA_SUCCESS &&
           gpu->driver->cuCtxPushCurrent(context ? context : gpu->primary) == CUDA_SUCCESS;
}

bool gpu_export(gpu_t *gpu, const gpu_extent_t *extents, uint32_t count, gpu_export_t *made)
{
    const cuda_driver_t *driver = gpu->driver;
    made->count = made->fd_count = 0;
    if (!push_context_of(gpu, extents[0].start))
        return false;
    bool exported = export_mappings(driver, extents, count, made);
    if (!exported && count == 1)
        exported = export_pooled(driver, extents, made) || export_legacy(driver, extents, made);
    (void)driver->cuCtxPopCurrent(&(CUcontext){NULL});
    return exported;
}
