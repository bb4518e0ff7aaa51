/* The GPU worker beside another process whose kernel has a GPU's multiprocessors. */
#include "worker_bench.h"
#include "worker_test.h"

#include "standin/process.h"

#include <signal.h>

#define KEEPER_ARGUMENT "--keep"

enum { KEEPER_BLOCKS = 4 }; /* all that fit: STANDIN_CUDA_RESIDENCY multiprocessors */

static char shared[] = "STANDIN_CUDA_SHARED=/tmp/standin-shared-XXXXXX";
static const char *const at_once[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_RESIDENCY=2", "STANDIN_CUDA_MPS=1",
                                      shared, NULL};
static const char *const in_turns[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_RESIDENCY=2", shared, NULL};

/* ---- the other process ---- */

/* Have all multiprocessors of a GPU, say so through a pipe, and keep them until killed. */
static void keep_gpu(int gpu, int pipe)
{
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    uint32_t *words;
    uint64_t limit_ns = UINT64_C(1000000) * limit_ms();
    process_use(gpu);
    CU(cuModuleLoadData, &module, "any image");
    CU(cuModuleGetFunction, &spin, module, "probe_spin");
    CU(cuMemHostAlloc, (void **)&words, 2 * sizeof(*words), 0);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CUdeviceptr started = (CUdeviceptr)(uintptr_t)words, stop = started + sizeof(*words);
    CHECK(process_launch(spin, KEEPER_BLOCKS, true, stream, (void *[]){&started, &stop, &limit_ns}) ==
          CUDA_SUCCESS);
    while (!__atomic_load_n(words, __ATOMIC_ACQUIRE))
        sleep_ms(1);
    CHECK(write(pipe, "", 1) == 1);
    pause();
}

void sharing_become_keeper(int argument_count, char **arguments)
{
    if (argument_count != 4 || strcmp(arguments[1], KEEPER_ARGUMENT) != 0)
        return;
    keep_gpu(atoi(arguments[2]), atoi(arguments[3]));
    _exit(1);
}

static pid_t start_keeper(int gpu, const char *const *environment)
{
    char number[16], pipe_number[16], byte;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(number, sizeof(number), "%d", gpu);
    snprintf(pipe_number, sizeof(pipe_number), "%d", ends[1]);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (unsigned i = 0; environment[i]; i++)
            putenv((char *)(uintptr_t)environment[i]);
        alarm(limit_s());
        execl("/proc/self/exe", "keeper", KEEPER_ARGUMENT, number, pipe_number, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return child;
}

static void end_keeper(pid_t keeper)
{
    int status;
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(waitpid(keeper, &status, 0), keeper);
    assert_true(WIFSIGNALED(status));
}

/* ---- tests ---- */

static int make_file(void **state)
{
    char *path = shared + strlen("STANDIN_CUDA_SHARED=");
    const int file = mkstemp(path);
    (void)state;
    if (file < 0)
        return -1;
    close(file);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(shared + strlen("STANDIN_CUDA_SHARED="));
}

/* Of each chunk the lane on GPU 0 waits until the one on GPU 1 has done it. */
static program_t following_program(void)
{
    program_t program = waiting_program();
    program.head.signal_count = 1;
    program.steps[1].signal_count = 1;
    program.signals[0] = (lane_abi_signal_t){.semaphore = 0, .rank = 0, .announces_data = 1};
    return program;
}

static gpu_run_t *sums_on_gpu_0(bench_t *bench, uint32_t sums)
{
    gpu_run_t *run = bench_run(bench);
    run->program = sums;
    return run;
}

static void forget_sums(bench_t *bench)
{
    for (unsigned i = 0; i < 2; i++)
        memset(bench->out[i], 0, BLOCK_BYTES);
}

/* Half of the run is there and waits for the other half, which comes when the other process has gone. GPU 0
 * has room for other runs meanwhile. */
static void test_a_gpu_that_another_process_keeps_is_waited_for(void **state)
{
    bench_t bench;
    const program_t program = following_program();
    (void)state;
    bench_open(&bench, &program, at_once);
    const uint32_t sums = harness_object(&bench.service, &sum_program, sizeof(sum_program), 1);
    const pid_t keeper = start_keeper(1, at_once);

    gpu_run_t *run = bench_pair_run(&bench);
    const uint64_t waiting = harness_submit(&bench.service, run_sqe(run), run);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(bench_do(&bench, sums_on_gpu_0(&bench, sums)), BLINK_OK);
    assert_sums(&bench);
    forget_sums(&bench);
    sleep_ms(20);
    assert_false(ring_has_completion(&bench.service.ring));
    end_keeper(keeper);

    const ring_cqe_t cqe = harness_completion(&bench.service);
    assert_int_equal(cqe.user_data, waiting);
    assert_int_equal(cqe.result, BLINK_OK);
    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* How a run ends of which the half on GPU 1 has to wait for so long, and that on GPU 0 waits 50 ms for it. */
static ring_cqe_t run_that_is_kept(bench_t *bench, long kept_ms)
{
    const pid_t keeper = start_keeper(1, at_once);
    gpu_run_t *run = bench_pair_run(bench);
    run->run.wait_limit_ns = 50000000;
    const uint64_t waiting = harness_submit(&bench->service, run_sqe(run), run);
    sleep_ms(kept_ms);
    assert_false(ring_has_completion(&bench->service.ring));
    end_keeper(keeper);
    const ring_cqe_t cqe = harness_completion(&bench->service);
    assert_int_equal(cqe.user_data, waiting);
    return cqe;
}

/* The run is over when the half that comes late is, which may still write: only then is its memory the
 * program's again. On a busy machine the other half may come late, too, so that it waits no longer than it
 * may. */
static void test_a_gpu_that_is_kept_for_longer_than_a_run_waits(void **state)
{
    bench_t bench;
    const program_t program = following_program();
    ring_cqe_t cqe = {.result = BLINK_OK};
    (void)state;
    bench_open(&bench, &program, at_once);
    for (long kept_ms = 200; cqe.result == BLINK_OK && kept_ms < 1000L * limit_s(); kept_ms *= 2)
        cqe = run_that_is_kept(&bench, kept_ms);
    assert_int_equal(cqe.result, BLINK_ERR_TIMEOUT);
    harness_assert_text(cqe.text, "a lane on GPU 0 waited for another for 50 ms");
    forget_sums(&bench);
    assert_int_equal(bench_do(&bench, bench_pair_run(&bench)), BLINK_OK);
    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* Without MPS the other process only takes its turns, for ever. */
static void test_a_gpu_that_takes_turns(void **state)
{
    bench_t bench;
    const program_t program = following_program();
    (void)state;
    bench_open(&bench, &program, in_turns);
    const pid_t keeper = start_keeper(1, in_turns);

    for (unsigned i = 0; i < 10; i++) {
        forget_sums(&bench);
        assert_int_equal(bench_do(&bench, bench_pair_run(&bench)), BLINK_OK);
        assert_sums(&bench);
    }
    end_keeper(keeper);
    assert_int_equal(bench_do(&bench, bench_pair_run(&bench)), BLINK_OK);
    assert_int_equal(harness_stop(&bench.service), 0);
}

int worker_sharing_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_that_another_process_keeps_is_waited_for),
        cmocka_unit_test(test_a_gpu_that_is_kept_for_longer_than_a_run_waits),
        cmocka_unit_test(test_a_gpu_that_takes_turns),
    };
    return cmocka_run_group_tests_name("worker: sharing", tests, make_file, remove_file);
}
