/* Landings: flow numbers and memory, where moves are taken in, what is refused, and standing ones. */
#include "base/budget.h"
#include "net/flow/standing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLOWS_MOST 1024u
#define LIMIT      4096u

/* An endpoint whose landings a tenant pays for. */
typedef struct endpoint {
    budget_t budget;
    account_t account;
    landings_t landings;
} endpoint_t;

static blink_result_t take(void *context, uint64_t bytes, void **memory)
{
    endpoint_t *endpoint = context;
    BLINK_TRY(account_charge(&endpoint->account, BUDGET_SCRATCH_BYTES, bytes));
    *memory = malloc(bytes);
    assert_non_null(*memory);
    return BLINK_OK;
}

static void give(void *context, void *memory, uint64_t bytes)
{
    endpoint_t *endpoint = context;
    account_credit(&endpoint->account, BUDGET_SCRATCH_BYTES, bytes);
    free(memory);
}

static void open_endpoint(endpoint_t *endpoint)
{
    const budget_limit_t limits[BUDGET_KINDS] = {[BUDGET_SCRATCH_BYTES] = {LIMIT, 100 * LIMIT}};
    budget_init(&endpoint->budget, limits);
    account_open(&endpoint->account, &endpoint->budget, "the tenant");
    landings_init(&endpoint->landings, FLOWS_MOST, (landing_memory_t){take, give, endpoint});
}

static void close_endpoint(endpoint_t *endpoint)
{
    assert_int_equal(account_used(&endpoint->account, BUDGET_SCRATCH_BYTES), 0);
    landings_destroy(&endpoint->landings);
}

static void open_flows(flow_receiver_t *flows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        flow_receiver_open(&flows[i], 4, 4);
}

static wire_frame_t data(uint32_t flow, uint32_t sequence, uint16_t place, uint64_t offset, uint32_t bytes)
{
    return (wire_frame_t){.type = WIRE_DATA,
                          .flow = flow,
                          .sequence = sequence,
                          .place = place,
                          .offset = offset,
                          .bytes = bytes};
}

static void assert_refused(landings_t *landings, wire_frame_t frame, const char *text)
{
    landing_move_t move;
    assert_int_equal(landing_claim(landings, &frame, &move), BLINK_ERR_PROTOCOL);
    if (!strstr(blink_error_text(), text))
        fail_msg("\"%s\" does not say \"%s\"", blink_error_text(), text);
}

static landing_move_t claim(landings_t *landings, wire_frame_t frame)
{
    landing_move_t move;
    assert_int_equal(landing_claim(landings, &frame, &move), BLINK_OK);
    return move;
}

static void end(landings_t *landings, landing_t *landing)
{
    landing_cut(landing);
    landing_return(landings, landing);
}

/* ---- numbers and memory ---- */

static void test_the_flows_of_a_landing_adjoin(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t one, many, other;
    flow_receiver_t flows[130];
    open_endpoint(&endpoint);
    open_flows(flows, 130);
    assert_int_equal(landing_lend(&endpoint.landings, &one, flows, 1, 16), BLINK_OK);
    assert_int_equal(landing_lend(&endpoint.landings, &many, flows, 130, 16), BLINK_OK);
    assert_int_equal(landing_lend(&endpoint.landings, &other, flows, 1, 0), BLINK_OK);
    assert_int_equal(one.first_flow, 0);
    assert_int_equal(many.first_flow, 64);
    assert_int_equal(other.first_flow, 256);
    landing_move_t move = claim(&endpoint.landings, data(64 + 129, 0, 0, 0, 1));
    assert_ptr_equal(move.landing, &many);
    assert_int_equal(move.flow, 129);
    assert_refused(&endpoint.landings, data(1, 0, 0, 0, 1), "flow 1: no op has this number");
    assert_refused(&endpoint.landings, data(64 + 130, 0, 0, 0, 1), "flow 194: no op has this number");
    assert_refused(&endpoint.landings, data(WIRE_FLOWS - 1, 0, 0, 0, 1), "flow 1048575");
    end(&endpoint.landings, &one);
    assert_refused(&endpoint.landings, data(0, 0, 0, 0, 1), "flow 0: no op has this number");
    end(&endpoint.landings, &many);
    end(&endpoint.landings, &other);
    close_endpoint(&endpoint);
}

