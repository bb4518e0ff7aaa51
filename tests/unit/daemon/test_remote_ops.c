/*
 * Ops of communicators that span hosts, from rings to results: several engines with their data planes in one
 * process.
 */
#include "engine_ops.h"

#include "engine/loop.h"
#include "windows.h"

/* ---- ops that succeed ---- */

static const uint8_t collectives[] = {RING_OP_ALLREDUCE,     RING_OP_BROADCAST, RING_OP_ALLGATHER,
                                      RING_OP_REDUCESCATTER, RING_OP_REDUCE,    RING_OP_ALLTOALL,
                                      RING_OP_GATHER,        RING_OP_SCATTER};

static void test_every_collective_gives_every_rank_its_elements(void **state)
{
    static const uint64_t counts[] = {1, 1000, 60001, 170001};
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t c = 0; c < LENGTH(collectives); c++)
            for (uint32_t n = 0; n < LENGTH(counts); n++) {
                test_op_t op = {.opcode = collectives[c], .count = counts[n]};
                op.root = collective_has_root(collective_of_opcode(op.opcode)) ? engines.rank_count - 1 : 0;
                run(&engines, comm, &op);
            }
        engines_fini(&engines);
    }
}

static void test_ops_in_place(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[1].ranks, shapes[1].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t c = 0; c < 5; c++) {
        const test_op_t op = {.opcode = collectives[c], .count = 5000, .in_place = true};
        run(&engines, comm, &op);
    }
    engines_fini(&engines);
}

/* A rank that comes late to a barrier, on whichever host, is waited for. */
static void test_a_barrier_ends_once_all_ranks_have_come(void **state)
{
    const test_op_t barrier = {.opcode = RING_OP_BARRIER};
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t late = 0; late < engines.rank_count; late++) {
            ring_cqe_t cqe;
            for (uint32_t r = 0; r < engines.rank_count; r++)
                if (r != late)
                    submit(&engines, comm, &barrier, r);
            for (uint32_t i = 0; i < 3; i++)
                engines_beat(&engines);
            for (uint32_t r = 0; r < engines.rank_count; r++)
                assert_false(ring_reap(&engines.ranks[r].ring, &cqe));
            submit(&engines, comm, &barrier, late);
            for (uint32_t r = 0; r < engines.rank_count; r++) {
                cqe = rank_await(&engines, r);
                assert_ok(&cqe);
            }
        }
        engines_fini(&engines);
    }
}

static void test_transfers_cross_between_all_pairs(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[3].ranks, shapes[3].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t from = 0; from < engines.rank_count; from++)
        for (uint32_t to = 0; to < engines.rank_count; to++)
            for (uint64_t count = 1; from != to && count < 100000; count *= 300) {
                const test_op_t op = {.opcode = RING_OP_SEND, .root = from, .peer = to, .count = count};
                run(&engines, comm, &op);
            }
    engines_fini(&engines);
}

/* Both ranks send to the other and receive from it in one group, so that neither can go first. */
static void test_crossed_transfers_in_groups(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t round = 0; round < 50; round++) {
        const test_op_t filled = {.opcode = RING_OP_ALLTOALL, .count = 20000};
        fill(&engines, &filled);
        for (uint32_t r = 0; r < 2; r++) {
            test_op_t op = {.opcode = RING_OP_SEND, .root = r, .peer = 1 - r, .count = 20000};
            ring_sqe_t sqe = sqe_of(&engines, comm, &op, r);
            sqe.root = 1 - r;
            sqe.flags = RING_SQE_MORE;
            rank_submit(&engines.ranks[r], &sqe);
            sqe.opcode = RING_OP_RECV;
            sqe.flags = 0;
            rank_submit(&engines.ranks[r], &sqe);
        }
        for (uint32_t r = 0; r < 2; r++) {
            const test_op_t op = {.opcode = RING_OP_SEND, .root = 1 - r, .peer = r, .count = 20000};
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_ok(&cqe);
            check_rank(&engines, &op, r);
        }
    }
    engines_fini(&engines);
}

