/*
 * In what order plans are made: tenants in rotation, of each one at a time, and none that nobody waits for.
 * The making itself stands still here until the test lets it go on.
 */
#include "engine/plans/make.h"
#include "limit.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROGRAMS = 8 };

/* What the planner's threads have begun. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const cached_program_t *begun[64];
    uint32_t begun_count, allowed;
} making = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Instead of make.c's: returns when the test allows one more to end. */
void plan_make(cached_program_t *cached)
{
    pthread_mutex_lock(&making.mutex);
    making.begun[making.begun_count++] = cached;
    pthread_cond_broadcast(&making.changed);
    while (making.allowed == 0)
        pthread_cond_wait(&making.changed, &making.mutex);
    making.allowed--;
    pthread_mutex_unlock(&making.mutex);
}

/* Wait until so many have been begun in all. */
static void await_begun(uint32_t count)
{
    pthread_mutex_lock(&making.mutex);
    while (making.begun_count < count)
        pthread_cond_wait(&making.changed, &making.mutex);
    assert_int_equal(making.begun_count, count);
    pthread_mutex_unlock(&making.mutex);
}

/* Let one of the threads end what it makes. */
static void allow(void)
{
    pthread_mutex_lock(&making.mutex);
    making.allowed++;
    pthread_cond_broadcast(&making.changed);
    while (making.allowed > 0) {
        pthread_mutex_unlock(&making.mutex);
        usleep(100);
        pthread_mutex_lock(&making.mutex);
    }
    pthread_mutex_unlock(&making.mutex);
}

typedef struct fixture {
    planner_t *planner;
    tenants_t tenants;
    tenant_t *a, *b, *c;
    cached_program_t of_a[PROGRAMS], of_b[PROGRAMS], of_c[PROGRAMS];
} fixture_t;

static fixture_t fixture;

static int setup(void **state)
{
    (void)state;
    const budget_limit_t limits[BUDGET_KINDS] = {0};
    alarm(2 * limit_s()); /* a hang is a failure */
    making.begun_count = making.allowed = 0;
    fixture = (fixture_t){0};
    tenants_init(&fixture.tenants, limits);
    fixture.a = tenant_get(&fixture.tenants, 1, "");
    fixture.b = tenant_get(&fixture.tenants, 2, "");
    fixture.c = tenant_get(&fixture.tenants, 3, "");
    return planner_create(&fixture.planner) == BLINK_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    planner_destroy(fixture.planner);
    tenant_put(fixture.a);
    tenant_put(fixture.b);
    tenant_put(fixture.c);
    return 0;
}

static void end(cached_program_t *cached)
{
    allow();
    planner_made(fixture.planner, cached);
}

static void test_one_plan_of_each_tenant_is_made_at_a_time(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        planner_queue(fixture.planner, &fixture.of_a[i], fixture.a);
    await_begun(1); /* the other thread has nothing to do */
    planner_queue(fixture.planner, &fixture.of_b[0], fixture.b);
    await_begun(2);
    assert_ptr_equal(making.begun[0], &fixture.of_a[0]);
    assert_ptr_equal(making.begun[1], &fixture.of_b[0]);
    allow();
    allow();
    planner_made(fixture.planner, &fixture.of_b[0]);
    planner_made(fixture.planner, &fixture.of_a[0]);
    await_begun(3);
    for (uint32_t i = 1; i < 4; i++) {
        end(&fixture.of_a[i]);
        await_begun(i < 3 ? i + 3 : 5);
    }
}

static void test_tenants_have_their_turns_in_rotation(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        planner_queue(fixture.planner, &fixture.of_a[i], fixture.a);
    for (uint32_t i = 0; i < 3; i++)
        planner_queue(fixture.planner, &fixture.of_b[i], fixture.b);
    planner_queue(fixture.planner, &fixture.of_c[0], fixture.c);
    await_begun(2);
    end(&fixture.of_a[0]); /* the third tenant's first plan comes before the others' second ones */
    await_begun(3);
    assert_ptr_equal(making.begun[2], &fixture.of_c[0]);
    end(&fixture.of_c[0]);
    await_begun(4);
    assert_ptr_equal(making.begun[3], &fixture.of_a[1]);
    cached_program_t *rest[] = {&fixture.of_a[1], &fixture.of_b[0], &fixture.of_a[2], &fixture.of_b[1],
                                &fixture.of_b[2]};
    for (uint32_t i = 0; i < 5; i++)
        end(rest[i]);
}

static void test_a_plan_that_nobody_waits_for_is_not_begun(void **state)
{
    (void)state;
    planner_queue(fixture.planner, &fixture.of_a[0], fixture.a);
    planner_queue(fixture.planner, &fixture.of_a[1], fixture.a);
    planner_queue(fixture.planner, &fixture.of_a[2], fixture.a);
    await_begun(1);
    assert_true(planner_leave(fixture.planner, &fixture.of_a[1], NULL));
    assert_false(planner_leave(fixture.planner, &fixture.of_a[0], NULL)); /* it has been begun */
    await_begun(2);
    assert_ptr_equal(making.begun[1], &fixture.of_a[2]);
    end(&fixture.of_a[0]);
    end(&fixture.of_a[2]);
}

static void test_who_waits_too_has_the_plan_made_on_its_own_turn(void **state)
{
    (void)state;
    planner_queue(fixture.planner, &fixture.of_c[0], fixture.c);
    for (uint32_t i = 0; i < 4; i++)
        planner_queue(fixture.planner, &fixture.of_a[i], fixture.a);
    await_begun(2);
    planner_share(fixture.planner, &fixture.of_a[3], fixture.b);
    end(&fixture.of_c[0]);
    await_begun(3);
    assert_ptr_equal(making.begun[2], &fixture.of_a[3]);
    assert_false(planner_leave(fixture.planner, &fixture.of_a[3], fixture.a));
    end(&fixture.of_a[0]);
    end(&fixture.of_a[3]);
    await_begun(4);
    end(&fixture.of_a[1]);
    end(&fixture.of_a[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_plan_of_each_tenant_is_made_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tenants_have_their_turns_in_rotation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_plan_that_nobody_waits_for_is_not_begun, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_too_has_the_plan_made_on_its_own_turn, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
