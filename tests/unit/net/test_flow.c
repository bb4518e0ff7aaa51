/* One flow: credit, the map of arrivals, what is refused, and how it ends and resumes. */
#include "net/flow/flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_refused(blink_result_t result, const char *text)
{
    assert_int_equal(result, BLINK_ERR_PROTOCOL);
    if (!strstr(blink_error_text(), text))
        fail_msg("\"%s\" does not say \"%s\"", blink_error_text(), text);
}

static flow_sender_t sender_of(uint32_t moves, uint32_t credit)
{
    flow_sender_t sender;
    flow_sender_open(&sender, moves);
    flow_sender_ready(&sender, moves);
    assert_int_equal(flow_sender_grant(&sender, credit), BLINK_OK);
    return sender;
}

static uint32_t post_all(flow_sender_t *sender)
{
    uint32_t sequence, count = 0;
    while (flow_sender_next(sender, &sequence))
        count++;
    return count;
}

static void take_in(flow_receiver_t *receiver, uint32_t sequence)
{
    assert_int_equal(flow_receiver_claim(receiver, sequence), BLINK_OK);
    flow_receiver_arrive(receiver, sequence);
}

/* ---- the sender ---- */

static void test_a_sender_sends_what_is_ready_and_granted(void **state)
{
    (void)state;
    flow_sender_t sender;
    uint32_t sequence;
    flow_sender_open(&sender, 3);
    assert_false(flow_sender_next(&sender, &sequence));
    flow_sender_ready(&sender, 2);
    assert_false(flow_sender_next(&sender, &sequence));
    assert_int_equal(flow_sender_grant(&sender, 1), BLINK_OK);
    assert_true(flow_sender_next(&sender, &sequence));
    assert_int_equal(sequence, 0);
    assert_false(flow_sender_next(&sender, &sequence));
    assert_int_equal(flow_sender_grant(&sender, 3), BLINK_OK);
    assert_int_equal(flow_sender_grant(&sender, 2), BLINK_OK); /* a repeated CREDIT takes nothing back */
    assert_true(flow_sender_next(&sender, &sequence));
    assert_int_equal(sequence, 1);
    assert_false(flow_sender_next(&sender, &sequence)); /* move 2 is not ready */
    flow_sender_ready(&sender, 3);
    assert_true(flow_sender_next(&sender, &sequence));
    assert_int_equal(sequence, 2);
}

static void test_a_credit_beyond_the_op_is_refused(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(5, 5);
    assert_refused(flow_sender_grant(&sender, 6), "a credit of 6 for a flow of 5 moves");
}

static void test_no_more_than_64_moves_wait_to_be_done(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(1000, 1000);
    assert_int_equal(post_all(&sender), 64);
    flow_sender_done(&sender, 63); /* reported before the others */
    assert_int_equal(sender.done, 0);
    assert_int_equal(post_all(&sender), 0);
    for (uint32_t i = 0; i < 63; i++)
        flow_sender_done(&sender, i);
    assert_int_equal(sender.done, 64);
    assert_int_equal(post_all(&sender), 64);
}

static void test_a_sender_is_settled_when_its_sources_are_done(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(2, 2);
    assert_int_equal(post_all(&sender), 2);
    flow_sender_done(&sender, 1);
    assert_false(flow_sender_is_settled(&sender));
    flow_sender_done(&sender, 0);
    assert_true(flow_sender_is_settled(&sender));
}

static void test_a_stopped_sender_says_how_far_it_has_sent(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(5, 2);
    assert_int_equal(post_all(&sender), 2);
    assert_int_equal(flow_sender_stop(&sender), 2);
    assert_int_equal(flow_sender_grant(&sender, 5), BLINK_OK); /* it was under way */
    assert_int_equal(post_all(&sender), 0);
    flow_sender_done(&sender, 0);
    assert_false(flow_sender_is_settled(&sender));
    flow_sender_done(&sender, 1);
    assert_true(flow_sender_is_settled(&sender));
}

static void test_a_cut_sender_is_settled(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(5, 5);
    post_all(&sender);
    flow_sender_done(&sender, 3);
    flow_sender_cut(&sender);
    assert_true(flow_sender_is_settled(&sender));
    assert_int_equal(post_all(&sender), 0);
}