static void test_numbers_are_used_again_once_their_op_has_ended(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landings[3];
    flow_receiver_t flows[3];
    open_endpoint(&endpoint);
    open_flows(flows, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(landing_lend(&endpoint.landings, &landings[i], &flows[i], 1, 0), BLINK_OK);
    for (uint32_t i = 0; i < 10000; i++) { /* many times the numbers that there are */
        uint32_t ended = i % 3;
        end(&endpoint.landings, &landings[ended]);
        assert_int_equal(landing_lend(&endpoint.landings, &landings[ended], &flows[ended], 1, 0), BLINK_OK);
        assert_int_not_equal(landings[0].first_flow, landings[1].first_flow);
        assert_int_not_equal(landings[1].first_flow, landings[2].first_flow);
        assert_int_not_equal(landings[2].first_flow, landings[0].first_flow);
    }
    for (uint32_t i = 0; i < 3; i++)
        end(&endpoint.landings, &landings[i]);
    close_endpoint(&endpoint);
}

static void test_without_numbers_or_memory_an_op_is_refused_at_once(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landings[FLOWS_MOST / LANDING_UNIT], more;
    flow_receiver_t flows[FLOWS_MOST / LANDING_UNIT];
    const uint32_t count = FLOWS_MOST / LANDING_UNIT;
    open_endpoint(&endpoint);
    open_flows(flows, count);
    assert_int_equal(landing_lend(&endpoint.landings, &landings[0], &flows[0], 1, LIMIT), BLINK_OK);
    assert_int_equal(landing_lend(&endpoint.landings, &landings[1], &flows[1], 1, 1), BLINK_ERR_QUOTA);
    assert_non_null(strstr(blink_error_text(), "the limit is 4096, scratch_bytes_per_tenant"));
    for (uint32_t i = 1; i < count; i++)
        assert_int_equal(landing_lend(&endpoint.landings, &landings[i], &flows[i], 1, 0), BLINK_OK);
    assert_int_equal(landing_lend(&endpoint.landings, &more, flows, 1, 0), BLINK_ERR_QUOTA);
    assert_non_null(strstr(blink_error_text(), "needs 64 more flow numbers of an endpoint that has 1024"));
    end(&endpoint.landings, &landings[7]);
    assert_int_equal(landing_lend(&endpoint.landings, &landings[7], &flows[7], 1, 0), BLINK_OK);
    for (uint32_t i = 0; i < count; i++)
        end(&endpoint.landings, &landings[i]);
    close_endpoint(&endpoint);
}

/* ---- moves ---- */

static void test_moves_stay_in_the_memory_of_their_op(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landing;
    flow_receiver_t flow;
    uint8_t bytes[32];
    const landing_output_t outputs[] = {{bytes, 16}, {bytes, sizeof(bytes)}};
    open_endpoint(&endpoint);
    open_flows(&flow, 1);
    assert_int_equal(landing_lend(&endpoint.landings, &landing, &flow, 1, 64), BLINK_OK);
    landing.outputs = outputs;
    landing.output_count = 2;
    assert_ptr_equal(claim(&endpoint.landings, data(0, 0, 0, 60, 4)).address, (uint8_t *)landing.memory + 60);
    assert_ptr_equal(claim(&endpoint.landings, data(0, 1, 2, 16, 16)).address, bytes + 16);
    assert_refused(&endpoint.landings, data(0, 2, 0, 61, 4), "4 bytes at offset 61 of place 0, which has 64");
    assert_refused(&endpoint.landings, data(0, 2, 1, 16, 1), "1 bytes at offset 16 of place 1, which has 16");
    assert_refused(&endpoint.landings, data(0, 2, 0, UINT64_MAX, 1), "which has 64");
    assert_refused(&endpoint.landings, data(0, 2, 0, 0, 65), "65 bytes");
    assert_refused(&endpoint.landings, data(0, 2, 3, 0, 1), "place 3, and the op has 2 outputs here");
    assert_refused(&endpoint.landings, data(0, 4, 0, 0, 1), "flow 0, sequence 4: move 4 was not granted");
    assert_refused(&endpoint.landings, data(0, 1, 0, 0, 1), "flow 0, sequence 1: move 1 comes a second time");
    end(&endpoint.landings, &landing);
    close_endpoint(&endpoint);
}

static void test_a_landing_is_settled_when_all_its_flows_are(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landing;
    flow_receiver_t flows[3];
    const uint32_t moves[] = {1, 2};
    open_endpoint(&endpoint);
    open_flows(flows, 3);
    assert_int_equal(landing_lend(&endpoint.landings, &landing, flows, 3, 64), BLINK_OK);
    landing_move_t move = claim(&endpoint.landings, data(0, 0, 0, 0, 1));
    assert_int_equal(landing_arrive(&move), 1);
    assert_int_equal(landing_agree(&landing, moves, 2), BLINK_OK); /* flow 2 has none */
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(landing_is_settled(&landing));
        move = claim(&endpoint.landings, data(1, i, 0, 0, 1));
        assert_int_equal(landing_arrive(&move), i + 1);
    }
    assert_true(landing_is_settled(&landing));
    landing_return(&endpoint.landings, &landing);
    close_endpoint(&endpoint);
}

