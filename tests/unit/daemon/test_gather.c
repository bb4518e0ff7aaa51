/* Gathering on several hosts: in every order, with hosts and ranks that go at any moment, and on 1,024 hosts.
 */
#include "unit/daemon/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what must hold ---- */

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static uint32_t count_in(const hosts_t *hosts, rank_state_t state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hosts->rank_count; i++)
        count += hosts->ranks[i].state == state;
    return count;
}

static void assert_refused(const rank_t *rank, blink_result_t code, const char *said)
{
    assert_int_equal(rank->state, RANK_REFUSED);
    assert_int_equal(rank->code, code);
    assert_says(rank->text, said);
}

/* The ranks that are left all have the communicator, or have all failed for one reason. Returns a rank that
 * has failed; NULL: none has. */
static const rank_t *assert_one_outcome(const hosts_t *hosts)
{
    const rank_t *first = NULL;
    uint32_t ready = count_in(hosts, RANK_READY), gone = count_in(hosts, RANK_GONE);
    assert_int_equal(count_in(hosts, RANK_WAITING), 0);
    for (uint32_t i = 0; i < hosts->rank_count; i++) {
        const rank_t *rank = &hosts->ranks[i];
        if (rank->state != RANK_REFUSED && rank->state != RANK_LOST)
            continue;
        if (!first)
            first = rank;
        assert_int_equal(rank->code, first->code);
    }
    if (first)
        assert_int_equal(ready, 0);
    else
        assert_int_equal(ready + gone, hosts->rank_count);
    return first;
}

static void assert_one_text(const hosts_t *hosts, const rank_t *first)
{
    for (uint32_t i = 0; first && i < hosts->rank_count; i++) {
        const rank_t *rank = &hosts->ranks[i];
        if (rank->state == RANK_REFUSED || rank->state == RANK_LOST)
            assert_string_equal(rank->text, first->text);
    }
}

static void end_parts(hosts_t *hosts)
{
    for (uint32_t i = 0; i < hosts->rank_count; i++) {
        rank_t *rank = &hosts->ranks[i];
        bool is_last = i + 1 == hosts->rank_count || hosts->ranks[i + 1].host != rank->host;
        if (rank->state == RANK_READY && is_last)
            gather_comm_ended(hosts->hosts[rank->host].gather, rank->comm);
    }
}

/* Nothing is kept for what is over, and nothing stays charged. */
static void assert_nothing_left(const hosts_t *hosts)
{
    gather_counts_t left = hosts_left(hosts);
    assert_int_equal(left.homes, 0);
    assert_int_equal(left.locals, 0);
    assert_int_equal(left.trees, 0);
    assert_int_equal(left.peers, 0);
    for (uint32_t i = 0; i < hosts->count; i++)
        assert_true(hosts->hosts[i].is_dead || hosts->hosts[i].charged == 0);
}

/* ---- one communicator ---- */

static void test_ranks_of_three_hosts_meet(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 6, 2);
    hosts_join_all(hosts);
    hosts_settle(hosts);
    assert_null(assert_one_outcome(hosts));
    for (uint32_t i = 1; i < 6; i++) {
        assert_int_equal(hosts->ranks[i].comm.home, 100);
        assert_int_equal(hosts->ranks[i].comm.number, hosts->ranks[0].comm.number);
    }
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(hosts->hosts[i].sent[GATHER_JOIN], 1);
        assert_int_equal(hosts->hosts[i].sent[GATHER_ACKNOWLEDGED], 1);
    }
    assert_int_equal(hosts->hosts[0].sent[GATHER_READY], 2);
    end_parts(hosts);
    hosts_settle(hosts);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

/* Words about another communicator, which tell no topology, come after a host has joined. READY says what the
 * host has told (hosts.c). */
static void test_ready_has_the_topologies_that_hosts_have_joined_with(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 2, 1);
    gather_host_t guest = hosts->hosts[1].known;
    const gather_message_t ended = {.kind = GATHER_ENDED, .comm = {hosts->hosts[0].known.instance, 77}};
    hosts_join(hosts, 1);
    hosts_settle(hosts);
    memset(guest.topology, 0, sizeof(guest.topology));
    gather_receive(hosts->hosts[0].gather, &guest, &ended, hosts->now_ms);
    hosts_join(hosts, 0);
    hosts_settle(hosts);
    assert_null(assert_one_outcome(hosts));
    assert_int_equal(count_in(hosts, RANK_READY), 2);
    end_parts(hosts);
    hosts_settle(hosts);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static void test_a_home_may_have_no_ranks(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 4, 2);
    for (uint32_t i = 0; i < 4; i++)
        hosts->ranks[i].host++;
    hosts_join_all(hosts);
    hosts_settle(hosts);
    assert_null(assert_one_outcome(hosts));
    gather_comm_ended(hosts->hosts[0].gather, hosts->ranks[0].comm);
    end_parts(hosts);
    hosts_settle(hosts);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static void test_one_host_alone_sends_and_keeps_nothing(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(1, 8, 8);
    hosts_join_all(hosts);
    assert_null(assert_one_outcome(hosts)); /* at once */
    assert_nothing_left(hosts);
    for (int kind = 0; kind <= GATHER_ENDED; kind++)
        assert_int_equal(hosts->hosts[0].sent[kind], 0);
    hosts_destroy(hosts);
}

