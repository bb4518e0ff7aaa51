/*
 * Plans of communicators that span hosts: one host makes each, the others get its bytes, and whatever a host
 * says about plans harms nobody but itself.
 */
#include "engines.h"

#include "collective.h"
#include "engine/loop.h"
#include "engine/plans/cache.h"

enum { COUNT = 1000 };

static const uint32_t one_each[] = {1, 1, 1};

/* ---- ops ---- */

static void submit_count(const engines_t *engines, const test_comm_t *comm, uint8_t opcode, uint32_t rank,
                         uint64_t count)
{
    const ring_sqe_t sqe = {.opcode = opcode,
                            .datatype = BLINK_FLOAT32,
                            .member = comm->number * MEMBERS_OF_COMM + rank,
                            .in_region = REGION,
                            .out_region = REGION,
                            .count = count,
                            .out_offset_bytes = HALF_BYTES};
    rank_submit((test_rank_t *)(uintptr_t)&engines->ranks[rank], &sqe);
}

static void submit(const engines_t *engines, const test_comm_t *comm, uint8_t opcode, uint32_t rank)
{
    submit_count(engines, comm, opcode, rank, COUNT);
}

static void submit_all(const engines_t *engines, const test_comm_t *comm, uint8_t opcode)
{
    for (uint32_t r = 0; r < engines->rank_count; r++)
        submit(engines, comm, opcode, r);
}

static void assert_all_end(engines_t *engines, blink_result_t code, const char *words)
{
    for (uint32_t r = 0; r < engines->rank_count; r++) {
        ring_cqe_t cqe = rank_await(engines, r);
        if (cqe.result != (uint32_t)code || !strstr(cqe.text, words))
            fail_msg("rank %u: %u, \"%s\"; not %u, \"%s\"", r, cqe.result, cqe.text, code, words);
    }
}

static void run(engines_t *engines, const test_comm_t *comm, uint8_t opcode)
{
    submit_all(engines, comm, opcode);
    assert_all_end(engines, BLINK_OK, "");
}

/* What the test looks at or sets of a host is its engine's: a heartbeat before it, and one after it, order
 * the two. The engine has nothing to do meanwhile. */

/* A program that a host keeps. */
typedef struct kept_program {
    uint64_t digest, digest_of_key;
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
    uint32_t shipped_bytes; /* 0: the host could not ship it */
    const uint8_t *shipped; /* lives as long as the program */
} kept_program_t;

/* The one for this collective that was asked for last. */
static kept_program_t program_of(engines_t *engines, uint32_t host, blink_collective_t collective)
{
    engines_beat(engines);
    const list_t *link = engines->hosts[host].engine->cache.by_age.next;
    while (CONTAINER_OF(link, cached_program_t, of_age)->key.collective != collective)
        link = link->next;
    const cached_program_t *cached = CONTAINER_OF(link, cached_program_t, of_age);
    const kept_program_t kept = {.digest = cached->digest,
                                 .digest_of_key = cached->digest_of_key,
                                 .algorithm = cached->algorithm,
                                 .protocol = cached->protocol,
                                 .shipped_bytes = cached->shipped ? cached->shipped->byte_count : 0,
                                 .shipped = cached->shipped ? cached->shipped->bytes : NULL};
    engines_beat(engines);
    return kept;
}

static void assert_one_plan(engines_t *engines, blink_collective_t collective)
{
    kept_program_t made = program_of(engines, 0, collective);
    assert_true(made.shipped_bytes > 0);
    for (uint32_t h = 1; h < engines->host_count; h++) {
        kept_program_t fetched = program_of(engines, h, collective);
        assert_int_equal(fetched.shipped_bytes, 0);
        assert_true(fetched.digest == made.digest);
        assert_true(fetched.digest_of_key == made.digest_of_key);
        assert_int_equal(fetched.algorithm, made.algorithm);
        assert_int_equal(fetched.protocol, made.protocol);
    }
}

/* The host keeps no plan that nothing runs. */
static void make_forgetful(engines_t *engines, uint32_t host)
{
    engines_beat(engines);
    engines->hosts[host].settings.cached_plan_bytes = 0;
    engines_beat(engines);
}