static void test_a_fail_names_the_flow_that_it_lies_about(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landing;
    flow_receiver_t flows[2];
    const uint32_t sent[] = {0, 5, 0};
    open_endpoint(&endpoint);
    open_flows(flows, 2);
    assert_int_equal(landing_lend(&endpoint.landings, &landing, flows, 2, 64), BLINK_OK);
    assert_int_equal(landing_fail(&landing, sent, 3), BLINK_ERR_PROTOCOL);
    assert_string_equal(blink_error_text(), "a FAIL names 3 flows of a landing that has 2");
    assert_int_equal(landing_fail(&landing, sent, 2), BLINK_ERR_PROTOCOL);
    assert_string_equal(blink_error_text(), "flow 1: 5 moves are said to be sent, and 4 were granted");
    assert_int_equal(landing_fail(&landing, sent, 1), BLINK_OK);
    assert_true(landing_is_settled(&landing));
    landing_return(&endpoint.landings, &landing);
    close_endpoint(&endpoint);
}

static void test_immediates_find_their_moves(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landing;
    flow_receiver_t flow;
    landing_move_t move;
    open_endpoint(&endpoint);
    flow_receiver_open(&flow, 10000, FLOW_ALL_PLACES);
    assert_int_equal(landing_lend(&endpoint.landings, &landing, &flow, 1, 0), BLINK_OK);
    for (uint32_t i = 0; i < 10000; i++) { /* twelve bits wrap around twice */
        assert_int_equal(landing_claim_immediate(&endpoint.landings, wire_immediate(0, i), &move), BLINK_OK);
        assert_int_equal(move.sequence, i);
        assert_int_equal(landing_arrive(&move), i + 1);
        flow_receiver_grant(&flow);
    }
    assert_int_equal(landing_claim_immediate(&endpoint.landings, wire_immediate(0, 9999), &move),
                     BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "move 9999 comes a second time"));
    end(&endpoint.landings, &landing);
    close_endpoint(&endpoint);
}

static void test_a_cut_endpoint_settles_everything(void **state)
{
    (void)state;
    endpoint_t endpoint;
    landing_t landing;
    flow_receiver_t flow;
    standing_t standing;
    open_endpoint(&endpoint);
    open_flows(&flow, 1);
    assert_int_equal(landing_lend(&endpoint.landings, &landing, &flow, 1, 64), BLINK_OK);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 2, 64, 0), BLINK_OK);
    claim(&endpoint.landings, data(0, 2, 0, 0, 1));
    landings_cut(&endpoint.landings);
    assert_true(landing_is_settled(&landing));
    assert_true(landing_is_settled(standing_landing(&standing, 3)));
    landing_return(&endpoint.landings, &landing);
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

