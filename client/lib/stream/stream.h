/*
 * Ops in the order of CUDA streams (ring.h, "Streams", "Stored ops"). Built without CUDA: no_cuda.c.
 *
 * Windows. The context has one region of windows, made when it is first needed. A pair of communicator and
 * stream gets a window and keeps it while there are others to be had; then it may lose it to another pair
 * while nothing that was enqueued is to come: all its ops have ended, and the stream has stored the last
 * number. A window that has had a stored op serves stored ops only, for it counts nothing.
 *
 * The order of an op. First its handle is reserved, then the stream is told to store the number of the op,
 * then the op is submitted to the ring, which cannot fail any more, then the stream is told to wait. If the
 * reservation fails nothing has happened. If the first call to the driver fails nothing is submitted, and the
 * window is given up, as its stream may have counted an op that does not exist. If a later one fails the op
 * cannot be taken back: the communicator is aborted, which ends the op on all ranks, and the daemon then lets
 * go on whatever the stream was told to wait for. Nothing waits for ever in any of these cases. The wait
 * comes last because the copies of staged ops, of which there can be more than a stream takes before it has
 * to run some, must follow the submission.
 *
 * Threads. Of one window, numbers, submissions to the ring and what is enqueued must come in one order: its
 * lock is held from the first to the third step, those of a group in the order of their windows. It is a lock
 * per window as the driver blocks where a stream is full, until earlier ops have run: these have all been
 * submitted, and need no thread that waits for this lock.
 *
 * The daemon is lost. The watcher stores what streams wait for in all windows, every millisecond until the
 * context is closed: so it also reaches the streams that are told to wait later, and graphs that are
 * replayed.
 */
#ifndef CLIENT_STREAM_H
#define CLIENT_STREAM_H

#include "blink/blink.h"
#include "gpu/gpu.h"
#include "submit/staging.h"

typedef struct streams streams_t;
typedef struct stream_window stream_window_t;

/** What calls submitted at once have in common on one stream, for one communicator. */
typedef struct stream_step {
    blink_comm_t *comm;
    gpu_t *gpu;
    blink_stream_t stream;
    stream_window_t *window;
    uint64_t stream_id;
    staging_transfer_t *transfers; /* chained by next_on_stream */
    uint64_t number;               /* of the last op in the window */
    uint32_t entries;              /* that the window counts */
    bool stored;                   /* the stream is being captured */
    bool failed;
} stream_step_t;

/** Steps of one thread. */
typedef struct stream_steps {
    stream_step_t *items;
    uint32_t count, capacity;
} stream_steps_t;

/**
 * Find the step of a communicator and a stream, or begin it. Visiting the GPU.
 * Errors: INVALID_ARGUMENT (a stream of another GPU; some streams are being captured and others not),
 * UNSUPPORTED (a group of one communicator on several streams that are being captured), QUOTA (no more
 * windows), those of StagingCreate.
 */
blink_result_t stream_step(stream_steps_t *steps, blink_comm_t *comm, gpu_t *gpu, blink_stream_t stream,
                           stream_step_t **step);

/** Enter an op in a step: flags and window of an SQE without staged buffers, or its transfer. */
void stream_step_add(stream_step_t *step, ring_sqe_t *sqe, staging_transfer_t *transfer);

/** Whether the steps are of streams that are being captured: then stream_capture(), else stream_begin() and
 * stream_finish(). */
bool stream_steps_stored(const stream_steps_t *steps);

/** Before the ops are submitted; after a success stream_finish() must follow. Errors: SYSTEM. */
blink_result_t stream_begin(stream_steps_t *steps);

/** After it. Errors: SYSTEM; the communicators concerned have been aborted. */
blink_result_t stream_finish(stream_steps_t *steps);

/** Once ops have been stored: make them part of the graphs. `stored` tells how that has ended; if not well,
 * the windows are given up. Errors: SYSTEM, NO_MEMORY, and that of `stored`. */
blink_result_t stream_capture(stream_steps_t *steps, blink_result_t stored);

/** Give up what the steps hold; those of stored ops that were not stored, too. */
void stream_steps_release(stream_steps_t *steps);

/** How a replay of the communicator's ops has failed, BLINK_OK if none has. The daemon then says more, by
 * CommLost. */
blink_result_t streams_replay_error(blink_comm_t *comm);

/** A communicator is freed. */
void streams_leave(blink_comm_t *comm);

/** The watcher's share: have the daemon forget the ops of graphs that are no more. */
void streams_pump(blink_context_t *context);

/** The daemon is lost: store what streams wait for. Whether there are streams that might. */
bool streams_let_go(blink_context_t *context);

/** Wait until streams have passed what they wait for. The watcher lets them go on. */
void streams_settle(blink_context_t *context);

/** Free everything. No thread uses it any more; graphs may still hold ops. */
void streams_fini(blink_context_t *context);

#endif