static void test_ops_without_elements(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[1].ranks, shapes[1].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t c = 0; c < LENGTH(collectives); c++) {
        const test_op_t op = {.opcode = collectives[c]};
        run(&engines, comm, &op);
    }
    const test_op_t transfer = {.opcode = RING_OP_SEND, .root = 0, .peer = 3};
    run(&engines, comm, &transfer);
    run_many(&engines, comm, 3);
    engines_fini(&engines);
}

/* Ranks are ahead of one another by as many ops as they like. */
static void test_hosts_run_ahead_of_one_another(void **state)
{
    enum { OPS = 200 };
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[2].ranks, shapes[2].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    fill(&engines, &small);
    for (uint32_t r = 0; r < engines.rank_count; r++) {
        for (uint32_t i = 0; i < OPS; i++)
            submit(&engines, comm, &small, r);
        engines_beat(&engines);
    }
    for (uint32_t r = 0; r < engines.rank_count; r++) {
        for (uint32_t i = 0; i < OPS; i++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_ok(&cqe);
        }
        check_rank(&engines, &small, r);
    }
    engines_fini(&engines);
}

/* Rank 0 alone has memory that is staged, and more of it than a piece has on one host. */
static void test_a_staged_rank_passes_all_in_one_piece(void **state)
{
    const test_op_t op = {.opcode = RING_OP_ALLREDUCE, .count = HALF_BYTES / sizeof(float) - 5};
    enum { STAGING = REGION + 1 };
    const uint64_t input = STAGING_HEADER_BYTES, output = STAGING_HEADER_BYTES + HALF_BYTES;
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        test_rank_t *rank = &engines.ranks[0];
        const test_memory_t staging = engines_map(STAGING_HEADER_BYTES + MEMORY_BYTES);
        staging_words_t *window = &((window_t *)(void *)staging.client)[3].staging;
        engine_region_t *region;
        const engine_region_config_t config = {.region = STAGING,
                                               .kind = ENGINE_REGION_STAGING,
                                               .base = staging.daemon,
                                               .bytes = staging.bytes,
                                               .poisoned = &rank->poisoned};
        assert_int_equal(engine_region_add(rank->client, &config, &region), BLINK_OK);
        fill(&engines, &op);
        memcpy(staging.client + input, rank->memory.client, HALF_BYTES);
        atomic_store(&window->filled, 1);
        ring_sqe_t sqe = sqe_of(&engines, comm, &op, 0);
        sqe.flags = RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED;
        sqe.window = 3;
        sqe.in_region = sqe.out_region = STAGING;
        sqe.in_offset_bytes = input;
        sqe.out_offset_bytes = output;
        rank_submit(rank, &sqe);
        for (uint32_t r = 1; r < engines.rank_count; r++)
            submit(&engines, comm, &op, r);
        for (uint32_t r = 0; r < engines.rank_count; r++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_ok(&cqe);
            if (r == 0)
                memcpy(rank->memory.client + HALF_BYTES, staging.client + output, op.count * sizeof(float));
            check_rank(&engines, &op, r);
        }
        assert_int_equal(atomic_load(&window->done), 1);
        engines_fini(&engines);
        engines_unmap(&staging);
    }
}

/* Of the two cores a host has here one is the engine's, and the proxy needs the other one: who spun on it
 * would wait for a proxy that cannot run. */
static void test_waiters_leave_the_proxy_its_core(void **state)
{
    enum { OPS = 50 };
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < OPS; i++) {
        run(&engines, comm, &small);
        for (uint32_t r = 0; r < engines.rank_count; r++)
            assert_int_equal(ring_wait_policy(&engines.ranks[r].ring), RING_WAIT_YIELD);
    }
    engines_fini(&engines);
}