/* ---- standing landings ---- */

static void settle(standing_t *standing, uint64_t k)
{
    assert_int_equal(landing_agree(standing_landing(standing, k), NULL, 0), BLINK_OK);
    standing_advance(standing, k + 1);
}

static void test_four_ops_have_standing_landings(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 2, 64, 0), BLINK_OK);
    assert_true(standing_may_begin(&standing, 3));
    assert_false(standing_may_begin(&standing, 4));
    assert_null(standing_landing(&standing, 4));
    settle(&standing, 0);
    assert_true(standing_may_begin(&standing, 4));
    assert_null(standing_landing(&standing, 0));
    assert_ptr_equal(standing_landing(&standing, 4), &standing.landings[0]);
    assert_true(standing_may_send(4, standing.ended, 4));
    assert_false(standing_may_send(4, standing.ended, 5));
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

static void test_a_standing_landing_knows_its_rounds(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    landing_move_t move;
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 2, 64, 0), BLINK_OK);
    uint32_t flow = standing.landings[0].first_flow;
    for (uint64_t k = 0; k < 8; k++)
        settle(&standing, k);
    move = claim(&endpoint.landings, data(flow, wire_standing_sequence(2, 5), 0, 0, 1));
    assert_ptr_equal(move.landing, &standing.landings[0]);
    assert_int_equal(move.sequence, 5);
    assert_int_equal(landing_arrive(&move), 0);
    move = claim(&endpoint.landings, data(flow, wire_standing_sequence(1, 5), 0, 0, 1));
    assert_null(move.landing); /* hosts that disagreed: it is dropped */
    assert_refused(&endpoint.landings, data(flow, wire_standing_sequence(3, 0), 0, 0, 1), "not granted");
    uint32_t late = wire_immediate(flow, wire_standing_sequence(1, 5));
    assert_int_equal(landing_claim_immediate(&endpoint.landings, late, &move), BLINK_OK);
    assert_null(move.landing);
    uint32_t right = wire_immediate(flow, wire_standing_sequence(2, 0));
    assert_int_equal(landing_claim_immediate(&endpoint.landings, right, &move), BLINK_OK);
    assert_int_equal(landing_arrive(&move), 1);
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

static void test_rounds_wrap_around(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    const uint64_t far = (1ull << 28) + 1; /* the round that a sequence keeps has wrapped around */
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 1, 64, 0), BLINK_OK);
    standing.ended = far - 5;
    for (uint32_t i = 0; i < 4; i++)
        standing.landings[i].first_sequence = wire_standing_sequence((far - 5) / 4, 0);
    for (uint64_t k = far - 5; k < far + 4; k++) {
        uint32_t flow = standing.landings[k % 4].first_flow;
        assert_ptr_equal(standing_landing(&standing, k), &standing.landings[k % 4]);
        landing_move_t move =
            claim(&endpoint.landings, data(flow, wire_standing_sequence(k / 4, 0), 0, 0, 1));
        assert_int_equal(move.sequence, 0);
        assert_int_equal(landing_arrive(&move), 1);
        assert_int_equal(landing_agree(move.landing, (uint32_t[]){1}, 1), BLINK_OK);
        standing_advance(&standing, k + 1);
        move = claim(&endpoint.landings, data(flow, wire_standing_sequence(k / 4, 1), 0, 0, 1));
        assert_null(move.landing);
    }
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