static void test_an_id_without_a_home_is_for_one_host(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(1, 3, 3);
    hosts->id = (unique_id_t){.version = UNIQUE_ID_VERSION, .nonce = {7}};
    hosts_join_all(hosts);
    assert_null(assert_one_outcome(hosts));
    hosts_destroy(hosts);
}

static void test_ranks_that_come_together_join_together(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 6, 3);
    const host_t *host = &hosts->hosts[1];
    hosts_come(hosts, 3);
    hosts_come(hosts, 4);
    assert_int_equal(host->sent[GATHER_JOIN], 0);
    assert_int_equal(gather_due_ms(host->gather), 0);
    assert_true(gather_work(host->gather, hosts->now_ms));
    assert_int_equal(host->sent[GATHER_JOIN], 1);
    hosts_join(hosts, 5); /* is late, and goes by itself */
    assert_int_equal(host->sent[GATHER_JOIN], 2);
    for (uint32_t i = 0; i < 3; i++)
        hosts_join(hosts, i);
    hosts_settle(hosts);
    assert_null(assert_one_outcome(hosts));
    hosts_destroy(hosts);
}

/* ---- ranks that are refused ---- */

/* Rank 2 on n1 is refused; it and rank 3 come anew as they should, and all is well. */
static void check_refusal(hosts_t *hosts, blink_result_t code, const char *said)
{
    const terms_t good = {.rank_count = 4};
    hosts_settle(hosts);
    assert_refused(&hosts->ranks[2], code, said);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(i == 2 || hosts->ranks[i].state == RANK_WAITING || hosts->ranks[i].state == RANK_AWAY);
    hosts->terms = good;
    hosts->ranks[2].gathers.rank = 2;
    hosts->ranks[2].gathers.device = 0;
    hosts->ranks[2].gathers.on_gpu = false;
    hosts_join(hosts, 2);
    for (uint32_t i = 0; i < 4; i++) {
        if (hosts->ranks[i].state == RANK_AWAY)
            hosts_join(hosts, i);
    }
    hosts_run(hosts);
    assert_null(assert_one_outcome(hosts));
    end_parts(hosts);
    hosts_settle(hosts);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static hosts_t *two_ranks_wait(void)
{
    hosts_t *hosts = hosts_create(2, 4, 2);
    hosts_join(hosts, 0);
    hosts_join(hosts, 1);
    return hosts;
}

static void test_who_disagrees_is_refused_and_harms_nobody(void **state)
{
    (void)state;
    static const struct {
        terms_t terms;
        const char *said;
    } cases[] = {
        {{5, 0, 0, 0, 0}, "rank 0 on n0 joined a communicator of 4 ranks, rank 2 on n1 asks for 5"},
        {{4, 2, 0, 0, 0}, "rank 0 on n0 asked for algorithm auto, rank 2 on n1 asks for ring"},
        {{4, 0, 7, 0, 0}, "rank 0 on n0 asked for an op timeout of 0 ms, rank 2 on n1 asks for 7 ms"},
        {{4, 0, 0, 9, 0}, "rank 0 on n0 asked for an init timeout of 0 ms, rank 2 on n1 asks for 9 ms"},
        {{4, 0, 0, 0, 0.004},
         "rank 0 on n0 has links that are not emulated, rank 2 on n1 has links emulated at 0.004 of their "
         "speed: all daemons need the same pace"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hosts_t *hosts = two_ranks_wait();
        hosts->terms = cases[i].terms;
        hosts_join(hosts, 2);
        check_refusal(hosts, BLINK_ERR_MISMATCH, cases[i].said);
    }
}

static void test_a_rank_that_is_there_already_is_refused(void **state)
{
    (void)state;
    hosts_t *hosts = two_ranks_wait();
    hosts->ranks[2].gathers.rank = 1;
    hosts_join(hosts, 2);
    check_refusal(hosts, BLINK_ERR_EXISTS,
                  "rank 1, which comes from n1, has joined this communicator already from n0");
}

static void test_a_device_that_is_taken_is_refused(void **state)
{
    (void)state;
    hosts_t *hosts = two_ranks_wait();
    hosts_join(hosts, 3); /* device 1 */
    hosts->ranks[2].gathers.device = 1;
    hosts_join(hosts, 2);
    check_refusal(hosts, BLINK_ERR_EXISTS, "rank 2 on n1 asks for device 1, which rank 3 has taken");
}

static void test_a_device_of_another_kind_is_refused(void **state)
{
    (void)state;
    hosts_t *hosts = two_ranks_wait();
    hosts->ranks[2].gathers.on_gpu = true;
    hosts_join(hosts, 2);
    check_refusal(hosts, BLINK_ERR_UNSUPPORTED,
                  "rank 2 on n1's device 0 is on a GPU: a communicator has one kind");
}

/* Whoever guesses an id of another user's can neither join nor be in the way. */
static void test_users_who_have_one_id_gather_apart(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 4, 2);
    const rank_t own = hosts->ranks[2];
    rank_t *thief = &hosts->ranks[2];
    thief->state = RANK_WAITING;
    assert_int_equal(gather_join(hosts->hosts[1].gather, &hosts->id, USER + 1, &hosts->terms, &thief->gathers,
                                 hosts->now_ms),
                     BLINK_OK);
    assert_true(gather_work(hosts->hosts[1].gather, hosts->now_ms));
    hosts_settle(hosts);
    assert_int_equal(hosts_left(hosts).homes, 1);
    gather_leave(hosts->hosts[1].gather, &thief->gathers, blink_error_set(BLINK_ERR_PEER_LOST, "thief"));
    hosts_settle(hosts);
    *thief = own;
    hosts_join_all(hosts);
    hosts_run(hosts);
    assert_null(assert_one_outcome(hosts));
    end_parts(hosts);
    hosts_settle(hosts);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static void test_what_makes_no_sense_is_refused_where_it_is(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 2, 1);
    hosts->terms.rank_count = 0;
    assert_int_equal(hosts_join(hosts, 1), BLINK_ERR_INVALID_ARGUMENT);
    hosts->terms.rank_count = 1;
    assert_int_equal(hosts_join(hosts, 1), BLINK_ERR_INVALID_ARGUMENT);
    assert_says(blink_error_text(), "rank 1 of 1 ranks");
    hosts->terms = (terms_t){2, 99, 0, 0, 0};
    assert_int_equal(hosts_join(hosts, 1), BLINK_ERR_INVALID_ARGUMENT);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

/* A message by which one rank joins. */
static gather_message_t join_of(const hosts_t *hosts, const gather_join_rank_t *rank)
{
    return (gather_message_t){.kind = GATHER_JOIN,
                              .id = hosts->id,
                              .uid = USER,
                              .attempt = 3,
                              .terms = hosts->terms,
                              .ranks = rank,
                              .rank_count = 1};
}

static void test_an_id_of_a_daemon_that_has_ended_is_refused(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 2, 1);
    const gather_join_rank_t rank = {.rank = 1, .ticket = 5};
    gather_message_t join = join_of(hosts, &rank);
    join.id.instance = 99; /* n0 of an hour ago */
    gather_receive(hosts->hosts[0].gather, &hosts->hosts[1].known, &join, hosts->now_ms);
    assert_int_equal(hosts->hosts[0].sent[GATHER_REFUSED], 1);
    assert_says(hosts->first->text, "the daemon that made the id has ended: the one on n0");
    hosts_destroy(hosts);
}

/* ---- time ---- */

static void test_a_timeout_names_missing_ranks_and_who_is_there(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 6, 2);
    for (uint32_t i = 0; i < 4; i++)
        hosts_join(hosts, i);
    hosts_run(hosts);
    assert_int_equal(hosts->now_ms, 1000 + INIT_TIMEOUT_MS);
    for (uint32_t i = 0; i < 4; i++)
        assert_refused(&hosts->ranks[i], BLINK_ERR_TIMEOUT,
                       "only 4 of 6 ranks joined within 30 s; missing: rank 4, 5; the others are on n0, n1");
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static void test_a_timeout_names_a_rank_that_asked_for_another_size(void **state)
{
    (void)state;
    hosts_t *hosts = two_ranks_wait();
    hosts->terms.rank_count = 5;
    hosts_join(hosts, 2);
    hosts_run(hosts);
    assert_refused(&hosts->ranks[0], BLINK_ERR_TIMEOUT,
                   "only 2 of 4 ranks joined within 30 s; rank 2 on n1 asked for 5; missing: rank 2, 3");
    hosts_destroy(hosts);
}

static void test_a_timeout_names_ranks_that_have_another_id(void **state)
{
    (void)state;
    hosts_t *hosts = two_ranks_wait();
    hosts->id.nonce[0] ^= 1;
    hosts->now_ms += 1000;
    hosts_join(hosts, 2);
    hosts_run(hosts);
    assert_refused(&hosts->ranks[0], BLINK_ERR_TIMEOUT,
                   "only 2 of 4 ranks joined within 30 s; rank 2 on n1, of 4, has another id; missing");
    assert_refused(&hosts->ranks[2], BLINK_ERR_TIMEOUT,
                   "only 1 of 4 ranks joined within 30 s; rank 0 on n0, of 4, has another id; missing");
    hosts_destroy(hosts);
}

static void test_ranks_may_have_less_time(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 4, 2);
    hosts->terms.init_timeout_ms = 200;
    hosts_join(hosts, 0);
    hosts_join(hosts, 2);
    hosts_run(hosts);
    assert_int_equal(hosts->now_ms, 1200);
    assert_refused(&hosts->ranks[2], BLINK_ERR_TIMEOUT, "within 0.2 s; missing: rank 1, 3");
    hosts_destroy(hosts);
}

