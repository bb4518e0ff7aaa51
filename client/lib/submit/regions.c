/* The table of registered memory, and blink_mem_*(): the library's half of the checks; the daemon repeats its
 * own. */
#include "submit/regions.h"

#include "context/context.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES    (2u << 20)
#define REGIONS_FIRST_ROOM 16u

void regions_init(regions_t *regions)
{
    *regions = (regions_t){0};
    pthread_rwlock_init(&regions->lock, NULL);
}

void regions_fini(regions_t *regions)
{
    for (size_t i = 0; i < regions->count; i++) {
        if (regions->items[i].owned)
            munmap(regions->items[i].start, regions->items[i].bytes);
    }
    free(regions->items);
    pthread_rwlock_destroy(&regions->lock);
}

/* Bytes from one address up to another; the two need not be of one object. */
static size_t distance(const void *from, const void *to)
{
    return (uintptr_t)to - (uintptr_t)from;
}

/* How many regions start at or below the address. Under the lock. */
static size_t count_up_to(const regions_t *regions, const void *address)
{
    size_t low = 0, high = regions->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)regions->items[middle].start <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static region_t *find_start(regions_t *regions, const void *start)
{
    size_t count = count_up_to(regions, start);
    region_t *region = count > 0 ? &regions->items[count - 1] : NULL;
    return region && region->start == start ? region : NULL;
}

blink_result_t regions_resolve(regions_t *regions, const char *what, const void *pointer, size_t bytes,
                               uint32_t *number, uint64_t *offset_bytes, bool *gpu)
{
    region_t region = {0};
    pthread_rwlock_rdlock(&regions->lock);
    size_t count = count_up_to(regions, pointer);
    if (count > 0)
        region = regions->items[count - 1];
    pthread_rwlock_unlock(&regions->lock);
    size_t offset = distance(region.start, pointer);
    *number = 0;
    if (region.number == 0 || offset >= region.bytes)
        return BLINK_OK;
    if (bytes > region.bytes - offset)
        return BLINK_FAIL(BLINK_ERR_OUT_OF_RANGE,
                          "%s buffer %p of %zu bytes runs %zu bytes past the end of its memory at %p", what,
                          pointer, bytes, bytes - (region.bytes - offset), region.start + region.bytes);
    *number = region.number;
    *offset_bytes = offset;
    if (gpu)
        *gpu = region.gpu;
    return BLINK_OK;
}

/* Under the lock held for writing. */
static blink_result_t insert(regions_t *regions, const region_t *fresh)
{
    size_t at = count_up_to(regions, fresh->start);
    const region_t *neighbour = NULL;
    if (at > 0 && distance(regions->items[at - 1].start, fresh->start) < regions->items[at - 1].bytes)
        neighbour = &regions->items[at - 1];
    else if (at < regions->count && distance(fresh->start, regions->items[at].start) < fresh->bytes)
        neighbour = &regions->items[at];
    if (neighbour)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "%p of %zu bytes overlaps the region at %p of %zu bytes",
                          fresh->start, fresh->bytes, neighbour->start, neighbour->bytes);
    if (regions->count == regions->capacity) {
        size_t capacity = regions->capacity > 0 ? 2 * regions->capacity : REGIONS_FIRST_ROOM;
        region_t *items = realloc(regions->items, capacity * sizeof(*items));
        if (!items)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table of %zu regions", capacity);
        regions->items = items;
        regions->capacity = capacity;
    }
    memmove(&regions->items[at + 1], &regions->items[at], (regions->count - at) * sizeof(*fresh));
    regions->items[at] = *fresh;
    regions->count++;
    return BLINK_OK;
}

static void erase(regions_t *regions, const void *start)
{
    pthread_rwlock_wrlock(&regions->lock);
    region_t *region = find_start(regions, start);
    size_t behind = (size_t)(regions->items + regions->count - (region + 1));
    memmove(region, region + 1, behind * sizeof(*region));
    regions->count--;
    pthread_rwlock_unlock(&regions->lock);
}

/* Enter the region, unusable at first so that no other call can take the place, and have the daemon number
 * it. */
