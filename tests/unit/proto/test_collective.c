/* The rows of the table of collectives against the definitions of the collectives, written out. */
#include "collective.h"
#include "names.h"
#include "ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 5, ROOT = 3, PEER = 1, NOBODY = N };

/* Blocks at the root (of a sendrecv: the sender's input, the receiver's output) and at the other ranks. */
typedef struct definition {
    blink_collective_t collective;
    uint32_t opcode;
    uint64_t blocks;
    uint32_t in_at_root, in_elsewhere, out_at_root, out_elsewhere;
    bool has_root, reduces, same_everywhere, has_in_place;
    double busbw_factor;
} definition_t;

static const definition_t definitions[] = {
    {BLINK_ALLREDUCE, 1, 1, 1, 1, 1, 1, false, true, true, true, 8.0 / 5.0},
    {BLINK_BROADCAST, 2, 1, 1, 0, 1, 1, true, false, true, true, 1.0},
    {BLINK_REDUCE, 3, 1, 1, 1, 1, 0, true, true, false, true, 1.0},
    {BLINK_ALLGATHER, 4, N, 1, 1, N, N, false, false, true, true, 4.0 / 5.0},
    {BLINK_REDUCESCATTER, 5, N, N, N, 1, 1, false, true, false, true, 4.0 / 5.0},
    {BLINK_GATHER, 6, N, 1, 1, N, 0, true, false, false, true, 4.0 / 5.0},
    {BLINK_SCATTER, 7, N, N, 0, 1, 1, true, false, false, true, 4.0 / 5.0},
    {BLINK_ALLTOALL, 8, N *N, N, N, N, N, false, false, false, false, 4.0 / 25.0},
    {BLINK_SENDRECV, RING_OP_SEND, 1, 1, 0, 1, 0, true, false, false, false, 1.0},
    {COLLECTIVE_BARRIER, RING_OP_BARRIER, 0, 0, 0, 0, 0, false, false, false, false, 1.0},
};
#define FOR_EACH_DEFINITION(d)                                                                               \
    for (const definition_t *d = definitions; d < definitions + sizeof(definitions) / sizeof(*definitions);  \
         d++)

static void test_every_collective_has_its_opcode(void **state)
{
    (void)state;
    FOR_EACH_DEFINITION(d)
    {
        assert_true(collective_opcode_valid(d->opcode));
        assert_int_equal(collective_of_opcode(d->opcode), d->collective);
        assert_int_equal(collective_valid(d->collective), d->collective != COLLECTIVE_BARRIER);
    }
    assert_int_equal(RING_OP_SEND, 9);
    assert_int_equal(RING_OP_RECV, 10);
    assert_int_equal(RING_OP_BARRIER, 11);
    assert_int_equal(RING_OP_FORGET, 12);
    assert_int_equal(collective_of_opcode(RING_OP_RECV), BLINK_SENDRECV);
    assert_int_equal(sizeof(definitions) / sizeof(definitions[0]), COLLECTIVE_BARRIER + 1);
}

static void test_other_opcodes_are_of_no_collective(void **state)
{
    (void)state;
    assert_false(collective_opcode_valid(RING_OP_NOP));
    for (uint32_t opcode = RING_OP_FORGET; opcode < 300; opcode++)
        assert_false(collective_opcode_valid(opcode));
    assert_false(collective_opcode_valid(UINT32_MAX));
    assert_false(collective_valid(UINT32_MAX));
}

static void test_names_are_those_of_functions_and_messages(void **state)
{
    (void)state;
    assert_string_equal(collective_op_name(RING_OP_REDUCESCATTER), "reducescatter");
    assert_string_equal(collective_op_name(RING_OP_RECV), "transfer");
    assert_string_equal(collective_op_name(RING_OP_BARRIER), "barrier");
    assert_string_equal(collective_function(RING_OP_REDUCESCATTER), "blink_reduce_scatter");
    assert_string_equal(collective_function(RING_OP_SEND), "blink_send");
    assert_string_equal(collective_function(RING_OP_RECV), "blink_recv");
    assert_string_equal(collective_function(RING_OP_BARRIER), "blink_barrier");
    assert_string_equal(blink_name_collective(BLINK_SENDRECV), "sendrecv");
    assert_string_equal(blink_name_collective(COLLECTIVE_BARRIER), "unknown");
}