static void test_a_home_that_says_nothing_is_waited_for_a_second_longer(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 2, 1);
    hosts->lose_percent = 100;
    hosts_join(hosts, 1);
    hosts_run(hosts);
    assert_int_equal(hosts->now_ms, 1000 + INIT_TIMEOUT_MS + GATHER_GRACE_MS);
    assert_refused(&hosts->ranks[1], BLINK_ERR_TIMEOUT, "has not answered within 31 s");
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static void test_a_host_that_never_begins_fails_all(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 3, 1);
    hosts_join_all(hosts);
    while (hosts->hosts[0].sent[GATHER_READY] == 0)
        hosts_step(hosts, 0);
    hosts->lose_percent = 100; /* nobody's word arrives */
    hosts_settle(hosts);
    hosts->lose_percent = 0;
    hosts_run(hosts);
    const rank_t *failed = assert_one_outcome(hosts);
    assert_non_null(failed);
    assert_says(failed->text, "have not begun within 5 s");
    assert_one_text(hosts, failed);
    assert_int_equal(hosts->now_ms, 1000 + ACK_TIMEOUT_MS);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

/* ---- somebody goes ---- */

static void test_an_id_that_has_failed_is_refused_at_once(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 6, 2);
    for (uint32_t i = 0; i < 4; i++)
        hosts_join(hosts, i);
    hosts_settle(hosts);
    hosts_leave(hosts, 3);
    hosts_settle(hosts);
    for (uint32_t i = 0; i < 3; i++)
        assert_refused(&hosts->ranks[i], BLINK_ERR_PEER_LOST, "rank 3 disconnected");
    hosts_join(hosts, 4);
    hosts_join(hosts, 5);
    hosts_settle(hosts);
    assert_refused(&hosts->ranks[4], BLINK_ERR_PEER_LOST, "rank 3 disconnected");
    hosts->ranks[2].state = RANK_WAITING;
    assert_int_equal(hosts_join(hosts, 2), BLINK_ERR_PEER_LOST); /* known where the rank was */
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