static blink_result_t add(blink_context_t *context, const region_t *fresh, int fd, size_t offset_bytes)
{
    regions_t *regions = &context->regions;
    pthread_rwlock_wrlock(&regions->lock);
    blink_result_t result = insert(regions, fresh);
    pthread_rwlock_unlock(&regions->lock);
    if (result != BLINK_OK)
        return result;

    Blinkwire__MemRegister body = BLINKWIRE__MEM_REGISTER__INIT;
    body.offset_bytes = offset_bytes;
    body.bytes = fresh->bytes;
    body.gpu = gpus_find(context) != NULL; /* an application that uses none is spared the locked pages */
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_REGISTER;
    request.mem_register = &body;
    control_answer_t answer;
    result = control_call(context, &request, &fd, 1, NULL, &answer);
    if (result == BLINK_OK && answer.reply->body_case != BLINKWIRE__REPLY__BODY_MEM_REGISTER) {
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon registered %p but gave no number", fresh->start);
        control_answer_release(&answer);
    }
    if (result != BLINK_OK) {
        erase(regions, fresh->start);
        return result;
    }
    pthread_rwlock_wrlock(&regions->lock);
    region_t *added = find_start(regions, fresh->start);
    added->gpu = answer.reply->mem_register->gpu;
    added->number = answer.reply->mem_register->region;
    pthread_rwlock_unlock(&regions->lock);
    control_answer_release(&answer);
    return BLINK_OK;
}

/* Take the region that starts here out of use, wait until the daemon has let go of it, and forget it. The
 * memory can be unmapped afterwards, whatever the result, unless that is NOT_REGISTERED. */
static blink_result_t take_out(blink_context_t *context, void *start, bool owned, region_t *region)
{
    regions_t *regions = &context->regions;
    *region = (region_t){0};
    pthread_rwlock_wrlock(&regions->lock);
    region_t *found = find_start(regions, start);
    if (found && found->owned == owned) {
        *region = *found;
        found->number = 0;
    }
    pthread_rwlock_unlock(&regions->lock);
    if (region->number == 0)
        return BLINK_FAIL(BLINK_ERR_NOT_REGISTERED, "no %s memory starts at %p",
                          owned ? "allocated" : "registered", start);
    ops_drain(&context->ops, NULL);

    Blinkwire__MemDeregister body = BLINKWIRE__MEM_DEREGISTER__INIT;
    body.region = region->number;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER;
    request.mem_deregister = &body;
    blink_result_t result = control_call(context, &request, NULL, 0, NULL, NULL);
    erase(regions, start);
    return result;
}

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

blink_result_t blink_mem_alloc(blink_context_t *context, size_t bytes, void **address)
{
    if (!context || !address || bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_alloc: %s",
                          !context   ? "context is NULL"
                          : !address ? "address is NULL"
                                     : "bytes is 0");
    int fd = -1;
    BLINK_TRY(make_memfd(bytes, &fd));
    blink_result_t result;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        result = BLINK_FAIL_ERRNO("map %zu bytes", bytes);
        goto close_fd;
    }
    if (bytes >= HUGE_PAGE_BYTES)
        (void)madvise(base, bytes, MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    region_t region = {.start = base, .bytes = bytes, .owned = true};
    result = add(context, &region, fd, 0);
    if (result == BLINK_OK)
        *address = base;
    else
        munmap(base, bytes);
close_fd:
    close(fd);
    return result;
}

blink_result_t blink_mem_free(blink_context_t *context, void *address)
{
    if (!address)
        return BLINK_OK;
    if (!context)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_free: context is NULL");
    region_t region;
    blink_result_t result = take_out(context, address, true, &region);
    if (region.number != 0)
        munmap(address, region.bytes);
    return result;
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
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_register: %s",
                          !context   ? "context is NULL"
                          : !address ? "address is NULL"
                                     : "bytes is 0");
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if ((uintptr_t)address % page_bytes != 0 || offset_bytes % page_bytes != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "address %p and offset %zu are not both multiples of a page, %zu", address,
                          offset_bytes, page_bytes);
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%p of %zu bytes passes the end of the address space",
                          address, bytes);
    BLINK_TRY(check_memfd(fd, bytes, offset_bytes));
    region_t region = {.start = address, .bytes = bytes};
    return add(context, &region, fd, offset_bytes);
}

blink_result_t blink_mem_deregister(blink_context_t *context, void *address)
{
    if (!context || !address)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_mem_deregister: %s is NULL",
                          context ? "address" : "context");
    region_t region;
    return take_out(context, address, false, &region);
}