/* ---- one host plans ---- */

static void test_the_first_ranks_host_plans_for_all(void **state)
{
    static const uint8_t opcodes[] = {RING_OP_ALLREDUCE,     RING_OP_BROADCAST, RING_OP_ALLGATHER,
                                      RING_OP_REDUCESCATTER, RING_OP_REDUCE,    RING_OP_ALLTOALL,
                                      RING_OP_GATHER,        RING_OP_SCATTER};
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 3);
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < sizeof(opcodes); i++) {
        run(&engines, comm, opcodes[i]);
        assert_one_plan(&engines, collective_of_opcode(opcodes[i]));
        run(&engines, comm, opcodes[i]);
        assert_int_equal(engines.asks, 2 * (i + 1)); /* two hosts, once each */
    }
    engines_fini(&engines);
}

/* Also for those who do not know yet that they need it. */
static void test_communicators_over_the_same_hosts_ask_once(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *first = comm_add(&engines, long_us()), *second = comm_add(&engines, long_us());
    submit_all(&engines, first, RING_OP_ALLREDUCE);
    submit_all(&engines, second, RING_OP_ALLREDUCE);
    assert_all_end(&engines, BLINK_OK, "");
    assert_all_end(&engines, BLINK_OK, "");
    assert_int_equal(engines.asks, 1);
    engines_fini(&engines);
}

/* Daemons that know nothing of switches come to the same digests. */
static void test_a_digest_says_nothing_of_switches(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 3);
    test_comm_t *comm = comm_add(&engines, long_us());
    run(&engines, comm, RING_OP_ALLREDUCE);
    kept_program_t made = program_of(&engines, 0, BLINK_ALLREDUCE);
    engines_beat(&engines);
    const list_t *link = engines.hosts[0].engine->cache.by_age.next;
    plan_key_t key = CONTAINER_OF(link, cached_program_t, of_age)->key;
    key.may_switch = key.narrow = true;
    assert_true(plan_key_digest(&key) == made.digest_of_key);
    engines_beat(&engines);
    engines_fini(&engines);
}

/* As with other versions of the planner: what each would plan for itself differs. */
static void test_hosts_that_would_plan_otherwise_run_one_plan(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 3; odd++) {
        engines_t engines;
        engines_init(&engines, one_each, 3);
        engines.hosts[odd].settings.force_protocol = true;
        engines.hosts[odd].settings.protocol = BLINK_PROTOCOL_LL128;
        test_comm_t *comm = comm_add(&engines, long_us());
        run(&engines, comm, RING_OP_ALLREDUCE);
        assert_one_plan(&engines, BLINK_ALLREDUCE);
        assert_int_equal(program_of(&engines, 2, BLINK_ALLREDUCE).protocol == BLINK_PROTOCOL_LL128, odd == 0);
        engines_fini(&engines);
    }
}

/* A host that forgets plans at once asks again, and one that makes them makes the same again. */
static void test_forgotten_plans_are_fetched_again(void **state)
{
    (void)state;
    for (uint32_t forgetful = 0; forgetful < 2; forgetful++) {
        engines_t engines;
        engines_init(&engines, one_each, 2);
        make_forgetful(&engines, forgetful);
        test_comm_t *comm = comm_add(&engines, long_us());
        for (uint32_t i = 0; i < 20; i++)
            run(&engines, comm, RING_OP_ALLREDUCE);
        if (forgetful == 1)
            assert_true(engines.asks > 10);
        engines_fini(&engines);
    }
}

/* Small payloads take another program of the same plan, and what ships is the plan. */
static void test_programs_of_one_plan_are_planned_once(void **state)
{
    static const uint64_t counts[] = {COUNT, 100 * COUNT};
    kept_program_t made[2];
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 3);
    engines.algorithm = BLINK_ALGORITHM_TREES;
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t r = 0; r < engines.rank_count; r++)
            submit_count(&engines, comm, RING_OP_ALLREDUCE, r, counts[i]);
        assert_all_end(&engines, BLINK_OK, "");
        assert_one_plan(&engines, BLINK_ALLREDUCE);
        made[i] = program_of(&engines, 0, BLINK_ALLREDUCE);
    }
    assert_true(made[0].digest != made[1].digest);
    assert_ptr_equal(made[0].shipped, made[1].shipped);
    engines_fini(&engines);
}

