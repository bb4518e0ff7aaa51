/*
 * Staged ops of streams: the copies of their pieces, made by the stream itself (staging.h, "On GPUs").
 *
 * The pieces of several ops on one stream are taken in rounds: piece p of each, then piece p + 1. A stream is
 * at one place at a time, so of two ops taken one after the other the second would not move while the first
 * does; ranks that take a send and a receive in different orders would then wait for each other. In rounds
 * they cannot: consider the stream that is behind all others, waiting for piece p of an op. All streams have
 * filled the slots up to piece p of that op, as they fill STAGING_SLOTS pieces ahead, and have emptied
 * those of piece p - STAGING_SLOTS, which they have passed: the piece can run.
 */
#ifndef CLIENT_PIECES_H
#define CLIENT_PIECES_H

#include "stream/step.h"

/** Enqueue the first pieces of staged ops, and then all that remains. Steps whose copies cannot be enqueued
 * have `failed`; the first failure is returned. */
blink_result_t stream_enqueue_pieces(stream_steps_t *steps);

#endif
