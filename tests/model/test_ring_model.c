/*
 * That nobody sleeps for ever over a ring: the code of ring.c under every interleaving of both sides, and
 * that the search finds the miss when any part of the protocol is taken away or made weaker.
 */
#include "explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What the protocol is robbed of in this exploration. */
static struct mutation {
    const char *dropped;                 /* stores to this word are not made */
    const char *weakened;                /* stores to this word do not come before the loads that follow */
    bool no_client_look, no_engine_look; /* the second look before sleeping */
} mutation;

static bool is_word(const char *name, const char *word)
{
    return word && strstr(name, word);
}

static memory_order order_of(const char *name, memory_order order)
{
    return is_word(name, mutation.weakened) ? memory_order_release : order;
}

static void model_store(const char *name, void *word, size_t bytes, uint64_t value, memory_order order)
{
    if (!is_word(name, mutation.dropped))
        explore_store(name, word, bytes, value, order_of(name, order));
}

static uint64_t model_add(const char *name, void *word, size_t bytes, uint64_t value, memory_order order)
{
    return is_word(name, mutation.dropped) ? 0 : explore_add(name, word, bytes, value, order_of(name, order));
}

/* ---- ring.c, whose atomic operations and system calls are steps of the model ---- */

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#define atomic_load_explicit(object, order)                                                                  \
    ((__typeof__(*(object) + 0))explore_load(#object, (const void *)(object), sizeof(*(object)), order))
#define atomic_store_explicit(object, value, order)                                                          \
    model_store(#object, (void *)(object), sizeof(*(object)), value, order)
#define atomic_fetch_add_explicit(object, value, order)                                                      \
    model_add(#object, (void *)(object), sizeof(*(object)), value, order)
#define atomic_fetch_sub_explicit(object, value, order)                                                      \
    model_add(#object, (void *)(object), sizeof(*(object)), -(uint64_t)(value), order)
#define syscall(number, ...) model_futex(__VA_ARGS__)

static void model_futex(const void *word, int operation, uint32_t value, ...);

/* NOLINTNEXTLINE(bugprone-suspicious-include): with the definitions above */
#include "ring.c"

static void model_futex(const void *word, int operation, uint32_t value, ...)
{
    if (operation == FUTEX_WAIT)
        explore_futex_wait(word, value);
    else
        explore_futex_wake(word);
}

/* ---- both sides, as engine.c and wait.c use a ring ---- */

#define ENTRIES 2u

typedef struct model {
    ring_header_t header;
    ring_sqe_t sqes[ENTRIES];
    ring_cqe_t cqes[ENTRIES];
    ring_t engine, client;
    uint32_t doorbell, event; /* descriptors: not 0 once written, until somebody has been woken by it */
    uint32_t reap_lock;
    bool over[2];                  /* by user_data; under reap_lock */
    uint32_t ops;                  /* that there will be */
    _Atomic uint64_t filled, done; /* of a staged op's window */
} model_t;

static void lock(uint32_t *word)
{
    explore_await("locks", word, false, 1);
}

static void unlock(uint32_t *word)
{
    explore_store("the lock", word, sizeof(*word), 0, memory_order_seq_cst);
}

static void raise_event(uint32_t *word)
{
    explore_store("an event", word, sizeof(*word), 1, memory_order_seq_cst);
}

static void submit(model_t *model, uint64_t user_data)
{
    ring_submit(&model->client, &(ring_sqe_t){.opcode = RING_OP_NOP, .user_data = user_data});
    if (ring_needs_doorbell(&model->client))
        raise_event(&model->doorbell);
}

/* Whoever comes first reaps for all. Whether the thread's own op is over. */
static bool reap_all(model_t *model, uint64_t user_data)
{
    ring_cqe_t cqe;
    lock(&model->reap_lock);
    while (ring_reap(&model->client, &cqe))
        model->over[cqe.user_data] = true;
    bool over = model->over[user_data];
    unlock(&model->reap_lock);
    return over;
}

static void wait_for(model_t *model, uint64_t user_data)
{
    explore_forget(user_data);
    while (!reap_all(model, user_data)) {
        uint32_t sequence = ring_sleep_begin(&model->client);
        explore_forget(100 + 10 * sequence + user_data);
        if (mutation.no_client_look || !reap_all(model, user_data))
            ring_sleep(&model->client, sequence, 0);
        ring_sleep_end(&model->client);
        explore_forget(user_data);
    }
}

static void client_of_two_ops(void *shared)
{
    for (uint64_t i = 0; i < 2; i++) {
        submit(shared, i);
        wait_for(shared, i);
    }
}

static void client_of_two_ops_at_once(void *shared)
{
    submit(shared, 0);
    submit(shared, 1);
    wait_for(shared, 0);
}

static void waiter_for_the_second_op(void *shared)
{
    wait_for(shared, 1);
}

/* Waits for the completion event, as a program with an event loop does. */
static void client_that_polls(void *shared)
{
    model_t *model = shared;
    submit(model, 0);
    ring_want_event(&model->client);
    if (!mutation.no_client_look && reap_all(model, 0))
        return;
    do
        explore_await("has the event", &model->event, true, 0);
    while (!reap_all(model, 0));
}

static void engine_sleep(model_t *model, bool has_work)
{
    if (mutation.no_engine_look || !has_work)
        explore_await("has the doorbell", &model->doorbell, true, 0);
    ring_set_engine_sleeping(&model->engine, false);
}

static void engine_of_ops(void *shared)
{
    model_t *model = shared;
    ring_sqe_t sqe;
    uint32_t completed = 0;
    for (;;) {
        while (ring_take(&model->engine, &sqe)) {
            if (ring_complete(&model->engine, sqe.user_data, BLINK_OK, NULL))
                raise_event(&model->event);
            completed++;
        }
        if (completed == model->ops)
            return;
        ring_set_engine_sleeping(&model->engine, true);
        engine_sleep(model, ring_has_submission(&model->engine));
        explore_forget(completed);
    }
}

/* ---- a staged op's pieces: words of a window in the place of entries ---- */

static bool word_is_set(const char *name, const _Atomic uint64_t *word)
{
    return explore_load(name, (const void *)word, sizeof(*word), memory_order_seq_cst) != 0;
}

static void client_of_a_piece(void *shared)
{
    model_t *model = shared;
    atomic_store_explicit(&model->filled, 1, memory_order_seq_cst);
    if (ring_needs_doorbell(&model->client))
        raise_event(&model->doorbell);
    while (!word_is_set("done", &model->done)) {
        uint32_t sequence = ring_sleep_begin(&model->client);
        if (mutation.no_client_look || !word_is_set("done", &model->done))
            ring_sleep(&model->client, sequence, 0);
        ring_sleep_end(&model->client);
    }
}

static void engine_of_a_piece(void *shared)
{
    model_t *model = shared;
    while (!word_is_set("filled", &model->filled)) {
        ring_set_engine_sleeping(&model->engine, true);
        engine_sleep(model, word_is_set("filled", &model->filled));
    }
    atomic_store_explicit(&model->done, 1, memory_order_seq_cst);
    ring_notify(&model->engine);
}

/* ---- explorations ---- */

static model_t model;

static const scenario_t ONE_THREAD = {{client_of_two_ops, engine_of_ops}, &model, sizeof(model)};
static const scenario_t TWO_THREADS = {
    {client_of_two_ops_at_once, waiter_for_the_second_op, engine_of_ops}, &model, sizeof(model)};
static const scenario_t EVENT = {{client_that_polls, engine_of_ops}, &model, sizeof(model)};
static const scenario_t PIECE = {{client_of_a_piece, engine_of_a_piece}, &model, sizeof(model)};

static exploration_t explore_with(const scenario_t *scenario, uint32_t ops, struct mutation robbed)
{
    static exploration_t found;
    memset(&model, 0, sizeof(model));
    ring_t ring = {.header = &model.header,
                   .sqes = model.sqes,
                   .cqes = model.cqes,
                   .sq_entries = ENTRIES,
                   .cq_entries = ENTRIES};
    model.engine = model.client = ring;
    model.ops = ops;
    mutation = robbed;
    explore(scenario, &found);
    mutation = (struct mutation){0};
    return found;
}

static void assert_nobody_is_stuck(const scenario_t *scenario, uint32_t ops)
{
    exploration_t found = explore_with(scenario, ops, (struct mutation){0});
    print_message("%llu states, %llu runs\n", (unsigned long long)found.states,
                  (unsigned long long)found.runs);
    if (found.stuck)
        print_error("somebody sleeps for ever:\n%s", found.trace);
    assert_false(found.stuck);
    assert_true(found.states > 100); /* the threads have met */
}

static void test_one_thread_misses_no_wake_up(void **state)
{
    (void)state;
    assert_nobody_is_stuck(&ONE_THREAD, 2);
}

static void test_two_threads_of_a_client_miss_no_wake_up(void **state)
{
    (void)state;
    assert_nobody_is_stuck(&TWO_THREADS, 2);
}

static void test_the_completion_event_comes(void **state)
{
    (void)state;
    assert_nobody_is_stuck(&EVENT, 1);
}

static void test_pieces_of_a_staged_op_are_seen(void **state)
{
    (void)state;
    assert_nobody_is_stuck(&PIECE, 0);
}

/* ---- the search finds what it is for ---- */

static void assert_somebody_is_stuck(const scenario_t *scenario, uint32_t ops, struct mutation robbed)
{
    exploration_t found = explore_with(scenario, ops, robbed);
    assert_true(found.stuck);
    assert_true(strlen(found.trace) > 0);
}

static void test_without_second_look_a_wake_up_is_missed(void **state)
{
    (void)state;
    assert_somebody_is_stuck(&ONE_THREAD, 2, (struct mutation){.no_client_look = true});
    assert_somebody_is_stuck(&ONE_THREAD, 2, (struct mutation){.no_engine_look = true});
    assert_somebody_is_stuck(&EVENT, 1, (struct mutation){.no_client_look = true});
    assert_somebody_is_stuck(&PIECE, 0, (struct mutation){.no_client_look = true});
    assert_somebody_is_stuck(&PIECE, 0, (struct mutation){.no_engine_look = true});
}

static void test_without_announcement_a_wake_up_is_missed(void **state)
{
    (void)state;
    assert_somebody_is_stuck(&ONE_THREAD, 2, (struct mutation){.dropped = "client_sleepers"});
    assert_somebody_is_stuck(&ONE_THREAD, 2, (struct mutation){.dropped = "engine_sleeping"});
    assert_somebody_is_stuck(&EVENT, 1, (struct mutation){.dropped = "client_wants_event"});
}

static void test_without_futex_word_a_wake_up_is_missed(void **state)
{
    (void)state;
    assert_somebody_is_stuck(&ONE_THREAD, 2, (struct mutation){.dropped = "wake_sequence"});
    assert_somebody_is_stuck(&TWO_THREADS, 2, (struct mutation){.dropped = "wake_sequence"});
    assert_somebody_is_stuck(&PIECE, 0, (struct mutation){.dropped = "wake_sequence"});
}

static void test_weaker_publications_and_announcements_miss_wake_ups(void **state)
{
    (void)state;
    static const char *const words[] = {"sq_tail", "cq_tail", "engine_sleeping", "client_sleepers"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_somebody_is_stuck(&ONE_THREAD, 2, (struct mutation){.weakened = words[i]});
    assert_somebody_is_stuck(&EVENT, 1, (struct mutation){.weakened = "client_wants_event"});
    assert_somebody_is_stuck(&PIECE, 0, (struct mutation){.weakened = "filled"});
    assert_somebody_is_stuck(&PIECE, 0, (struct mutation){.weakened = "done"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_misses_no_wake_up),
        cmocka_unit_test(test_two_threads_of_a_client_miss_no_wake_up),
        cmocka_unit_test(test_the_completion_event_comes),
        cmocka_unit_test(test_pieces_of_a_staged_op_are_seen),
        cmocka_unit_test(test_without_second_look_a_wake_up_is_missed),
        cmocka_unit_test(test_without_announcement_a_wake_up_is_missed),
        cmocka_unit_test(test_without_futex_word_a_wake_up_is_missed),
        cmocka_unit_test(test_weaker_publications_and_announcements_miss_wake_ups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
