/*
 * The symbolic verifier against programs made by hand: correct ones pass, and each way to break one is named.
 */
#include "error.h"
#include "prove/verify.h"
#include "unit/exec/hand_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static lane_step_t *step_of(hand_t *hand, uint32_t rank, lane_phase_t phase)
{
    for (uint32_t i = 0; i < hand->program.lane_count; i++)
        if (hand->lanes[i].rank == rank && hand->lanes[i].phase == (uint32_t)phase)
            return &hand->steps[hand->lanes[i].step_first];
    fail_msg("rank %u has no lane", rank);
    return NULL;
}

/* Drop the first wait of a kind from a step. */
static void drop_wait(hand_t *hand, lane_step_t *step, lane_wait_kind_t kind)
{
    lane_wait_t *waits = &hand->waits[step->wait_first];
    uint32_t at = 0;
    while (waits[at].kind != (uint32_t)kind)
        at++;
    assert_true(at < step->wait_count);
    waits[at] = waits[--step->wait_count];
}

static const lane_verify_options_t usual = {.chunks = 5, .slots = 1};
static const lane_verify_options_t in_place = {.chunks = 5, .slots = 1, .in_place = true};

static void assert_right(const hand_t *hand, const lane_verify_options_t *options)
{
    lane_program_t program = hand->program;
    program.independent = program.wait_count == 0 && program.signal_count == 0;
    if (lane_verify(&program, options) != BLINK_OK)
        fail_msg("%u ranks, %u chunks, %u slots%s: %s", hand->program.rank_count, options->chunks,
                 options->slots, options->in_place ? ", in place" : "", blink_error_text());
}

static void assert_wrong(const hand_t *hand, const lane_verify_options_t *options, const char *text)
{
    lane_program_t program = hand->program;
    program.independent = program.wait_count == 0 && program.signal_count == 0;
    assert_int_equal(lane_verify(&program, options), BLINK_ERR_INTERNAL);
    if (!strstr(blink_error_text(), text))
        fail_msg("expected \"%s\", got \"%s\"", text, blink_error_text());
}

/* ---- what is right passes ---- */

static void test_chains_are_right(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 16; bits++) {
        hand_t hand;
        make_chain(&hand, bits & 1 ? BLINK_BROADCAST : BLINK_ALLREDUCE, bits & 2 ? 3 : 2, bits & 4);
        for (uint32_t slots = 1; slots <= 2; slots++) {
            for (uint32_t chunks = 1; chunks <= 5; chunks++) {
                lane_verify_options_t options = {
                    .chunks = chunks, .slots = slots, .in_place = (bits & 8) != 0};
                assert_right(&hand, &options);
            }
        }
    }
}

static void test_single_rank_copies_its_input(void **state)
{
    (void)state;
    hand_t hand;
    hand_init(&hand, BLINK_ALLREDUCE, 1);
    lane_step_t *step = begin(&hand, 0, LANE_DOWN);
    src(&hand, step, LANE_INPUT, 0, PLAN_NONE);
    dst(&hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    step->completes = 1;
    assert_right(&hand, &usual);
    assert_right(&hand, &in_place);
}

static void test_two_channels_run_apart(void **state)
{
    (void)state;
    hand_t hand;
    lane_channel_t channels[2] = {{.share = 0.5, .part_count = 1},
                                  {.share = 0.5, .part_first = 1, .part_count = 1}};
    hand_init(&hand, BLINK_ALLREDUCE, 1);
    hand.program.channels = channels;
    hand.program.channel_count = hand.program.part_count = 2;
    assert_int_equal(lane_divide_blocks(&hand.program), BLINK_OK);
    for (uint32_t channel = 0; channel < 2; channel++) {
        lane_step_t *step = begin(&hand, 0, LANE_DOWN);
        src(&hand, step, LANE_INPUT, 0, PLAN_NONE);
        dst(&hand, step, LANE_OUTPUT, 0, PLAN_NONE);
        step->completes = 1;
        hand.lanes[channel].channel = channel;
    }
    assert_right(&hand, &usual);
    hand.program.lane_count = hand.program.step_count = 1;
    assert_wrong(&hand, &usual, "channel 1 part 0 chunk 0: the output of rank 0 is never written");
}

/* ---- order ---- */

static void test_missing_full_wait_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    drop_wait(&hand, step_of(&hand, 0, LANE_UP), LANE_FULL);
    assert_wrong(
        &hand, &usual,
        "channel 0 rank 0 up, chunk 0, step 0: reads scratch edge 0 slot 0, which nothing has written");
}

