#include "control/memory/region.h"

#include "base/guard.h"
#include "base/holes.h"
#include "base/pages.h"
#include "control/descriptors.h"
#include "control/gpus.h"
#include "control/memory/region_loss.h"
#include "windows.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STAT_BLOCK_BYTES 512u /* of stat.st_blocks, whatever the filesystem */

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
    /* Not all holes show here, but these do, and it is better to hear of them now than from an op. */
    uint64_t populated_bytes = (uint64_t)status.st_blocks * STAT_BLOCK_BYTES;
    if (populated_bytes < bytes)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "the memfd has pages for %lu of the region's %lu bytes: populate them first, as "
                          "madvise() does with MADV_POPULATE_WRITE",
                          (unsigned long)populated_bytes, (unsigned long)bytes);
    return BLINK_OK;
}

/* What the account of a region's tenant is charged. */
#define REGION_CHARGES 3u

typedef struct region_charges {
    charge_t all[REGION_CHARGES];
} region_charges_t;

static region_charges_t charges_of(uint32_t message_count, uint64_t bytes, uint64_t pinned_bytes)
{
    return (region_charges_t){{{BUDGET_REGIONS, message_count},
                               {BUDGET_REGISTERED_BYTES, bytes},
                               {BUDGET_PINNED_BYTES, pinned_bytes}}};
}

void region_free(region_t *region)
{
    guard_remove(region->guard);
    if (region->map)
        munmap(region->map, region->bytes);
    if (region->gpu_token != 0)
        gpus_release(region->control->gpus, region->gpu_token, (gpu_answer_t){0});
    if (region->fd >= 0)
        close(region->fd);
    free(region);
}

void region_uncount(region_t *region)
{
    client_t *client = region->client;
    client->region_count--;
    client->registered_bytes -= region->bytes;
    region_charges_t charges = charges_of(region->message_count, region->bytes, region->pinned_bytes);
    account_credit_all(&client->tenant->account, charges.all, REGION_CHARGES);
}

/* NULL: no memory. */
static region_t *region_alloc(client_t *client)
{
    region_t *region = calloc(1, sizeof(*region));
    if (!region)
        return NULL;
    region->number = ++client->last_region;
    if (table_add(&client->region_numbers, &region->of_numbers, table_hash(region->number)))
        return region;
    free(region);
    return NULL;
}

blink_result_t region_create(client_t *client, uint64_t bytes, uint64_t pinned_bytes,
                             engine_region_kind_t kind, region_t **created)
{
    region_charges_t charges = charges_of(1, bytes, pinned_bytes);
    BLINK_TRY(account_charge_all(&client->tenant->account, charges.all, REGION_CHARGES));
    region_t *region = region_alloc(client);
    if (!region) {
        account_credit_all(&client->tenant->account, charges.all, REGION_CHARGES);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another region");
    }
    region->control = client->control;
    region->client = client;
    region->kind = kind;
    region->bytes = bytes;
    region->pinned_bytes = pinned_bytes;
    region->message_count = 1;
    region->fd = -1;
    region->guard = GUARD_NONE;
    list_init(&region->of_pending);
    list_init(&region->of_gpus);
    list_prepend(&client->regions, &region->link);
    if (kind == ENGINE_REGION_WINDOWS)
        client->windows = region;
    client->region_count++;
    client->registered_bytes += bytes;
    *created = region;
    return BLINK_OK;
}

blink_result_t region_count_message(region_t *region)
{
    BLINK_TRY(account_charge(&region->client->tenant->account, BUDGET_REGIONS, 1));
    region->message_count++;
    return BLINK_OK;
}

void region_unlink(region_t *region)
{
    list_remove(&region->link);
    list_remove(&region->of_pending);
    region_leave_gpus(region);
    table_remove(&region->client->region_numbers, &region->of_numbers);
    if (region->client->windows == region)
        region->client->windows = NULL;
}

void region_discard(region_t *region)
{
    region_unlink(region);
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
                                     .poisoned = region->map ? guard_mark(region->guard) : &region->lost};
    return engine_region_add(region->client->engine, &config, &region->engine);
}

/* Map the memory and guard it. Its pages are the client's: the daemon adds none. */
static blink_result_t region_map(region_t *region, int fd, uint64_t offset_bytes)
{
    void *map = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset_bytes);
    if (map == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map %lu bytes of the memfd", (unsigned long)region->bytes);
    region->map = map;
    pages_keep_from_dumps(map, region->bytes);
    BLINK_TRY(holes_keep(region->control->holes, map, region->bytes));
    return guard_add(map, region->bytes, &region->guard);
}

