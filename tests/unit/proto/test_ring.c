/* The shared-memory ring: order, limits, wraparound, hostile indices, and that no wake-up is missed. Both
 * sides use one mapping here, so that a thread sanitizer can see them meet. */
#include "limit.h"
#include "ring.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define STRESS_OPS       200000u
#define STRESS_WINDOW    8u
#define TURNS_MAX_LOG2   14u
#define SLEEP_FOREVER_US 1000000000u

typedef struct pair {
    ring_t engine, client;
    int memfd;
} pair_t;

static void pair_open(pair_t *pair, uint32_t sq_entries, uint32_t cq_entries)
{
    assert_int_equal(ring_create(sq_entries, cq_entries, &pair->engine, &pair->memfd), BLINK_OK);
    pair->client = pair->engine;
}

static void pair_close(pair_t *pair)
{
    ring_unmap(&pair->engine);
    close(pair->memfd);
}

static bool submit(pair_t *pair, uint64_t user_data)
{
    return ring_submit(&pair->client, &(ring_sqe_t){.opcode = RING_OP_NOP, .user_data = user_data});
}

static void test_entries_come_out_in_order(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 8, 8);
    ring_sqe_t sqe;
    ring_cqe_t cqe;
    assert_false(ring_take(&pair.engine, &sqe));
    for (uint64_t i = 0; i < 8; i++)
        assert_true(submit(&pair, i));
    for (uint64_t i = 0; i < 8; i++) {
        assert_true(ring_take(&pair.engine, &sqe));
        assert_int_equal(sqe.user_data, i);
        assert_false(ring_complete(&pair.engine, 100 + i, BLINK_OK, NULL));
    }
    for (uint64_t i = 0; i < 8; i++) {
        assert_true(ring_has_completion(&pair.client));
        assert_true(ring_reap(&pair.client, &cqe));
        assert_int_equal(cqe.user_data, 100 + i);
    }
    assert_false(ring_reap(&pair.client, &cqe));
    pair_close(&pair);
}

static void test_full_sq_refuses_until_taken(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 8, 16);
    ring_sqe_t sqe;
    for (uint64_t i = 0; i < 8; i++)
        assert_true(submit(&pair, i));
    assert_false(submit(&pair, 8));
    assert_true(ring_take(&pair.engine, &sqe));
    assert_true(submit(&pair, 8));
    assert_false(submit(&pair, 9));
    pair_close(&pair);
}

static void test_full_cq_stalls_only_taking(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 16, 8);
    ring_sqe_t sqe;
    ring_cqe_t cqe;
    for (uint64_t i = 0; i < 10; i++)
        assert_true(submit(&pair, i));
    for (uint64_t i = 0; i < 8; i++)
        assert_true(ring_take(&pair.engine, &sqe));
    assert_false(ring_take(&pair.engine, &sqe)); /* a slot is reserved for each of the eight */
    for (uint64_t i = 0; i < 8; i++)
        ring_complete(&pair.engine, i, BLINK_OK, NULL);
    assert_false(ring_take(&pair.engine, &sqe)); /* and they are unread */
    assert_false(ring_has_submission(&pair.engine));
    assert_true(ring_reap(&pair.client, &cqe));
    assert_true(ring_has_submission(&pair.engine));
    assert_true(ring_take(&pair.engine, &sqe));
    assert_int_equal(sqe.user_data, 8);
    assert_false(ring_take(&pair.engine, &sqe));
    pair_close(&pair);
}

static void test_a_lying_client_gets_no_more_slots_than_there_are(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 8, 8);
    ring_sqe_t sqe;
    uint32_t taken = 0;
    for (uint32_t claim = 0; claim < 64; claim++) {
        submit(&pair, claim);
        atomic_store(&pair.engine.header->cq_head, claim); /* "read" what was never published */
        taken += ring_take(&pair.engine, &sqe);
    }
    assert_in_range(taken, 1, 8);
    pair_close(&pair);
}

static void test_indices_wrap_at_32_bits(void **state)
{
    (void)state;
    const uint32_t start = UINT32_MAX - 20;
    pair_t pair;
    pair_open(&pair, 8, 8);
    ring_header_t *header = pair.engine.header;
    atomic_store(&header->sq_tail, start);
    atomic_store(&header->sq_head, start);
    atomic_store(&header->cq_tail, start);
    atomic_store(&header->cq_head, start);
    pair.engine.sq_index = pair.engine.cq_index = pair.client.sq_index = pair.client.cq_index = start;
    ring_sqe_t sqe;
    ring_cqe_t cqe;
    for (uint64_t i = 0; i < 100; i += 5) {
        for (uint64_t j = i; j < i + 5; j++)
            assert_true(submit(&pair, j));
        for (uint64_t j = i; j < i + 5; j++) {
            assert_true(ring_take(&pair.engine, &sqe));
            ring_complete(&pair.engine, sqe.user_data, BLINK_OK, NULL);
        }
        for (uint64_t j = i; j < i + 5; j++) {
            assert_true(ring_reap(&pair.client, &cqe));
            assert_int_equal(cqe.user_data, j);
        }
    }
    assert_true(pair.client.sq_index < start);
    pair_close(&pair);
}