static void test_a_plan_that_cannot_be_made_fails_alike_everywhere(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 3);
    engines.algorithm = BLINK_ALGORITHM_DOUBLE_BINARY_TREE;
    test_comm_t *comm = comm_add(&engines, long_us());
    for (uint32_t i = 0; i < 5; i++) {
        submit_all(&engines, comm, RING_OP_ALLTOALL);
        assert_all_end(&engines, BLINK_ERR_UNSUPPORTED, "alltoall");
        run(&engines, comm, RING_OP_ALLREDUCE);
    }
    engines_fini(&engines);
}

/* ---- hosts that are early, late, or gone ---- */

/* Submit on one host, whose word to the one that plans is held back. */
static void submit_and_hold(engines_t *engines, const test_comm_t *comm, uint32_t rank)
{
    uint32_t before = engines->held_count;
    engines->holds_words = true;
    submit(engines, comm, RING_OP_ALLREDUCE, rank);
    while (engines->held_count == before)
        engines_pump(engines);
    engines->holds_words = false;
}

/* Pass the word that was held on. */
static void say_held(engines_t *engines, const plan_word_t *word)
{
    uint32_t from = engines->held.from, to = engines->held.to;
    assert_int_equal(engine_plan_word(engines->hosts[to].engine, engines->hosts[to].endpoints[from], word),
                     BLINK_OK);
}

/* Answer it, whatever the host that was asked thinks. */
static void answer_held(engines_t *engines, const plan_word_t *word)
{
    uint32_t from = engines->held.from, to = engines->held.to;
    assert_int_equal(engine_plan_word(engines->hosts[from].engine, engines->hosts[from].endpoints[to], word),
                     BLINK_OK);
}

static void test_an_ask_is_kept_until_its_communicator_is_known(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    for (uint32_t round = 0; round < 3; round++) {
        test_comm_t *comm = comm_number(&engines);
        comm_add_on(&engines, comm, 1, long_us());
        engines_beat(&engines);
        submit_and_hold(&engines, comm, 1);
        say_held(&engines, &engines.held.word);
        engines_beat(&engines);
        assert_true(engines_keep(engines.hosts[0].endpoints[1]));
        comm_add_on(&engines, comm, 0, long_us());
        submit(&engines, comm, RING_OP_ALLREDUCE, 0);
        assert_all_end(&engines, BLINK_OK, "");
        engines_await_heeded(&engines, engines.hosts[0].endpoints[1]);
        engines.algorithm = round == 0 ? BLINK_ALGORITHM_RING : BLINK_ALGORITHM_TREES; /* another plan */
    }
    engines_fini(&engines);
}

static void test_who_asks_for_a_communicator_that_never_was_hears_so(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_number(&engines);
    comm->leaves[0].done = true;
    comm_add_on(&engines, comm, 1, long_us());
    engines_beat(&engines);
    submit(&engines, comm, RING_OP_ALLREDUCE, 1);
    while (engines.asks == 0)
        engines_pump(&engines);
    engine_comm_forget(engines.hosts[0].engine, HOME, comm->number);
    ring_cqe_t cqe = rank_await(&engines, 1);
    assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
    engines_await_heeded(&engines, engines.hosts[0].endpoints[1]);
    engines_fini(&engines);
}

/* It has ended its part and left, and another host is only now about to begin. */
static void test_a_host_that_has_left_still_ships_what_it_has(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    run(&engines, comm, RING_OP_ALLREDUCE);
    plan_word_t ask = {.number = 1000, .home = HOME, .comm = comm->number};
    ask.key = program_of(&engines, 0, BLINK_ALLREDUCE).digest_of_key;
    rank_leave(&engines, comm, 0, false);
    engines.holds_words = true;
    for (uint32_t i = 0; i < 2; i++) {
        engines.held_count = 0;
        assert_int_equal(engine_plan_word(engines.hosts[0].engine, engines.hosts[0].endpoints[1], &ask),
                         BLINK_OK);
        while (engines.held_count == 0)
            engines_pump(&engines);
        assert_true(engines.held.word.is_answer);
        assert_int_equal(engines.held.word.number, 1000);
        assert_int_equal(engines.held.word.total_bytes > 0, i == 0);
        assert_int_equal(engines.held.word.code, i == 0 ? BLINK_OK : BLINK_ERR_PEER_LOST);
        ask.key++; /* which it does not have */
    }
    engines.holds_words = false;
    engines_fini(&engines);
}