/* Hosts that hear it by the tree hear as much as the host's neighbours. */
static void test_a_host_that_is_lost_after_all_have_begun_is_named_with_its_ranks(void **state)
{
    static const struct {
        uint32_t lost;
        const char *said;
    } cases[] = {{0, "n0, with rank 0, 1, is lost: n0 closed the connection"},
                 {1, "n1, with rank 2, 3, is lost: n1 closed the connection"},
                 {39, "n39, with rank 78, 79, is lost: n39 closed the connection"}};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        hosts_t *hosts = hosts_create(40, 80, 2);
        hosts_join_all(hosts);
        hosts_settle(hosts);
        assert_int_equal(count_in(hosts, RANK_READY), 80);
        hosts_kill(hosts, cases[i].lost, 0);
        hosts_settle(hosts);
        for (uint32_t rank = 0; rank < 80; rank++) {
            if (hosts->ranks[rank].host == cases[i].lost)
                continue;
            assert_int_equal(hosts->ranks[rank].state, RANK_LOST);
            assert_says(hosts->ranks[rank].text, cases[i].said);
        }
        hosts_destroy(hosts);
    }
}

static void test_the_last_rank_does_not_complete_what_a_lost_host_takes_part_in(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 3, 1);
    gather_t *home = hosts->hosts[0].gather;
    hosts_join(hosts, 1);
    hosts_join(hosts, 2);
    hosts_settle(hosts);
    BLINK_FAIL(BLINK_ERR_PEER_LOST, "n2 closed the connection");
    gather_peer_lost(home, hosts->hosts[2].known.instance); /* and no turn yet to do something about it */
    hosts_join(hosts, 0);
    assert_refused(&hosts->ranks[0], BLINK_ERR_PEER_LOST,
                   "n2, with rank 2, is lost: n2 closed the connection");
    hosts_settle(hosts);
    assert_string_equal(hosts->ranks[1].text, hosts->ranks[0].text);
    hosts_destroy(hosts);
}

static void test_a_host_that_cannot_begin_fails_all(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad < 3; bad++) {
        hosts_t *hosts = hosts_create(3, 6, 2);
        hosts->hosts[bad].begins_badly = true;
        hosts_join_all(hosts);
        hosts_settle(hosts);
        const rank_t *failed = assert_one_outcome(hosts);
        assert_non_null(failed);
        assert_int_equal(failed->code, BLINK_ERR_NO_MEMORY);
        assert_one_text(hosts, failed);
        assert_nothing_left(hosts);
        hosts_destroy(hosts);
    }
}

