/* Runs on several GPUs whose launches are made at the same time. */
#include "worker_bench.h"
#include "worker_test.h"

enum { GPUS = 4 };

static void open_with_threads(bench_t *bench, const program_t *program, const char *const *environment)
{
    harness_start(&bench->service, (gpu_start_t){.processors = GPUS + 1}, environment);
    assert_int_equal(bench->service.hello.gpu_count, GPUS);
    bench_prepare(bench, program);
}

/* The first two GPUs have a lane each; the others have none, and end. */
static gpu_run_t *run_on_all(bench_t *bench)
{
    gpu_run_t *run = bench_run(bench);
    run->launch_count = GPUS;
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        run->launches[gpu] =
            (gpu_launch_t){.gpu = gpu, .lane_first = gpu % 2, .lane_count = gpu < 2 ? 1 : 0, .blocks = 1};
    return run;
}

/* No launch returns before all are under way: one thread would never come to the second. */
static void test_launches_of_a_run_are_made_at_the_same_time(void **state)
{
    bench_t bench;
    (void)state;
    open_with_threads(&bench, &sum_program,
                      (const char *const[]){"STANDIN_CUDA_GPUS=4", "STANDIN_CUDA_MEET=4", NULL});
    for (unsigned i = 0; i < 20; i++) {
        memset(bench.out[0], 0, BLOCK_BYTES);
        memset(bench.out[1], 0, BLOCK_BYTES);
        assert_int_equal(bench_do(&bench, run_on_all(&bench)), BLINK_OK);
        assert_sums(&bench);
        if (i % 8 == 0)
            sleep_ms(2); /* the threads sleep */
    }
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* Whichever launch it is that fails, and whoever makes it. */
static void test_a_launch_that_fails_ends_the_others(void **state)
{
    static const char *const failures[][3] = {
        {"STANDIN_CUDA_GPUS=4", "STANDIN_CUDA_FAIL=cuLaunchKernelEx:1:2"},
        {"STANDIN_CUDA_GPUS=4", "STANDIN_CUDA_FAIL=cuLaunchKernelEx:4:2"},
    };
    const program_t waiting = waiting_program();
    bench_t bench;
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        open_with_threads(&bench, &waiting, failures[i]);
        assert_int_equal(bench_do(&bench, run_on_all(&bench)), BLINK_ERR_NO_MEMORY);
        harness_assert_text(blink_error_text(), "CUDA_ERROR_OUT_OF_MEMORY");
        gpu_run_t *run = run_on_all(&bench);
        run->program = harness_object(&bench.service, &sum_program, sizeof(sum_program), (1 << GPUS) - 1);
        assert_int_equal(bench_do(&bench, run), BLINK_OK);
        assert_sums(&bench);
        assert_int_equal(harness_stop(&bench.service), 0);
    }
}

static void test_a_context_that_is_lost_ends_the_worker(void **state)
{
    bench_t bench;
    (void)state;
    open_with_threads(&bench, &sum_program,
                      (const char *const[]){"STANDIN_CUDA_GPUS=4", "STANDIN_CUDA_LOST=7", NULL});
    assert_int_equal(bench_do(&bench, run_on_all(&bench)), BLINK_OK);
    assert_int_equal(bench_do(&bench, run_on_all(&bench)), BLINK_ERR_SYSTEM);
    harness_assert_text(blink_error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(harness_await_end(&bench.service), 1);
}

/* Alone, with the others, and where blocks must be resident. */
static void test_kernels_are_in_the_remote_domain_where_there_are_several(void **state)
{
    static const char *const environment[] = {"STANDIN_CUDA_GPUS=4", "STANDIN_CUDA_DOMAINS=4", NULL};
    bench_t bench;
    (void)state;
    open_with_threads(&bench, &sum_program, environment);
    gpu_run_t *run = bench_run(&bench);
    run->cooperative = 1;
    assert_int_equal(bench_do(&bench, run), BLINK_OK);
    assert_sums(&bench);
    assert_int_equal(bench_do(&bench, run_on_all(&bench)), BLINK_OK);
    assert_int_equal(harness_stop(&bench.service), 0);
}

static void test_two_launches_on_one_gpu_are_refused(void **state)
{
    bench_t bench;
    (void)state;
    open_with_threads(&bench, &sum_program, (const char *const[]){"STANDIN_CUDA_GPUS=4", NULL});
    gpu_run_t *run = run_on_all(&bench);
    run->launches[3].gpu = 1;
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "a launch on GPU 1 of 4, or two there");
    assert_int_equal(bench_do(&bench, run_on_all(&bench)), BLINK_OK);
    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

int worker_launch_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches_of_a_run_are_made_at_the_same_time),
        cmocka_unit_test(test_a_launch_that_fails_ends_the_others),
        cmocka_unit_test(test_a_context_that_is_lost_ends_the_worker),
        cmocka_unit_test(test_kernels_are_in_the_remote_domain_where_there_are_several),
        cmocka_unit_test(test_two_launches_on_one_gpu_are_refused),
    };
    return cmocka_run_group_tests_name("worker: launches", tests, NULL, NULL);
}