static void test_facts_are_those_of_the_definitions(void **state)
{
    (void)state;
    FOR_EACH_DEFINITION(d)
    {
        assert_int_equal(collective_moves(d->collective), d->blocks > 0);
        assert_int_equal(collective_has_root(d->collective), d->has_root);
        assert_int_equal(collective_is_pair(d->collective), d->collective == BLINK_SENDRECV);
        assert_int_equal(collective_reduces(d->collective), d->reduces);
        assert_int_equal(collective_broadcasts(d->collective), d->same_everywhere);
        assert_int_equal(collective_routes(d->collective),
                         d->blocks > 0 && !d->reduces && !d->same_everywhere);
        assert_int_equal(collective_has_in_place(d->collective), d->has_in_place);
        assert_float_equal(collective_busbw_factor(d->collective, N), d->busbw_factor, 1e-12);
        assert_float_equal(collective_busbw_factor(d->collective, 1), 1.0, 0.0);
    }
}

static void test_buffers_have_the_blocks_of_the_definitions(void **state)
{
    (void)state;
    FOR_EACH_DEFINITION(d)
    {
        assert_int_equal(collective_block_count(d->collective, N), d->blocks);
        assert_int_equal(collective_input_blocks(d->collective, N, true), d->in_at_root);
        assert_int_equal(collective_input_blocks(d->collective, N, false), d->in_elsewhere);
        assert_int_equal(collective_output_blocks(d->collective, N, true), d->out_at_root);
        assert_int_equal(collective_output_blocks(d->collective, N, false), d->out_elsewhere);
        assert_int_equal(collective_buffer_blocks(d->collective, N), d->blocks > 1 ? N : 1);
    }
}

/* A block stands where its rank's is among the blocks of a buffer that has one for every rank. */
static void test_blocks_stand_where_the_definitions_say(void **state)
{
    (void)state;
    static const struct {
        blink_collective_t collective;
        uint32_t from, to; /* of a tree: its root, and NOBODY */
        uint32_t block, in_block, out_block;
    } expected[] = {
        {BLINK_ALLREDUCE, ROOT, NOBODY, 0, 0, 0},  {BLINK_BROADCAST, ROOT, NOBODY, 0, 0, 0},
        {BLINK_REDUCE, ROOT, NOBODY, 0, 0, 0},     {BLINK_ALLGATHER, 4, NOBODY, 4, 0, 4},
        {BLINK_REDUCESCATTER, 4, NOBODY, 4, 4, 0}, {BLINK_GATHER, 4, ROOT, 4, 0, 4},
        {BLINK_SCATTER, ROOT, 4, 4, 4, 0},         {BLINK_ALLTOALL, 2, 4, 2 * N + 4, 4, 2},
        {BLINK_SENDRECV, ROOT, PEER, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        uint32_t from = expected[i].from, to = expected[i].to;
        assert_int_equal(collective_block(expected[i].collective, N, from, to), expected[i].block);
        assert_int_equal(collective_in_block(expected[i].collective, from, to), expected[i].in_block);
        assert_int_equal(collective_out_block(expected[i].collective, from, to), expected[i].out_block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_has_its_opcode),
        cmocka_unit_test(test_other_opcodes_are_of_no_collective),
        cmocka_unit_test(test_names_are_those_of_functions_and_messages),
        cmocka_unit_test(test_facts_are_those_of_the_definitions),
        cmocka_unit_test(test_buffers_have_the_blocks_of_the_definitions),
        cmocka_unit_test(test_blocks_stand_where_the_definitions_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