static void test_the_host_that_plans_is_lost_while_others_wait(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 3);
    test_comm_t *comm = comm_add(&engines, long_us());
    submit_and_hold(&engines, comm, 1);
    submit_and_hold(&engines, comm, 2);
    for (uint32_t h = 1; h < 3; h++)
        data_endpoint_close(engines.hosts[h].endpoints[0], BLINK_FAIL(BLINK_ERR_PEER_LOST, "it is gone"));
    for (uint32_t r = 1; r < 3; r++) {
        ring_cqe_t cqe = rank_await(&engines, r);
        assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
    }
    engines_beat(&engines);
    for (uint32_t h = 1; h < 3; h++) {
        assert_int_equal(engines.hosts[h].engine->cache.fetches.count, 0);
        assert_true(list_is_empty(&engines.hosts[h].engine->cache.sources));
    }
    engines_fini(&engines);
}

static size_t count_kept(engines_t *engines, uint32_t host)
{
    size_t count = 0;
    engines_beat(engines);
    LIST_FOR_EACH (link, &engines->hosts[host].engine->cache.by_age)
        count++;
    engines_beat(engines);
    return count;
}

/* The engine looks for what is of no use any more. */
static void tidy_soon(engines_t *engines, uint32_t host)
{
    engines_beat(engines);
    engines->hosts[host].settings.idle_scratch_s = 0.001;
    engines->hosts[host].engine->cache.tidy_us = 0;
    engines_beat(engines);
}

static void test_plans_of_a_fabric_that_has_lost_a_host_go(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    run(&engines, comm, RING_OP_ALLREDUCE);
    run(&engines, comm, RING_OP_BROADCAST);
    for (uint32_t h = 0; h < 2; h++) {
        tidy_soon(&engines, h);
        assert_int_equal(count_kept(&engines, h), 2);
        atomic_store_explicit(&engines.hosts[h].fabric->is_gone, true, memory_order_relaxed);
    }
    for (uint32_t h = 0; h < 2; h++)
        while (count_kept(&engines, h) > 0)
            engines_beat(&engines);
    engines_fini(&engines);
}

/* The one in whose name a plan was asked for ends; the other one still gets it. */
static void test_the_end_of_one_communicator_leaves_others_their_plan(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *first = comm_add(&engines, long_us()), *second = comm_add(&engines, long_us());
    submit_and_hold(&engines, first, 1);
    submit_all(&engines, second, RING_OP_ALLREDUCE);
    engines_beat(&engines);
    const plan_word_t ended = {.is_answer = true,
                               .number = engines.held.word.number,
                               .code = BLINK_ERR_ABORTED,
                               .text = "rank 0 has aborted it"};
    answer_held(&engines, &ended);
    ring_cqe_t cqes[3];
    uint32_t aborted = 0;
    cqes[0] = rank_await(&engines, 0);
    for (uint32_t i = 1; i < 3; i++) {
        cqes[i] = rank_await(&engines, 1);
        aborted += cqes[i].result == BLINK_ERR_ABORTED;
    }
    assert_int_equal(cqes[0].result, BLINK_OK);
    assert_int_equal(aborted, 1);
    assert_int_equal(cqes[1].result + cqes[2].result, BLINK_ERR_ABORTED);
    engines_fini(&engines);
}

/* ---- pieces ---- */

