/*
 * Buffers in memory that the daemon cannot map, copied through windows of staging memory (windows.h,
 * "Staging").
 *
 * The first input pieces of a transfer are copied before it is submitted, the others as the daemon's `done`
 * grows, and the outputs likewise, by whatever thread submits, waits or tests, and by the watcher if there
 * are more pieces than slots (without that an op needs no help to complete on all ranks).
 *
 * On GPUs. Ops of communicators on GPUs use arenas that GPUs reach; what is to be copied from or to GPU
 * memory, the driver copies. Where an op is of a stream, the stream makes all copies and stores the counters
 * (stream/pieces.c). Its last store is that `drained` is the number of pieces; only then the window and the
 * slots are used again. If the op fails the library stores a `done` that lets the stream go on.
 */
#ifndef CLIENT_STAGING_H
#define CLIENT_STAGING_H

#include "submit/arena.h"
#include "submit/engine.h"
#include "submit/transfer.h"

/** Stored as `done` by the library, it lets go on whatever waits on a stream. The driver compares differences
 * as signed. */
#define STAGING_LET_GO (UINT64_MAX / 2)

typedef struct staging {
    engine_t *engine;
    arenas_t arenas;
    _Atomic uint32_t attention; /* transfers of several pieces or a stream, arrived ops: maybe work */
    _Atomic uint32_t streaming; /* transfers of more pieces than slots, or a stream */
} staging_t;

void staging_init(staging_t *staging, engine_t *engine, connection_t *connection);

/** Unmap and forget everything. No thread uses it any more. */
void staging_fini(staging_t *staging);

/** Make staging memory that a GPU reaches, so that the first op that needs some locks none, which may wait
 * for streams. Visiting. What fails is tried again, and reported, when it is needed. */
void staging_prepare(staging_t *staging, struct gpu *gpu);

/** Whose buffers are staged. */
typedef struct staging_request {
    uint32_t rank_count;
    bool on_gpus;    /* the communicator is */
    bool on_stream;  /* a stream will make the copies; needs a GPU */
    bool whole;      /* the communicator spans hosts: there is one piece */
    struct gpu *gpu; /* of the rank, if this process has a driver; visited (gpu_enter()) */
} staging_request_t;

/**
 * Find scratch for the staged buffers of a submission and enter it in its SQE (regions, offsets, window,
 * flags).
 * @param in, out    user is NULL where that direction is not staged.
 * Errors: those of the daemon when it is asked for another arena (QUOTA); DAEMON_LOST, SYSTEM, NO_MEMORY.
 */
blink_result_t staging_reserve(staging_t *staging, const staging_request_t *request, const staging_side_t *in,
                               const staging_side_t *out, ring_sqe_t *sqe, staging_transfer_t **transfer);

/** A stream's copies could not all be enqueued: the op ends without them, and its slots are used no more. */
void staging_abandon(staging_t *staging, staging_transfer_t *transfer);

/** Copy the first input pieces of a chain of transfers, just before it is submitted. */
void staging_fill(staging_transfer_t *chain);

/** Give back a chain of transfers that will not be submitted. */
void staging_release(staging_t *staging, staging_transfer_t *chain);

/** The chain belongs to the op from now on. Whether the watcher is to see it through. */
bool staging_attach(staging_t *staging, staging_transfer_t *chain, blink_op_t *op);

/** An op with staged buffers has arrived: there is work. Before its `arrived` is set. */
void staging_expect(staging_t *staging);

/** One round of copying. */
typedef struct staging_round {
    blink_op_t *ended; /* chained by next: their last output has been copied, to be ended by the caller */
    uint32_t settled;  /* what `attention` has counted for them */
    bool followed;     /* one of them was of a stream */
} staging_round_t;

/** Copy what can be copied. Afterwards the caller ends the ops that the round has ended, and then calls
 * staging_end_round(): meanwhile no other thread looks at the transfers. False if there is nothing to do, or,
 * unless `certain`, if another thread is at it: then there is no round to end. */
bool staging_begin_round(staging_t *staging, bool certain, staging_round_t *round);
void staging_end_round(staging_t *staging, const staging_round_t *round);

#endif
