#include "control/memory/region.h"

#include "control/gpus.h"
#include "windows.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES (2u << 20)

/* ---- pages that cannot be had ---- */

/* The mapped ranges, for the signal handler, which can reach nothing that is not global. A slot is taken
 * while `bytes` is not 0, and is written before that. There are as many slots as a process may have mappings.
 */
#define GUARDED_RANGES 65536u

static struct {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    _Atomic bool poisoned; /* a page was replaced */
} guarded[GUARDED_RANGES];

/* Where to look whether the range is poisoned; NULL: the table is full. */
static const _Atomic bool *guard(void *base, size_t bytes)
{
    for (uint32_t i = 0; i < GUARDED_RANGES; i++) {
        if (atomic_load_explicit(&guarded[i].bytes, memory_order_relaxed) != 0)
            continue;
        atomic_store_explicit(&guarded[i].base, (uintptr_t)base, memory_order_relaxed);
        atomic_store_explicit(&guarded[i].poisoned, false, memory_order_relaxed);
        /* Release: pairs with the acquire load in find_guarded(). */
        atomic_store_explicit(&guarded[i].bytes, bytes, memory_order_release);
        return &guarded[i].poisoned;
    }
    return NULL;
}

static void unguard(void *base)
{
    for (uint32_t i = 0; i < GUARDED_RANGES; i++) {
        /* Relaxed: only the control thread writes the table, and reads here what it wrote. */
        if (atomic_load_explicit(&guarded[i].base, memory_order_relaxed) == (uintptr_t)base)
            /* Release: pairs with the acquire load in find_guarded(). */
            atomic_store_explicit(&guarded[i].bytes, 0, memory_order_release);
    }
}

/* The poison mark of the range that holds an address; NULL if no range does. */
static _Atomic bool *find_guarded(uintptr_t address)
{
    for (uint32_t i = 0; i < GUARDED_RANGES; i++) {
        /* Acquire: pairs with the release store in guard(). */
        size_t bytes = atomic_load_explicit(&guarded[i].bytes, memory_order_acquire);
        uintptr_t base = atomic_load_explicit(&guarded[i].base, memory_order_relaxed);
        if (bytes != 0 && address - base < bytes)
            return &guarded[i].poisoned;
    }
    return NULL;
}

/* Put a private page of zeros where the client's page should be, and mark the region, so that the engine
 * fails the ops that use the region. mmap is a plain system call here, safe in a handler. */
static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(page_bytes - 1);
    _Atomic bool *poisoned = find_guarded((uintptr_t)info->si_addr);
    /* Relaxed: the engine looks at the mark after the end of the run, and that end is handed over in order.
     */
    if (poisoned)
        atomic_store_explicit(poisoned, true, memory_order_relaxed);
    if (poisoned && mmap((void *)page, page_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        return;
    /* Not ours: the access is repeated, and then ends the process as if there were no handler. */
    signal(signal_number, SIG_DFL);
}

blink_result_t region_install_sigbus_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, NULL) != 0)
        return BLINK_FAIL_ERRNO("SIGBUS handler");
    return BLINK_OK;
}

/* ---- registration ---- */

static blink_result_t check_descriptor(int fd, uint64_t offset_bytes, uint64_t bytes)
{
    struct stat status;
    struct statfs filesystem;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (fd < 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "no descriptor came with the registration");
    if (bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a region of 0 bytes");
    if (offset_bytes % page_bytes != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "offset %lu is not a multiple of the page size %lu",
                          (unsigned long)offset_bytes, (unsigned long)page_bytes);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the descriptor is not a memfd sealed with F_SEAL_SHRINK");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the memfd is sealed against writing");
    if (fstat(fd, &status) != 0 || fstatfs(fd, &filesystem) != 0)
        return BLINK_FAIL_ERRNO("stat of the memfd");
    if (filesystem.f_type == HUGETLBFS_MAGIC)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "memfds of huge pages are not accepted");
    uint64_t size_bytes = (uint64_t)status.st_size;
    if (offset_bytes > size_bytes || bytes > size_bytes - offset_bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the memfd has %lu bytes, offset %lu + %lu bytes run past them",
                          (unsigned long)size_bytes, (unsigned long)offset_bytes, (unsigned long)bytes);
    return BLINK_OK;
}

/* Charge a region, or nothing. */
static blink_result_t charge(account_t *account, uint64_t bytes)
{
    BLINK_TRY(account_charge(account, BUDGET_REGIONS, 1));
    blink_result_t result = account_charge(account, BUDGET_REGISTERED_BYTES, bytes);
    if (result != BLINK_OK)
        account_credit(account, BUDGET_REGIONS, 1);
    return result;
}

static void credit(account_t *account, uint64_t bytes)
{
    account_credit(account, BUDGET_REGIONS, 1);
    account_credit(account, BUDGET_REGISTERED_BYTES, bytes);
}

void region_free(region_t *region)
{
    if (region->map) {
        unguard(region->map);
        munmap(region->map, region->bytes);
    }
    if (region->gpu_token != 0)
        gpus_release(region->control->gpus, region->gpu_token);
    if (region->fd >= 0)
        close(region->fd);
    free(region);
}

void region_uncount(region_t *region)
{
    client_t *client = region->client;
    client->region_count--;
    client->registered_bytes -= region->bytes;
    credit(&client->tenant->account, region->bytes);
}