static void test_a_plan_comes_in_pieces_of_any_size(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    run(&engines, comm, RING_OP_ALLREDUCE);
    make_forgetful(&engines, 1);
    run(&engines, comm, RING_OP_BROADCAST); /* which has it forgotten */
    kept_program_t made = program_of(&engines, 0, BLINK_ALLREDUCE);
    plan_word_t word = {.is_answer = true, .total_bytes = made.shipped_bytes};
    submit_and_hold(&engines, comm, 1);
    word.number = engines.held.word.number;
    engines.holds_words = true;
    answer_held(&engines, &word);
    for (uint32_t next = 7; word.offset < word.total_bytes; next += 3) {
        word.piece = made.shipped + word.offset;
        word.piece_bytes = word.total_bytes - word.offset < next ? word.total_bytes - word.offset : next;
        answer_held(&engines, &word);
        word.offset += word.piece_bytes;
    }
    engines.holds_words = false;
    submit(&engines, comm, RING_OP_ALLREDUCE, 0);
    assert_all_end(&engines, BLINK_OK, "");
    engines_fini(&engines);
}

/* What comes of it is the user's who waits for it, and has a bound; and it is given back. */
static void test_the_bytes_of_a_plan_are_charged(void **state)
{
    static const uint8_t piece[64 << 10];
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    engines.hosts[1].tenants.budget.limits[BUDGET_OP_BYTES].tenant = 1 << 20;
    test_comm_t *comm = comm_add(&engines, long_us());
    const account_t *account = &engines.hosts[1].tenant->account;
    plan_word_t word = {.is_answer = true, .total_bytes = 8 << 20};
    submit_and_hold(&engines, comm, 1);
    uint64_t before = account_used(account, BUDGET_OP_BYTES);
    engines.holds_words = true;
    word.number = engines.held.word.number;
    answer_held(&engines, &word);
    word.piece = piece;
    word.piece_bytes = sizeof(piece);
    for (; word.offset < 4 * sizeof(piece); word.offset += word.piece_bytes)
        answer_held(&engines, &word);
    engines_beat(&engines);
    assert_int_equal(account_used(account, BUDGET_OP_BYTES), before + 4 * sizeof(piece));
    for (; word.offset < 1 << 20; word.offset += word.piece_bytes)
        answer_held(&engines, &word);
    ring_cqe_t cqe = rank_await(&engines, 1);
    assert_int_equal(cqe.result, BLINK_ERR_QUOTA);
    assert_non_null(strstr(cqe.text, "op_bytes_per_tenant"));
    engines_beat(&engines);
    /* What is remembered of the op that has ended is less than a piece. */
    assert_true(account_used(account, BUDGET_OP_BYTES) < before + sizeof(piece));
    engines.holds_words = false;
    submit(&engines, comm, RING_OP_ALLREDUCE, 0);
    assert_int_equal(rank_await(&engines, 0).result, BLINK_ERR_QUOTA);
    run(&engines, comm, RING_OP_ALLREDUCE);
    engines_fini(&engines);
}

/* ---- hosts that lie ---- */

static void test_bytes_that_are_no_plan_fail_the_op_and_name_the_host(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    const uint8_t bytes[100] = {1};
    plan_word_t word = {.is_answer = true, .total_bytes = sizeof(bytes)};
    submit_and_hold(&engines, comm, 1);
    engines.holds_words = true;
    word.number = engines.held.word.number;
    answer_held(&engines, &word);
    word.piece = bytes;
    word.piece_bytes = sizeof(bytes);
    answer_held(&engines, &word);
    ring_cqe_t cqe = rank_await(&engines, 1);
    assert_int_equal(cqe.result, BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(cqe.text, "the plan that n0 has sent"));
    engines.holds_words = false;
    submit(&engines, comm, RING_OP_ALLREDUCE, 0);
    cqe = rank_await(&engines, 0);
    assert_int_equal(cqe.result, BLINK_ERR_PROTOCOL);
    run(&engines, comm, RING_OP_ALLREDUCE);
    engines_fini(&engines);
}

