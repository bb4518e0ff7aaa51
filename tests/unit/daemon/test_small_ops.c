/*
 * Small collectives of several hosts: what they cost on the way, that nothing waits for BEGIN once landings
 * stand, and that landings come to nobody's harm where hosts disagree, leave or are lost.
 */
#include "engine_ops.h"

#include "engine/loop.h"
#include "net/data/endpoint.h"

/* Ops after which every landing has been used, and its numbers told. */
#define WARM_OPS (2 * DATA_STANDING_OPS)

static const test_op_t tiny = {.opcode = RING_OP_ALLREDUCE, .count = 2};

static void run_times(engines_t *engines, const test_comm_t *comm, const test_op_t *op, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        run(engines, comm, op);
}

static data_counts_t counts_of(const engines_t *engines, uint32_t host, uint32_t peer)
{
    data_counts_t counts;
    data_endpoint_count(engines->hosts[host].endpoints[peer], &counts);
    return counts;
}

static uint64_t frames_out(const data_counts_t *counts)
{
    uint64_t frames = 0;
    for (uint32_t type = 0; type < LENGTH(counts->frames_out); type++)
        frames += counts->frames_out[type];
    return frames;
}

/* ---- what goes over the connections ---- */

static void test_a_tiny_op_takes_a_begin_and_a_move_each_way(void **state)
{
    static const uint32_t ranks[][2] = {{1, 1}, {4, 4}};
    enum { OPS = 100 };
    (void)state;
    for (uint32_t s = 0; s < LENGTH(ranks); s++) {
        engines_t engines;
        engines_init(&engines, ranks[s], 2);
        test_comm_t *comm = comm_add(&engines, long_us());
        run_times(&engines, comm, &tiny, WARM_OPS);
        const data_counts_t before[2] = {counts_of(&engines, 0, 1), counts_of(&engines, 1, 0)};
        run_times(&engines, comm, &tiny, OPS);
        for (uint32_t h = 0; h < 2; h++) {
            const data_counts_t after = counts_of(&engines, h, 1 - h);
            assert_int_equal(after.frames_out[WIRE_BEGIN] - before[h].frames_out[WIRE_BEGIN], OPS);
            assert_int_equal(after.frames_out[WIRE_DATA] - before[h].frames_out[WIRE_DATA], OPS);
            assert_int_equal(frames_out(&after) - frames_out(&before[h]), 2 * OPS);
            assert_int_equal(after.waited, before[h].waited);
        }
        engines_fini(&engines);
    }
}

/* The counter above counts: what is large waits for BEGIN. */
static void test_moves_that_wait_are_counted(void **state)
{
    static const uint32_t ranks[] = {1, 1};
    const test_op_t op = {.opcode = RING_OP_BROADCAST, .count = 60000};
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    fill(&engines, &op);
    submit(&engines, comm, &op, 0);
    while (counts_of(&engines, 0, 1).waited == 0)
        engines_pump(&engines);
    submit(&engines, comm, &op, 1);
    for (uint32_t r = 0; r < 2; r++) {
        ring_cqe_t cqe = rank_await(&engines, r);
        assert_ok(&cqe);
        check_rank(&engines, &op, r);
    }
    engines_fini(&engines);
}

static void test_small_ops_of_every_kind_between_large_ones(void **state)
{
    static const uint8_t kinds[] = {RING_OP_ALLREDUCE, RING_OP_BROADCAST, RING_OP_ALLGATHER,
                                    RING_OP_BARRIER,   RING_OP_REDUCE,    RING_OP_ALLTOALL,
                                    RING_OP_GATHER,    RING_OP_SCATTER,   RING_OP_REDUCESCATTER};
    static const uint64_t counts[] = {2, 0, 500, 20000, 1, 4096, 4097};
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t i = 0; i < LENGTH(kinds) * LENGTH(counts); i++) {
            test_op_t op = {.opcode = kinds[i % LENGTH(kinds)], .count = counts[i % LENGTH(counts)]};
            bool moves = op.opcode != RING_OP_BARRIER;
            if (moves && collective_has_root(collective_of_opcode(op.opcode)))
                op.root = i % engines.rank_count;
            run(&engines, comm, moves ? &op : &(test_op_t){.opcode = RING_OP_BARRIER});
        }
        engines_fini(&engines);
    }
}