/* ---- what cannot be sent ---- */

static void test_ranks_whose_join_cannot_be_sent_hear_so(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(2, 4, 2);
    hosts->hosts[1].unsent = 1u << GATHER_JOIN;
    hosts_join_all(hosts);
    for (uint32_t i = 2; i < 4; i++)
        assert_refused(&hosts->ranks[i], BLINK_ERR_PEER_LOST, "is lost: no memory to tell");
    assert_int_equal(count_in(hosts, RANK_WAITING), 2); /* the home has never heard of them */
    hosts_run(hosts);
    assert_refused(&hosts->ranks[0], BLINK_ERR_TIMEOUT, "missing: rank 2, 3");
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

/* Wherever it is on the way of a communicator: who waits for the word hears of a loss at once. Rank 3 leaves
 * before the last rank has come, or after all are ready, or not at all. */
static void test_who_waits_for_what_cannot_be_sent_hears_of_a_loss(void **state)
{
    (void)state;
    static const struct {
        gather_kind_t kind;
        uint32_t first, last; /* hosts that cannot send it */
        uint32_t hosts;
        enum { STAYS, LEAVES_EARLY, LEAVES_LATE } rank;
    } cases[] = {{GATHER_READY, 0, 0, 3, STAYS},         {GATHER_READY, 1, 39, 40, STAYS},
                 {GATHER_ACKNOWLEDGED, 1, 1, 3, STAYS},  {GATHER_ACKNOWLEDGED, 1, 39, 40, STAYS},
                 {GATHER_FAILED, 0, 0, 3, LEAVES_EARLY}, {GATHER_LEFT, 1, 1, 3, LEAVES_EARLY},
                 {GATHER_LOST, 1, 1, 3, LEAVES_LATE},    {GATHER_LOST, 1, 39, 40, LEAVES_LATE}};
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t rank_count = 2 * cases[i].hosts;
        uint64_t tries = 0;
        hosts_t *hosts = hosts_create(cases[i].hosts, rank_count, 2);
        for (uint32_t host = cases[i].first; host <= cases[i].last; host++)
            hosts->hosts[host].unsent = 1u << cases[i].kind;
        for (uint32_t rank = 0; rank < rank_count - (cases[i].rank == LEAVES_EARLY); rank++)
            hosts_join(hosts, rank);
        hosts_settle(hosts);
        if (cases[i].rank != STAYS)
            hosts_leave(hosts, 3);
        hosts_run(hosts);
        for (uint32_t host = cases[i].first; host <= cases[i].last; host++)
            tries += hosts->hosts[host].sent[cases[i].kind];
        assert_int_not_equal(tries, 0);
        assert_non_null(assert_one_outcome(hosts));
        assert_int_equal(hosts->now_ms, 1000); /* no time-out had to pass */
        assert_nothing_left(hosts);
        hosts_destroy(hosts);
    }
}