static void test_hosts_use_two_communicators_in_opposite_orders(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[1].ranks, shapes[1].hosts);
    const test_comm_t *comms[] = {comm_add(&engines, long_us()), comm_add(&engines, long_us())};
    const test_op_t ops[] = {
        {.opcode = RING_OP_ALLREDUCE, .count = 30000},
        {.opcode = RING_OP_ALLREDUCE, .count = 30000, .offset_bytes = HALF_BYTES / 2},
    };
    fill(&engines, &ops[0]);
    fill(&engines, &ops[1]);
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t r = 0; r < engines.rank_count; r++) {
            uint32_t first = engines.ranks[r].host;
            submit(&engines, comms[first], &ops[first], r);
            submit(&engines, comms[1 - first], &ops[1 - first], r);
        }
        for (uint32_t i = 0; i < 2 * engines.rank_count; i++) {
            ring_cqe_t cqe = rank_await(&engines, i / 2);
            assert_ok(&cqe);
        }
        for (uint32_t r = 0; r < engines.rank_count; r++) {
            check_rank(&engines, &ops[0], r);
            check_rank(&engines, &ops[1], r);
        }
    }
    engines_fini(&engines);
}

/* ---- words that come before what they are about ---- */

/* Host 1 has so many BEGINs, and keeps the last one, which is of a communicator that it does not know. */
static void await_early(engines_t *engines, uint32_t begins)
{
    while (atomic_load(&engines->hosts[1].begins) < begins)
        engines_pump(engines);
    engines_beat(engines);
    assert_true(engines_keep(engines->hosts[1].endpoints[0]));
}

static void test_a_begin_is_kept_until_its_communicator_is_known(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    for (uint32_t round = 0; round < COMMS_MOST; round++) {
        test_comm_t *comm = comm_number(&engines);
        comm_add_on(&engines, comm, 0, long_us());
        engines_beat(&engines);
        fill(&engines, &small);
        uint32_t begins = atomic_load(&engines.hosts[1].begins);
        submit(&engines, comm, &small, 0);
        await_early(&engines, begins + 1);
        comm_add_on(&engines, comm, 1, long_us());
        engines_beat(&engines);
        submit(&engines, comm, &small, 1);
        for (uint32_t r = 0; r < 2; r++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_ok(&cqe);
            check_rank(&engines, &small, r);
        }
        run_many(&engines, comm, 2);
    }
    engines_fini(&engines);
}

static void test_who_begins_an_op_of_a_communicator_that_never_was_hears_so(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    for (uint32_t round = 0; round < COMMS_MOST; round++) {
        test_comm_t *comm = comm_number(&engines);
        comm->leaves[1].done = true; /* it has never joined */
        comm_add_on(&engines, comm, 0, long_us());
        engines_beat(&engines);
        if (round % 2)
            engine_comm_forget(engines.hosts[1].engine, HOME, comm->number);
        uint32_t begins = atomic_load(&engines.hosts[1].begins);
        submit(&engines, comm, &small, 0);
        if (round % 2 == 0) {
            await_early(&engines, begins + 1);
            engine_comm_forget(engines.hosts[1].engine, HOME, comm->number);
        }
        ring_cqe_t cqe = rank_await(&engines, 0);
        assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
        engines_await_heeded(&engines, engines.hosts[1].endpoints[0]);
    }
    engines_fini(&engines);
}