static void test_after_a_fence_the_lost_moves_go_again_once(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(10, 6);
    uint32_t sequence;
    post_all(&sender);
    flow_sender_done(&sender, 0);
    flow_sender_done(&sender, 3);
    /* 0 and 1 have come, and 3; 2, 4 and 5 are lost. */
    assert_int_equal(flow_sender_arrived(&sender, 2, 0x2), BLINK_OK);
    assert_int_equal(sender.done, 1); /* the transport still reads the source of 1 */
    flow_sender_resume(&sender);
    assert_int_equal(sender.done, 2);
    flow_sender_stop(&sender); /* what was posted comes nevertheless */
    static const uint32_t expected[] = {2, 4, 5};
    for (size_t i = 0; i < 3; i++) {
        assert_true(flow_sender_next(&sender, &sequence));
        assert_int_equal(sequence, expected[i]);
        flow_sender_done(&sender, sequence);
    }
    assert_false(flow_sender_next(&sender, &sequence));
    assert_int_equal(sender.done, 6);
    assert_true(flow_sender_is_settled(&sender));
}

static void test_a_second_fence_comes_before_all_went_again(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(100, 64);
    uint32_t sequence;
    assert_int_equal(post_all(&sender), 64);
    flow_sender_resume(&sender);
    assert_true(flow_sender_next(&sender, &sequence));
    assert_int_equal(sequence, 0);
    flow_sender_sent(&sender, 0);
    assert_true(flow_sender_next(&sender, &sequence));
    assert_int_equal(sequence, 1);
    assert_int_equal(flow_sender_arrived(&sender, 1, 0), BLINK_OK);
    flow_sender_resume(&sender);
    assert_int_equal(post_all(&sender), 63);
}

static void test_a_source_is_done_once_its_move_was_sent_and_has_come(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(100, 64);
    assert_int_equal(post_all(&sender), 64);
    for (uint32_t i = 0; i < 63; i++)
        flow_sender_sent(&sender, i);
    assert_int_equal(sender.done, 0);
    assert_int_equal(flow_sender_arrived(&sender, 0, 0x2), BLINK_OK);
    assert_int_equal(sender.done, 0);
    assert_int_equal(flow_sender_arrived(&sender, 1, 0x1), BLINK_OK);
    assert_int_equal(sender.done, 2);
    /* What was said before changes nothing. */
    assert_int_equal(flow_sender_arrived(&sender, 1, 0x1), BLINK_OK);
    assert_int_equal(flow_sender_arrived(&sender, 64, 0), BLINK_OK);
    assert_int_equal(sender.done, 63);
    flow_sender_sent(&sender, 63);
    assert_int_equal(sender.done, 64);
}

/* Those of which the endpoint has a copy go again by themselves. */
static void test_copied_moves_do_not_go_again(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(4, 4);
    uint32_t sequence;
    post_all(&sender);
    flow_sender_sent(&sender, 0);
    flow_sender_done(&sender, 1);
    flow_sender_sent(&sender, 3);
    flow_sender_resume(&sender);
    assert_int_equal(sender.done, 0);
    static const uint32_t expected[] = {0, 2, 3};
    for (size_t i = 0; i < 3; i++) {
        assert_true(flow_sender_next(&sender, &sequence));
        assert_int_equal(sequence, expected[i]);
        flow_sender_sent(&sender, sequence);
    }
    assert_int_equal(flow_sender_arrived(&sender, 4, 0), BLINK_OK);
    assert_true(flow_sender_is_settled(&sender));
}

static void test_moves_that_were_not_sent_cannot_have_come(void **state)
{
    (void)state;
    flow_sender_t sender = sender_of(10, 6);
    post_all(&sender);
    flow_sender_done(&sender, 0);
    assert_refused(flow_sender_arrived(&sender, 7, 0),
                   "moves up to 7 are said to have come, and 6 were sent");
    assert_refused(flow_sender_arrived(&sender, 5, 0x2), "moves up to 7 are said to have come");
    assert_int_equal(flow_sender_arrived(&sender, 0, 0), BLINK_OK);
}

/* ---- the receiver ---- */