blink_result_t region_create(client_t *client, uint64_t bytes, engine_region_kind_t kind, region_t **created)
{
    BLINK_TRY(charge(&client->tenant->account, bytes));
    region_t *region = calloc(1, sizeof(*region));
    if (!region) {
        credit(&client->tenant->account, bytes);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another region");
    }
    region->control = client->control;
    region->client = client;
    region->kind = kind;
    region->bytes = bytes;
    region->fd = -1;
    region->number = ++client->last_region;
    list_prepend(&client->regions, &region->link);
    client->region_count++;
    client->registered_bytes += bytes;
    *created = region;
    return BLINK_OK;
}

void region_discard(region_t *region)
{
    list_remove(&region->link);
    region_uncount(region);
    region_free(region);
}

blink_result_t region_tell_engine(region_t *region, uint64_t gpu_address)
{
    engine_region_config_t config = {.region = region->number,
                                     .kind = region->kind,
                                     .base = region->map,
                                     .gpu_address = gpu_address,
                                     .bytes = region->bytes,
                                     .poisoned = region->map ? region->poisoned : &region->lost};
    return engine_region_add(region->client->engine, &config);
}

/* Map the memory and guard it. */
static blink_result_t region_map(region_t *region, int fd, uint64_t offset_bytes)
{
    void *map = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset_bytes);
    if (map == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map %lu bytes of the memfd", (unsigned long)region->bytes);
    region->map = map;
    if (region->bytes >= HUGE_PAGE_BYTES)
        (void)madvise(map, region->bytes,
                      MADV_HUGEPAGE); /* only a wish: all works without huge pages, slower */
    region->poisoned = guard(map, region->bytes);
    return region->poisoned ? BLINK_OK
                            : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "the daemon can map no more regions");
}

blink_result_t region_register(client_t *client, int fd, uint64_t offset_bytes, uint64_t bytes,
                               region_t **registered)
{
    region_t *region;
    BLINK_TRY(check_descriptor(fd, offset_bytes, bytes));
    BLINK_TRY(region_create(client, bytes, ENGINE_REGION_CLIENT, &region));
    region->offset_bytes = offset_bytes;
    blink_result_t result = region_map(region, fd, offset_bytes);
    if (result != BLINK_OK)
        region_discard(region);
    else
        *registered = region;
    return result;
}

static blink_result_t make_memfd(uint64_t bytes, int *fd)
{
    *fd = memfd_create("blink-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return BLINK_FAIL_ERRNO("memfd_create");
    if (ftruncate(*fd, (off_t)bytes) != 0 ||
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return BLINK_FAIL_ERRNO("make a staging region of %lu bytes", (unsigned long)bytes);
    return BLINK_OK;
}

static blink_result_t check_staging(const client_t *client, uint64_t bytes, engine_region_kind_t kind)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t least_bytes = kind == ENGINE_REGION_STAGING ? STAGING_HEADER_BYTES + page_bytes : page_bytes;
    if (bytes < least_bytes || bytes % page_bytes != 0 || bytes > INT64_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "a staging region of %lu bytes: whole pages, from %lu bytes on",
                          (unsigned long)bytes, (unsigned long)least_bytes);
    if (kind != ENGINE_REGION_WINDOWS)
        return BLINK_OK;
    LIST_FOR_EACH (link, &client->regions) {
        const region_t *region = CONTAINER_OF(link, region_t, link);
        if (region->kind == kind)
            return BLINK_FAIL(BLINK_ERR_EXISTS, "this client has windows for streams already, region %u",
                              region->number);
    }
    return BLINK_OK;
}

blink_result_t region_create_staging(client_t *client, uint64_t bytes, engine_region_kind_t kind,
                                     region_t **created)
{
    region_t *region;
    BLINK_TRY(check_staging(client, bytes, kind));
    BLINK_TRY(region_create(client, bytes, kind, &region)); /* the quota, before anything is made */
    blink_result_t result = make_memfd(bytes, &region->fd);
    if (result == BLINK_OK)
        result = region_map(region, region->fd, 0);
    if (result != BLINK_OK)
        region_discard(region);
    else
        *created = region;
    return result;
}

static void on_deregistered(void *context)
{
    region_t *region = context;
    region_uncount(region);
    connection_reply_ok(region->client->connection, region->request);
    region_free(region);
}

static region_t *find_settled(const client_t *client, uint32_t number)
{
    LIST_FOR_EACH (link, &client->regions) {
        region_t *region = CONTAINER_OF(link, region_t, link);
        if (region->number == number && !region->pending)
            return region;
    }
    return NULL;
}

void region_deregister(client_t *client, uint64_t request, uint32_t number)
{
    region_t *region = find_settled(client, number);
    if (!region) {
        BLINK_FAIL(BLINK_ERR_NOT_REGISTERED, "region %u is not registered", number);
        connection_reply_error(client->connection, request, BLINK_ERR_NOT_REGISTERED);
        return;
    }
    list_remove(&region->link);
    region->request = request;
    engine_region_remove(client->engine, number, (engine_done_t){on_deregistered, region});
}

void regions_leave_pending(client_t *client)
{
    LIST_FOR_EACH (link, &client->regions) {
        region_t *region = CONTAINER_OF(link, region_t, link);
        if (!region->pending)
            continue;
        list_remove(link);
        region_uncount(region);
        region->client = NULL; /* freed once the GPU worker has answered */
    }
}

void regions_release_all(client_t *client)
{
    LIST_FOR_EACH (link, &client->regions) {
        region_t *region = CONTAINER_OF(link, region_t, link);
        list_remove(link);
        region_uncount(region);
        region_free(region);
    }
}
