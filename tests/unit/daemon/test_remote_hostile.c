/*
 * Hosts that lie about ops, and hosts that say more than they should: what a daemon with the cluster's key
 * may send harms its own communicators at most.
 */
#define COMMS_MOST 200 /* more than a turn of the engine looks at when a host is lost */

#include "begin.h"
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "engines.h"

static const uint32_t one_each[] = {1, 1};

static ring_sqe_t allreduce(const test_comm_t *comm, uint32_t rank)
{
    return (ring_sqe_t){.opcode = RING_OP_ALLREDUCE,
                        .datatype = BLINK_FLOAT32,
                        .redop = BLINK_SUM,
                        .member = comm->number * MEMBERS_OF_COMM + rank,
                        .in_region = REGION,
                        .out_region = REGION,
                        .count = 100,
                        .out_offset_bytes = HALF_BYTES};
}

/* Rank 0 is on host 0, rank 1 on host 1. */
static void check_serves(engines_t *engines, const test_comm_t *comm)
{
    for (uint32_t r = 0; r < 2; r++) {
        ring_sqe_t sqe = allreduce(comm, r);
        rank_submit(&engines->ranks[r], &sqe);
    }
    for (uint32_t r = 0; r < 2; r++) {
        ring_cqe_t cqe = rank_await(engines, r);
        if (cqe.result != BLINK_OK)
            fail_msg("rank %u: %s", r, cqe.text);
    }
}

static op_name_t name_of(const test_comm_t *comm, uint32_t host, uint64_t number)
{
    return (op_name_t){.home = HOME,
                       .comm = comm->number,
                       .host = host,
                       .number = number,
                       .root = OP_NAME_NONE,
                       .peer = OP_NAME_NONE};
}

static begin_t some_begin(const test_comm_t *comm, uint64_t number)
{
    return (begin_t){.op = name_of(comm, 0, number),
                     .count = 100,
                     .opcode = RING_OP_ALLREDUCE,
                     .datatype = BLINK_FLOAT32,
                     .redop = BLINK_SUM,
                     .slots = 1};
}

static void send_fail(data_endpoint_t *endpoint, const fail_t *fail)
{
    uint32_t payload[FAIL_MOST_BYTES / sizeof(uint32_t) + 1];
    uint32_t bytes = fail_write(fail, NULL, "it says so", payload);
    assert_int_equal(data_send(endpoint, WIRE_FAIL, payload, bytes), BLINK_OK);
}

static void await_lost(engines_t *engines, const data_endpoint_t *endpoint)
{
    while (!data_endpoint_is_lost(endpoint))
        engines_pump(engines);
    engines_beat(engines);
}

/* Connections from host 0 to host 1 that are no communicator's: those of a daemon that has been started anew,
 * for instance. */
typedef struct stranger {
    data_endpoint_t *out, *in;
} stranger_t;

static stranger_t stranger_join(engines_t *engines)
{
    stranger_t stranger;
    assert_int_equal(data_endpoint_create(engines->hosts[0].data, "n1", NULL, &stranger.out), BLINK_OK);
    assert_int_equal(data_endpoint_create(engines->hosts[1].data, "n9", NULL, &stranger.in), BLINK_OK);
    join_endpoints(stranger.out, stranger.in);
    return stranger;
}

static void stranger_leave(engines_t *engines, stranger_t *stranger)
{
    await_lost(engines, stranger->in);
    data_endpoint_close(stranger->out, BLINK_OK);
    data_endpoint_put(stranger->out);
    data_endpoint_put(stranger->in);
}

/* ---- words of hosts that have nothing to say ---- */

static void test_an_answer_of_a_host_that_has_no_part_in_the_communicator(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    const test_comm_t *comm = comm_add(&engines, long_us());
    stranger_t stranger = stranger_join(&engines);
    ring_sqe_t sqe = allreduce(comm, 1);
    rank_submit(&engines.ranks[1], &sqe);
    engines_beat(&engines);
    const fail_t fail = {
        .op = name_of(comm, UINT32_MAX, 0), .code = BLINK_ERR_PEER_LOST, .flags = FAIL_IS_ANSWER};
    send_fail(stranger.out, &fail);
    stranger_leave(&engines, &stranger);
    sqe = allreduce(comm, 0);
    rank_submit(&engines.ranks[0], &sqe);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(rank_await(&engines, r).result, BLINK_OK);
    check_serves(&engines, comm);
    engines_fini(&engines);
}