static void test_arrivals_overtake_up_to_64_moves(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 200, FLOW_ALL_PLACES);
    assert_int_equal(receiver.granted, 64);
    for (uint32_t i = 63; i > 0; i--)
        take_in(&receiver, i);
    assert_int_equal(receiver.arrived, 0);
    assert_false(flow_receiver_grant(&receiver)); /* move 0 bounds what may be on its way */
    assert_refused(flow_receiver_claim(&receiver, 64), "move 64 was not granted: moves below 64 were");
    take_in(&receiver, 0);
    assert_int_equal(receiver.arrived, 64);
    assert_int_equal(receiver.came, 0);
    assert_true(flow_receiver_grant(&receiver));
    assert_int_equal(receiver.granted, 128);
}

static void test_a_move_counts_once(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 4, 4);
    take_in(&receiver, 0);
    take_in(&receiver, 2);
    assert_refused(flow_receiver_claim(&receiver, 0), "move 0 comes a second time");
    assert_refused(flow_receiver_claim(&receiver, 2), "move 2 comes a second time");
    assert_int_equal(flow_receiver_claim(&receiver, 1), BLINK_OK);
    assert_refused(flow_receiver_claim(&receiver, 1), "move 1 comes a second time"); /* while it is written */
    assert_int_equal(flow_receiver_arrive(&receiver, 1), 3);
}

static void test_slots_bound_the_grant(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 10, 2);
    assert_int_equal(receiver.granted, 2);
    take_in(&receiver, 0);
    assert_false(flow_receiver_grant(&receiver));
    flow_receiver_consume(&receiver, 1);
    assert_true(flow_receiver_grant(&receiver));
    assert_int_equal(receiver.granted, 3);
    assert_false(flow_receiver_grant(&receiver));
}

/* Of a lane that writes to slots and to outputs in turn, as a ring's: after the use of move 0's slot the next
 * move that needs one is move 2, and move 1 needs none. */
static void test_places_are_free_before_moves_to_outputs_have_come(void **state)
{
    const uint32_t sent[] = {3};
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 10, 2);
    take_in(&receiver, 0);
    flow_receiver_consume(&receiver, 2);
    assert_true(flow_receiver_grant(&receiver));
    assert_int_equal(receiver.granted, 4);
    take_in(&receiver, 1);
    flow_receiver_consume(&receiver, 4);
    assert_true(flow_receiver_grant(&receiver));
    assert_int_equal(flow_receiver_fail(&receiver, sent[0]), BLINK_OK);
    flow_receiver_consume(&receiver, 9);
    assert_false(flow_receiver_grant(&receiver));
    assert_int_equal(receiver.granted, 3);
}

static void test_small_advances_are_put_off(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    uint32_t credits = 0;
    flow_receiver_open(&receiver, 640, FLOW_ALL_PLACES);
    for (uint32_t i = 0; i < 640; i++) {
        take_in(&receiver, i);
        credits += flow_receiver_grant(&receiver);
    }
    assert_int_equal(receiver.granted, 640);
    assert_int_equal(credits, 18); /* 576 moves, 32 at a time */
}

static void test_a_flow_is_settled_when_its_end_is_known_and_has_come(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 3, 3);
    for (uint32_t i = 0; i < 3; i++)
        take_in(&receiver, i);
    assert_false(flow_receiver_is_settled(&receiver)); /* the peer may have another program */
    assert_int_equal(flow_receiver_agree(&receiver, 3), BLINK_OK);
    assert_true(flow_receiver_is_settled(&receiver));
}

static void test_after_a_fail_only_what_was_sent_is_waited_for(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 10, 4);
    assert_int_equal(flow_receiver_agree(&receiver, 10), BLINK_OK);
    take_in(&receiver, 1);
    assert_int_equal(flow_receiver_fail(&receiver, 2), BLINK_OK);
    assert_false(flow_receiver_is_settled(&receiver));
    assert_refused(flow_receiver_claim(&receiver, 2), "move 2 was not granted");
    assert_int_equal(flow_receiver_claim(&receiver, 0), BLINK_OK);
    assert_false(flow_receiver_is_settled(&receiver)); /* it is being written */
    flow_receiver_arrive(&receiver, 0);
    assert_true(flow_receiver_is_settled(&receiver));
    assert_false(flow_receiver_grant(&receiver));
}

