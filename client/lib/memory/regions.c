/* The table of registered memory, and what the daemon is told of it. */
#include "memory/regions.h"

#include "submit/wait.h"

#include <string.h>
#include <sys/mman.h>

void regions_init(regions_t *regions, connection_t *connection, ops_t *ops, gpus_t *gpus)
{
    *regions = (regions_t){.connection = connection, .ops = ops, .gpus = gpus};
    pthread_rwlock_init(&regions->lock, NULL);
}

void regions_fini(regions_t *regions)
{
    for (size_t i = 0; i < regions->table.count; i++) {
        if (regions->table.items[i].owned)
            munmap(regions->table.items[i].start, regions->table.items[i].bytes);
    }
    vec_free(&regions->table);
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
    size_t low = 0, high = regions->table.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)regions->table.items[middle].start <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static region_t *find_start(regions_t *regions, const void *start)
{
    size_t count = count_up_to(regions, start);
    region_t *region = count > 0 ? &regions->table.items[count - 1] : NULL;
    return region && region->start == start ? region : NULL;
}

blink_result_t regions_resolve(regions_t *regions, const char *what, const void *pointer, size_t bytes,
                               uint32_t *number, uint64_t *offset_bytes, bool *on_gpus)
{
    region_t region = {0};
    pthread_rwlock_rdlock(&regions->lock);
    size_t count = count_up_to(regions, pointer);
    if (count > 0)
        region = regions->table.items[count - 1];
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
    if (on_gpus)
        *on_gpus = region.on_gpus;
    return BLINK_OK;
}

/* Under the lock held for writing. */
static blink_result_t insert(regions_t *regions, const region_t *fresh)
{
    size_t at = count_up_to(regions, fresh->start);
    const region_t *neighbour = NULL;
    if (at > 0 &&
        distance(regions->table.items[at - 1].start, fresh->start) < regions->table.items[at - 1].bytes)
        neighbour = &regions->table.items[at - 1];
    else if (at < regions->table.count &&
             distance(fresh->start, regions->table.items[at].start) < fresh->bytes)
        neighbour = &regions->table.items[at];
    if (neighbour)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "%p of %zu bytes overlaps the region at %p of %zu bytes",
                          fresh->start, fresh->bytes, neighbour->start, neighbour->bytes);
    if (!vec_reserve(&regions->table, regions->table.count + 1))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table of %zu regions",
                          regions->table.count + 1);
    region_t *items = regions->table.items;
    memmove(&items[at + 1], &items[at], (regions->table.count - at) * sizeof(*items));
    items[at] = *fresh;
    regions->table.count++;
    return BLINK_OK;
}

static void erase(regions_t *regions, const void *start)
{
    pthread_rwlock_wrlock(&regions->lock);
    region_t *region = find_start(regions, start);
    size_t behind = (size_t)(regions->table.items + regions->table.count - (region + 1));
    memmove(region, region + 1, behind * sizeof(*region));
    regions->table.count--;
    pthread_rwlock_unlock(&regions->lock);
}

/* The daemon's answer to the registration. */
static blink_result_t ask_to_register(regions_t *regions, const region_t *fresh, int fd, size_t offset_bytes,
                                      connection_answer_t *answer)
{
    Blinkwire__MemRegister body = BLINKWIRE__MEM_REGISTER__INIT;
    body.offset_bytes = offset_bytes;
    body.bytes = fresh->bytes;
    /* An application that uses no GPUs is spared the locked pages. */
    body.gpu = gpus_find_driver(regions->gpus) != NULL;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_REGISTER;
    request.mem_register = &body;
    BLINK_TRY(connection_call(regions->connection, &request, &fd, 1, answer));
    if (answer->reply->body_case == BLINKWIRE__REPLY__BODY_MEM_REGISTER)
        return BLINK_OK;
    connection_answer_release(answer);
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon registered %p but gave no number", fresh->start);
}

blink_result_t regions_add(regions_t *regions, const region_t *fresh, int fd, size_t offset_bytes)
{
    connection_answer_t answer;
    pthread_rwlock_wrlock(&regions->lock);
    blink_result_t result = insert(regions, fresh); /* without a number: no other call can take the place */
    pthread_rwlock_unlock(&regions->lock);
    if (result != BLINK_OK)
        return result;
    result = ask_to_register(regions, fresh, fd, offset_bytes, &answer);
    if (result != BLINK_OK) {
        erase(regions, fresh->start);
        return result;
    }
    pthread_rwlock_wrlock(&regions->lock);
    region_t *added = find_start(regions, fresh->start);
    added->on_gpus = answer.reply->mem_register->gpu;
    added->number = answer.reply->mem_register->region;
    pthread_rwlock_unlock(&regions->lock);
    connection_answer_release(&answer);
    return BLINK_OK;
}

blink_result_t regions_remove(regions_t *regions, void *start, bool owned, region_t *region)
{
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
    ops_drain(regions->ops, NULL); /* parked ops name their regions to the daemon later */

    Blinkwire__MemDeregister body = BLINKWIRE__MEM_DEREGISTER__INIT;
    body.region = region->number;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER;
    request.mem_deregister = &body;
    blink_result_t result = connection_call(regions->connection, &request, NULL, 0, NULL);
    erase(regions, start);
    return result;
}