static void test_pings_are_answered_once_the_engine_turns(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 8, 8);
    assert_true(ring_ping_is_answered(&pair.client));
    for (int i = 0; i < 3; i++) {
        ring_ping(&pair.client);
        assert_false(ring_ping_is_answered(&pair.client));
        ring_answer_ping(&pair.engine);
        assert_true(ring_ping_is_answered(&pair.client));
    }
    pair_close(&pair);
}

static void test_completions_carry_a_sentence(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 8, 8);
    ring_sqe_t sqe;
    ring_cqe_t cqe;
    char longest[2 * BLINK_ERROR_TEXT_BYTES];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    const char *texts[] = {"rank 3 went away", longest, NULL};
    for (uint64_t i = 0; i < 3; i++) {
        submit(&pair, i);
        assert_true(ring_take(&pair.engine, &sqe));
        ring_complete(&pair.engine, i, BLINK_ERR_PEER_LOST, texts[i]);
        assert_true(ring_reap(&pair.client, &cqe));
        assert_int_equal(cqe.result, BLINK_ERR_PEER_LOST);
        size_t expected = texts[i] ? strnlen(texts[i], BLINK_ERROR_TEXT_BYTES - 1) : 0;
        assert_int_equal(strlen(cqe.text), expected);
        assert_memory_equal(cqe.text, texts[i] ? texts[i] : "", expected);
    }
    pair_close(&pair);
}

static void test_attached_ring_works(void **state)
{
    (void)state;
    pair_t pair;
    pair_open(&pair, 8, 16);
    assert_int_equal(ring_attach(pair.memfd, &pair.client), BLINK_OK);
    ring_sqe_t sqe;
    assert_int_equal(pair.client.cq_entries, 16);
    assert_true(submit(&pair, 42));
    assert_true(ring_take(&pair.engine, &sqe));
    assert_int_equal(sqe.user_data, 42);
    ring_unmap(&pair.client);
    pair_close(&pair);
}

static int make_memfd(const ring_header_t *header, size_t bytes, int seals)
{
    int fd = memfd_create("test-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    size_t written = bytes < sizeof(*header) ? bytes : sizeof(*header);
    assert_int_equal(pwrite(fd, header, written, 0), written);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void assert_refused(const ring_header_t *header, size_t bytes, int seals, const char *sentence)
{
    ring_t ring;
    int fd = make_memfd(header, bytes, seals);
    assert_int_equal(ring_attach(fd, &ring), BLINK_ERR_PROTOCOL);
    if (!strstr(blink_error_text(), sentence))
        fail_msg("\"%s\" does not say \"%s\"", blink_error_text(), sentence);
    close(fd);
}

static void test_attach_refuses_what_is_no_ring(void **state)
{
    (void)state;
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    pair_t pair;
    pair_open(&pair, 8, 8);
    ring_header_t good = *pair.engine.header;
    size_t bytes = pair.engine.bytes;
    pair_close(&pair);

    assert_refused(&good, bytes, F_SEAL_SHRINK, "not a sealed memfd");
    assert_refused(&good, bytes - 1, sealed, "sizes");
    assert_refused(&good, 16, sealed, "no header");
    ring_header_t other = good;
    other.version = RING_VERSION + 1;
    assert_refused(&other, bytes, sealed, "ring version 5, this library speaks 4");
    other = good;
    other.magic++;
    assert_refused(&other, bytes, sealed, "no header");
    other = good;
    other.sq_entries = 9;
    assert_refused(&other, bytes, sealed, "sizes");
}

/* ---- both sides really sleep ---- */

typedef struct stress {
    pair_t pair;
    int doorbell_fd;
    pthread_mutex_t submit_lock, reap_lock;
    uint32_t thread_count;
    uint32_t next_thread;     /* under submit_lock */
    _Atomic uint32_t done[2]; /* completions reaped, by submitting thread */
    _Atomic uint32_t sleeps;
    uint32_t engine_sleeps;
} stress_t;

static uint32_t random_below(uint32_t *seed, uint32_t limit)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * limit) >> 32);
}

/* From nothing to tens of microseconds, each order of magnitude as often, so that every phase of one side's
 * falling asleep meets every phase of the other's publishing. */
static uint32_t random_turns(uint32_t *seed)
{
    return random_below(seed, 1u << random_below(seed, TURNS_MAX_LOG2));
}

static void dawdle(uint32_t *seed)
{
    for (volatile uint32_t turns = random_turns(seed); turns > 0;)
        turns = turns - 1;
}