blink_result_t region_register(client_t *client, int fd, uint64_t offset_bytes, uint64_t bytes,
                               region_t **registered)
{
    region_t *region;
    BLINK_TRY(check_descriptor(fd, offset_bytes, bytes));
    BLINK_TRY(region_create(client, bytes, 0, ENGINE_REGION_CLIENT, &region));
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
        return descriptors_fail("memory of a staging region");
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
    if (bytes > STREAM_WINDOWS_MAX * WINDOW_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "windows for streams of %lu bytes: up to %u are possible", (unsigned long)bytes,
                          STREAM_WINDOWS_MAX * WINDOW_BYTES);
    if (client->windows)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "this client has windows for streams already, region %u",
                          client->windows->number);
    return BLINK_OK;
}

blink_result_t region_create_staging(client_t *client, uint64_t bytes, bool gpu, engine_region_kind_t kind,
                                     region_t **created)
{
    region_t *region;
    BLINK_TRY(check_staging(client, bytes, kind));
    /* The quota, before anything is made. */
    BLINK_TRY(region_create(client, bytes, gpu ? bytes : 0, kind, &region));
    blink_result_t result = make_memfd(bytes, &region->fd);
    if (result == BLINK_OK)
        result = region_map(region, region->fd, 0);
    if (result != BLINK_OK)
        region_discard(region);
    else
        *created = region;
    return result;
}

/* ---- the end ---- */

static void finish_deregistration(region_t *region, blink_result_t result)
{
    if (result == BLINK_OK)
        connection_reply_ok(region->client->connection, region->request);
    else
        connection_reply_error(region->client->connection, region->request, result);
    region_free(region);
}

/* The worker has closed it, or has ended; else the memory stays open until the worker ends. */
static void on_given_back(void *context, blink_result_t result, uint64_t address)
{
    region_t *region = context;
    client_t *client = region->client;
    bool stays = gpus_has(client->control->gpus, region->gpu_token);
    region->gpu_token = 0;
    (void)address;
    if (client->releasing)
        region_free(region);
    else
        finish_deregistration(region, stays ? result : BLINK_OK);
    if (--client->given_back_count == 0 && client->releasing)
        turns_post(&client->control->turns, client->tenant, &client->leave);
}

/* Have the worker close it, for which on_given_back() waits: until then memory of a GPU that the client frees
 * stays allocated. A worker that is about to end is not asked. Errors: NOT_FOUND (it has nothing of it),
 * NO_MEMORY, SYSTEM; on_given_back() is then not called. */
static blink_result_t give_back(region_t *region)
{
    gpus_t *gpus = region->control->gpus;
    blink_result_t result = BLINK_ERR_NOT_FOUND;
    if (region->gpu_token != 0 && !region->control->stopping)
        result = gpus_release(gpus, region->gpu_token, (gpu_answer_t){on_given_back, region});
    if (result == BLINK_OK)
        region->client->given_back_count++;
    else
        region->gpu_token = 0;
    return result;
}

static void on_deregistered(void *context)
{
    region_t *region = context;
    region_uncount(region);
    blink_result_t result = give_back(region);
    if (result != BLINK_OK)
        finish_deregistration(region, result == BLINK_ERR_NOT_FOUND ? BLINK_OK : result);
}

region_t *region_numbered(const client_t *client, uint32_t number)
{
    table_link_t *link = table_find(&client->region_numbers, table_hash(number));
    while (link && CONTAINER_OF(link, region_t, of_numbers)->number != number)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, region_t, of_numbers) : NULL;
}

void region_deregister(client_t *client, uint64_t request, uint32_t number)
{
    region_t *region = region_numbered(client, number);
    if (!region || region_is_pending(region)) {
        BLINK_FAIL(BLINK_ERR_NOT_REGISTERED, "region %u is not registered", number);
        connection_reply_error(client->connection, request, BLINK_ERR_NOT_REGISTERED);
        return;
    }
    region_unlink(region);
    region->request = request;
    if (region->engine)
        engine_region_remove(region->engine, (engine_done_t){on_deregistered, region});
    else
        on_deregistered(region); /* it is not whole yet */
}

void regions_leave_pending(client_t *client)
{
    for (region_t *region; (region = LIST_FIRST(&client->pending_regions, region_t, of_pending));) {
        region_unlink(region);
        region_uncount(region);
        region->client = NULL; /* freed once the GPU worker has answered */
    }
}

bool regions_release_one(client_t *client)
{
    region_t *region = LIST_FIRST(&client->regions, region_t, link);
    if (!region)
        return false;
    region_unlink(region);
    region_uncount(region);
    if (give_back(region) != BLINK_OK)
        region_free(region);
    return true;
}
