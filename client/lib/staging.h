/*
 * Buffers in memory that the daemon cannot map, copied through windows of staging regions (ring.h, "Staging").
 *
 * An arena is one staging region; it has RING_STAGING_WINDOWS windows in its first page and slots behind, and stays until
 * the context is closed. A transfer is one window in use: the staged buffers of one submission. Its first input pieces
 * are copied before it is submitted, the others as the daemon's `done` grows, and the outputs likewise, by whatever
 * thread submits, waits or tests, and by the watcher if there are more pieces than slots (without that an op needs no
 * help to complete on all ranks).
 */
#ifndef CLIENT_STAGING_H
#define CLIENT_STAGING_H

#include "blink/blink.h"
#include "ring.h"

#include <pthread.h>

struct ops;
struct staging_arena;

/** One direction: `blocks` blocks of the op's count, adjoining in the application's memory. */
typedef struct staging_side {
    char *user; /* NULL: not staged */
    uint32_t blocks;
    char *slots;
} staging_side_t;

typedef struct staging_transfer {
    struct staging_arena *arena;
    struct staging_transfer *next;       /* in the arena, by offset; under staging.lock */
    struct staging_transfer *next_of_op; /* its submitter's */
    _Atomic(blink_op_t *) op;            /* NULL until it is submitted */
    ring_window_t *window;
    uint64_t offset_bytes, bytes; /* of its slots in the arena */
    uint64_t count, piece_elements, pieces;
    uint32_t element_bytes;
    uint64_t filled, drained; /* the window's, kept here */
    staging_side_t in, out;
} staging_transfer_t;

typedef struct staging {
    pthread_mutex_t lock;      /* for the arenas and, once submitted, the transfers */
    pthread_mutex_t grow_lock; /* to ask for another arena; taken first */
    struct staging_arena *arenas;
    _Atomic uint32_t attention; /* transfers of several pieces, arrived ops: maybe work */
    _Atomic uint32_t streaming; /* transfers of more pieces than slots */
} staging_t;

void staging_init(staging_t *staging);

/** Unmap and forget everything. No thread uses it any more. */
void staging_fini(staging_t *staging);

/**
 * Find room for the staged buffers of a submission and enter it in its SQE (regions, offsets, window, flags).
 * @param in, out  user is NULL where that direction is not staged.
 * Errors: those of the daemon when it is asked for another arena (QUOTA); DAEMON_LOST, SYSTEM, NO_MEMORY.
 */
blink_result_t staging_reserve(blink_context_t *context, uint32_t rank_count, const staging_side_t *in,
                               const staging_side_t *out, ring_sqe_t *sqe, staging_transfer_t **transfer);

/** Copy the first input pieces of a chain of transfers, just before it is submitted. */
void staging_fill(staging_transfer_t *chain);

/** Give back a chain of transfers that will not be submitted. */
void staging_release(staging_t *staging, staging_transfer_t *chain);

/** The chain belongs to the op from now on. Whether the watcher is to see it through. */
bool staging_attach(staging_t *staging, staging_transfer_t *chain, blink_op_t *op);

/** Copy what can be copied, and end the ops whose last output that was. Unless `certain`, another thread that is at it
 * is left alone. */
void staging_progress(struct ops *ops, bool certain);

#endif