static void test_missing_full_wait_is_caught_when_luck_orders_it(void **state)
{
    (void)state;
    hand_t hand;
    lane_verify_options_t one_chunk = {.chunks = 1, .slots = 1};
    make_chain(&hand, BLINK_ALLREDUCE, 2, true);
    drop_wait(&hand, step_of(&hand, 0, LANE_UP), LANE_FULL);
    assert_wrong(&hand, &one_chunk, "reads scratch edge 0 slot 0, not known to have arrived from rank 1 up");
}

static void test_missing_free_wait_is_caught_by_the_writer(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 3, false);
    drop_wait(&hand, step_of(&hand, 1, LANE_UP), LANE_FREE);
    assert_wrong(
        &hand, &usual,
        "rank 1 up, chunk 1, step 0: overwrites scratch edge 0 slot 0, still to be read by rank 0 up");
}

static void test_missing_free_wait_is_caught_by_the_reader(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    drop_wait(&hand, step_of(&hand, 1, LANE_UP), LANE_FREE);
    assert_wrong(
        &hand, &usual,
        "rank 0 up, chunk 0, step 0: reads scratch edge 0 slot 0, not known to have arrived from rank 1 up");
}

static void test_missing_free_wait_is_caught_without_slot_reuse(void **state)
{
    (void)state;
    hand_t hand;
    lane_verify_options_t no_reuse = {.chunks = 2, .slots = 2};
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    drop_wait(&hand, step_of(&hand, 1, LANE_UP), LANE_FREE);
    assert_wrong(&hand, &no_reuse, "semaphore 1 has no waiter");
}

static void test_wait_of_the_wrong_kind_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    lane_verify_options_t two_slots = {.chunks = 5, .slots = 2};
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    hand.waits[step_of(&hand, 0, LANE_UP)->wait_first].kind = LANE_FREE;
    assert_wrong(&hand, &two_slots, "reads scratch edge 0 slot 0, which nothing has written");
    hand.waits[step_of(&hand, 0, LANE_UP)->wait_first].kind = LANE_FULL;
    hand.waits[step_of(&hand, 1, LANE_UP)->wait_first].kind = LANE_FULL;
    assert_wrong(&hand, &two_slots, "deadlock");
}

static void test_scratch_of_another_part_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    hand.channel.part_count = hand.program.part_count = 2;
    assert_int_equal(lane_divide_blocks(&hand.program), BLINK_OK);
    step_of(&hand, 1, LANE_UP)->part = 1;
    assert_wrong(&hand, &usual,
                 "reads scratch edge 0 slot 0, which holds another chunk or part, written by rank 1 up");
}

static void test_semaphore_of_another_destination_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_BROADCAST, 3, false);
    assert_int_equal(hand.signals[0].dst, 1);
    hand.signals[0].dst = 0;
    assert_wrong(&hand, &usual,
                 "rank 1 down, chunk 0, step 0: reads the output of rank 1, not known to have arrived");
    hand.signals[0].dst = PLAN_NONE;
    assert_wrong(&hand, &usual, "reads the output of rank 1, not known to have arrived from rank 0 down");
}

static void test_exchange_is_right_in_place_only_if_sent_before_added(void **state)
{
    (void)state;
    hand_t hand;
    make_exchange(&hand, false);
    assert_right(&hand, &usual);
    assert_wrong(&hand, &in_place, "overwrites the output of rank 1, still to be read by rank 1 up");
    make_exchange(&hand, true);
    assert_right(&hand, &in_place);
}

