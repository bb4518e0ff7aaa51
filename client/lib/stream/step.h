/*
 * Steps: what calls submitted at once have in common on one stream, for one communicator.
 *
 * The order of an op. First its handle is reserved, then the stream is told to store the number of the op
 * (stream_begin()), then the op is submitted to the ring, which cannot fail any more, then the stream is told
 * to wait (stream_finish()). If the reservation fails nothing has happened. If the first call to the driver
 * fails nothing is submitted, and the window is spoilt, as its stream may have counted an op that does not
 * exist. If a later one fails the op cannot be taken back: the step has failed, and its communicator has to
 * be aborted, which ends the op on all ranks, and the daemon then lets go on whatever the stream was told to
 * wait for. Nothing waits for ever in any of these cases. The wait comes last because the copies of staged
 * ops, of which there can be more than a stream takes before it has to run some, must follow the submission.
 *
 * Threads. Of one window, numbers, submissions to the ring and what is enqueued must come in one order: its
 * lock is held from the first to the third step, those of a group in the order of their windows. It is a lock
 * per window as the driver blocks where a stream is full, until earlier ops have run: these have all been
 * submitted, and need no thread that waits for this lock.
 */
#ifndef CLIENT_STEP_H
#define CLIENT_STEP_H

#include "base/vec.h"
#include "stream/streams.h"
#include "submit/transfer.h"

struct stream_window;

typedef struct stream_step {
    stream_rank_t *rank;
    gpu_t *gpu;
    blink_stream_t stream;
    struct stream_window *window;
    uint64_t stream_id;
    staging_transfer_t *transfers; /* chained by next_on_stream */
    uint64_t number;               /* of the last op in the window */
    uint32_t entries;              /* that the window counts */
    bool stored;                   /* the stream is being captured */
    bool failed;
} stream_step_t;

/** Steps of one thread. */
typedef VEC(stream_step_t) stream_steps_t;

/**
 * Find the step of a rank and a stream. Visiting the GPU.
 * @param fresh  receives what is known of the stream, for stream_step_add().
 * @param step   receives NULL if there is none yet.
 * Errors: INVALID_ARGUMENT (a stream of another GPU; some streams are being captured and others not),
 * UNSUPPORTED (a group of one communicator on several streams that are being captured), those of
 * StagingCreate.
 */
blink_result_t stream_step_find(stream_steps_t *steps, stream_rank_t *rank, gpu_t *gpu, blink_stream_t stream,
                                stream_step_t *fresh, stream_step_t **step);

/** Begin a step that was not found. Visiting the GPU.
 * @param member  by which ops of a stream that is being captured are submitted.
 * Errors: INVALID_ARGUMENT (a stream of another GPU), QUOTA (no more windows), NO_MEMORY. */
blink_result_t stream_step_add(stream_steps_t *steps, const stream_step_t *fresh, uint32_t member,
                               stream_step_t **step);

/** Enter an op in a step: flags and window of an SQE without staged buffers, or its transfer. */
void stream_step_enter(stream_step_t *step, ring_sqe_t *sqe, staging_transfer_t *transfer);

/** Whether the steps are of streams that are being captured: then stream_capture(), else stream_begin() and
 * stream_finish(). */
bool stream_steps_stored(const stream_steps_t *steps);

/** Before the ops are submitted; after a success stream_finish() must follow. Errors: SYSTEM. */
blink_result_t stream_begin(stream_steps_t *steps);

/** After it. Errors: SYSTEM; the communicators of steps that `failed` are then to be aborted. */
blink_result_t stream_finish(stream_steps_t *steps);

/** Once ops have been stored: make them part of the graphs. `stored` tells how that has ended; if not well,
 * the daemon forgets them. Errors: SYSTEM, NO_MEMORY, and that of `stored`. */
blink_result_t stream_capture(stream_steps_t *steps, blink_result_t stored);

/** Let go of what the steps hold; those of stored ops that were not stored, too. */
void stream_steps_release(stream_steps_t *steps);

#endif
