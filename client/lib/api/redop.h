/*
 * Operators with a scalar of their own (BLINK_PRE_MUL_SUM): a table per communicator. A blink_redop_t from
 * 0x10000 on is a place in the low 16 bits and the communicator's tag above, so that a handle of another
 * communicator is noticed.
 */
#ifndef CLIENT_REDOP_H
#define CLIENT_REDOP_H

#include "blink/blink.h"
#include "ring.h"

#include <pthread.h>

typedef struct redop_entry {
    uint64_t scalar; /* the bits of one element, in the low bytes */
    bool live;
    blink_datatype_t datatype;
} redop_entry_t;

typedef struct redops {
    pthread_mutex_t lock;
    redop_entry_t *entries;
    uint32_t count, capacity; /* places used so far */
    uint32_t live;
} redops_t;

void redops_init(redops_t *redops);
void redops_fini(redops_t *redops);

/** Enter the operator in an SQE. Errors: INVALID_ARGUMENT (unknown, of another communicator, of another
 * datatype). */
blink_result_t redop_resolve(blink_comm_t *comm, blink_redop_t redop, blink_datatype_t datatype,
                             ring_sqe_t *sqe);

#endif