static void test_broadcast_before_the_reduce_has_read_is_caught_in_place(void **state)
{
    (void)state;
    hand_t hand;
    hand_init(&hand, BLINK_ALLREDUCE, 2);
    hand.program.edge_count = 1;
    lane_step_t *early = begin(&hand, 0, LANE_DOWN);
    src(&hand, early, LANE_INPUT, 0, PLAN_NONE);
    dst(&hand, early, LANE_OUTPUT, 0, PLAN_NONE);
    dst(&hand, early, LANE_OUTPUT, 1, PLAN_NONE);
    lane_step_t *reduce = begin(&hand, 1, LANE_UP);
    src(&hand, reduce, LANE_INPUT, 1, PLAN_NONE);
    dst(&hand, reduce, LANE_SCRATCH, 0, 0);
    assert_wrong(&hand, &usual, "overwrites scratch edge 0 slot 0, also written by rank 1 up");
    assert_wrong(&hand, &in_place,
                 "rank 1 up, chunk 0, step 0: reads the input of rank 1, not known to have arrived");
}

static void test_two_lanes_writing_one_output_are_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_BROADCAST, 2, false);
    lane_step_t *again = begin(&hand, 0, LANE_UP);
    src(&hand, again, LANE_INPUT, 0, PLAN_NONE);
    dst(&hand, again, LANE_OUTPUT, 1, PLAN_NONE);
    assert_wrong(&hand, &usual,
                 "overwrites the output of rank 1, not known to have arrived from rank 0 down");
}

/* ---- progress ---- */

static void test_missing_signal_is_a_deadlock(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    step_of(&hand, 1, LANE_UP)->signal_count = 0;
    assert_wrong(&hand, &usual,
                 "deadlock: channel 0 rank 0 up, chunk 0, step 0 waits for semaphore 0, which has no writer");
}

static void test_missing_free_signal_is_a_deadlock_once_slots_are_used_up(void **state)
{
    (void)state;
    hand_t hand;
    lane_verify_options_t reuse = {.chunks = 3, .slots = 2}, no_reuse = {.chunks = 2, .slots = 2};
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    step_of(&hand, 0, LANE_UP)->signal_count = 0;
    assert_wrong(&hand, &reuse, "deadlock: channel 0 rank 0 up, chunk 2, step 0 waits for semaphore 0");
    assert_wrong(&hand, &no_reuse, "semaphore 1 has no writer");
}

static void test_cyclic_wait_is_a_deadlock(void **state)
{
    (void)state;
    hand_t hand;
    make_exchange(&hand, true);
    /* Each rank sends only after it has added what the other sent. */
    for (uint32_t rank = 0; rank < 2; rank++) {
        lane_step_t *send = step_of(&hand, rank, LANE_UP), *add = step_of(&hand, rank, LANE_DOWN);
        hand.signals[send->signal_first + 1].semaphore = 6 + rank;
        hand.waits[add->wait_first + 1].semaphore = 6 + rank;
        hand.waits[send->wait_first].kind = LANE_FULL;
    }
    hand.program.semaphore_count = 8;
    assert_wrong(&hand, &usual, "deadlock: channel 0 rank 0 up, chunk 0, step 0 waits for semaphore 2");
}

/* ---- results ---- */

static void test_contribution_twice_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_exchange(&hand, true);
    lane_step_t *add = step_of(&hand, 0, LANE_DOWN);
    lane_operand_t twice[4] = {hand.operands[add->src_first], hand.operands[add->src_first],
                               hand.operands[add->src_first + 1], hand.operands[add->dst_first]};
    memcpy(&hand.operands[hand.program.operand_count], twice, sizeof(twice));
    add->src_first = hand.program.operand_count;
    add->src_count = 3;
    add->dst_first = add->src_first + 3;
    hand.program.operand_count += 4;
    assert_wrong(&hand, &usual, "channel 0 part 0 chunk 0: the output of rank 0 holds rank 0 2 times, not 1");
}

static void test_missing_contribution_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 3, false);
    lane_step_t *middle = step_of(&hand, 1, LANE_UP);
    middle->src_first++;
    middle->src_count--;
    assert_wrong(&hand, &usual, "the output of rank 0 holds rank 1 0 times, not 1");
}

static void test_output_never_written_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    step_of(&hand, 0, LANE_UP)->dst_count = 1;
    assert_wrong(&hand, &usual, "the output of rank 1 is never written");
    assert_wrong(&hand, &in_place, "the output of rank 1 holds rank 0 0 times, not 1");
}