static void test_what_comes_after_a_standing_landing_is_settled_is_dropped(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 1, 64, 0), BLINK_OK);
    assert_int_equal(landing_agree(standing_landing(&standing, 1), NULL, 0), BLINK_OK);
    landing_move_t move = claim(&endpoint.landings, data(standing.landings[1].first_flow, 0, 0, 0, 1));
    assert_null(move.landing);
    move = claim(&endpoint.landings, data(standing.landings[2].first_flow, 0, 0, 0, 1));
    assert_int_equal(landing_agree(standing_landing(&standing, 2), NULL, 0), BLINK_ERR_PROTOCOL);
    assert_int_equal(landing_fail(standing_landing(&standing, 2), (uint32_t[]){1}, 1), BLINK_OK);
    assert_false(landing_is_settled(standing_landing(&standing, 2)));
    assert_int_equal(landing_arrive(&move), 1);
    assert_true(landing_is_settled(standing_landing(&standing, 2)));
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

/* What is still on its way when the communicator has left is dropped, whichever op it is for. */
static void test_retired_landings_drop_what_comes(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 2, 64, 6), BLINK_OK);
    uint32_t flow = standing.landings[2].first_flow; /* of op 6 */
    claim(&endpoint.landings, data(flow, wire_standing_sequence(1, 0), 0, 0, 1));
    standing_retire(&endpoint.landings, &standing);
    assert_int_equal(account_used(&endpoint.account, BUDGET_SCRATCH_BYTES), 0);
    for (uint32_t round = 0; round < 4; round++) {
        landing_move_t move =
            claim(&endpoint.landings, data(flow, wire_standing_sequence(round, 1), 0, 8, 1));
        assert_null(move.landing);
    }
    assert_refused(&endpoint.landings, data(flow, wire_standing_sequence(1, 1), 0, 64, 1), "offset 64");
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

/* Ops that take nothing in there may end by thousands. */
static void test_standing_landings_go_on_after_many_ops(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 2, 64, 0), BLINK_OK);
    for (uint32_t i = 0; i < 4; i++)
        landing_cut(&standing.landings[i]);
    standing_advance(&standing, 4001);
    standing_advance(&standing, 17);
    assert_int_equal(standing.ended, 4001);
    for (uint64_t k = 4001; k < 4005; k++) {
        uint32_t flow = standing_landing(&standing, k)->first_flow;
        landing_move_t move =
            claim(&endpoint.landings, data(flow, wire_standing_sequence(k / 4, 0), 0, 0, 1));
        assert_ptr_equal(move.landing, &standing.landings[k % 4]);
    }
    standing_close(&endpoint.landings, &standing);
    close_endpoint(&endpoint);
}

static void test_standing_landings_are_all_there_or_none(void **state)
{
    (void)state;
    endpoint_t endpoint;
    standing_t standing;
    open_endpoint(&endpoint);
    assert_int_equal(standing_open(&endpoint.landings, &standing, 4, 2, LIMIT / 2, 0), BLINK_ERR_QUOTA);
    close_endpoint(&endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_flows_of_a_landing_adjoin),
        cmocka_unit_test(test_numbers_are_used_again_once_their_op_has_ended),
        cmocka_unit_test(test_without_numbers_or_memory_an_op_is_refused_at_once),
        cmocka_unit_test(test_moves_stay_in_the_memory_of_their_op),
        cmocka_unit_test(test_a_landing_is_settled_when_all_its_flows_are),
        cmocka_unit_test(test_a_fail_names_the_flow_that_it_lies_about),
        cmocka_unit_test(test_immediates_find_their_moves),
        cmocka_unit_test(test_a_cut_endpoint_settles_everything),
        cmocka_unit_test(test_four_ops_have_standing_landings),
        cmocka_unit_test(test_a_standing_landing_knows_its_rounds),
        cmocka_unit_test(test_rounds_wrap_around),
        cmocka_unit_test(test_what_comes_after_a_standing_landing_is_settled_is_dropped),
        cmocka_unit_test(test_retired_landings_drop_what_comes),
        cmocka_unit_test(test_standing_landings_go_on_after_many_ops),
        cmocka_unit_test(test_standing_landings_are_all_there_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
