/* Joins that are begun, waited for and given up, against a fake daemon that answers none by itself. */
#include "fake_daemon.h"

#include <limits.h>

static const blink_unique_id_t ID = {{1}};

typedef struct scene {
    fake_t fake;
    blink_context_t *context;
    blink_comm_t *comm; /* of two ranks, of which this one, 1, begins to join */
    blink_op_t *op;
} scene_t;

static void finish(scene_t *scene)
{
    blink_close(scene->context);
    fake_stop(&scene->fake);
}

static void begin_to_join(scene_t *scene)
{
    scene->fake.holds_joins = true;
    scene->context = open_context(&scene->fake);
    assert_int_equal(blink_comm_init_begin(scene->context, &ID, 2, 1, NULL, &scene->comm), BLINK_OK);
}

static void test_calls_are_refused_until_all_ranks_have_joined(void **state)
{
    (void)state;
    const blink_result_t invalid = BLINK_ERR_INVALID_ARGUMENT;
    const size_t counts[2] = {1, 1}, offsets[2] = {0, 1};
    float value[2] = {0};
    scene_t s = {0};
    begin_to_join(&s);
    bool ready = true;
    int number;
    blink_comm_t *other;
    blink_redop_t redop;
    blink_result_t state_of_it;
    assert_int_equal(blink_comm_init_wait(s.comm, 0, &ready), BLINK_OK);
    assert_false(ready);
    assert_int_equal(blink_comm_init_wait(s.comm, 1, &ready), BLINK_OK);
    assert_false(ready);
    assert_int_equal(blink_comm_rank(s.comm, &number), BLINK_OK);
    assert_int_equal(number, 1);
    assert_int_equal(blink_comm_size(s.comm, &number), BLINK_OK);
    assert_int_equal(number, 2);
    assert_int_equal(blink_comm_async_error(s.comm, &state_of_it), BLINK_OK);
    assert_int_equal(state_of_it, BLINK_OK);

    assert_fails(invalid, "blink_barrier: rank 1 is still joining", blink_barrier(s.comm, &s.op));
    assert_fails(invalid, "blink_all_reduce: rank 1 is still",
                 blink_all_reduce_on(value, value, 1, BLINK_FLOAT32, BLINK_SUM, s.comm, NULL));
    assert_fails(invalid, "blink_all_gather_v: rank 1 is still",
                 blink_all_gather_v(value, 1, value, counts, offsets, BLINK_FLOAT32, s.comm, &s.op));
    assert_fails(invalid, "blink_comm_split: rank 1 is still", blink_comm_split(s.comm, 0, 0, NULL, &other));
    assert_fails(invalid, "rank 1 is still", blink_comm_duplicate(s.comm, &other));
    assert_fails(invalid, "blink_comm_shrink: rank 1 is still", blink_comm_shrink(s.comm, NULL, &other));
    assert_fails(invalid, "blink_comm_device: rank 1 is still", blink_comm_device(s.comm, &number));
    assert_fails(invalid, "blink_comm_finalize: rank 1 is still", blink_comm_finalize(s.comm));
    assert_fails(invalid, "blink_comm_set_timeout: rank 1 is still", blink_comm_set_timeout(s.comm, 1));
    assert_fails(invalid, "blink_redop_create_pre_mul_sum: rank 1 is still",
                 blink_redop_create_pre_mul_sum(s.comm, value, BLINK_FLOAT32, &redop));
    assert_fails(invalid, "blink_redop_destroy: rank 1 is still", blink_redop_destroy(s.comm, BLINK_SUM));
    assert_fails(invalid, "comm is NULL", blink_comm_init_wait(NULL, 0, &ready));
    assert_fails(invalid, "ready is NULL", blink_comm_init_wait(s.comm, 0, NULL));
    finish(&s); /* with a join that has not ended */
}