static void test_broadcast_from_the_wrong_root_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_BROADCAST, 2, false);
    hand.program.root = 1;
    assert_wrong(&hand, &usual, "reads the input of rank 0, where its block does not stand");
}

static void test_output_of_a_rank_that_gets_nothing_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    hand.program.collective = BLINK_REDUCE;
    assert_wrong(&hand, &usual,
                 "rank 0 up, chunk 0, step 0: writes the output of rank 1, where its block does not go");
    step_of(&hand, 0, LANE_UP)->dst_count = 1;
    assert_right(&hand, &usual);
    assert_right(&hand, &in_place);
}

static void test_block_taken_for_another_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    hand_init(&hand, BLINK_GATHER, 2);
    hand.program.block_count = hand.channel.part_count = hand.program.part_count = 2;
    hand.parts[1] = (lane_part_t){.block = 1, .out_block = 1, .siblings = 1, .end = 1.0};
    for (uint32_t rank = 0; rank < 2; rank++) {
        lane_step_t *step = begin(&hand, rank, LANE_DOWN);
        src(&hand, step, LANE_INPUT, rank, PLAN_NONE);
        dst(&hand, step, LANE_OUTPUT, 0, PLAN_NONE);
        step->part = rank;
    }
    assert_right(&hand, &usual);
    assert_right(&hand, &in_place);
    step_of(&hand, 1, LANE_DOWN)->part = 0;
    assert_wrong(&hand, &usual,
                 "rank 1 down, chunk 0, step 0: reads the input of rank 1, where its block does not stand");
}

static void test_alltoall_in_place_is_refused(void **state)
{
    (void)state;
    hand_t hand;
    hand_init(&hand, BLINK_ALLTOALL, 1);
    lane_step_t *step = begin(&hand, 0, LANE_DOWN);
    src(&hand, step, LANE_INPUT, 0, PLAN_NONE);
    dst(&hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    assert_right(&hand, &usual);
    hand.program.independent = true;
    assert_int_equal(lane_verify(&hand.program, &in_place), BLINK_ERR_INVALID_ARGUMENT);
    assert_string_equal(blink_error_text(), "alltoall has no form in place");
}

/* ---- direct steps ---- */

static void test_direct_step_is_right_in_place_too(void **state)
{
    (void)state;
    hand_t hand;
    make_direct(&hand);
    assert_right(&hand, &usual);
    assert_right(&hand, &in_place);
}

static void test_direct_step_that_others_read_beside_is_caught_in_place(void **state)
{
    (void)state;
    hand_t hand;
    make_direct(&hand);
    /* Rank 1 does the same for itself, as if for its own output alone. */
    lane_step_t *first = step_of(&hand, 0, LANE_UP);
    first->dst_count = 1;
    lane_step_t *step = begin(&hand, 1, LANE_UP);
    src(&hand, step, LANE_INPUT, 0, PLAN_NONE);
    hand.operands[step->src_first].path = 0 * 2 + 1;
    src(&hand, step, LANE_INPUT, 1, PLAN_NONE);
    dst(&hand, step, LANE_OUTPUT, 1, PLAN_NONE);
    step->completes = 1;
    assert_right(&hand, &usual);
    assert_wrong(&hand, &in_place, "not known to have arrived from rank 0 up");
}

static void test_steps_in_one_lane_do_not_order_an_independent_program(void **state)
{
    (void)state;
    hand_t hand;
    hand_init(&hand, BLINK_BROADCAST, 2);
    lane_step_t *step = begin(&hand, 0, LANE_DOWN);
    src(&hand, step, LANE_INPUT, 0, PLAN_NONE);
    dst(&hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    step = &hand.steps[hand.program.step_count++];
    *step =
        (lane_step_t){.src_first = hand.program.operand_count, .dst_first = hand.program.operand_count + 1};
    hand.lanes[0].step_count = 2;
    src(&hand, step, LANE_OUTPUT, 0, PLAN_NONE);
    dst(&hand, step, LANE_OUTPUT, 1, PLAN_NONE);
    assert_wrong(&hand, &usual, "reads the output of rank 0, not known to have arrived");
}

static void test_source_without_its_path_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_direct(&hand);
    hand.operands[step_of(&hand, 0, LANE_UP)->src_first + 1].path = PLAN_NONE;
    assert_wrong(&hand, &usual, "no path to rank 1");
    make_direct(&hand);
    hand.operands[step_of(&hand, 0, LANE_UP)->src_first + 1].path = 0 * 2 + 1;
    assert_wrong(&hand, &usual, "path 1 from rank 1 to rank 0 leads from rank 0 to rank 1");
}

static void test_false_word_about_completion_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 3, false);
    step_of(&hand, 0, LANE_UP)->completes = 0;
    assert_wrong(&hand, &usual, "completes it and does not say so");
    make_chain(&hand, BLINK_ALLREDUCE, 3, false);
    step_of(&hand, 1, LANE_UP)->completes = 1;
    assert_wrong(&hand, &usual,
                 "rank 1 up, chunk 0, step 0: writes scratch edge 0 slot 0, says that it completes it");
    make_chain(&hand, BLINK_ALLREDUCE, 3, false);
    step_of(&hand, 1, LANE_DOWN)->completes = 1;
    assert_wrong(&hand, &usual, "says that it completes it and does not");
}