/* An answer that is none ends the session. */
static void test_answers_that_are_none_are_refused(void **state)
{
    static const uint8_t piece[8] = {0};
    static const plan_word_t answers[] = {
        {.is_answer = true, .total_bytes = 0},
        {.is_answer = true, .total_bytes = UINT32_MAX},
        {.is_answer = true, .code = 12345},
        {.is_answer = true,
         .total_bytes = 100,
         .piece = piece,
         .piece_bytes = 8}, /* before it is announced */
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        engines_t engines;
        engines_init(&engines, one_each, 2);
        test_comm_t *comm = comm_add(&engines, long_us());
        submit_and_hold(&engines, comm, 1);
        plan_word_t word = answers[i];
        word.number = engines.held.word.number + 7; /* nobody's: not heeded */
        answer_held(&engines, &word);
        engines_beat(&engines);
        assert_false(data_endpoint_is_lost(engines.hosts[1].endpoints[0]));
        word.number = engines.held.word.number;
        answer_held(&engines, &word);
        ring_cqe_t cqe = rank_await(&engines, 1);
        assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
        assert_true(data_endpoint_is_lost(engines.hosts[1].endpoints[0]));
        engines_fini(&engines);
    }
}

/* An ask that none of the communicator's ops can have ends the session. */
static void test_asks_that_are_none_are_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        engines_t engines;
        engines_init(&engines, one_each, 3);
        test_comm_t *comm = comm_add(&engines, long_us());
        run(&engines, comm, RING_OP_ALLREDUCE);
        make_forgetful(&engines, 1);
        run(&engines, comm, RING_OP_BROADCAST);
        submit_and_hold(&engines, comm, 1);
        plan_word_t ask = engines.held.word;
        ask.collective = i == 0 ? 99 : ask.collective;
        ask.root = i == 1 ? 0 : ask.root; /* it has none */
        ask.peer = i == 2 ? 1 : ask.peer;
        ask.size_class = i == 3 ? 99 : ask.size_class;
        ask.wants_bytes = i == 4;
        ask.offset = i == 4 ? UINT32_MAX : 0;
        engines.held.to = i == 5 ? 2 : 0; /* which does not plan this */
        if (i == 5)
            engines.held.from = 1;
        say_held(&engines, &ask);
        uint32_t asked = engines.held.to;
        while (!data_endpoint_is_lost(engines.hosts[asked].endpoints[1]))
            engines_beat(&engines);
        engines.keeps_ends = false;
        engines_fini(&engines);
    }
}

/* Hosts that see different topologies by one name do not run anything. */
static void test_a_host_that_means_something_else_hears_so(void **state)
{
    (void)state;
    engines_t engines;
    engines_init(&engines, one_each, 2);
    test_comm_t *comm = comm_add(&engines, long_us());
    submit_and_hold(&engines, comm, 1);
    plan_word_t ask = engines.held.word;
    ask.key++;
    say_held(&engines, &ask);
    ring_cqe_t cqe = rank_await(&engines, 1);
    assert_int_equal(cqe.result, BLINK_ERR_INTERNAL);
    assert_non_null(strstr(cqe.text, "sees other hosts or devices"));
    engines_fini(&engines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_ranks_host_plans_for_all),
        cmocka_unit_test(test_communicators_over_the_same_hosts_ask_once),
        cmocka_unit_test(test_hosts_that_would_plan_otherwise_run_one_plan),
        cmocka_unit_test(test_a_digest_says_nothing_of_switches),
        cmocka_unit_test(test_forgotten_plans_are_fetched_again),
        cmocka_unit_test(test_programs_of_one_plan_are_planned_once),
        cmocka_unit_test(test_a_plan_that_cannot_be_made_fails_alike_everywhere),
        cmocka_unit_test(test_an_ask_is_kept_until_its_communicator_is_known),
        cmocka_unit_test(test_who_asks_for_a_communicator_that_never_was_hears_so),
        cmocka_unit_test(test_a_host_that_has_left_still_ships_what_it_has),
        cmocka_unit_test(test_the_host_that_plans_is_lost_while_others_wait),
        cmocka_unit_test(test_plans_of_a_fabric_that_has_lost_a_host_go),
        cmocka_unit_test(test_the_end_of_one_communicator_leaves_others_their_plan),
        cmocka_unit_test(test_a_plan_comes_in_pieces_of_any_size),
        cmocka_unit_test(test_the_bytes_of_a_plan_are_charged),
        cmocka_unit_test(test_bytes_that_are_no_plan_fail_the_op_and_name_the_host),
        cmocka_unit_test(test_answers_that_are_none_are_refused),
        cmocka_unit_test(test_asks_that_are_none_are_refused),
        cmocka_unit_test(test_a_host_that_means_something_else_hears_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