static void test_early_words_of_a_lost_host_are_forgotten(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    test_comm_t *comm = comm_number(&engines);
    comm->leaves[1].done = true;
    comm_add_on(&engines, comm, 0, long_us());
    engines_beat(&engines);
    submit(&engines, comm, &small, 0);
    await_early(&engines, 1);
    data_endpoint_close(engines.hosts[1].endpoints[0], BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    engines_await_heeded(&engines, engines.hosts[1].endpoints[0]);
    ring_cqe_t cqe = rank_await(&engines, 0);
    assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
    engines_fini(&engines);
}

/* ---- hosts that do not agree ---- */

static void run_mismatch(engines_t *engines, const test_comm_t *comm, const test_op_t *op,
                         const test_op_t *other, uint32_t odd, bool odd_is_first)
{
    if (odd_is_first) {
        submit(engines, comm, other, odd);
        engines_beat(engines);
    }
    for (uint32_t r = 0; r < engines->rank_count; r++)
        if (r != odd)
            submit(engines, comm, op, r);
    if (!odd_is_first) {
        engines_beat(engines);
        submit(engines, comm, other, odd);
    }
}

/* The last rank hears that it disagrees. Of another host all moves may have come, and its op be done, before
 * it hears what that rank wants: then it is the one that says so. */
static void assert_mismatch(engines_t *engines, const char *word, const char *other)
{
    for (uint32_t r = 0; r + 1 < engines->rank_count; r++) {
        ring_cqe_t cqe = rank_await(engines, r);
        assert_true(cqe.result == BLINK_OK ||
                    (cqe.result == BLINK_ERR_MISMATCH && strstr(cqe.text, word) && strstr(cqe.text, other)));
    }
    assert_fail_from(engines, engines->rank_count - 1, BLINK_ERR_MISMATCH, word, other);
}

static void test_hosts_that_disagree_lose_that_op_alone(void **state)
{
    static const struct {
        test_op_t op, other;
        const char *words[2];
    } cases[] = {
        {{.opcode = RING_OP_ALLREDUCE, .count = 500},
         {.opcode = RING_OP_ALLREDUCE, .count = 501},
         {"500", "501"}},
        {{.opcode = RING_OP_ALLREDUCE, .count = 50},
         {.opcode = RING_OP_ALLREDUCE, .count = 50000},
         {"50", "50000"}},
        {{.opcode = RING_OP_ALLREDUCE, .count = 50},
         {.opcode = RING_OP_ALLREDUCE, .count = 50, .redop = BLINK_MAX},
         {"sum", "max"}},
        {{.opcode = RING_OP_ALLGATHER, .count = 50},
         {.opcode = RING_OP_ALLREDUCE, .count = 50},
         {"allgather", "allreduce"}},
    };
    (void)state;
    for (uint32_t s = 0; s < 3; s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t i = 0; i < 2 * LENGTH(cases); i++) {
            run_mismatch(&engines, comm, &cases[i / 2].op, &cases[i / 2].other, engines.rank_count - 1,
                         i % 2);
            assert_mismatch(&engines, cases[i / 2].words[0], cases[i / 2].words[1]);
            run_many(&engines, comm, 5);
        }
        run_many(&engines, comm, 100);
        engines_fini(&engines);
    }
}

/* Of hosts that get nothing from the one that disagrees some may be done before they hear of it. */
static void test_hosts_that_name_another_root_fail_with_those_they_need(void **state)
{
    const test_op_t op = {.opcode = RING_OP_BROADCAST, .count = 50},
                    other = {.opcode = RING_OP_BROADCAST, .count = 50, .root = 1};
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t i = 0; i < 10; i++) {
            run_mismatch(&engines, comm, &op, &other, engines.rank_count - 1, i % 2);
            for (uint32_t r = 0; r + 1 < engines.rank_count; r++) {
                ring_cqe_t cqe = rank_await(&engines, r);
                assert_true(cqe.result == BLINK_ERR_MISMATCH || (cqe.result == BLINK_OK && r > 0));
            }
            assert_fail_from(&engines, engines.rank_count - 1, BLINK_ERR_MISMATCH, "root 0", "root 1");
            run_many(&engines, comm, 2);
        }
        engines_fini(&engines);
    }
}

static void test_a_mismatch_names_both_ranks_and_hosts(void **state)
{
    const test_op_t op = {.opcode = RING_OP_ALLREDUCE, .count = 500},
                    other = {.opcode = RING_OP_ALLREDUCE, .count = 501};
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < 4; i++) {
        run_mismatch(&engines, comm, &op, &other, i / 2, i % 2);
        assert_all_fail(&engines, BLINK_ERR_MISMATCH, "rank 0 on n0 gave", "rank 1 on n1 gave");
    }
    engines_fini(&engines);
}

/* Whoever has no elements need not wait for the others, and may be done before they disagree. */
static void test_a_rank_without_elements_fails_the_op_of_the_others(void **state)
{
    const test_op_t op = {.opcode = RING_OP_ALLREDUCE, .count = 500}, none = {.opcode = RING_OP_ALLREDUCE};
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[2].ranks, shapes[2].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < 6; i++) {
        run_mismatch(&engines, comm, &op, &none, i / 2, i % 2);
        for (uint32_t r = 0; r < engines.rank_count; r++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            if (cqe.result != BLINK_ERR_MISMATCH && r != i / 2)
                fail_msg("rank %u: %u, %s", r, cqe.result, cqe.text);
        }
        run_many(&engines, comm, 3);
    }
    engines_fini(&engines);
}