static void test_false_word_about_independence_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    hand.program.independent = true;
    assert_int_equal(lane_verify(&hand.program, &usual), BLINK_ERR_INTERNAL);
    make_direct(&hand);
    hand.program.independent = false;
    assert_int_equal(lane_verify(&hand.program, &usual), BLINK_ERR_INTERNAL);
}

/* ---- structure ---- */

static void test_blocks_not_covered_once_are_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_BROADCAST, 2, false);
    hand.parts[0].end = 0.5;
    assert_wrong(&hand, &usual, "block 0 is covered to 0.5");
    hand.parts[0].begin = 0.25;
    assert_wrong(&hand, &usual,
                 "channel 0 part 0: 0 of 1 in block 0 from 0.25 to 0.5, which is covered to 0");
    hand.channel.part_count = hand.program.part_count = 2;
    hand.parts[0] = (lane_part_t){.siblings = 2, .end = 1.0};
    hand.parts[1] = (lane_part_t){.ordinal = 1, .siblings = 2, .end = 0.5};
    assert_wrong(&hand, &usual, "channel 0 part 1: 1 of 2 in block 0 from 0 to 0.5, which is covered to 1");
}

static void test_two_ends_of_a_semaphore_are_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    hand.signals[step_of(&hand, 0, LANE_UP)->signal_first].semaphore = 0;
    assert_wrong(&hand, &usual, "semaphore 0 has another writer");
    make_chain(&hand, BLINK_ALLREDUCE, 2, false);
    hand.waits[step_of(&hand, 0, LANE_UP)->wait_first].semaphore = 1;
    assert_wrong(&hand, &usual, "semaphore 1 has another waiter");
}

static void test_two_writers_of_a_scratch_edge_are_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_exchange(&hand, true);
    lane_operand_t *sent = &hand.operands[step_of(&hand, 1, LANE_UP)->dst_first];
    sent->edge = 0;
    assert_wrong(&hand, &usual, "scratch edge 0 has another writer");
}

/* A field of the two-rank chain set to a value it must not have. The root's lane is first, then the leaf's.
 */
typedef struct broken_field {
    size_t offset_bytes; /* of a uint32_t in hand_t */
    uint32_t value;
    const char *text;
} broken_field_t;

#define BROKEN(field, value, text)                                                                           \
    {                                                                                                        \
        offsetof(hand_t, field), value, text                                                                 \
    }

