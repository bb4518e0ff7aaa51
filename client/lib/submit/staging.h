/*
 * Buffers in memory that the daemon cannot map, copied through windows of staging regions (ring.h,
 * "Staging").
 *
 * An arena is one staging region; it has RING_STAGING_WINDOWS windows in its first page and slots behind, and
 * stays until the context is closed. A transfer is one window in use: the staged buffers of one submission.
 * Its first input pieces are copied before it is submitted, the others as the daemon's `done` grows, and the
 * outputs likewise, by whatever thread submits, waits or tests, and by the watcher if there are more pieces
 * than slots (without that an op needs no help to complete on all ranks).
 *
 * On GPUs. Ops of communicators on GPUs use arenas that GPUs reach, which are pinned where this process has a
 * driver; what is to be copied from or to GPU memory, the driver copies. Where an op is of a stream, the
 * stream makes all copies and stores the counters (stream_pieces.c). Its last store is that `drained` is the
 * number of pieces; only then the window and the slots are used again. If the op fails the library stores a
 * `done` that lets the stream go on.
 */
#ifndef CLIENT_STAGING_H
#define CLIENT_STAGING_H

#include "blink/blink.h"
#include "ring.h"

#include <pthread.h>

struct ops;
struct gpu;
struct staging_arena;

/** One direction: `blocks` blocks of the op's count, adjoining in the application's memory. */
typedef struct staging_side {
    char *user; /* NULL: not staged */
    uint32_t blocks;
    bool on_device; /* GPU memory */
    char *slots;
} staging_side_t;

typedef struct staging_transfer {
    struct staging_arena *arena;
    struct staging_transfer *next;           /* in the arena, by offset; under staging.lock */
    struct staging_transfer *next_of_op;     /* its submitter's */
    struct staging_transfer *next_on_stream; /* until the stream's last copy has been enqueued */
    _Atomic(blink_op_t *) op;                /* NULL until it is submitted */
    ring_window_t *window;
    uint64_t offset_bytes, bytes; /* of its slots in the arena */
    uint64_t count, piece_elements, pieces;
    uint32_t element_bytes;
    uint64_t filled, drained; /* the window's, kept here */
    staging_side_t in, out;
    struct gpu *gpu;         /* NULL: nothing of GPUs is needed */
    bool on_stream;          /* a stream copies */
    bool abandoned;          /* and nobody knows how far it comes; under staging.lock */
    uint64_t window_address; /* where the stream finds the window */
    blink_result_t copied;   /* the first failure of a copy */
    char *copy_text;         /* its sentence, malloc'd; NULL if there is none */
} staging_transfer_t;

typedef struct staging {
    pthread_mutex_t lock;      /* for the arenas and, once submitted, the transfers */
    pthread_mutex_t grow_lock; /* to ask for another arena; taken first */
    struct staging_arena *arenas;
    _Atomic uint32_t attention; /* transfers of several pieces or a stream, arrived ops: maybe work */
    _Atomic uint32_t streaming; /* transfers of more pieces than slots, or a stream */
} staging_t;

void staging_init(staging_t *staging);

/** Have the daemon make a staging region, and map it. Errors: those of the daemon, PROTOCOL, SYSTEM. */
blink_result_t staging_map(blink_context_t *context, uint64_t bytes, bool on_gpus, bool windows, void **base,
                           uint32_t *region);

/** Stored as `done` by the library, it lets go on whatever waits on a stream. The driver compares differences
 * as signed. */
#define STAGING_LET_GO (UINT64_MAX / 2)

/** Unmap and forget everything. No thread uses it any more. */
void staging_fini(staging_t *staging);

/**
 * Find room for the staged buffers of a submission and enter it in its SQE (regions, offsets, window, flags).
 * @param gpu        of a communicator on GPUs, if this process has a driver; visited (gpu_enter()).
 * @param on_stream  a stream will make the copies; needs a GPU.
 * @param in, out    user is NULL where that direction is not staged.
 * Errors: those of the daemon when it is asked for another arena (QUOTA); DAEMON_LOST, SYSTEM, NO_MEMORY.
 */
blink_result_t staging_reserve(const blink_comm_t *comm, struct gpu *gpu, bool on_stream,
                               const staging_side_t *in, const staging_side_t *out, ring_sqe_t *sqe,
                               staging_transfer_t **transfer);

/** The part of a side in a piece: `bytes` of each block, whose first begins at `user`, the next
 * `stride_bytes` on; in the slot they adjoin. */
typedef struct staging_piece {
    char *user, *slot;
    size_t bytes, stride_bytes;
    uint32_t blocks;
} staging_piece_t;

staging_piece_t staging_piece(const staging_transfer_t *transfer, const staging_side_t *side, uint64_t piece);

/** A stream's copies could not all be enqueued: the op ends without them, and its slots are used no more. */
void staging_abandon(staging_t *staging, staging_transfer_t *transfer);

/** Copy the first input pieces of a chain of transfers, just before it is submitted. */
void staging_fill(staging_transfer_t *chain);

/** Give back a chain of transfers that will not be submitted. */
void staging_release(staging_t *staging, staging_transfer_t *chain);

/** The chain belongs to the op from now on. Whether the watcher is to see it through. */
bool staging_attach(staging_t *staging, staging_transfer_t *chain, blink_op_t *op);

/** Copy what can be copied, and end the ops whose last output that was. Unless `certain`, another thread that
 * is at it is left alone. */
void staging_progress(struct ops *ops, bool certain);

#endif
