/* The run queue: times first, then turns of tenants by weight and of each tenant's communicators. Nothing
 * runs: the tests count the bytes that are charged. */
#include "exec/host/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MANY        64u
#define TOTAL_BYTES (1u << 30)

/* A tenant with communicators that each have tasks in the queue all the time. */
typedef struct user {
    exec_tenant_t tenant;
    exec_share_t shares[MANY];
    exec_task_t tasks[MANY];
    uint32_t communicators;
    uint64_t task_bytes;
    uint64_t done_bytes[MANY];
} user_t;

static uint64_t run_nothing(exec_task_t *task)
{
    (void)task;
    return 0;
}

static user_t *make_user(uint32_t weight, uint32_t communicators, uint64_t task_bytes)
{
    user_t *user = calloc(1, sizeof(*user));
    assert_non_null(user);
    user->communicators = communicators;
    user->task_bytes = task_bytes;
    fair_share_init(&user->tenant.turn, weight, WORK_QUANTUM_BYTES);
    fair_round_init(&user->tenant.shares, WORK_QUANTUM_BYTES);
    for (uint32_t i = 0; i < communicators; i++) {
        user->shares[i].tenant = &user->tenant;
        fair_share_init(&user->shares[i].turn, 1, WORK_QUANTUM_BYTES);
        list_init(&user->shares[i].due);
        task_init(&user->tasks[i], run_nothing, NULL);
        user->tasks[i].share = &user->shares[i];
    }
    return user;
}

static void push_all(exec_queue_t *queue, user_t *user)
{
    for (uint32_t i = 0; i < user->communicators; i++)
        queue_push(queue, &user->tasks[i], 0);
}

/* Pop a task, charge it. Returns whose it was. */
static user_t *run_one(exec_queue_t *queue, exec_task_t **task)
{
    *task = queue_pop(queue);
    user_t *user = CONTAINER_OF((*task)->share->tenant, user_t, tenant);
    queue_charge(queue, (*task)->share, user->task_bytes);
    user->done_bytes[*task - user->tasks] += user->task_bytes;
    return user;
}

static uint64_t done_bytes(const user_t *user)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < user->communicators; i++)
        bytes += user->done_bytes[i];
    return bytes;
}

static void assert_ratio(uint64_t a, uint64_t b, double ratio)
{
    double got = (double)a / (double)b;
    if (got < 0.95 * ratio || got > 1.05 * ratio)
        fail_msg("a ratio of %g instead of %g", got, ratio);
}

static void test_tasks_come_out_in_the_order_of_their_times(void **state)
{
    (void)state;
    exec_queue_t queue;
    user_t *user = make_user(1, MANY, 0);
    queue_init(&queue);
    assert_int_equal(queue_reserve(&queue, MANY), BLINK_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        user->tasks[i].share = &user->shares[0];
        queue_push(&queue, &user->tasks[i], 1 + i * 37 % 16);
    }
    for (uint32_t i = 0; i < MANY; i += 3)
        queue_remove(&queue, &user->tasks[i]);
    queue_hurry(&queue, &user->tasks[61]);
    assert_ptr_equal(queue_pop(&queue), &user->tasks[61]);
    uint64_t last_ns = 0, last_arrival = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 3 == 0 || i == 61)
            continue;
        queue_ripen(&queue, queue_next_ns(&queue));
        const exec_task_t *task = queue_pop(&queue);
        assert_int_not_equal((task - user->tasks) % 3, 0);
        assert_true(task->ready_ns > last_ns || (task->ready_ns == last_ns && task->arrival >= last_arrival));
        last_ns = task->ready_ns;
        last_arrival = task->arrival;
    }
    assert_int_equal(queue_next_ns(&queue), UINT64_MAX);
    queue_fini(&queue);
    free(user);
}

static void check_shares(user_t *first, user_t *second, double ratio)
{
    exec_queue_t queue;
    exec_task_t *task;
    queue_init(&queue);
    push_all(&queue, first);
    push_all(&queue, second);
    while (done_bytes(first) + done_bytes(second) < TOTAL_BYTES) {
        run_one(&queue, &task);
        queue_push(&queue, task, 0);
    }
    assert_ratio(done_bytes(first), done_bytes(second), ratio);
    for (uint32_t i = 1; i < first->communicators; i++)
        assert_ratio(first->done_bytes[i], first->done_bytes[0], 1);
    free(first);
    free(second);
}

static void test_tenants_work_by_their_weights_however_many_communicators_they_have(void **state)
{
    (void)state;
    check_shares(make_user(1, 1, 1 << 20), make_user(1, MANY, 1 << 20), 1);
    check_shares(make_user(3, 1, 4 << 20), make_user(1, MANY, 64 << 10), 3);
    check_shares(make_user(3, 8, 100000), make_user(1, 1, 4 << 20), 3);
}

/* A tenant that has had nothing to do stands first when a small task comes. */
static void test_a_small_task_waits_for_no_large_one_that_is_queued(void **state)
{
    (void)state;
    exec_queue_t queue;
    exec_task_t *task;
    user_t *hog = make_user(1, MANY, 4 << 20), *small = make_user(1, 1, 8);
    queue_init(&queue);
    push_all(&queue, hog);
    for (uint32_t i = 0; i < 100; i++) {
        for (uint32_t j = 0; j < 20; j++) {
            run_one(&queue, &task);
            queue_push(&queue, task, 0);
        }
        push_all(&queue, small);
        uint32_t waited = 0;
        while (run_one(&queue, &task) != small) {
            queue_push(&queue, task, 0);
            waited++;
        }
        assert_true(waited <= 1);
    }
    free(hog);
    free(small);
}

/* Nor does it gain by coming and going: what it has had it has had. */
static void test_coming_and_going_gains_nothing(void **state)
{
    (void)state;
    exec_queue_t queue;
    exec_task_t *task;
    user_t *steady = make_user(1, 1, 1 << 20), *fickle = make_user(1, 1, 1 << 20);
    queue_init(&queue);
    push_all(&queue, steady);
    push_all(&queue, fickle);
    while (done_bytes(steady) + done_bytes(fickle) < TOTAL_BYTES) {
        user_t *user = run_one(&queue, &task);
        if (user == steady)
            queue_push(&queue, task, 0);
        if (!task_is_queued(&fickle->tasks[0]))
            queue_push(&queue, &fickle->tasks[0], 0); /* after it has been gone */
    }
    assert_ratio(done_bytes(steady), done_bytes(fickle), 1);
    free(steady);
    free(fickle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_come_out_in_the_order_of_their_times),
        cmocka_unit_test(test_tenants_work_by_their_weights_however_many_communicators_they_have),
        cmocka_unit_test(test_a_small_task_waits_for_no_large_one_that_is_queued),
        cmocka_unit_test(test_coming_and_going_gains_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