static void test_a_loss_after_all_have_begun_reaches_every_host(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(300, 300, 1);
    hosts_join_all(hosts);
    hosts_settle(hosts);
    assert_int_equal(count_in(hosts, RANK_READY), 300);
    assert_int_equal(hosts_left(hosts).homes, 0);
    hosts_leave(hosts, 299);
    hosts_settle(hosts);
    assert_int_equal(count_in(hosts, RANK_LOST), 299);
    assert_one_text(hosts, assert_one_outcome(hosts));
    uint64_t lost = 0;
    for (uint32_t i = 0; i < 300; i++)
        lost += hosts->hosts[i].received[GATHER_LOST];
    assert_int_equal(lost, 299); /* once */
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

static void test_a_loss_passes_through_hosts_that_have_ended(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(40, 40, 1);
    hosts_join_all(hosts);
    hosts_settle(hosts);
    /* Hosts 17 to 32 are below host 1. */
    hosts->ranks[1].state = RANK_GONE;
    gather_comm_ended(hosts->hosts[1].gather, hosts->ranks[1].comm);
    hosts_leave(hosts, 5);
    hosts_settle(hosts);
    assert_int_equal(count_in(hosts, RANK_LOST), 38);
    assert_nothing_left(hosts);
    hosts_destroy(hosts);
}

/* Also if the others still know it, because it gathers with them under another id. */
static void test_a_host_that_has_ended_its_part_loses_nothing_of_the_others(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(3, 3, 1);
    const gather_join_rank_t rank = {.rank = 1, .ticket = 5};
    gather_message_t join = join_of(hosts, &rank);
    host_t *home = &hosts->hosts[0], *liar = &hosts->hosts[1];
    join.id.nonce[0]++;
    hosts_join_all(hosts);
    hosts_settle(hosts);
    gather_receive(home->gather, &liar->known, &join, hosts->now_ms);
    hosts->ranks[1].state = RANK_GONE;
    gather_comm_ended(liar->gather, hosts->ranks[1].comm);
    hosts_settle(hosts);
    const gather_message_t lost = {
        .kind = GATHER_LOST, .comm = hosts->ranks[1].comm, .code = BLINK_ERR_PEER_LOST, .text = "a lie"};
    gather_receive(home->gather, &liar->known, &lost, hosts->now_ms);
    hosts_settle(hosts);
    assert_int_equal(count_in(hosts, RANK_READY), 2);
    hosts_destroy(hosts);
}

/* ---- every order ---- */

/* One way through a run: at each place where something can go on in several ways, which one. */
typedef struct path {
    uint32_t choices[64], ways[64], length, place;
} path_t;

static uint32_t choose(path_t *path, uint32_t ways)
{
    assert_true(path->place < 64);
    if (path->place == path->length) {
        path->choices[path->length] = 0;
        path->ways[path->length++] = ways;
    }
    assert_int_equal(path->ways[path->place], ways);
    return path->choices[path->place++];
}

static bool next_path(path_t *path)
{
    path->place = 0;
    while (path->length > 0 && path->choices[path->length - 1] + 1 == path->ways[path->length - 1])
        path->length--;
    if (path->length == 0)
        return false;
    path->choices[path->length - 1]++;
    return true;
}

typedef enum accident { HOST_DIES, RANK_LEAVES, NOTHING_HAPPENS } accident_t;

/* Three hosts with two ranks each join, messages arrive, and at any moment host `who` dies, or its second
 * rank leaves: until nothing can happen any more. */
static void run_path(hosts_t *hosts, path_t *path, accident_t accident, uint32_t who)
{
    uint32_t joined = 0;
    bool is_over = accident == NOTHING_HAPPENS;
    while (joined < 3 || hosts->first) {
        uint32_t arrivals = hosts_choices(hosts), joins = joined < 3;
        uint32_t choice = choose(path, arrivals + joins + !is_over);
        if (choice < arrivals) {
            hosts_step(hosts, choice);
        } else if (choice == arrivals && joins) {
            uint32_t host = joined++;
            for (uint32_t i = 2 * host; i < 2 * host + 2 && !hosts->hosts[host].is_dead; i++) {
                if (hosts->ranks[i].state == RANK_AWAY)
                    hosts_join(hosts, i);
            }
        } else {
            is_over = true;
            if (accident == HOST_DIES)
                hosts_kill(hosts, who, choose(path, 2) * 64);
            else
                hosts_leave(hosts, 2 * who + 1);
        }
    }
}

/* Nobody is missing for whom time has to run out. */
static bool may_time_out(const hosts_t *hosts, accident_t accident)
{
    return accident != NOTHING_HAPPENS && count_in(hosts, RANK_WAITING) > 0;
}

static uint64_t try_all(accident_t accident, uint32_t who)
{
    path_t path = {0};
    uint64_t runs = 0;
    do {
        hosts_t *hosts = hosts_create(3, 6, 2);
        run_path(hosts, &path, accident, who);
        bool waited = may_time_out(hosts, accident);
        hosts_run(hosts);
        const rank_t *failed = assert_one_outcome(hosts);
        assert_true(accident == NOTHING_HAPPENS ? !failed : true);
        if (failed && !waited && accident == HOST_DIES)
            assert_says(failed->text, hosts->hosts[who].known.name);
        if (failed && waited) /* who has gone without a word is missed */
            assert_true(failed->code == BLINK_ERR_TIMEOUT || failed->code == BLINK_ERR_PEER_LOST);
        if (accident != HOST_DIES || who != 0)
            assert_one_text(hosts, failed);
        end_parts(hosts);
        hosts_run(hosts);
        assert_nothing_left(hosts);
        hosts_destroy(hosts);
        runs++;
    } while (next_path(&path));
    return runs;
}

static void test_ranks_meet_in_every_order(void **state)
{
    (void)state;
    print_message("%lu orders\n", (unsigned long)try_all(NOTHING_HAPPENS, 0));
}

static void test_a_host_may_die_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 3; who++)
        print_message("n%u dies: %lu orders\n", who, (unsigned long)try_all(HOST_DIES, who));
}

static void test_a_rank_may_leave_at_any_moment(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 3; who++)
        print_message("of n%u: %lu orders\n", who, (unsigned long)try_all(RANK_LEAVES, who));
}

/* ---- many ---- */

/* From JOIN to ENDED a host sends, and gets, one message for itself and one for the host above it and each
 * below: of READY, ACKNOWLEDGED and ENDED. Nothing but JOINs grows with the number of hosts, and these go to
 * the home alone. */
static void assert_few_messages(const host_t *host, bool is_home)
{
    const uint64_t neighbours = GATHER_CHILDREN + 1, kinds = 3;
    uint64_t sent = 0, received = 0;
    for (uint32_t kind = 0; kind <= GATHER_ENDED; kind++) {
        sent += host->sent[kind];
        received += host->received[kind];
    }
    assert_in_range(sent, 1, 1 + kinds * neighbours);
    assert_in_range(received - (is_home ? host->received[GATHER_JOIN] : 0), 1, kinds * neighbours);
}