static void *engine_main(void *argument)
{
    stress_t *stress = argument;
    ring_t *ring = &stress->pair.engine;
    ring_sqe_t sqe;
    uint32_t seed = 1, served = 0;
    while (served < STRESS_OPS) {
        uint32_t patience = random_turns(&seed);
        while (ring_take(ring, &sqe) || patience-- > 0) {
            if (ring->cq_reserved == 0)
                continue;
            dawdle(&seed);
            ring_complete(ring, sqe.user_data, BLINK_OK, NULL);
            served++;
        }
        if (served == STRESS_OPS)
            break;
        ring_set_engine_sleeping(ring, true);
        if (!ring_has_submission(ring)) {
            uint64_t count;
            stress->engine_sleeps++;
            if (read(stress->doorbell_fd, &count, sizeof(count)) < 0) /* blocks until the doorbell rings */
                abort();
        }
        ring_set_engine_sleeping(ring, false);
    }
    return NULL;
}

static void reap_all(stress_t *stress)
{
    ring_cqe_t cqe;
    pthread_mutex_lock(&stress->reap_lock);
    while (ring_has_completion(&stress->pair.client) && ring_reap(&stress->pair.client, &cqe)) {
        /* Release: pairs with the acquire load in client_wait(). */
        atomic_fetch_add_explicit(&stress->done[cqe.user_data], 1, memory_order_release);
    }
    pthread_mutex_unlock(&stress->reap_lock);
}

static void client_wait(stress_t *stress, uint32_t self, uint32_t wanted, uint32_t patience)
{
    ring_t *ring = &stress->pair.client;
    while (atomic_load_explicit(&stress->done[self], memory_order_acquire) != wanted) {
        reap_all(stress);
        if (patience-- > 0)
            continue;
        patience = 0;
        uint32_t sequence = ring_sleep_begin(ring);
        reap_all(stress);
        if (atomic_load_explicit(&stress->done[self], memory_order_acquire) != wanted) {
            atomic_fetch_add_explicit(&stress->sleeps, 1, memory_order_relaxed);
            ring_sleep(ring, sequence, SLEEP_FOREVER_US);
        }
        ring_sleep_end(ring);
    }
}

static void *client_main(void *argument)
{
    stress_t *stress = argument;
    pthread_mutex_lock(&stress->submit_lock);
    uint32_t self = stress->next_thread++;
    pthread_mutex_unlock(&stress->submit_lock);
    uint32_t seed = 7 + self, sent = 0, share = STRESS_OPS / stress->thread_count;
    while (sent < share) {
        uint32_t window = 1 + random_below(&seed, STRESS_WINDOW);
        for (uint32_t i = 0; i < window && sent < share; i++, sent++) {
            uint64_t one = 1;
            pthread_mutex_lock(&stress->submit_lock);
            bool submitted = submit(&stress->pair, self);
            bool ring_bell = ring_needs_doorbell(&stress->pair.client);
            pthread_mutex_unlock(&stress->submit_lock);
            if (!submitted || (ring_bell && write(stress->doorbell_fd, &one, sizeof(one)) < 0))
                abort();
        }
        client_wait(stress, self, sent, random_turns(&seed));
        dawdle(&seed);
    }
    return NULL;
}

/* A missed wake-up leaves a thread asleep for good: then the alarm ends the program. */
static void run_stress(uint32_t thread_count)
{
    stress_t stress = {.thread_count = thread_count,
                       .submit_lock = PTHREAD_MUTEX_INITIALIZER,
                       .reap_lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t engine, clients[2];
    pair_open(&stress.pair, 16, 16);
    stress.doorbell_fd = eventfd(0, EFD_CLOEXEC);
    alarm(2 * limit_s());
    assert_int_equal(pthread_create(&engine, NULL, engine_main, &stress), 0);
    for (uint32_t i = 0; i < thread_count; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, client_main, &stress), 0);
    for (uint32_t i = 0; i < thread_count; i++)
        pthread_join(clients[i], NULL);
    pthread_join(engine, NULL);
    alarm(0);
    assert_int_equal(stress.done[0] + stress.done[1], STRESS_OPS);
    print_message("engine slept %u times, clients %u times\n", stress.engine_sleeps, stress.sleeps);
    assert_true(stress.engine_sleeps > 100);
    assert_true(stress.sleeps > 100);
    close(stress.doorbell_fd);
    pair_close(&stress.pair);
}

static void test_no_wakeup_is_missed(void **state)
{
    (void)state;
    run_stress(1);
}

static void test_no_wakeup_is_missed_by_two_client_threads(void **state)
{
    (void)state;
    run_stress(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_come_out_in_order),
        cmocka_unit_test(test_full_sq_refuses_until_taken),
        cmocka_unit_test(test_full_cq_stalls_only_taking),
        cmocka_unit_test(test_a_lying_client_gets_no_more_slots_than_there_are),
        cmocka_unit_test(test_indices_wrap_at_32_bits),
        cmocka_unit_test(test_pings_are_answered_once_the_engine_turns),
        cmocka_unit_test(test_completions_carry_a_sentence),
        cmocka_unit_test(test_attached_ring_works),
        cmocka_unit_test(test_attach_refuses_what_is_no_ring),
        cmocka_unit_test(test_no_wakeup_is_missed),
        cmocka_unit_test(test_no_wakeup_is_missed_by_two_client_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
