/*
 * What a plan asks of multiprocessors. On a GPU a lane is one block, and what a block moves has a limit
 * (model_block_GBps()) that is far below what links carry: a plan of few channels leaves links idle, whatever
 * its trees. A channel that is divided into several with the same trees takes as many more blocks and loads
 * every link as before.
 */
#ifndef BLINK_PLAN_BLOCKS_H
#define BLINK_PLAN_BLOCKS_H

#include "plan/plan.h"

/* Channels are divided until blocks are busy for no more than this part of the time when links are full: the
 * rest is for what a step costs a block besides its bytes, which rates do not count. NCCL's rings keep theirs
 * busy for 0.83 of it on an A100 and 0.53 on an H100. */
#define PLAN_BLOCK_BUSY 0.75

/* Or until a device has so many blocks, or their payload is pieces of so many bytes. NCCL has as many
 * channels at most; a block's threads move the bytes in one go. */
#define PLAN_BLOCKS_MOST       64u
#define PLAN_BLOCK_PIECE_BYTES (8u << 10)

/* One image of a channel. */
typedef struct channel_blocks {
    double load;      /* bytes that its busiest block moves for a byte of each part: of every step the sources
                         or the destinations, whichever are more */
    double ends;      /* the same of steps that complete sums alone */
    double both;      /* and of a device's two blocks */
    uint32_t count;   /* blocks of one device at most, under Simple … */
    uint32_t flagged; /* … and where all data end in slots (LL, LL128) */
} channel_blocks_t;

/* channels: the caller's array, one for each of the plan's. Errors: NO_MEMORY. */
blink_result_t plan_channel_blocks(const plan_t *plan, channel_blocks_t *channels);

/* What the busiest block moves for a byte of the payload, and the blocks that a device has at most. */
typedef struct plan_blocks {
    double busiest;
    uint64_t count, flagged; /* as above */
} plan_blocks_t;

/* On a device, under a protocol. */
static inline uint64_t plan_blocks_under(const plan_blocks_t *blocks, blink_protocol_t protocol)
{
    return protocol == BLINK_PROTOCOL_SIMPLE ? blocks->count : blocks->flagged;
}

/* Errors: NO_MEMORY. */
blink_result_t plan_count_blocks(const plan_t *plan, plan_blocks_t *blocks);

/* Set the plan's block_GBps as the request has it, divide channels until blocks keep up with the links, or as
 * far as the request lets them, and measure the rate. Where moves between hosts take time, channels are
 * divided no further than that makes the request's payload faster. Nothing in plain memory, nor where no lane
 * would wait for another: there any block runs any chunk. Errors: NO_MEMORY. */
blink_result_t plan_fill_blocks(const topo_t *topo, const plan_request_t *request, plan_t *plan);

#endif
