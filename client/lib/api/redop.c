/* Operators with a scalar of their own. */
#include "api/redop.h"

#include "context/comm.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

#define HANDLES_FIRST 0x10000u
#define REDOPS_MAX    0x10000u
#define REDOPS_ROOM   16u
#define TAGS          0x7fffu /* an enumerator is no more than an int */

void redops_init(redops_t *redops)
{
    pthread_mutex_init(&redops->lock, NULL);
}

void redops_fini(redops_t *redops)
{
    free(redops->entries);
    pthread_mutex_destroy(&redops->lock);
}

/* From 1 on: no handle is an enumerator. */
static uint32_t comm_tag(const blink_comm_t *comm)
{
    return comm->member % TAGS + 1;
}

/* The entry of a handle; NULL if it is none of this communicator's. Under the lock. */
static redop_entry_t *find(blink_comm_t *comm, uint32_t handle)
{
    uint32_t place = handle % REDOPS_MAX;
    if (handle / REDOPS_MAX != comm_tag(comm) || place >= comm->redops.count ||
        !comm->redops.entries[place].live)
        return NULL;
    return &comm->redops.entries[place];
}

blink_result_t redop_resolve(blink_comm_t *comm, blink_redop_t redop, blink_datatype_t datatype,
                             ring_sqe_t *sqe)
{
    uint32_t value = (uint32_t)redop;
    if (value < HANDLES_FIRST) {
        if (!blink_redop_valid(value))
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %u is none", value);
        if (value == BLINK_PRE_MUL_SUM)
            return BLINK_FAIL(
                BLINK_ERR_INVALID_ARGUMENT,
                "BLINK_PRE_MUL_SUM is no operator by itself: blink_redop_create_pre_mul_sum() makes one");
        sqe->redop = (uint8_t)value;
        return BLINK_OK;
    }
    redop_entry_t entry = {0};
    pthread_mutex_lock(&comm->redops.lock);
    const redop_entry_t *found = find(comm, value);
    if (found)
        entry = *found;
    pthread_mutex_unlock(&comm->redops.lock);
    if (!entry.live)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %#x is none of this communicator",
                          value);
    if (entry.datatype != datatype)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %#x is for %s, not for %s", value,
                          blink_name_datatype((uint32_t)entry.datatype),
                          blink_name_datatype((uint32_t)datatype));
    sqe->redop = BLINK_PRE_MUL_SUM;
    sqe->scalar = entry.scalar;
    return BLINK_OK;
}

/* A place that is not live. Under the lock. */
static blink_result_t take_place(redops_t *redops, uint32_t *place)
{
    if (redops->live == REDOPS_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "the communicator has %u operators already", REDOPS_MAX);
    if (redops->live < redops->count) {
        for (*place = 0; redops->entries[*place].live;)
            ++*place;
        return BLINK_OK;
    }
    if (redops->count == redops->capacity) {
        uint32_t capacity = redops->capacity > 0 ? 2 * redops->capacity : REDOPS_ROOM;
        redop_entry_t *entries = realloc(redops->entries, capacity * sizeof(*entries));
        if (!entries)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u operators", capacity);
        redops->entries = entries;
        redops->capacity = capacity;
    }
    *place = redops->count++;
    return BLINK_OK;
}

blink_result_t blink_redop_create_pre_mul_sum(blink_comm_t *comm, const void *scalar,
                                              blink_datatype_t datatype, blink_redop_t *redop)
{
    if (!comm || !scalar || !redop)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_redop_create_pre_mul_sum: %s is NULL",
                          !comm     ? "comm"
                          : !scalar ? "scalar"
                                    : "redop");
    uint32_t element_bytes = blink_datatype_bytes((uint32_t)datatype);
    if (element_bytes == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "datatype %d is none", (int)datatype);
    redop_entry_t entry = {.live = true, .datatype = datatype};
    memcpy(&entry.scalar, scalar, element_bytes);
    uint32_t place = 0;
    pthread_mutex_lock(&comm->redops.lock);
    blink_result_t result = take_place(&comm->redops, &place);
    if (result == BLINK_OK) {
        comm->redops.entries[place] = entry;
        comm->redops.live++;
    }
    pthread_mutex_unlock(&comm->redops.lock);
    if (result == BLINK_OK)
        *redop = (blink_redop_t)(comm_tag(comm) * REDOPS_MAX + place);
    return result;
}

blink_result_t blink_redop_destroy(blink_comm_t *comm, blink_redop_t redop)
{
    if (!comm)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_redop_destroy: comm is NULL");
    pthread_mutex_lock(&comm->redops.lock);
    redop_entry_t *found = find(comm, (uint32_t)redop);
    if (found) {
        found->live = false;
        comm->redops.live--;
    }
    pthread_mutex_unlock(&comm->redops.lock);
    if (!found)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %#x is none of this communicator",
                          (uint32_t)redop);
    return BLINK_OK;
}
