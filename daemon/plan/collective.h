/*
 * What each collective is, as facts: which phases it has, how its payload falls into blocks, what its bus
 * bandwidth is. The planner, the lane compiler, the verifier and the tools ask here and nowhere else.
 *
 * Payload (FORMATS.md): the buffer for allreduce, broadcast, reduce and sendrecv; the total over all ranks
 * for the others. A block is what has one origin and one destination (or set of them): the payload is
 * block_count equal blocks. Where a block stands in a buffer: `in_block` and `out_block` below.
 *
 *   collective      blocks  block b is          input of a rank       output of a rank
 *   allreduce            1                      the block             the block
 *   broadcast            1                      root: the block       the block
 *   reduce               1                      the block             root: the block
 *   allgather            n  from rank b         its own block         blocks 0 … n-1
 *   reducescatter        n  to rank b           blocks 0 … n-1        its own block
 *   gather               n  from rank b         its own block         root: blocks 0 … n-1
 *   scatter              n  to rank b           root: blocks 0 … n-1  its own block
 *   alltoall           n·n  from b/n to b mod n block for each rank   block from each rank
 *   sendrecv             1  from root to peer   root: the block       peer: the block
 */
#ifndef BLINK_PLAN_COLLECTIVE_H
#define BLINK_PLAN_COLLECTIVE_H

#include "blink/types.h"

#include <stdbool.h>
#include <stdint.h>

bool collective_valid(uint32_t collective);
bool collective_has_root(blink_collective_t collective);   /* broadcast, reduce, gather, scatter, sendrecv */
bool collective_reduces(blink_collective_t collective);    /* has reduce trees */
bool collective_broadcasts(blink_collective_t collective); /* has broadcast trees */
bool collective_routes(blink_collective_t collective);   /* has routes: gather, scatter, alltoall, sendrecv */
bool collective_per_rank(blink_collective_t collective); /* trees of every rank: allgather, reducescatter */

uint64_t collective_block_count(blink_collective_t collective, uint32_t rank_count);

/* Which block a tree with this root, or a route from `from` to `to`, carries. Trees pass to = PLAN_NONE. */
uint64_t collective_block(blink_collective_t collective, uint32_t rank_count, uint32_t root_or_from,
                          uint32_t to);

/* Where that block stands: the index of the block-sized piece of the input of a rank that contributes to it,
 * and of the output of a rank that receives it. */
uint32_t collective_in_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to);
uint32_t collective_out_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to);

/* Bus bandwidth over algorithm bandwidth (payload over time), as nccl-tests defines it. 1 for one rank. */
double collective_busbw_factor(blink_collective_t collective, uint32_t rank_count);

#endif
