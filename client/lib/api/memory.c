/* blink_mem_*(): the library's half of the checks; the daemon repeats its own. */
#include "context/context.h"
#include "submit/populate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES (2u << 20)

static blink_result_t make_memfd(size_t bytes, int *fd)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > PTRDIFF_MAX - page_bytes)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
    int created = memfd_create("blink-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (created < 0)
        return BLINK_FAIL_ERRNO("memfd_create");
    if (ftruncate(created, (off_t)((bytes + page_bytes - 1) / page_bytes * page_bytes)) != 0 ||
        fcntl(created, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        blink_result_t result = BLINK_FAIL_ERRNO("make a memfd of %zu bytes", bytes);
        close(created);
        return result;
    }
    *fd = created;
    return BLINK_OK;
}

/* Memory of a memfd, mapped and registered. */
static blink_result_t map_and_register(regions_t *regions, int fd, size_t bytes, void **address)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map %zu bytes", bytes);
    if (bytes >= HUGE_PAGE_BYTES)
        (void)madvise(base, bytes, MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    region_t region = {.start = base, .bytes = bytes, .owned = true};
    blink_result_t result = populate(base, bytes);
    if (result == BLINK_OK)
        result = regions_add(regions, &region, fd, 0);
    if (result == BLINK_OK)
        *address = base;
    else
        munmap(base, bytes);
    return result;
}

blink_result_t blink_mem_alloc(blink_context_t *context, size_t bytes, void **address)
{
    if (!context || !address || bytes == 0)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_alloc: %s",
                         !context   ? "context is NULL"
                         : !address ? "address is NULL"
                                    : "bytes is 0");
    int fd = -1;
    CALL_TRY(make_memfd(bytes, &fd));
    blink_result_t result = map_and_register(&context->regions, fd, bytes, address);
    close(fd);
    return CALL_RESULT(result);
}

blink_result_t blink_mem_free(blink_context_t *context, void *address)
{
    if (!address)
        return BLINK_OK;
    if (!context)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_free: context is NULL");
    region_t region;
    blink_result_t result = regions_remove(&context->regions, address, true, &region);
    if (region.number != 0)
        munmap(address, region.bytes);
    return CALL_RESULT(result);
}

static blink_result_t prepare(blink_context_t *context, const void *address, size_t bytes)
{
    bool on_device, gpus_reach_it = false;
    uint32_t number = 0;
    uint64_t offset_bytes;
    BLINK_TRY(imports_prepare(&context->imports, address, bytes, &on_device));
    if (on_device)
        return BLINK_OK;
    BLINK_TRY(
        regions_resolve(&context->regions, "the", address, bytes, &number, &offset_bytes, &gpus_reach_it));
    if (number == 0)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%p is staged: it is ordinary memory of the host, not of blink_mem_alloc() or "
                          "blink_mem_register()",
                          address);
    if (!gpus_reach_it && gpus_driver(&context->gpus))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%p is staged on GPUs: they do not reach this memory of the host, or it was "
                          "registered before a CUDA driver was loaded",
                          address);
    return BLINK_OK;
}

blink_result_t blink_mem_prepare(blink_context_t *context, const void *address, size_t bytes)
{
    if (!context || !address || bytes == 0)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_prepare: %s",
                         !context   ? "context is NULL"
                         : !address ? "address is NULL"
                                    : "bytes is 0");
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%p of %zu bytes passes the end of the address space",
                         address, bytes);
    return CALL_RESULT(prepare(context, address, bytes));
}

blink_result_t blink_mem_promise_release(blink_context_t *context)
{
    if (!context)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_promise_release: context is NULL");
    imports_promise_release(&context->imports);
    return BLINK_OK;
}

blink_result_t blink_mem_release(blink_context_t *context, const void *address)
{
    if (!context)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_release: context is NULL");
    return CALL_RESULT(address ? imports_release(&context->imports, address)
                               : imports_release_freed(&context->imports));
}

static blink_result_t check_memfd(int fd, size_t bytes, size_t offset_bytes)
{
    struct stat status;
    struct statfs filesystem;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "descriptor %d is not a memfd: %s", fd,
                          strerror(errno));
    if (!(seals & F_SEAL_SHRINK))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "memfd %d is not sealed with F_SEAL_SHRINK", fd);
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "memfd %d is sealed against writing", fd);
    if (fstat(fd, &status) != 0 || fstatfs(fd, &filesystem) != 0)
        return BLINK_FAIL_ERRNO("fstat of memfd %d", fd);
    if (filesystem.f_type == HUGETLBFS_MAGIC)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "memfd %d is of huge pages (MFD_HUGETLB)", fd);
    size_t file_bytes = (size_t)status.st_size;
    if (offset_bytes > file_bytes || bytes > file_bytes - offset_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%zu bytes at offset %zu pass the end of memfd %d at %zu", bytes, offset_bytes, fd,
                          file_bytes);
    return BLINK_OK;
}

blink_result_t blink_mem_register(blink_context_t *context, void *address, size_t bytes, int fd,
                                  size_t offset_bytes)
{
    if (!context || !address || bytes == 0)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_register: %s",
                         !context   ? "context is NULL"
                         : !address ? "address is NULL"
                                    : "bytes is 0");
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if ((uintptr_t)address % page_bytes != 0 || offset_bytes % page_bytes != 0)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                         "address %p and offset %zu are not both multiples of a page, %zu", address,
                         offset_bytes, page_bytes);
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%p of %zu bytes passes the end of the address space",
                         address, bytes);
    CALL_TRY(check_memfd(fd, bytes, offset_bytes));
    CALL_TRY(populate(address, bytes));
    region_t region = {.start = address, .bytes = bytes};
    return CALL_RESULT(regions_add(&context->regions, &region, fd, offset_bytes));
}

blink_result_t blink_mem_deregister(blink_context_t *context, void *address)
{
    if (!context || !address)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_deregister: %s is NULL",
                         context ? "address" : "context");
    region_t region;
    return CALL_RESULT(regions_remove(&context->regions, address, false, &region));
}