static void test_a_join_that_is_aborted_fails_from_then_on(void **state)
{
    (void)state;
    scene_t s = {0};
    begin_to_join(&s);
    bool ready = true;
    blink_result_t state_of_it;
    assert_int_equal(blink_comm_abort(s.comm), BLINK_OK);
    for (unsigned int i = 0; i < 2; i++) {
        assert_fails(BLINK_ERR_ABORTED, "rank 0 gave up", blink_comm_init_wait(s.comm, UINT_MAX, &ready));
        assert_false(ready);
    }
    assert_int_equal(blink_comm_async_error(s.comm, &state_of_it), BLINK_OK);
    assert_int_equal(state_of_it, BLINK_ERR_ABORTED);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "rank 1 has failed to join", blink_barrier(s.comm, &s.op));
    assert_int_equal(blink_comm_abort(s.comm), BLINK_OK);
    assert_int_equal(blink_comm_destroy(s.comm), BLINK_OK);
    assert_false(atomic_load(&s.fake.aborted));
    finish(&s);
}

static void test_a_join_that_is_given_up_too_late_is_an_abort(void **state)
{
    (void)state;
    scene_t s = {.fake = {.joins_at_last = true}};
    begin_to_join(&s);
    assert_int_equal(blink_comm_destroy(s.comm), BLINK_OK);
    assert_true(atomic_load(&s.fake.aborted));
    finish(&s);
}

static void test_a_join_ends_with_the_daemon(void **state)
{
    (void)state;
    scene_t s = {0};
    begin_to_join(&s);
    blink_comm_t *other;
    bool ready;
    assert_int_equal(blink_comm_init_begin(s.context, &ID, 2, 0, NULL, &other), BLINK_OK);
    fake_stop(&s.fake);
    assert_int_equal(blink_comm_init_wait(s.comm, UINT_MAX, &ready), BLINK_ERR_DAEMON_LOST);
    assert_int_equal(blink_comm_destroy(s.comm), BLINK_OK);
    assert_int_equal(blink_comm_destroy(other), BLINK_ERR_DAEMON_LOST);
    blink_close(s.context);
}

static void test_a_join_that_waits_is_ready(void **state)
{
    (void)state;
    scene_t s = {0};
    s.context = open_context(&s.fake);
    bool ready = false;
    assert_int_equal(blink_comm_init_wait(join(s.context, 2, 1), 0, &ready), BLINK_OK);
    assert_true(ready);
    finish(&s);
}

/* ---- threads ---- */

static void *await_ready(void *argument)
{
    bool ready;
    blink_result_t result = blink_comm_init_wait(argument, UINT_MAX, &ready);
    return (void *)(uintptr_t)result;
}

static void test_threads_that_wait_all_hear_of_an_abort(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    scene_t s = {0};
    begin_to_join(&s);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, await_ready, s.comm), 0);
    assert_int_equal(blink_comm_abort(s.comm), BLINK_OK);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_int_equal((uintptr_t)result, BLINK_ERR_ABORTED);
    }
    assert_int_equal(blink_comm_destroy(s.comm), BLINK_OK);
    finish(&s);
}

static void *give_up(void *argument)
{
    return (void *)(uintptr_t)blink_comm_abort(argument);
}

static void test_a_handle_lives_until_who_gave_up_has_returned(void **state)
{
    (void)state;
    scene_t s = {.fake = {.pause_us = 50000}};
    begin_to_join(&s);
    pthread_t thread;
    void *result;
    bool ready;
    assert_int_equal(pthread_create(&thread, NULL, give_up, s.comm), 0);
    assert_int_equal(blink_comm_init_wait(s.comm, UINT_MAX, &ready), BLINK_ERR_ABORTED);
    assert_int_equal(blink_comm_destroy(s.comm), BLINK_OK);
    assert_true(atomic_load(&s.fake.given_up));
    pthread_join(thread, &result);
    assert_int_equal((uintptr_t)result, BLINK_OK);
    finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_refused_until_all_ranks_have_joined),
        cmocka_unit_test(test_a_join_that_is_aborted_fails_from_then_on),
        cmocka_unit_test(test_a_join_that_is_given_up_too_late_is_an_abort),
        cmocka_unit_test(test_a_join_ends_with_the_daemon),
        cmocka_unit_test(test_a_join_that_waits_is_ready),
        cmocka_unit_test(test_threads_that_wait_all_hear_of_an_abort),
        cmocka_unit_test(test_a_handle_lives_until_who_gave_up_has_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
