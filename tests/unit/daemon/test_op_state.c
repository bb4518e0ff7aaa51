/* The state machine of ops (engine/op/op.h): which moves are legal, and that every state has the op in its
 * list.
 */
#include "engine/client/client.h"
#include "engine/loop.h"
#include "engine/op/op.h"

#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define STATES (OP_ENDED + 1)

typedef struct fixture {
    engine_t engine;
    engine_client_t client;
    tenants_t tenants;
    tenant_t *tenant;
    engine_comm_t comm;
    comm_rank_t rank;
    cached_program_t program;
    union {
        comm_op_t op;
        char bytes[sizeof(comm_op_t) + sizeof(op_entry_t)];
    };
} fixture_t;

static int set_up(void **state)
{
    fixture_t *fixture = calloc(1, sizeof(*fixture));
    if (!fixture)
        return -1;
    fair_round_init(&fixture->engine.due_tenants, TURN_QUANTUM_BYTES);
    tenants_init(&fixture->tenants, (budget_limit_t[BUDGET_KINDS]){0});
    fixture->tenant = tenant_get(&fixture->tenants, 0, "");
    if (!fixture->tenant)
        return -1;
    lender_init(&fixture->engine.cache.lender);
    fair_share_init(&fixture->comm.turn, 1, TURN_QUANTUM_BYTES);
    fixture->client.engine = &fixture->engine;
    fixture->client.tenant = fixture->tenant;
    list_init(&fixture->client.awaited);
    fixture->rank.client = &fixture->client;
    fixture->comm.tenant = fixture->tenant;
    fixture->comm.engine = &fixture->engine;
    fixture->comm.on_gpus = true;
    list_init(&fixture->comm.due);
    list_init(&fixture->comm.running);
    list_init(&fixture->program.waiting);
    fixture->op.comm = &fixture->comm;
    fixture->op.program = &fixture->program;
    list_init(&fixture->op.of_state);
    fixture->op.entry_count = 1;
    fixture->op.entries[0].rank = &fixture->rank;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *fixture = *state;
    tenant_put(fixture->tenant);
    free(fixture);
    return 0;
}

/* As the table in op.h says. */
static void test_only_the_moves_of_the_table_are_legal(void **state)
{
    (void)state;
    static const bool legal[STATES][STATES] = {
        [OP_GATHERING] = {[OP_DUE] = true, [OP_ENDED] = true},
        [OP_DUE] = {[OP_PLANNING] = true,
                    [OP_AWAITING] = true,
                    [OP_QUEUED] = true,
                    [OP_RUNNING] = true,
                    [OP_ENDED] = true},
        [OP_PLANNING] = {[OP_DUE] = true, [OP_ENDED] = true},
        [OP_AWAITING] = {[OP_QUEUED] = true, [OP_RUNNING] = true, [OP_AWAITING] = true, [OP_ENDED] = true},
        [OP_QUEUED] = {[OP_RUNNING] = true, [OP_AWAITING] = true, [OP_ENDED] = true},
        [OP_RUNNING] = {[OP_QUEUED] = true, [OP_AWAITING] = true, [OP_ENDED] = true},
    };
    for (op_state_t from = OP_GATHERING; from < STATES; from++) {
        for (op_state_t to = OP_GATHERING; to < STATES; to++)
            assert_int_equal(op_may_enter(from, to), legal[from][to]);
    }
}

static void assert_in(const fixture_t *fixture, const list_t *expected)
{
    const list_t *lists[] = {&fixture->comm.due, &fixture->program.waiting, &fixture->client.awaited,
                             &fixture->comm.running, &fixture->tenant->queued_runs};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        assert_int_equal(list_is_empty(lists[i]), lists[i] != expected);
    assert_int_equal(list_is_empty(&fixture->op.of_state), !expected);
}

static void test_an_op_is_in_the_list_of_its_state_alone(void **state)
{
    fixture_t *fixture = *state;
    comm_op_t *op = &fixture->op;
    op_enter(op, OP_DUE);
    assert_in(fixture, &fixture->comm.due);
    op_enter(op, OP_PLANNING);
    assert_in(fixture, &fixture->program.waiting);
    op_enter(op, OP_DUE);
    assert_in(fixture, &fixture->comm.due);
    op_enter(op, OP_RUNNING);
    assert_in(fixture, &fixture->comm.running);
    op_enter(op, OP_AWAITING);
    assert_in(fixture, &fixture->client.awaited);
    op_enter(op, OP_QUEUED);
    assert_in(fixture, &fixture->tenant->queued_runs);
    assert_int_equal(fixture->engine.cache.lender.tenant_count, 1);
    op_enter(op, OP_ENDED);
    assert_int_equal(fixture->engine.cache.lender.tenant_count, 0);
    assert_in(fixture, NULL);
}

static void test_a_due_op_has_its_communicator_attended_to(void **state)
{
    fixture_t *fixture = *state;
    op_enter(&fixture->op, OP_DUE);
    assert_ptr_equal(fair_next(&fixture->tenant->due_comms), &fixture->comm.turn);
    assert_ptr_equal(fair_next(&fixture->engine.due_tenants), &fixture->tenant->turn);
}

/* Nobody rings for what a GPU writes, so the engine watches as long as an op awaits it. */
static void test_awaiting_ops_on_gpus_are_watched(void **state)
{
    fixture_t *fixture = *state;
    op_enter(&fixture->op, OP_DUE);
    op_enter(&fixture->op, OP_AWAITING);
    assert_int_equal(fixture->engine.awaited_gpu_ops, 1);
    op_enter(&fixture->op, OP_RUNNING);
    assert_int_equal(fixture->engine.awaited_gpu_ops, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_moves_of_the_table_are_legal),
        cmocka_unit_test_setup_teardown(test_an_op_is_in_the_list_of_its_state_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_due_op_has_its_communicator_attended_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_awaiting_ops_on_gpus_are_watched, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