static void test_words_in_another_hosts_name(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        engines_t engines;
        engines_init(&engines, one_each, 2);
        const test_comm_t *comm = comm_add(&engines, long_us());
        stranger_t stranger = stranger_join(&engines);
        const begin_t begin = some_begin(comm, 0);
        const fail_t fail = {.op = begin.op, .code = BLINK_ERR_PEER_LOST};
        if (round == 0)
            assert_int_equal(data_send(stranger.out, WIRE_BEGIN, &begin, begin_bytes(&begin, BEGIN_KEYS)),
                             BLINK_OK);
        else
            send_fail(stranger.out, &fail);
        stranger_leave(&engines, &stranger);
        check_serves(&engines, comm);
        engines_fini(&engines);
    }
}

static uint64_t fails_sent(const data_endpoint_t *endpoint)
{
    data_counts_t counts;
    data_endpoint_count(endpoint, &counts);
    return counts.frames_out[WIRE_FAIL];
}

/* Of a communicator that neither host knows: two hosts that answered answers would do so for good. */
static void test_an_answer_is_not_answered(void **state)
{
    static const test_comm_t unknown = {.number = 1000};
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    const test_comm_t *comm = comm_add(&engines, long_us());
    stranger_t stranger = stranger_join(&engines);
    fail_t fail = {
        .op = name_of(&unknown, UINT32_MAX, 0), .code = BLINK_ERR_PEER_LOST, .flags = FAIL_IS_ANSWER};
    send_fail(stranger.out, &fail);
    fail.op.number = 1;
    fail.flags = 0;
    send_fail(stranger.out, &fail);
    while (fails_sent(stranger.in) == 0)
        engines_pump(&engines);
    engines_beat(&engines);
    check_serves(&engines, comm);
    engines_beat(&engines);
    assert_int_equal(fails_sent(stranger.in), 1);
    data_endpoint_close(stranger.in, BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    stranger_leave(&engines, &stranger);
    engines_fini(&engines);
}

/* ---- words about ops that cannot be ---- */

/* The communicators of the two hosts end by that, and the engine goes on. */
static void check_begin_is_refused(const begin_t *words)
{
    engines_t engines;
    engines_init(&engines, one_each, 2);
    const test_comm_t *comm = comm_add(&engines, long_us());
    begin_t begin = *words;
    begin.op.home = HOME;
    begin.op.comm = comm->number;
    ring_sqe_t sqe = allreduce(comm, 1);
    rank_submit(&engines.ranks[1], &sqe);
    engines_beat(&engines);
    assert_int_equal(
        data_send(engines.hosts[0].endpoints[1], WIRE_BEGIN, &begin, begin_bytes(&begin, BEGIN_KEYS)),
        BLINK_OK);
    await_lost(&engines, engines.hosts[1].endpoints[0]);
    ring_cqe_t cqe = rank_await(&engines, 1);
    assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
    engines_fini(&engines);
}

static void test_a_begin_of_no_collective(void **state)
{
    static const test_comm_t none = {.number = 1};
    (void)state;
    for (uint32_t opcode = 0; opcode < 256; opcode += 51) {
        begin_t begin = some_begin(&none, 0);
        begin.opcode = (uint8_t)opcode;
        check_begin_is_refused(&begin);
    }
}

static void test_a_collective_with_the_name_of_a_transfer(void **state)
{
    static const test_comm_t none = {.number = 1};
    begin_t begin = some_begin(&none, 0);
    (void)state;
    begin.op.root = 0;
    begin.op.peer = 1;
    check_begin_is_refused(&begin);
    begin = some_begin(&none, 0);
    begin.opcode = RING_OP_SEND;
    check_begin_is_refused(&begin);
}

static void test_a_transfer_of_ranks_that_are_none(void **state)
{
    static const test_comm_t none = {.number = 1};
    begin_t begin = some_begin(&none, 0);
    (void)state;
    begin.opcode = RING_OP_SEND;
    begin.op.root = 0;
    begin.op.peer = 2;
    check_begin_is_refused(&begin);
}

/* ---- words that are not said ---- */

/* Whether it still sends is not known: so its connections are closed, and the op ends. */
static void test_a_host_that_does_not_answer_a_failure_is_lost(void **state)
{
    (void)state;
    for (uint32_t host = 0; host < 2; host++) {
        engines_t engines;
        engines_init(&engines, one_each, 2);
        engines.hosts[host].settings.network_timeout_s = 0.01;
        engines_beat(&engines);
        test_comm_t *comm = comm_add(&engines, long_us());
        ring_sqe_t sqe = allreduce(comm, host);
        sqe.count = 100000; /* it is lent landings */
        uint32_t begins = atomic_load(&engines.hosts[1 - host].begins);
        atomic_store(&engines.loses_fails, true);
        rank_submit(&engines.ranks[host], &sqe);
        while (atomic_load(&engines.hosts[1 - host].begins) == begins)
            engines_pump(&engines);
        rank_leave(&engines, comm, host, true);
        assert_true(data_endpoint_is_lost(engines.hosts[host].endpoints[1 - host]));
        engines_fini(&engines);
    }
}

/* ---- more words than anybody should say ---- */

/* Host 0 says that it has begun ops of the communicator that are still far, until host 1 has ended it. */
static void begin_until_ended(engines_t *engines, const test_comm_t *comm)
{
    for (uint64_t number = 1000; !comm->ended[1]; number++) {
        const begin_t begin = some_begin(comm, number);
        assert_int_equal(
            data_send(engines->hosts[0].endpoints[1], WIRE_BEGIN, &begin, begin_bytes(&begin, BEGIN_KEYS)),
            BLINK_OK);
        if (number % 256 == 0)
            engines_beat(engines);
        mailbox_run(&engines->control);
    }
}

/* What is kept of ops to come is the tenant's, who has a bound. */
static void test_words_about_ops_to_come_are_charged(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    for (uint32_t h = 0; h < 2; h++)
        engines.hosts[h].tenants.budget.limits[BUDGET_OP_BYTES].tenant = 1 << 20;
    test_comm_t *comm = comm_add(&engines, long_us());
    const account_t *account = &engines.hosts[1].tenant->account;
    uint64_t before = account_used(account, BUDGET_OP_BYTES);
    begin_until_ended(&engines, comm);
    assert_true(account_used(account, BUDGET_OP_BYTES) <= 1 << 20);
    assert_non_null(strstr(comm->end_text[1], "op_bytes_per_tenant"));
    assert_false(data_endpoint_is_lost(engines.hosts[1].endpoints[0]));
    for (uint32_t r = 0; r < 2; r++)
        rank_leave(&engines, comm, r, false);
    assert_int_equal(account_used(account, BUDGET_OP_BYTES), before);
    check_serves(&engines, comm_add(&engines, long_us()));
    engines_fini(&engines);
}

enum { BATCH = 100 };

/* The stranger begins ops of communicators that nobody knows, some at a time. */
static void begin_unknown(engines_t *engines, const stranger_t *stranger, uint32_t comm, uint32_t count)
{
    uint32_t before = atomic_load(&engines->hosts[1].begins);
    for (uint32_t i = 1; i <= count; i++) {
        const test_comm_t unknown = {.number = comm};
        const begin_t begin = some_begin(&unknown, i);
        assert_int_equal(data_send(stranger->out, WIRE_BEGIN, &begin, begin_bytes(&begin, BEGIN_KEYS)),
                         BLINK_OK);
        while (i % BATCH == 0 && atomic_load(&engines->hosts[1].begins) < before + i)
            engines_pump(engines);
        if (i % BATCH == 0)
            engines_beat(engines);
    }
}

/* What a host says of communicators that nobody knows leaves the others as much as they had. */
static void test_early_words_of_one_host_take_nothing_from_another(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    stranger_t stranger = stranger_join(&engines);
    begin_unknown(&engines, &stranger, 1000, (4u << 20) / offsetof(begin_t, round) / BATCH * BATCH);
    test_comm_t *comm = comm_number(&engines);
    comm_add_on(&engines, comm, 0, long_us());
    engines_beat(&engines);
    for (uint32_t i = 0; i < BATCH; i++) {
        const begin_t begin = some_begin(comm, 1000 + i);
        assert_int_equal(
            data_send(engines.hosts[0].endpoints[1], WIRE_BEGIN, &begin, begin_bytes(&begin, BEGIN_KEYS)),
            BLINK_OK);
    }
    ring_sqe_t sqe = allreduce(comm, 0);
    rank_submit(&engines.ranks[0], &sqe);
    engines_beat(&engines);
    comm_add_on(&engines, comm, 1, long_us());
    sqe = allreduce(comm, 1);
    rank_submit(&engines.ranks[1], &sqe);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(rank_await(&engines, r).result, BLINK_OK);
    assert_false(data_endpoint_is_lost(stranger.in));
    data_endpoint_close(stranger.in, BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    engines_await_heeded(&engines, stranger.in);
    stranger_leave(&engines, &stranger);
    engines_fini(&engines);
}

/* Who says more is lost, and nobody else. */
static void test_more_early_words_than_a_host_may_say(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    const test_comm_t *comm = comm_add(&engines, long_us());
    stranger_t stranger = stranger_join(&engines);
    uint32_t number = 0;
    while (!data_endpoint_is_lost(stranger.in)) {
        const test_comm_t unknown = {.number = 1000};
        const begin_t begin = some_begin(&unknown, number++);
        (void)data_send(stranger.out, WIRE_BEGIN, &begin, begin_bytes(&begin, BEGIN_KEYS));
        if (number % BATCH == 0)
            engines_beat(&engines);
    }
    stranger_leave(&engines, &stranger);
    check_serves(&engines, comm);
    engines_fini(&engines);
}

/* Words that wait cost a turn of the engine nothing, however many there are, nor do those that are due make
 * it long. */
static void test_many_early_words_make_no_turn_long(void **state)
{
    enum { WORDS = 200 * BATCH };
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    stranger_t stranger = stranger_join(&engines);
    begin_unknown(&engines, &stranger, 1000, WORDS);
    const remotes_t *remotes = &engines.hosts[1].engine->remotes;
    assert_int_equal(remotes->early.count, WORDS);
    check_serves(&engines, comm_add(&engines, long_us()));
    engine_comm_forget(engines.hosts[1].engine, HOME, 999);
    engines_beat(&engines);
    assert_int_equal(remotes->early.count, WORDS);
    engine_comm_forget(engines.hosts[1].engine, HOME, 1000);
    engines_await_heeded(&engines, stranger.in);
    assert_true(engine_longest_turn(engines.hosts[1].engine) < WORDS / 4);
    data_endpoint_close(stranger.in, BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    stranger_leave(&engines, &stranger);
    engines_fini(&engines);
}

/* All communicators with a host end when it is lost, however many there are, and what it has said early goes.
 */
static void test_a_host_of_many_communicators_is_lost(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    engines.keeps_ends = true;
    while (engines.comm_count < COMMS_MOST)
        (void)comm_add(&engines, long_us());
    const stranger_t host = {engines.hosts[0].endpoints[1], engines.hosts[1].endpoints[0]};
    begin_unknown(&engines, &host, 1000, 2 * BATCH);
    data_endpoint_close(host.in, BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    for (uint32_t c = 0; c < COMMS_MOST; c++) {
        while (!engines.comms[c].ended[0] || !engines.comms[c].ended[1])
            engines_pump(&engines);
        assert_non_null(strstr(engines.comms[c].end_text[1], "n0, with rank 0, is lost: "));
    }
    engines_await_heeded(&engines, host.in);
    engines_fini(&engines);
}

/* Who has begun ops that a rank will not come to hears so, of however many there are. */
static void test_many_ops_of_a_rank_that_leaves(void **state)
{
    enum { OPS = 300 };
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    const account_t *account = &engines.hosts[1].tenant->account;
    uint64_t before = account_used(account, BUDGET_OP_BYTES);
    for (uint32_t i = 0; i < OPS; i++) {
        ring_sqe_t sqe = allreduce(comm, 0);
        sqe.opcode = RING_OP_SEND;
        sqe.redop = 0;
        sqe.root = 1;
        sqe.flags = i + 1 < OPS ? RING_SQE_MORE : 0; /* transfers of a group all begin at once */
        rank_submit(&engines.ranks[0], &sqe);
    }
    while (account_used(account, BUDGET_OP_BYTES) < before + OPS * sizeof(kept_t))
        engines_beat(&engines);
    rank_leave(&engines, comm, 1, false);
    ring_cqe_t cqe = rank_await(&engines, 0);
    assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
    assert_non_null(strstr(cqe.text, "rank 1 has left"));
    engines_fini(&engines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_of_a_host_that_has_no_part_in_the_communicator),
        cmocka_unit_test(test_words_in_another_hosts_name),
        cmocka_unit_test(test_an_answer_is_not_answered),
        cmocka_unit_test(test_a_begin_of_no_collective),
        cmocka_unit_test(test_a_collective_with_the_name_of_a_transfer),
        cmocka_unit_test(test_a_transfer_of_ranks_that_are_none),
        cmocka_unit_test(test_a_host_that_does_not_answer_a_failure_is_lost),
        cmocka_unit_test(test_words_about_ops_to_come_are_charged),
        cmocka_unit_test(test_early_words_of_one_host_take_nothing_from_another),
        cmocka_unit_test(test_more_early_words_than_a_host_may_say),
        cmocka_unit_test(test_many_early_words_make_no_turn_long),
        cmocka_unit_test(test_a_host_of_many_communicators_is_lost),
        cmocka_unit_test(test_many_ops_of_a_rank_that_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
