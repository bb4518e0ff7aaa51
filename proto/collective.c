#include "collective.h"

#include "ring.h"

#include <assert.h>

/* The ranks at one end of a block: where it comes from, or where it goes to. */
typedef enum end { NONE, ROOT, PEER, EACH, ALL } end_t;

typedef struct row {
    const char *name, *function;
    end_t from, to;
} row_t;

#define ROW(collective, opcode, name, function, from, to) [BLINK_##collective] = {name, function, from, to},
static const row_t rows[] = {[COLLECTIVE_BARRIER] = {"barrier", "blink_barrier", NONE, NONE},
                             COLLECTIVES(ROW)};

/* One more than the collective; 0 for the opcodes of none. */
#define OF_OPCODE(collective, opcode, name, function, from, to) [opcode] = BLINK_##collective + 1,
static const uint8_t of_opcode[] = {
    [RING_OP_RECV] = BLINK_SENDRECV + 1, [RING_OP_BARRIER] = COLLECTIVE_BARRIER + 1, COLLECTIVES(OF_OPCODE)};

/* ---- opcodes of the ring ---- */

bool collective_opcode_valid(uint32_t opcode)
{
    return opcode < sizeof(of_opcode) && of_opcode[opcode] > 0;
}

blink_collective_t collective_of_opcode(uint32_t opcode)
{
    assert(collective_opcode_valid(opcode));
    return (blink_collective_t)(of_opcode[opcode] - 1);
}

const char *collective_function(uint32_t opcode)
{
    return opcode == RING_OP_RECV ? "blink_recv" : rows[collective_of_opcode(opcode)].function;
}

const char *collective_op_name(uint32_t opcode)
{
    blink_collective_t collective = collective_of_opcode(opcode);
    return collective_is_pair(collective) ? "transfer" : rows[collective].name;
}

/* ---- facts ---- */

bool collective_valid(uint32_t collective)
{
    return collective < COLLECTIVE_BARRIER;
}

bool collective_moves(blink_collective_t collective)
{
    return rows[collective].from != NONE;
}

bool collective_has_root(blink_collective_t collective)
{
    return rows[collective].from == ROOT || rows[collective].to == ROOT;
}

bool collective_is_pair(blink_collective_t collective)
{
    return rows[collective].to == PEER;
}

bool collective_reduces(blink_collective_t collective)
{
    return rows[collective].from == ALL;
}

bool collective_broadcasts(blink_collective_t collective)
{
    return rows[collective].to == ALL;
}

/* One rank has a block, and one rank wants it. */
bool collective_routes(blink_collective_t collective)
{
    return collective_moves(collective) && rows[collective].from != ALL && rows[collective].to != ALL;
}

bool collective_per_rank(blink_collective_t collective)
{
    const row_t *row = &rows[collective];
    return (row->from == EACH && row->to == ALL) || (row->from == ALL && row->to == EACH);
}

/* Where all exchange with all, a block's place is taken by a block that comes from elsewhere. */
bool collective_has_in_place(blink_collective_t collective)
{
    const row_t *row = &rows[collective];
    return collective_moves(collective) && row->to != PEER && !(row->from == EACH && row->to == EACH);
}

double collective_busbw_factor(blink_collective_t collective, uint32_t rank_count)
{
    double n = rank_count, blocks = (double)collective_block_count(collective, rank_count);
    if (rank_count < 2)
        return 1.0;
    if (rows[collective].from == ALL && rows[collective].to == ALL)
        return 2.0 * (n - 1.0) / n;
    return collective_buffer_blocks(collective, rank_count) > 1 ? (n - 1.0) / blocks : 1.0;
}

/* ---- blocks ---- */

/* Blocks that differ by the rank at this end. */
static uint32_t blocks_of(end_t end, uint32_t rank_count)
{
    return end == EACH ? rank_count : 1;
}

uint64_t collective_block_count(blink_collective_t collective, uint32_t rank_count)
{
    const row_t *row = &rows[collective];
    if (!collective_moves(collective))
        return 0;
    return (uint64_t)blocks_of(row->from, rank_count) * blocks_of(row->to, rank_count);
}

uint32_t collective_buffer_blocks(blink_collective_t collective, uint32_t rank_count)
{
    return rows[collective].from == EACH ? rank_count : blocks_of(rows[collective].to, rank_count);
}

uint32_t collective_input_blocks(blink_collective_t collective, uint32_t rank_count, bool is_root)
{
    const row_t *row = &rows[collective];
    bool gives = row->from == ROOT ? is_root : row->from != NONE;
    return gives ? blocks_of(row->to, rank_count) : 0;
}

uint32_t collective_output_blocks(blink_collective_t collective, uint32_t rank_count, bool is_root)
{
    const row_t *row = &rows[collective];
    bool gets = row->to == ROOT || row->to == PEER ? is_root : row->to != NONE;
    return gets ? blocks_of(row->from, rank_count) : 0;
}

/* A tree carries its root's block; a route carries the block of whichever of its ends is one of many. */
uint64_t collective_block(blink_collective_t collective, uint32_t rank_count, uint32_t root_or_from,
                          uint32_t to)
{
    const row_t *row = &rows[collective];
    if (row->from == EACH && row->to == EACH)
        return (uint64_t)root_or_from * rank_count + to;
    if (row->from == EACH)
        return root_or_from;
    return collective_in_block(collective, root_or_from, to);
}

uint32_t collective_in_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to)
{
    if (rows[collective].to != EACH)
        return 0;
    return collective_routes(collective) ? to : root_or_from;
}

uint32_t collective_out_block(blink_collective_t collective, uint32_t root_or_from, uint32_t to)
{
    (void)to;
    return rows[collective].from == EACH ? root_or_from : 0;
}