static void test_fields_out_of_range_are_caught(void **state)
{
    (void)state;
    /* Operands: 0 input, 1 scratch (root's sources), 2 own and 3 other output, 4 input, 5 scratch (leaf). */
    static const broken_field_t broken[] = {
        BROKEN(channel.part_count, 0, "channel 0 has no part"),
        BROKEN(channel.part_first, 1, "channel 0: parts run past the 1 there are"),
        BROKEN(program.block_count, 2, "2 blocks, not 1"),
        BROKEN(parts[0].block, 1, "channel 0 part 0 carries block 1 of 1"),
        BROKEN(parts[0].in_block, 1, "block 0 stands at 0 and 0 of inputs and outputs, not at 1 and 0"),
        BROKEN(parts[0].out_block, 1, "block 0 stands at 0 and 0 of inputs and outputs, not at 0 and 1"),
        BROKEN(parts[0].ordinal, 1, "channel 0 part 0: 1 of 1 in block 0"),
        BROKEN(parts[0].siblings, 2, "channel 0 has 1 of 2 parts for block 0"),
        BROKEN(paths[1].from_rank, 1, "path 1 from rank 0 to rank 1 leads from rank 1 to rank 1"),
        BROKEN(paths[1].to_rank, PLAN_NONE,
               "path 1 from rank 0 to rank 1 leads from rank 0 to rank 4294967295"),
        BROKEN(paths[0].link_count, 2, "path 0: links run past the 1 there are"),
        BROKEN(lanes[0].channel, 1, "lane 0: no channel 1"),
        BROKEN(lanes[0].rank, 2, "rank 2"),
        BROKEN(lanes[0].rank, 1, "lane 1: channel 0 rank 1 up has another lane"),
        BROKEN(lanes[0].phase, 2, "phase 2"),
        BROKEN(lanes[0].step_first, 2, "lane 0: steps run past the 2 there are"),
        BROKEN(lanes[0].step_first, 1, "lane 1: step 1 belongs to another lane"),
        BROKEN(lanes[1].step_count, 0, "1 of 2 steps belong to no lane"),
        BROKEN(steps[0].part, 1, "works on part 1 of 1"),
        BROKEN(steps[0].src_first, UINT32_MAX, "operands run past the 6 there are"),
        BROKEN(steps[0].src_count, UINT32_MAX, "operands run past the 6 there are"),
        BROKEN(steps[0].dst_first, 5, "operands run past the 6 there are"),
        BROKEN(steps[0].wait_first, 2, "waits run past the 2 there are"),
        BROKEN(steps[0].signal_count, 3, "signals run past the 2 there are"),
        BROKEN(steps[0].src_count, 0, "has 0 sources and 2 destinations"),
        BROKEN(steps[1].dst_count, 0, "rank 1 up, step 0: has 1 sources and 0 destinations"),
        BROKEN(operands[0].buffer, LANE_SHARED + 1, "buffer kind 6 does not exist"),
        BROKEN(operands[0].rank, 2, "operand of rank 2 of 2"),
        BROKEN(operands[0].rank, 1, "no path to rank 1"),
        BROKEN(operands[0].path, 0, "path 0 to its own rank"),
        BROKEN(operands[0].edge, 0, "edge 0 named for a user's buffer"),
        BROKEN(operands[1].edge, 1, "scratch edge 1 of 1"),
        BROKEN(operands[2].path, 0, "path 0 to its own rank"),
        BROKEN(operands[3].path, PLAN_NONE, "no path to rank 1"),
        BROKEN(operands[3].path, 4, "path 4 of 4"),
        BROKEN(operands[3].path, 2, "path 2 from rank 0 to rank 1 leads from rank 1 to rank 0"),
        BROKEN(operands[3].buffer, LANE_INPUT, "writes the input of rank 1"),
        BROKEN(waits[0].kind, 2, "wait kind 2 does not exist"),
        BROKEN(waits[0].semaphore, 2, "semaphore 2 of 2"),
        BROKEN(signals[0].semaphore, PLAN_NONE, "semaphore 4294967295 of 2"),
        BROKEN(signals[0].dst, 2, "signals the arrival of destination 2 of 2"),
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
        hand_t hand;
        make_chain(&hand, BLINK_ALLREDUCE, 2, false);
        memcpy((char *)&hand + broken[i].offset_bytes, &broken[i].value, sizeof(uint32_t));
        assert_wrong(&hand, &usual, broken[i].text);
    }
}

static void test_scratch_at_another_rank_than_written_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    make_chain(&hand, BLINK_ALLREDUCE, 3, false);
    hand.operands[step_of(&hand, 0, LANE_UP)->src_first + 1].edge = 1;
    assert_wrong(&hand, &usual, "reads scratch edge 1, which lies at rank 1");
}