static void test_both_ends_of_a_transfer_must_agree(void **state)
{
    static const uint64_t counts[][2] = {{500, 501}, {50000, 5}, {0, 5}, {5, 0}};
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[0].ranks, shapes[0].hosts);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < 4 * LENGTH(counts); i++) {
        test_op_t op = {.opcode = RING_OP_SEND, .root = i % 2, .peer = 1 - i % 2};
        for (uint32_t n = 0; n < 2; n++) {
            uint32_t r = (i / 2 + n) % 2;
            op.count = counts[i / 4][r == op.root ? 0 : 1];
            submit(&engines, comm, &op, r);
            if (n == 0)
                engines_beat(&engines);
        }
        for (uint32_t r = 0; r < 2; r++) {
            uint64_t count = counts[i / 4][r == op.root ? 0 : 1];
            ring_cqe_t cqe = rank_await(&engines, r);
            if (cqe.result != BLINK_ERR_MISMATCH && count > 0) /* who moves nothing need not hear of it */
                fail_msg("case %u, rank %u: %u, %s", i, r, cqe.result, cqe.text);
        }
        op.count = 700;
        run(&engines, comm, &op);
    }
    engines_fini(&engines);
}

/* A rank of three that is refused its memory fails the op on all hosts, also while they run it. */
static void test_a_refused_submission_fails_the_op_everywhere(void **state)
{
    const test_op_t op = {.opcode = RING_OP_ALLREDUCE, .count = 60000};
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t round = 0; round < 4 * engines.rank_count; round++) {
            uint32_t refused = round % engines.rank_count;
            char name[16];
            ring_sqe_t sqe = sqe_of(&engines, comm, &op, refused);
            sqe.in_offset_bytes = MEMORY_BYTES;
            snprintf(name, sizeof(name), "rank %u", refused);
            if (round / engines.rank_count % 2)
                rank_submit(&engines.ranks[refused], &sqe);
            for (uint32_t r = 0; r < engines.rank_count; r++)
                if (r != refused)
                    submit(&engines, comm, &op, r);
            if (round / engines.rank_count % 2 == 0)
                rank_submit(&engines.ranks[refused], &sqe);
            assert_all_fail(&engines, BLINK_ERR_OUT_OF_RANGE, name, "");
            run_many(&engines, comm, 2);
        }
        engines_fini(&engines);
    }
}

/* ---- ranks that leave ---- */

static void test_after_a_rank_has_left_ops_fail_for_the_others(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        for (uint32_t begun = 0; begun < 2; begun++) {
            engines_t engines;
            engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
            test_comm_t *comm = comm_add(&engines, long_us());
            uint32_t leaver = engines.rank_count - 1;
            run_many(&engines, comm, 2);
            if (!begun)
                rank_leave(&engines, comm, leaver, false);
            for (uint32_t r = 0; r < leaver; r++)
                if (engines.ranks[r].host != engines.ranks[leaver].host)
                    submit(&engines, comm, &small, r);
            if (begun) { /* its host knows of the op when it leaves */
                engines_beat(&engines);
                rank_begin_to_leave(&engines, comm, leaver, false);
            }
            for (uint32_t r = 0; r < leaver; r++) {
                if (engines.ranks[r].host == engines.ranks[leaver].host)
                    continue;
                ring_cqe_t cqe = rank_await(&engines, r);
                assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
                assert_non_null(strstr(cqe.text, "left"));
            }
            while (!comm->leaves[leaver].done)
                engines_pump(&engines);
            engines_fini(&engines);
        }
    }
}

/* Hosts that have begun an op hear of it before the control thread's word comes. */
static void test_a_rank_that_is_gone_is_named_where_ops_have_begun(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 10; round++) {
        engines_t engines;
        engines_init(&engines, shapes[1].ranks, shapes[1].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        run_many(&engines, comm, 1);
        for (uint32_t r = 0; r < 2; r++)
            submit(&engines, comm, &small, r);
        if (round % 2)
            engines_beat(&engines);
        rank_begin_to_leave(&engines, comm, 3, true);
        for (uint32_t r = 0; r < 2; r++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
            assert_non_null(strstr(cqe.text, "rank 3 is gone"));
        }
        while (!comm->leaves[3].done)
            engines_pump(&engines);
        engines_fini(&engines);
    }
}

