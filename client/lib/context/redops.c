/* Operators with a scalar of their own. */
#include "context/redops.h"

#include "error.h"
#include "names.h"

#define HANDLES_FIRST 0x10000u
#define REDOPS_MAX    0x10000u
#define TAGS          0x7fffu /* an enumerator is no more than an int */

void redops_init(redops_t *redops)
{
    *redops = (redops_t){0};
    pthread_mutex_init(&redops->lock, NULL);
}

void redops_fini(redops_t *redops)
{
    vec_free(&redops->table);
    pthread_mutex_destroy(&redops->lock);
}

/* From 1 on: no handle is an enumerator. */
void redops_tag(redops_t *redops, uint32_t member)
{
    redops->tag = member % TAGS + 1;
}

/* The operator of a handle; NULL if it is none of this communicator's. Under the lock. */
static redop_t *find(redops_t *redops, uint32_t handle)
{
    uint32_t place = handle % REDOPS_MAX;
    if (handle / REDOPS_MAX != redops->tag || place >= redops->table.count ||
        !redops->table.items[place].live)
        return NULL;
    return &redops->table.items[place];
}

static blink_result_t resolve_plain(uint32_t value, ring_sqe_t *sqe)
{
    if (!blink_redop_valid(value))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %u is none", value);
    if (value == BLINK_PRE_MUL_SUM)
        return BLINK_FAIL(
            BLINK_ERR_INVALID_ARGUMENT,
            "BLINK_PRE_MUL_SUM is no operator by itself: blink_redop_create_pre_mul_sum() makes one");
    sqe->redop = (uint8_t)value;
    return BLINK_OK;
}

blink_result_t redops_resolve(redops_t *redops, blink_redop_t redop, blink_datatype_t datatype,
                              ring_sqe_t *sqe)
{
    uint32_t value = (uint32_t)redop;
    redop_t copy = {0};
    if (value < HANDLES_FIRST)
        return resolve_plain(value, sqe);
    pthread_mutex_lock(&redops->lock);
    const redop_t *found = find(redops, value);
    if (found)
        copy = *found;
    pthread_mutex_unlock(&redops->lock);
    if (!copy.live)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %#x is none of this communicator",
                          value);
    if (copy.datatype != datatype)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %#x is for %s, not for %s", value,
                          blink_name_datatype((uint32_t)copy.datatype),
                          blink_name_datatype((uint32_t)datatype));
    sqe->redop = BLINK_PRE_MUL_SUM;
    sqe->scalar = copy.scalar;
    return BLINK_OK;
}

/* A place that is not live. Under the lock. */
static blink_result_t take_place(redops_t *redops, uint32_t *place)
{
    if (redops->live == REDOPS_MAX)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "the communicator has %u operators already", REDOPS_MAX);
    *place = (uint32_t)redops->table.count;
    if (redops->live < redops->table.count) {
        for (*place = 0; redops->table.items[*place].live;)
            ++*place;
    } else if (!vec_push(&redops->table, (redop_t){0})) {
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u operators", *place + 1);
    }
    return BLINK_OK;
}

blink_result_t redops_add(redops_t *redops, uint64_t scalar, blink_datatype_t datatype, blink_redop_t *redop)
{
    uint32_t place = 0;
    pthread_mutex_lock(&redops->lock);
    blink_result_t result = take_place(redops, &place);
    if (result == BLINK_OK) {
        redops->table.items[place] = (redop_t){.scalar = scalar, .live = true, .datatype = datatype};
        redops->live++;
        *redop = (blink_redop_t)(redops->tag * REDOPS_MAX + place);
    }
    pthread_mutex_unlock(&redops->lock);
    return result;
}

blink_result_t redops_remove(redops_t *redops, blink_redop_t redop)
{
    pthread_mutex_lock(&redops->lock);
    redop_t *found = find(redops, (uint32_t)redop);
    if (found) {
        found->live = false;
        redops->live--;
    }
    pthread_mutex_unlock(&redops->lock);
    if (!found)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "reduction operator %#x is none of this communicator",
                          (uint32_t)redop);
    return BLINK_OK;
}
