/*
 * The streams of one context: their windows, made with the first communicator on a GPU, and what the watcher
 * does for them. Built without CUDA: no_streams.c.
 */
#ifndef CLIENT_STREAMS_H
#define CLIENT_STREAMS_H

#include "gpu/rank_gpu.h"
#include "submit/connection.h"
#include "submit/ops.h"

typedef struct streams {
    gpus_t *gpus;
    connection_t *connection;
    ops_t *ops;
    _Atomic(struct stream_table *) table; /* the windows; NULL until they are needed */
} streams_t;

/** A rank of a communicator, as streams know it. */
typedef struct stream_rank {
    streams_t *streams;
    rank_gpu_t *gpu;
    uint32_t member; /* the daemon's; constant once it has answered */
    list_t windows;  /* that the rank has for its streams; under the windows' lock */
} stream_rank_t;

void stream_rank_init(stream_rank_t *rank, streams_t *streams, rank_gpu_t *gpu);

/** Make the windows, so that no call on a stream has to lock memory, which may wait for other streams: those
 * of ranks that wait for this call. Visiting. What fails is tried again, and reported, when it is needed. */
void stream_rank_prepare(stream_rank_t *rank, gpu_t *gpu);

/** The rank's communicator is freed. */
void stream_rank_fini(stream_rank_t *rank);

/**
 * How a replay of the rank's ops has failed, BLINK_OK if none has. The daemon then says more, by CommLost.
 */
blink_result_t stream_rank_replay_error(const stream_rank_t *rank);

/** Free everything. No thread uses it any more; graphs may still hold ops. */
void streams_fini(streams_t *streams);

/** The watcher's share: have the daemon forget the ops of graphs that are no more. */
void streams_pump(streams_t *streams);

/** The daemon is lost: store what streams wait for. Whether there are streams that might. */
bool streams_let_go(streams_t *streams);

/** Wait until streams have passed what they wait for. The watcher lets them go on. */
void streams_settle(streams_t *streams);

#endif