static void test_1024_hosts_meet_with_few_messages(void **state)
{
    (void)state;
    hosts_t *hosts = hosts_create(1024, 1024, 1);
    hosts_join_all(hosts);
    hosts_settle(hosts);
    assert_null(assert_one_outcome(hosts));
    const host_t *home = &hosts->hosts[0];
    assert_int_equal(home->received[GATHER_JOIN], 1023);
    assert_int_equal(home->sent[GATHER_READY], 16);
    assert_int_equal(home->received[GATHER_ACKNOWLEDGED], 16);
    for (uint32_t i = 1; i < 1024; i++) {
        assert_int_equal(hosts->hosts[i].sent[GATHER_JOIN], 1);
        assert_int_equal(hosts->hosts[i].received[GATHER_READY], 1);
        assert_true(hosts->hosts[i].sent[GATHER_READY] <= GATHER_CHILDREN);
    }
    gather_counts_t left = hosts_left(hosts);
    assert_int_equal(left.homes + left.locals, 0);
    assert_true(gather_count(home->gather).peers <= GATHER_CHILDREN);
    end_parts(hosts);
    hosts_settle(hosts);
    assert_nothing_left(hosts);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < 1024; i++) {
        assert_few_messages(&hosts->hosts[i], i == 0);
        for (uint32_t kind = 0; kind <= GATHER_ENDED; kind++)
            sent += hosts->hosts[i].sent[kind];
    }
    assert_int_equal(sent, 4 * 1023); /* JOIN, READY, ACKNOWLEDGED and ENDED of every host but the home */
    hosts_destroy(hosts);
}

/* Anything that can happen, by the dice. */
static void run_at_random(uint64_t seed)
{
    hosts_t *hosts = hosts_create(1 + (uint32_t)(seed % 40), 0, 1);
    uint32_t count = hosts->count, per_host = 1 + (uint32_t)(seed % 3);
    hosts_destroy(hosts);
    hosts = hosts_create(count, count * per_host, per_host);
    hosts->dice = seed;
    hosts->any_order = hosts_roll(hosts, 3) == 0;
    hosts->double_percent = hosts_roll(hosts, 3) == 0 ? 30 : 0;
    hosts->lose_percent = hosts_roll(hosts, 4) == 0 ? 5 : 0;
    uint32_t accident = hosts_roll(hosts, 4), next = 0;
    uint32_t when = hosts_roll(hosts, 4 * count * per_host + 8);
    for (uint32_t step = 0; next < hosts->rank_count || hosts->first; step++) {
        bool joins = next < hosts->rank_count && (!hosts->first || hosts_roll(hosts, 2) == 0);
        if (joins && !hosts->hosts[hosts->ranks[next].host].is_dead)
            hosts_join(hosts, next);
        next += joins;
        if (!joins)
            hosts_step(hosts, hosts_roll(hosts, hosts_choices(hosts)));
        if (step == when && accident == 1)
            hosts_kill(hosts, hosts_roll(hosts, count), hosts_roll(hosts, 4));
        if (step == when && accident == 2 && next > 0)
            hosts_leave(hosts, hosts_roll(hosts, next));
    }
    /* Sessions keep the order, and lose nothing. */
    bool is_session = !hosts->any_order && hosts->double_percent == 0 && hosts->lose_percent == 0;
    hosts->lose_percent = 0;
    hosts_run(hosts);
    assert_int_equal(count_in(hosts, RANK_WAITING), 0);
    if (is_session && accident != 1)
        assert_one_text(hosts, assert_one_outcome(hosts));
    else if (is_session)
        assert_one_outcome(hosts);
    if (is_session && accident == 0)
        assert_int_equal(count_in(hosts, RANK_READY), hosts->rank_count);
    hosts_destroy(hosts);
}

static void test_whatever_happens_nobody_waits_for_ever(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++)
        run_at_random(seed);
}

/* ---- a peer that lies ---- */

#define LIES 60u

