/*
 * What each collective is. COLLECTIVES below is the only list of collectives with facts: opcodes, names,
 * roots, block counts, in-place forms and bandwidth factors derive from it, and everybody asks here.
 *
 * Payload and blocks. The payload is the buffer for allreduce, broadcast, reduce and sendrecv, and the total
 * over all ranks for the others. It consists of equal blocks. All of a block comes from the same rank, or is
 * the reduction of what all ranks give, and all of it goes to the same rank or to all ranks. A row of the
 * table says which:
 *
 *   from ROOT  the block comes from the root         to ROOT  the block goes to the root
 *        EACH  every rank gives blocks of its own       PEER  the block goes to the other rank of the pair
 *        ALL   the block is the reduction of            EACH  every rank gets blocks of its own
 *              what all ranks give                      ALL   every rank gets the block
 *
 * What follows for n ranks:
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
 *   barrier              0
 *
 * How to add a collective is in docs/architecture.md, "How to add something".
 */
#ifndef BLINK_COLLECTIVE_H
#define BLINK_COLLECTIVE_H

#include "blink/types.h"

#include <stdbool.h>
#include <stdint.h>

// clang-format off
/*      blink_collective_t  opcode  name             function that submits it   from    to */
#define COLLECTIVES(ROW)                                                                                     \
    ROW(ALLREDUCE,          1,      "allreduce",     "blink_all_reduce",        ALL,    ALL)                 \
    ROW(BROADCAST,          2,      "broadcast",     "blink_broadcast",         ROOT,   ALL)                 \
    ROW(REDUCE,             3,      "reduce",        "blink_reduce",            ALL,    ROOT)                \
    ROW(ALLGATHER,          4,      "allgather",     "blink_all_gather",        EACH,   ALL)                 \
    ROW(REDUCESCATTER,      5,      "reducescatter", "blink_reduce_scatter",    ALL,    EACH)                \
    ROW(GATHER,             6,      "gather",        "blink_gather",            EACH,   ROOT)                \
    ROW(SCATTER,            7,      "scatter",       "blink_scatter",           ROOT,   EACH)                \
    ROW(ALLTOALL,           8,      "alltoall",      "blink_all_to_all",        EACH,   EACH)                \
    ROW(SENDRECV,           9,      "sendrecv",      "blink_send",              ROOT,   PEER)
// clang-format on

/** A barrier is submitted and matched as a collective, but moves nothing and is never planned: it is no
 * blink_collective_t. */
#define COLLECTIVE_BARRIER ((blink_collective_t)(BLINK_SENDRECV + 1))

/* ---- opcodes of the ring ---- */

/** Whether an entry with this opcode is a rank's part in a collective, a send, a receive or a barrier. */
bool collective_opcode_valid(uint32_t opcode);

/** What an entry with this (valid) opcode takes part in. Sends and receives are the two ends of a sendrecv.
 */
blink_collective_t collective_of_opcode(uint32_t opcode);

/** The function of the client library that submits this opcode, and what messages call the op: a sendrecv is
 * a "transfer". */
const char *collective_function(uint32_t opcode);
const char *collective_op_name(uint32_t opcode);

/* ---- facts. All take COLLECTIVE_BARRIER too ---- */

/** Whether the value is a blink_collective_t (a barrier is none). */
bool collective_valid(uint32_t collective);

bool collective_moves(blink_collective_t collective);      /* has buffers: all but a barrier */
bool collective_has_root(blink_collective_t collective);   /* broadcast, reduce, gather, scatter, sendrecv */
bool collective_is_pair(blink_collective_t collective);    /* sendrecv: two of the ranks submit it, matched by
                                                            * (source, destination); others are matched by how
                                                            * many went before */
bool collective_reduces(blink_collective_t collective);    /* has reduce trees */
bool collective_broadcasts(blink_collective_t collective); /* has broadcast trees; every rank's output is the
                                                            * same */
bool collective_routes(blink_collective_t collective);   /* has routes: gather, scatter, alltoall, sendrecv */
bool collective_per_rank(blink_collective_t collective); /* trees of every rank: allgather, reducescatter */

/** Whether a rank's input may be its block of its output, or the other way round, or both be one buffer. */
bool collective_has_in_place(blink_collective_t collective);

/** Bus bandwidth, as nccl-tests defines it, over payload by time. 1 for one rank. */
double collective_busbw_factor(blink_collective_t collective, uint32_t rank_count);

/* ---- blocks ---- */

/** Blocks of the whole payload. */
uint64_t collective_block_count(blink_collective_t collective, uint32_t rank_count);

/** Blocks of the larger of a rank's buffers, where it has them: the rank count, or 1. */
uint32_t collective_buffer_blocks(blink_collective_t collective, uint32_t rank_count);

/** Blocks that a rank gives: of its input, 0 where it has none. is_root: it is the root. */
uint32_t collective_input_blocks(blink_collective_t collective, uint32_t rank_count, bool is_root);

/** Blocks that a rank gets: of its output, 0 where it has none. is_root: it is the root; of a sendrecv, that
 * it is the peer. */
uint32_t collective_output_blocks(blink_collective_t collective, uint32_t rank_count, bool is_root);

/** Which block a tree with this root, or a route from `from` to `to`, carries. `to` counts for routes only.
 */
uint64_t collective_block(blink_collective_t collective, uint32_t rank_count, uint32_t root_or_from,
                          uint32_t to);

/** Where that block stands: its index among the blocks of the input of a rank that contributes to it, and of
 * the output of a rank that receives it. */
uint32_t collective_in_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to);
uint32_t collective_out_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to);

#endif
