/*
 * Windows: words in memory that a client shares with the daemon, by which both sides say how far the ops are
 * that pass through staging buffers, stand in the order of a stream, or are replayed by a graph. Every window
 * has the same size; `window` of a submission (ring.h) says by its number which one is the op's, and the
 * submission's flags say which of the three kinds it is. A client can write anything in its windows at any
 * time; that harms only the client's own ops.
 *
 * Staging. Memory that the daemon cannot map is copied by the client through a staging region, which the
 * daemon made (blink.proto, StagingCreate). The region's first page is STAGING_WINDOWS windows, the rest is
 * for slots. With RING_SQE_IN_STAGED or RING_SQE_OUT_STAGED in_offset_bytes or out_offset_bytes is where
 * STAGING_SLOTS slots begin in that region, STAGING_SLOT_BYTES apart. The op runs in pieces, on all ranks
 * alike if any of them is staged: piece p is the elements [p·k, (p+1)·k) of every block, k =
 * staging_piece_elements(); it lies in slot p mod STAGING_SLOTS, its blocks adjoining. An op of one piece
 * uses one slot, no larger than its blocks. Across hosts nobody sees whether any of the ranks is staged, so
 * an op of a communicator that spans hosts always has one piece, of all its elements; its slot is as large as
 * its blocks.
 *
 * Streams. An op with RING_SQE_STREAM that is not staged is in the order of a stream of the client's GPU: its
 * buffers may be touched from when the stream has reached it until the stream is let go on. Its window is one
 * of the client's windows region (blink.proto, StagingCreate.windows). The k-th such op of a window, counted
 * from 1 over the window's life, may start once `reached` >= k; the stream goes on once `ended` >= k. Ops
 * that share a window have one member, and its stream comes to them in the order in which they are submitted.
 * (A staged op needs no flag for streams: its pieces are counted by its staging window, whether the client's
 * processor or a stream writes there.)
 *
 * Graphs. With RING_SQE_STORED as well, an op or a group (whose entries all have both flags and one window)
 * is kept, not run; its completion says whether it was good. Whenever a stream that replays the graph has
 * stored 1 in `requested`, the daemon stores 0 there and runs the op as the member's next one; when the op
 * has ended, the daemon stores 1 in `ended`, which the stream takes back to 0. If the op has failed, the
 * daemon gives the communicator up, and stores the blink_result_t in `failure` before `ended`. So a graph can
 * be replayed any number of times. RING_OP_FORGET ends it; until then the window is its own, and it must not
 * be told to run again before it has ended.
 */
#ifndef BLINK_WINDOWS_H
#define BLINK_WINDOWS_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_BYTES 128u

#define STAGING_SLOTS        4u
#define STAGING_SLOT_BYTES   (1u << 20)
#define STAGING_WINDOWS      32u
#define STAGING_HEADER_BYTES (STAGING_WINDOWS * WINDOW_BYTES)

/** Windows that one client's windows region may have: the daemon keeps something of its own for each. */
#define STREAM_WINDOWS_MAX 4096u

/** Pieces of one staged op: zeroed by the client before it submits; after that each word has one writer and
 * only grows. All accesses are sequentially consistent, and published as the entries of the queues are (see
 * the top of ring.h): after a store the client looks at engine_sleeping and rings the doorbell, the daemon
 * looks at client_sleepers and wakes. */
typedef struct staging_words {
    _Alignas(64) _Atomic uint64_t filled; /* by the client: input pieces that lie in their slots */
    _Atomic uint64_t drained;             /* by the client: output pieces that have been copied out */
    _Alignas(64) _Atomic uint64_t done;   /* by the daemon: pieces that have run on all ranks */
} staging_words_t;

/** Ops of one stream. Never zeroed: both words count over the window's life. */
typedef struct stream_words {
    _Alignas(64) _Atomic uint64_t reached; /* by the stream: ops that it has come to */
    _Alignas(64) _Atomic uint64_t ended;   /* by the daemon: ops that have ended, well or not */
} stream_words_t;

/** A stored op. Zeroed by the client before it submits the op. */
typedef struct graph_words {
    _Alignas(64) _Atomic uint64_t requested; /* 1 by the stream: the op is to run; 0 by the daemon: it will */
    _Atomic uint64_t failure;                /* by the daemon: blink_result_t, 0 while no replay has failed */
    _Alignas(64) _Atomic uint64_t ended;     /* 1 by the daemon: the op has ended; 0 by the stream */
} graph_words_t;

/** The words of a window, whichever it is: the windows of a staging region count pieces, one of a windows
 * region serves streams or stored ops. */
typedef union window {
    staging_words_t staging;
    stream_words_t stream;
    graph_words_t graph;
} window_t;

static_assert(sizeof(window_t) == WINDOW_BYTES, "windows layout");
static_assert(STAGING_HEADER_BYTES == 4096, "the windows of a staging region fill its first page");
static_assert(sizeof(staging_words_t) == WINDOW_BYTES, "staging window layout");
static_assert(offsetof(staging_words_t, filled) == 0, "staging window layout");
static_assert(offsetof(staging_words_t, drained) == 8, "staging window layout");
static_assert(offsetof(staging_words_t, done) == 64, "staging window layout");
static_assert(sizeof(stream_words_t) == WINDOW_BYTES, "stream window layout");
static_assert(offsetof(stream_words_t, reached) == 0, "stream window layout");
static_assert(offsetof(stream_words_t, ended) == 64, "stream window layout");
static_assert(sizeof(graph_words_t) == WINDOW_BYTES, "graph window layout");
static_assert(offsetof(graph_words_t, requested) == 0, "graph window layout");
static_assert(offsetof(graph_words_t, failure) == 8, "graph window layout");
static_assert(offsetof(graph_words_t, ended) == 64, "graph window layout");

/** Elements of one block in a piece of a staged op: as many as let the blocks of a rank's larger buffer
 * (collective_buffer_blocks()) fit a slot, in whole 64-byte lines; at least 1. Both sides compute it. */
uint64_t staging_piece_elements(uint32_t opcode, uint32_t rank_count, uint32_t element_bytes);

#endif