static void test_semaphore_between_channels_is_caught(void **state)
{
    (void)state;
    hand_t hand;
    lane_channel_t channels[2] = {{.share = 0.5, .part_count = 1},
                                  {.share = 0.5, .part_first = 1, .part_count = 1}};
    make_chain(&hand, BLINK_BROADCAST, 3, false);
    hand.program.channels = channels;
    hand.program.channel_count = hand.program.part_count = 2;
    assert_int_equal(lane_divide_blocks(&hand.program), BLINK_OK);
    hand.lanes[1].channel = 1;
    assert_wrong(&hand, &usual, "semaphore 0 joins channels 0 and 1");
}

static void test_options_that_prove_nothing_are_refused(void **state)
{
    (void)state;
    hand_t hand;
    lane_verify_options_t no_chunk = {.slots = 1}, no_slot = {.chunks = 1};
    make_chain(&hand, BLINK_BROADCAST, 2, false);
    assert_wrong(&hand, &no_chunk, "0 chunks in 1 slots");
    assert_wrong(&hand, &no_slot, "1 chunks in 0 slots");
    hand.program.root = 2;
    assert_wrong(&hand, &usual, "root 2 of 2 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_are_right),
        cmocka_unit_test(test_single_rank_copies_its_input),
        cmocka_unit_test(test_two_channels_run_apart),
        cmocka_unit_test(test_missing_full_wait_is_caught),
        cmocka_unit_test(test_missing_full_wait_is_caught_when_luck_orders_it),
        cmocka_unit_test(test_missing_free_wait_is_caught_by_the_writer),
        cmocka_unit_test(test_missing_free_wait_is_caught_by_the_reader),
        cmocka_unit_test(test_missing_free_wait_is_caught_without_slot_reuse),
        cmocka_unit_test(test_wait_of_the_wrong_kind_is_caught),
        cmocka_unit_test(test_scratch_of_another_part_is_caught),
        cmocka_unit_test(test_semaphore_of_another_destination_is_caught),
        cmocka_unit_test(test_exchange_is_right_in_place_only_if_sent_before_added),
        cmocka_unit_test(test_broadcast_before_the_reduce_has_read_is_caught_in_place),
        cmocka_unit_test(test_two_lanes_writing_one_output_are_caught),
        cmocka_unit_test(test_missing_signal_is_a_deadlock),
        cmocka_unit_test(test_missing_free_signal_is_a_deadlock_once_slots_are_used_up),
        cmocka_unit_test(test_cyclic_wait_is_a_deadlock),
        cmocka_unit_test(test_contribution_twice_is_caught),
        cmocka_unit_test(test_missing_contribution_is_caught),
        cmocka_unit_test(test_output_never_written_is_caught),
        cmocka_unit_test(test_broadcast_from_the_wrong_root_is_caught),
        cmocka_unit_test(test_output_of_a_rank_that_gets_nothing_is_caught),
        cmocka_unit_test(test_block_taken_for_another_is_caught),
        cmocka_unit_test(test_alltoall_in_place_is_refused),
        cmocka_unit_test(test_direct_step_is_right_in_place_too),
        cmocka_unit_test(test_direct_step_that_others_read_beside_is_caught_in_place),
        cmocka_unit_test(test_steps_in_one_lane_do_not_order_an_independent_program),
        cmocka_unit_test(test_source_without_its_path_is_caught),
        cmocka_unit_test(test_false_word_about_completion_is_caught),
        cmocka_unit_test(test_false_word_about_independence_is_caught),
        cmocka_unit_test(test_blocks_not_covered_once_are_caught),
        cmocka_unit_test(test_two_ends_of_a_semaphore_are_caught),
        cmocka_unit_test(test_two_writers_of_a_scratch_edge_are_caught),
        cmocka_unit_test(test_fields_out_of_range_are_caught),
        cmocka_unit_test(test_scratch_at_another_rank_than_written_is_caught),
        cmocka_unit_test(test_semaphore_between_channels_is_caught),
        cmocka_unit_test(test_options_that_prove_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