/* The ops are taken and freed on the control thread while the engine has questions about them. */
static void test_ops_are_asked_for_while_the_last_rank_leaves(void **state)
{
    enum { ROUNDS = 4, ASKS = 512 };
    static const uint32_t ranks[] = {2};
    engine_records_t *records[ASKS];
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 1);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        test_comm_t *comm = comm_add(&engines, long_us());
        run_times(&engines, comm, &tiny, WARM_OPS);
        rank_leave(&engines, comm, 0, true);
        rank_begin_to_leave(&engines, comm, 1, true);
        for (uint32_t i = 0; i < ASKS; i++) {
            assert_int_equal(
                engine_records_create(comm->of_host[0], 0, 0, engines_done(&engines), &records[i]), BLINK_OK);
            engine_records_ask(records[i]);
        }
        while (engines.done < ASKS || !comm->leaves[1].done)
            mailbox_run(&engines.control); /* without a pause: at once when the leave is done */
        engines.done = 0;
        for (uint32_t i = 0; i < ASKS; i++)
            free(records[i]);
    }
    engines_fini(&engines);
}

/* ---- many at a time ---- */

/* All ranks submit all of them as one group. */
static void test_groups_have_more_ops_than_there_are_landings(void **state)
{
    enum { OPS = 50 };
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t round = 0; round < 5; round++) {
            fill(&engines, &tiny);
            for (uint32_t r = 0; r < engines.rank_count; r++)
                for (uint32_t i = 0; i < OPS; i++) {
                    ring_sqe_t sqe = sqe_of(&engines, comm, &tiny, r);
                    sqe.flags = i + 1 < OPS ? RING_SQE_MORE : 0;
                    rank_submit(&engines.ranks[r], &sqe);
                }
            for (uint32_t r = 0; r < engines.rank_count; r++) {
                ring_cqe_t cqe = rank_await(&engines, r); /* of the group */
                assert_ok(&cqe);
                check_rank(&engines, &tiny, r);
            }
        }
        run_times(&engines, comm, &tiny, 10);
        engines_fini(&engines);
    }
}

/* ---- hosts that do not agree ---- */

/* The odd rank is on the last host. It loses that op, and so do those who need it; landings and connections
 * live on. */
static void test_hosts_that_disagree_about_small_ops(void **state)
{
    static const struct {
        test_op_t op, other;
    } cases[] = {
        {{.opcode = RING_OP_ALLREDUCE, .count = 2}, {.opcode = RING_OP_ALLREDUCE, .count = 60000}},
        {{.opcode = RING_OP_ALLREDUCE, .count = 60000}, {.opcode = RING_OP_ALLREDUCE, .count = 2}},
        {{.opcode = RING_OP_ALLREDUCE, .count = 2}, {.opcode = RING_OP_BARRIER}},
        {{.opcode = RING_OP_BARRIER}, {.opcode = RING_OP_ALLTOALL, .count = 100}},
        {{.opcode = RING_OP_ALLTOALL, .count = 100}, {.opcode = RING_OP_ALLREDUCE, .count = 2}},
        {{.opcode = RING_OP_BROADCAST, .count = 2}, {.opcode = RING_OP_BROADCAST, .count = 2, .root = 1}},
        {{.opcode = RING_OP_ALLREDUCE, .count = 2}, {.opcode = RING_OP_GATHER, .count = 2, .root = 1}},
        {{.opcode = RING_OP_ALLREDUCE, .count = 60000}, {.opcode = RING_OP_ALLTOALL, .count = 20000}},
        {{.opcode = RING_OP_ALLTOALL, .count = 20000}, {.opcode = RING_OP_BARRIER}},
    };
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        uint32_t odd = engines.rank_count - 1;
        run_times(&engines, comm, &tiny, WARM_OPS);
        for (uint32_t i = 0; i < 4 * LENGTH(cases); i++) {
            bool odd_is_first = i % 2;
            const test_op_t *op = &cases[i / 4].op, *other = &cases[i / 4].other;
            if (odd_is_first) {
                submit(&engines, comm, other, odd);
                engines_beat(&engines);
            }
            for (uint32_t r = 0; r < odd; r++)
                submit(&engines, comm, op, r);
            if (!odd_is_first) {
                engines_beat(&engines);
                submit(&engines, comm, other, odd);
            }
            for (uint32_t r = 0; r < engines.rank_count; r++) {
                ring_cqe_t cqe = rank_await(&engines, r);
                if (cqe.result != BLINK_ERR_MISMATCH && (r == odd || cqe.result != BLINK_OK))
                    fail_msg("%s, case %u: rank %u: %u, \"%s\"", shapes[s].name, i, r, cqe.result, cqe.text);
            }
            run_times(&engines, comm, &tiny, i % 3);
        }
        run_times(&engines, comm, &tiny, 100);
        engines_fini(&engines);
    }
}

