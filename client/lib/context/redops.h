/*
 * Operators with a scalar of their own (BLINK_PRE_MUL_SUM): a table per communicator. A blink_redop_t from
 * 0x10000 on is a place in the low 16 bits and the communicator's tag above, so that a handle of another
 * communicator is noticed.
 */
#ifndef CLIENT_REDOPS_H
#define CLIENT_REDOPS_H

#include "base/vec.h"
#include "blink/blink.h"
#include "ring.h"

#include <pthread.h>

typedef struct redop {
    uint64_t scalar; /* the bits of one element, in the low bytes */
    bool live;
    blink_datatype_t datatype;
} redop_t;

typedef struct redops {
    pthread_mutex_t lock;
    uint32_t tag;       /* constant once the communicator has been joined */
    VEC(redop_t) table; /* places used so far */
    uint32_t live;
} redops_t;

void redops_init(redops_t *redops);
void redops_fini(redops_t *redops);

/** Make the handles those of a communicator. */
void redops_tag(redops_t *redops, uint32_t member);

/** Add an operator. Thread-safe, as what follows. Errors: QUOTA, NO_MEMORY. */
blink_result_t redops_add(redops_t *redops, uint64_t scalar, blink_datatype_t datatype, blink_redop_t *redop);

/** Errors: INVALID_ARGUMENT (not of this communicator). */
blink_result_t redops_remove(redops_t *redops, blink_redop_t redop);

/** Enter an operator, one of these or a plain one, in an SQE. Errors: INVALID_ARGUMENT (unknown, of another
 * communicator, of another datatype). */
blink_result_t redops_resolve(redops_t *redops, blink_redop_t redop, blink_datatype_t datatype,
                              ring_sqe_t *sqe);

#endif