static void test_a_fail_that_lies_is_refused(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 10, 4);
    take_in(&receiver, 0);
    assert_int_equal(flow_receiver_claim(&receiver, 2), BLINK_OK);
    assert_refused(flow_receiver_fail(&receiver, 5), "5 moves are said to be sent, and 4 were granted");
    assert_refused(flow_receiver_fail(&receiver, 2), "the flow ends at move 2, and move 2 has come");
    assert_int_equal(flow_receiver_fail(&receiver, 3), BLINK_OK);
}

static void test_a_fence_forgets_what_was_being_written(void **state)
{
    (void)state;
    flow_receiver_t receiver;
    flow_receiver_open(&receiver, 10, 4);
    take_in(&receiver, 2);
    assert_int_equal(flow_receiver_claim(&receiver, 1), BLINK_OK);
    flow_receiver_fence(&receiver);
    assert_int_equal(receiver.came, 0x4);
    take_in(&receiver, 1);
    assert_refused(flow_receiver_claim(&receiver, 2), "a second time");
    flow_receiver_cut(&receiver);
    assert_true(flow_receiver_is_settled(&receiver));
    assert_refused(flow_receiver_claim(&receiver, 0), "not granted");
}

static void test_the_longest_flow_does_not_wrap_around(void **state)
{
    (void)state;
    const uint32_t last = FLOW_MOVES_MAX - 1;
    flow_sender_t sender = sender_of(FLOW_MOVES_MAX, FLOW_MOVES_MAX);
    flow_receiver_t receiver;
    uint32_t sequence;
    sender.posted = sender.done = last - 9;
    flow_receiver_open(&receiver, FLOW_MOVES_MAX, 16);
    receiver.arrived = receiver.consumed = last - 9;
    receiver.granted = last - 9;
    assert_true(flow_receiver_grant(&receiver));
    assert_int_equal(receiver.granted, FLOW_MOVES_MAX);
    assert_int_equal(post_all(&sender), 10);
    for (sequence = last; sequence >= last - 9; sequence--)
        take_in(&receiver, sequence);
    assert_int_equal(receiver.arrived, FLOW_MOVES_MAX);
    assert_false(flow_receiver_grant(&receiver));
    assert_int_equal(flow_receiver_agree(&receiver, FLOW_MOVES_MAX), BLINK_OK);
    assert_true(flow_receiver_is_settled(&receiver));
    assert_int_equal(flow_sender_arrived(&sender, FLOW_MOVES_MAX, 0), BLINK_OK);
    flow_sender_resume(&sender);
    assert_true(flow_sender_is_settled(&sender));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sender_sends_what_is_ready_and_granted),
        cmocka_unit_test(test_a_credit_beyond_the_op_is_refused),
        cmocka_unit_test(test_no_more_than_64_moves_wait_to_be_done),
        cmocka_unit_test(test_a_sender_is_settled_when_its_sources_are_done),
        cmocka_unit_test(test_a_stopped_sender_says_how_far_it_has_sent),
        cmocka_unit_test(test_a_cut_sender_is_settled),
        cmocka_unit_test(test_after_a_fence_the_lost_moves_go_again_once),
        cmocka_unit_test(test_a_second_fence_comes_before_all_went_again),
        cmocka_unit_test(test_a_source_is_done_once_its_move_was_sent_and_has_come),
        cmocka_unit_test(test_copied_moves_do_not_go_again),
        cmocka_unit_test(test_moves_that_were_not_sent_cannot_have_come),
        cmocka_unit_test(test_arrivals_overtake_up_to_64_moves),
        cmocka_unit_test(test_a_move_counts_once),
        cmocka_unit_test(test_slots_bound_the_grant),
        cmocka_unit_test(test_places_are_free_before_moves_to_outputs_have_come),
        cmocka_unit_test(test_small_advances_are_put_off),
        cmocka_unit_test(test_a_flow_is_settled_when_its_end_is_known_and_has_come),
        cmocka_unit_test(test_after_a_fail_only_what_was_sent_is_waited_for),
        cmocka_unit_test(test_a_fail_that_lies_is_refused),
        cmocka_unit_test(test_a_fence_forgets_what_was_being_written),
        cmocka_unit_test(test_the_longest_flow_does_not_wrap_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
