/*
 * A transfer: one window of staging memory in use, for the staged buffers of one submission, and which bytes
 * go between the application's memory and the window's slots.
 */
#ifndef CLIENT_TRANSFER_H
#define CLIENT_TRANSFER_H

#include "base/list.h"
#include "blink/blink.h"
#include "ring.h"
#include "windows.h"

struct gpu;
struct arena;

/** One direction: `blocks` blocks of the op's count, adjoining in the application's memory. */
typedef struct staging_side {
    char *user; /* NULL: not staged */
    uint32_t blocks;
    bool is_there;  /* the application's memory has what the slots will: nothing is copied */
    bool on_device; /* GPU memory */
    char *slots;
} staging_side_t;

typedef struct staging_transfer {
    struct arena *arena;
    list_t of_arena;                         /* by offset; under the arenas' lock */
    struct staging_transfer *next_of_op;     /* its submitter's */
    struct staging_transfer *next_on_stream; /* until the stream's last copy has been enqueued */
    _Atomic(blink_op_t *) op;                /* NULL until it is submitted */
    staging_words_t *window;
    uint32_t window_index;        /* in the arena */
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

/** What a piece of a side is: `bytes` of each block, whose first begins at `user`, the next `stride_bytes`
 * on; in the slot they adjoin. */
typedef struct staging_piece {
    char *user, *slot;
    size_t bytes, stride_bytes;
    uint32_t blocks;
} staging_piece_t;

staging_piece_t staging_piece(const staging_transfer_t *transfer, const staging_side_t *side, uint64_t piece);

#endif