/* How far was sent is told of landings that are lent: the other host may have lent one, and would wait there
 * for what has gone to the standing one. */
static void test_a_fail_tells_nothing_of_standing_landings(void **state)
{
    static const uint32_t ranks[] = {1, 1};
    static const char why[] = "it says so";
    uint32_t payload[FAIL_MOST_BYTES / sizeof(uint32_t) + 1];
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    run_times(&engines, comm, &tiny, WARM_OPS);
    data_counts_t before = counts_of(&engines, 1, 0), after;
    const fail_t fail = {.op = {.home = HOME,
                                .comm = comm->number,
                                .number = WARM_OPS,
                                .root = OP_NAME_NONE,
                                .peer = OP_NAME_NONE},
                         .code = BLINK_ERR_QUOTA};
    const test_op_t op = {.opcode = RING_OP_BROADCAST, .count = 2, .root = 1};
    submit(&engines, comm, &op, 1);
    while (counts_of(&engines, 1, 0).frames_out[WIRE_DATA] == before.frames_out[WIRE_DATA])
        engines_pump(&engines);
    uint32_t bytes = fail_write(&fail, NULL, why, payload);
    assert_int_equal(data_send(engines.hosts[0].endpoints[1], WIRE_FAIL, payload, bytes), BLINK_OK);
    assert_int_equal(rank_await(&engines, 1).result, BLINK_ERR_QUOTA);
    /* The rank may hear of it before the other host is told. */
    while ((after = counts_of(&engines, 1, 0)).frames_out[WIRE_FAIL] == before.frames_out[WIRE_FAIL])
        engines_pump(&engines);
    assert_int_equal(after.frames_out[WIRE_FAIL] - before.frames_out[WIRE_FAIL], 1);
    assert_int_equal(after.bytes_out[WIRE_FAIL] - before.bytes_out[WIRE_FAIL], sizeof(fail) + strlen(why));
    submit(&engines, comm, &op, 0);
    assert_int_equal(rank_await(&engines, 0).result, BLINK_ERR_QUOTA);
    run_times(&engines, comm, &tiny, 10);
    engines_fini(&engines);
}

/* ---- ends ---- */

/* Flow numbers that landings have taken on all hosts. */
static uint32_t count_units(engines_t *engines)
{
    uint32_t count = 0;
    for (uint32_t h = 0; h < engines->host_count; h++)
        for (uint32_t p = 0; p < engines->host_count; p++) {
            data_endpoint_t *endpoint = engines->hosts[h].endpoints[p];
            if (!endpoint)
                continue;
            proxy_enter(engines->hosts[h].data);
            for (size_t i = 0; i < endpoint->landings.units.count; i++)
                count += endpoint->landings.units.items[i] != NULL;
            proxy_leave(engines->hosts[h].data);
        }
    return count;
}

/* At most so many are left. */
static void pump_until_units(engines_t *engines, uint32_t most)
{
    while (count_units(engines) > most)
        engines_pump(engines);
}

static void leave_all(engines_t *engines, test_comm_t *comm)
{
    for (uint32_t r = 0; r < engines->rank_count; r++)
        if (!comm->leaves[r].done)
            rank_leave(engines, comm, r, false);
}

static void test_landings_end_with_their_communicator(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        for (uint32_t c = 0; c < COMMS_MOST; c++) {
            test_comm_t *comm = comm_add(&engines, long_us());
            run_times(&engines, comm, &tiny, 6);
            assert_true(count_units(&engines) > 0);
            leave_all(&engines, comm);
            pump_until_units(&engines, 0);
        }
        engines_fini(&engines);
    }
}

/* A root sends before it hears that the others have left; what it sends is dropped, and the connection
 * serves another communicator. */