/* Nothing that n2 says is true, but it knows the id and guesses numbers well. */
static void say_anything(hosts_t *hosts, host_t *to)
{
    gather_join_rank_t ranks[3];
    gather_seat_t seats[6];
    gather_ready_host_t ready[4];
    gather_message_t lie = {.kind = (gather_kind_t)hosts_roll(hosts, GATHER_ENDED + 1),
                            .id = hosts->id,
                            .uid = USER + hosts_roll(hosts, 10) / 9,
                            .ticket = 1 + hosts_roll(hosts, 4),
                            .attempt = 1 + hosts_roll(hosts, 3),
                            .comm = {100 + hosts_roll(hosts, 3), 1 + hosts_roll(hosts, 2)},
                            .code = (blink_result_t)(1 + hosts_roll(hosts, BLINK_ERR_INTERNAL)),
                            .text = "a lie",
                            .terms = {hosts_roll(hosts, 4) ? 6 : 1 + hosts_roll(hosts, 6), 0, 0, 0, 0},
                            .ranks = ranks,
                            .rank_count = 1 + hosts_roll(hosts, 3),
                            .hosts = ready,
                            .host_count = 1 + hosts_roll(hosts, 4),
                            .seats = seats};
    lie.id.nonce[0] = (uint8_t)(1 + hosts_roll(hosts, 8) / 7);
    for (uint32_t i = 0; i < 3; i++)
        ranks[i] = (gather_join_rank_t){hosts_roll(hosts, 8), hosts_roll(hosts, 3), 1 + hosts_roll(hosts, 4),
                                        hosts_roll(hosts, 8) == 0};
    for (uint32_t i = 0; i < 4; i++)
        ready[i] = (gather_ready_host_t){hosts->hosts[hosts_roll(hosts, 3)].known, 1};
    for (uint32_t i = 0; i < 6; i++)
        seats[i] = (gather_seat_t){hosts_roll(hosts, lie.host_count), i % 2, 1 + i % 2};
    gather_receive(to->gather, &hosts->hosts[2].known, &lie, hosts->now_ms);
}

static void test_a_peer_may_say_anything(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5000; seed++) {
        hosts_t *hosts = hosts_create(3, 6, 2);
        hosts->dice = seed;
        for (uint32_t i = 0; i < LIES; i++) {
            if (i % 10 == 0 && i < 40)
                hosts_join(hosts, i / 10); /* of n0 and n1 */
            if (hosts->first && hosts_roll(hosts, 3) == 0)
                hosts_step(hosts, hosts_roll(hosts, hosts_choices(hosts)));
            say_anything(hosts, &hosts->hosts[hosts_roll(hosts, 2)]);
        }
        hosts_kill(hosts, 2, 0);
        hosts_run(hosts);
        assert_int_equal(count_in(hosts, RANK_WAITING), 0);
        gather_counts_t left = hosts_left(hosts);
        assert_int_equal(left.homes + left.locals, 0);
        hosts_destroy(hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_three_hosts_meet),
        cmocka_unit_test(test_ready_has_the_topologies_that_hosts_have_joined_with),
        cmocka_unit_test(test_a_home_may_have_no_ranks),
        cmocka_unit_test(test_one_host_alone_sends_and_keeps_nothing),
        cmocka_unit_test(test_an_id_without_a_home_is_for_one_host),
        cmocka_unit_test(test_ranks_that_come_together_join_together),
        cmocka_unit_test(test_who_disagrees_is_refused_and_harms_nobody),
        cmocka_unit_test(test_a_rank_that_is_there_already_is_refused),
        cmocka_unit_test(test_a_device_that_is_taken_is_refused),
        cmocka_unit_test(test_a_device_of_another_kind_is_refused),
        cmocka_unit_test(test_users_who_have_one_id_gather_apart),
        cmocka_unit_test(test_what_makes_no_sense_is_refused_where_it_is),
        cmocka_unit_test(test_an_id_of_a_daemon_that_has_ended_is_refused),
        cmocka_unit_test(test_a_timeout_names_missing_ranks_and_who_is_there),
        cmocka_unit_test(test_a_timeout_names_a_rank_that_asked_for_another_size),
        cmocka_unit_test(test_a_timeout_names_ranks_that_have_another_id),
        cmocka_unit_test(test_ranks_may_have_less_time),
        cmocka_unit_test(test_a_home_that_says_nothing_is_waited_for_a_second_longer),
        cmocka_unit_test(test_a_host_that_never_begins_fails_all),
        cmocka_unit_test(test_an_id_that_has_failed_is_refused_at_once),
        cmocka_unit_test(test_a_host_that_is_lost_after_all_have_begun_is_named_with_its_ranks),
        cmocka_unit_test(test_the_last_rank_does_not_complete_what_a_lost_host_takes_part_in),
        cmocka_unit_test(test_a_host_that_cannot_begin_fails_all),
        cmocka_unit_test(test_ranks_whose_join_cannot_be_sent_hear_so),
        cmocka_unit_test(test_who_waits_for_what_cannot_be_sent_hears_of_a_loss),
        cmocka_unit_test(test_a_loss_after_all_have_begun_reaches_every_host),
        cmocka_unit_test(test_a_loss_passes_through_hosts_that_have_ended),
        cmocka_unit_test(test_a_host_that_has_ended_its_part_loses_nothing_of_the_others),
        cmocka_unit_test(test_ranks_meet_in_every_order),
        cmocka_unit_test(test_a_host_may_die_at_any_moment),
        cmocka_unit_test(test_a_rank_may_leave_at_any_moment),
        cmocka_unit_test(test_1024_hosts_meet_with_few_messages),
        cmocka_unit_test(test_whatever_happens_nobody_waits_for_ever),
        cmocka_unit_test(test_a_peer_may_say_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