/* Also once its host has forgotten the communicator. */
static void test_a_rank_that_was_gone_is_named_to_those_who_begin_later(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[2].ranks, shapes[2].hosts);
    test_comm_t *comms[] = {comm_add(&engines, long_us()), comm_add(&engines, long_us())};
    for (uint32_t lost = 0; lost < 2; lost++) {
        run_many(&engines, comms[lost], 1);
        rank_leave(&engines, comms[lost], 2, lost);
        for (uint32_t r = 0; r < 2; r++)
            submit(&engines, comms[lost], &small, r);
        for (uint32_t r = 0; r < 2; r++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
            assert_non_null(strstr(cqe.text, lost ? "rank 2 is gone" : "n2, with rank 2, has left"));
        }
    }
    engines_fini(&engines);
}

/* ---- communicators that end ---- */

static void test_the_end_on_one_host_ends_what_runs_on_all(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        run_many(&engines, comm, 2);
        fill(&engines, &small);
        for (uint32_t r = 1; r < engines.rank_count; r++)
            for (uint32_t i = 0; i < 100; i++)
                submit(&engines, comm, &small, r);
        engines_beat(&engines);
        for (uint32_t h = 0; h < engines.host_count; h++)
            engine_comm_end(comm->of_host[(h + s) % engines.host_count], BLINK_ERR_ABORTED, "rank 1 aborts");
        for (uint32_t r = 1; r < engines.rank_count; r++)
            for (uint32_t i = 0; i < 100; i++) {
                ring_cqe_t cqe = rank_await(&engines, r);
                assert_int_equal(cqe.result, BLINK_ERR_ABORTED);
                assert_string_equal(cqe.text, "rank 1 aborts");
            }
        test_comm_t *next = comm_add(&engines, long_us());
        run_many(&engines, next, 5);
        engines_fini(&engines);
    }
}

static void test_a_lost_host_is_named_with_its_ranks(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        test_comm_t *comm = comm_add(&engines, long_us());
        uint32_t lost = engines.host_count - 1, last = engines.rank_count - 1;
        char host[32], rank[32];
        snprintf(host, sizeof(host), "n%u, with rank ", lost);
        snprintf(rank, sizeof(rank), "%u", last);
        run_many(&engines, comm, 2);
        for (uint32_t r = 0; r < engines.rank_count; r++)
            if (engines.ranks[r].host != lost)
                submit(&engines, comm, &small, r);
        engines_beat(&engines);
        for (uint32_t h = 0; h < lost; h++)
            data_endpoint_close(engines.hosts[h].endpoints[lost],
                                BLINK_FAIL(BLINK_ERR_PEER_LOST, "it gives no sign of life"));
        for (uint32_t r = 0; r < engines.rank_count; r++) {
            if (engines.ranks[r].host == lost)
                continue;
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
            assert_non_null(strstr(cqe.text, host));
            assert_non_null(strstr(cqe.text, rank));
        }
        engines_fini(&engines);
    }
}

/* Between the loss and the word of it. */
static void test_an_op_that_begins_after_a_loss_ends_by_that(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, (uint32_t[]){1, 1}, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    data_endpoint_t *lost = engines.hosts[0].endpoints[1];
    run_many(&engines, comm, 2);
    atomic_store(&engines.holds_losses, true);
    data_endpoint_close(lost, BLINK_FAIL(BLINK_ERR_PEER_LOST, "it gives no sign of life"));
    submit(&engines, comm, &small, 0);
    engines_beat(&engines);
    engine_data_lost(engines.hosts[0].engine, lost);
    ring_cqe_t cqe = rank_await(&engines, 0);
    assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
    assert_non_null(strstr(cqe.text, "n1, with rank 1, is lost: it gives no sign of life"));
    engines_fini(&engines);
}

/* ---- time-outs ---- */