static void test_data_for_a_communicator_that_has_left_are_dropped(void **state)
{
    static const uint32_t ranks[] = {1, 1};
    const test_op_t op = {.opcode = RING_OP_BROADCAST, .count = 200};
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 2);
    test_comm_t *other = comm_add(&engines, long_us());
    for (uint32_t c = 1; c < COMMS_MOST; c++) {
        test_comm_t *comm = comm_add(&engines, long_us());
        run_times(&engines, comm, &op, WARM_OPS);
        atomic_store(&engines.loses_left, true);
        rank_leave(&engines, comm, 1, false);
        data_counts_t before = counts_of(&engines, 0, 1);
        submit(&engines, comm, &op, 0);
        ring_cqe_t cqe = rank_await(&engines, 0);
        assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
        assert_int_equal(counts_of(&engines, 0, 1).frames_out[WIRE_DATA] - before.frames_out[WIRE_DATA], 1);
        run_times(&engines, other, &tiny, 5);
        atomic_store(&engines.loses_left, false);
        rank_leave(&engines, comm, 0, false);
    }
    leave_all(&engines, other);
    pump_until_units(&engines, 0);
    engines_fini(&engines);
}

/* Whose rank stays says at once that it sends nothing more to a host that has left. */
static void test_landings_end_with_a_hosts_part_of_the_communicator(void **state)
{
    static const uint32_t ranks[] = {1, 1};
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 2);
    test_comm_t *other = comm_add(&engines, long_us());
    for (uint32_t c = 1; c < COMMS_MOST; c++) {
        test_comm_t *comm = comm_add(&engines, long_us());
        uint32_t before = count_units(&engines), leaves = c % 2;
        run_times(&engines, comm, &tiny, WARM_OPS);
        rank_leave(&engines, comm, leaves, false);
        pump_until_units(&engines, before + DATA_STANDING_OPS); /* those of the one that stays */
        submit(&engines, comm, &tiny, 1 - leaves);
        assert_int_equal(rank_await(&engines, 1 - leaves).result, BLINK_ERR_PEER_LOST);
        run_times(&engines, other, &tiny, 5);
    }
    for (uint32_t c = 0; c < COMMS_MOST; c++)
        leave_all(&engines, &engines.comms[c]);
    pump_until_units(&engines, 0);
    engines_fini(&engines);
}

/* Its numbers would be taken for good. */
static void test_a_host_that_never_says_that_it_sends_no_more_is_lost(void **state)
{
    static const uint32_t ranks[] = {1, 1};
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 2);
    engines.hosts[0].settings.network_timeout_s = 0.01;
    engines_beat(&engines);
    test_comm_t *comm = comm_add(&engines, long_us());
    run_times(&engines, comm, &tiny, WARM_OPS);
    atomic_store(&engines.loses_left, true);
    rank_leave(&engines, comm, 0, false);
    while (!data_endpoint_is_lost(engines.hosts[0].endpoints[1]))
        engines_pump(&engines);
    pump_until_units(&engines, DATA_STANDING_OPS);
    engines_fini(&engines);
}

static void test_a_host_is_lost_after_the_communicator_has_left(void **state)
{
    static const uint32_t ranks[] = {1, 1};
    (void)state;
    engines_t engines;
    engines_init(&engines, ranks, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    run_times(&engines, comm, &tiny, WARM_OPS);
    atomic_store(&engines.loses_left, true);
    rank_leave(&engines, comm, 0, false);
    assert_true(count_units(&engines) > DATA_STANDING_OPS); /* rank 1 is there, and its host may send */
    data_endpoint_close(engines.hosts[1].endpoints[0], BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    pump_until_units(&engines, DATA_STANDING_OPS); /* those of rank 1's host, until it leaves */
    engines_fini(&engines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tiny_op_takes_a_begin_and_a_move_each_way),
        cmocka_unit_test(test_moves_that_wait_are_counted),
        cmocka_unit_test(test_small_ops_of_every_kind_between_large_ones),
        cmocka_unit_test(test_groups_have_more_ops_than_there_are_landings),
        cmocka_unit_test(test_hosts_that_disagree_about_small_ops),
        cmocka_unit_test(test_a_fail_tells_nothing_of_standing_landings),
        cmocka_unit_test(test_ops_are_asked_for_while_the_last_rank_leaves),
        cmocka_unit_test(test_landings_end_with_their_communicator),
        cmocka_unit_test(test_data_for_a_communicator_that_has_left_are_dropped),
        cmocka_unit_test(test_landings_end_with_a_hosts_part_of_the_communicator),
        cmocka_unit_test(test_a_host_that_never_says_that_it_sends_no_more_is_lost),
        cmocka_unit_test(test_a_host_is_lost_after_the_communicator_has_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