static void test_the_host_whose_rank_does_not_come_names_it(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < LENGTH(shapes); s++) {
        engines_t engines;
        engines_init(&engines, shapes[s].ranks, shapes[s].hosts);
        uint64_t short_us = (uint64_t)limit_short_ms() * 1000 / 10;
        test_comm_t *comm = comm_number(&engines);
        uint32_t late = engines.rank_count - 1, host = engines.ranks[late].host;
        for (uint32_t h = 0; h < engines.host_count; h++)
            comm_add_on(&engines, comm, h, h == host ? short_us : long_us());
        engines_beat(&engines);
        for (uint32_t r = 0; r < late; r++)
            submit(&engines, comm, &small, r);
        char name[32];
        snprintf(name, sizeof(name), "rank %u", late);
        for (uint32_t r = 0; r < late; r++) {
            ring_cqe_t cqe = rank_await(&engines, r);
            assert_int_equal(cqe.result, BLINK_ERR_TIMEOUT);
            assert_non_null(strstr(cqe.text, name));
        }
        assert_true(comm->ended[host]);
        engines_fini(&engines);
    }
}

/* Its host says nothing, though it lives: those who wait name it. */
static void test_a_host_that_does_not_come_is_named(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, shapes[2].ranks, shapes[2].hosts);
    run_many(&engines, comm_add(&engines, long_us()), 1); /* so that the op's plan is there */
    test_comm_t *comm = comm_number(&engines);
    for (uint32_t h = 0; h < engines.host_count; h++)
        comm_add_on(&engines, comm, h, h < 2 ? (uint64_t)limit_short_ms() * 1000 / 3 : long_us());
    engines_beat(&engines);
    for (uint32_t r = 0; r < 2; r++)
        submit(&engines, comm, &small, r);
    for (uint32_t r = 0; r < 2; r++) {
        ring_cqe_t cqe = rank_await(&engines, r);
        assert_int_equal(cqe.result, BLINK_ERR_TIMEOUT);
        assert_non_null(strstr(cqe.text, "n2, with rank 2, did not come"));
    }
    engines_fini(&engines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_gives_every_rank_its_elements),
        cmocka_unit_test(test_ops_in_place),
        cmocka_unit_test(test_a_barrier_ends_once_all_ranks_have_come),
        cmocka_unit_test(test_transfers_cross_between_all_pairs),
        cmocka_unit_test(test_crossed_transfers_in_groups),
        cmocka_unit_test(test_ops_without_elements),
        cmocka_unit_test(test_hosts_run_ahead_of_one_another),
        cmocka_unit_test(test_a_staged_rank_passes_all_in_one_piece),
        cmocka_unit_test(test_waiters_leave_the_proxy_its_core),
        cmocka_unit_test(test_hosts_use_two_communicators_in_opposite_orders),
        cmocka_unit_test(test_a_begin_is_kept_until_its_communicator_is_known),
        cmocka_unit_test(test_who_begins_an_op_of_a_communicator_that_never_was_hears_so),
        cmocka_unit_test(test_early_words_of_a_lost_host_are_forgotten),
        cmocka_unit_test(test_hosts_that_disagree_lose_that_op_alone),
        cmocka_unit_test(test_hosts_that_name_another_root_fail_with_those_they_need),
        cmocka_unit_test(test_a_mismatch_names_both_ranks_and_hosts),
        cmocka_unit_test(test_a_rank_without_elements_fails_the_op_of_the_others),
        cmocka_unit_test(test_both_ends_of_a_transfer_must_agree),
        cmocka_unit_test(test_a_refused_submission_fails_the_op_everywhere),
        cmocka_unit_test(test_after_a_rank_has_left_ops_fail_for_the_others),
        cmocka_unit_test(test_a_rank_that_is_gone_is_named_where_ops_have_begun),
        cmocka_unit_test(test_a_rank_that_was_gone_is_named_to_those_who_begin_later),
        cmocka_unit_test(test_the_end_on_one_host_ends_what_runs_on_all),
        cmocka_unit_test(test_a_lost_host_is_named_with_its_ranks),
        cmocka_unit_test(test_an_op_that_begins_after_a_loss_ends_by_that),
        cmocka_unit_test(test_the_host_whose_rank_does_not_come_names_it),
        cmocka_unit_test(test_a_host_that_does_not_come_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
