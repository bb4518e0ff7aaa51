/* What the worker runs: kernels on hand-made programs, copies, and the ways in which a run does not come to
 * its end. */
#include "worker_bench.h"
#include "worker_test.h"

/* ---- to the end ---- */

static void test_sum_on_one_gpu(void **state)
{
    bench_t bench;
    (void)state;
    bench_open(&bench, &sum_program, two_gpus);

    gpu_run_t *run = bench_run(&bench);
    run->memory = 0;
    assert_int_equal(bench_do(&bench, run), BLINK_OK);

    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

static void test_sum_by_two_gpus_again_and_again(void **state)
{
    bench_t bench;
    (void)state;
    bench_open(&bench, &sum_program, two_gpus);

    for (unsigned i = 0; i < 100; i++) {
        memset(bench.out[0], 0, 2 * BLOCK_BYTES);
        if (i % 10 == 0)
            sleep_ms(1); /* the worker sleeps by then */
        assert_int_equal(bench_do(&bench, bench_pair_run(&bench)), BLINK_OK);
        assert_sums(&bench);
    }

    assert_int_equal(harness_stop(&bench.service), 0);
}

/* More runs under way than there are streams: none is lost, none waits in a circle. Each has outputs of its
 * own. */
static void test_many_runs_at_once(void **state)
{
    enum { RUNS = 50 };
    bench_t bench;
    uint64_t outputs, token, first = 0, seen = 0;
    (void)state;
    bench_open(&bench, &sum_program, two_gpus);
    float *memory = harness_map_host(&bench.service, (size_t)RUNS * 2 * BLOCK_BYTES, &outputs, &token);

    for (unsigned i = 0; i < RUNS; i++) {
        gpu_run_t *run = bench_pair_run(&bench);
        run->ranks[0].output = outputs + (uint64_t)i * 2 * BLOCK_BYTES;
        run->ranks[1].output = run->ranks[0].output + BLOCK_BYTES;
        const uint64_t user_data = harness_submit(&bench.service, run_sqe(run), run);
        first = i == 0 ? user_data : first;
    }
    for (unsigned i = 0; i < RUNS; i++) {
        const ring_cqe_t cqe = harness_completion(&bench.service);
        assert_int_equal(cqe.result, BLINK_OK);
        seen |= UINT64_C(1) << (cqe.user_data - first);
    }

    assert_int_equal(seen, (UINT64_C(1) << RUNS) - 1);
    for (unsigned k = 0; k < RUNS * 2 * ELEMENTS; k++)
        assert_true(memory[k] == (float)(3 * (k % ELEMENTS)));
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* Submitted with the objects it needs, none of which the service has seen completed. */
static void test_run_right_behind_its_objects(void **state)
{
    bench_t bench;
    (void)state;
    bench_open(&bench, &sum_program, two_gpus);

    program_t *place = harness_place(&bench.service, sizeof(*place));
    *place = sum_program;
    ring_sqe_t load = {.opcode = GPU_LOAD, .member = 77, .root = 3, .count = sizeof(*place)};
    harness_submit(&bench.service, load, place);
    harness_submit(&bench.service, (ring_sqe_t){.opcode = GPU_ALLOC, .member = 78, .root = 3, .count = 8192},
                   NULL);
    gpu_run_t *run = bench_pair_run(&bench);
    run->program = 77;
    run->memory = 78;
    harness_submit(&bench.service, run_sqe(run), run);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(harness_completion(&bench.service).result, BLINK_OK);

    assert_sums(&bench);
    assert_int_equal(harness_do(&bench.service, (ring_sqe_t){.opcode = GPU_FREE, .member = 77}, NULL),
                     BLINK_OK);
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "program, object 77, is not on GPU 0");
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* Input into rank 1's scratch by one run; out of it by a second, which has scrubbed it before, or it was
 * asked for again for a switch that is not there. */
static void test_scrub_leaves_zeros(void **state)
{
    enum { AS_IT_IS, SCRUBBED, ASKED_AGAIN, WAYS };
    bench_t bench;
    program_t into = sum_program, out_of = sum_program;
    const lane_abi_operand_t scratch = {.buffer = LANE_ABI_SCRATCH, .rank = 1, .edge = 0};
    (void)state;
    into.head.independent = out_of.head.independent = 0;
    into.steps[0].src_count = into.steps[0].dst_count = 1;
    out_of.steps[0].src_count = out_of.steps[0].dst_count = 1;
    into.operands[2] = out_of.operands[0] = scratch;
    bench_open(&bench, &into, two_gpus);
    const uint32_t reader = harness_object(&bench.service, &out_of, sizeof(out_of), 3);

    for (unsigned way = AS_IT_IS; way < WAYS; way++) {
        gpu_run_t *write = bench_run(&bench), *read = bench_run(&bench);
        strcpy(write->kernel, "blink_lanes_move");
        strcpy(read->kernel, "blink_lanes_move");
        write->launches[0].lane_count = read->launches[0].lane_count = 1;
        write->launches[0].blocks = read->launches[0].blocks = 1;
        read->program = reader;
        read->scrub_bytes = way == SCRUBBED ? CHUNK_BYTES : 0;
        read->launch_count = 2; /* the scratch is GPU 1's, so it must have a launch */
        read->launches[1] = (gpu_launch_t){.gpu = 1, .lane_first = 1, .lane_count = 1, .blocks = 1};
        const ring_sqe_t again = {.opcode = GPU_ALLOC,
                                  .member = write->memory,
                                  .root = 3,
                                  .count = BENCH_MEMORY_BYTES,
                                  .flags = GPU_ALLOC_SWITCH};
        assert_int_equal(bench_do(&bench, write), BLINK_OK);
        if (way == ASKED_AGAIN)
            assert_int_equal(harness_do(&bench.service, again, NULL), BLINK_ERR_UNSUPPORTED);
        assert_int_equal(bench_do(&bench, read), BLINK_OK);
        /* One slot, written last by the last chunk. */
        const unsigned last_chunk = (unsigned)((HALF_BYTES - CHUNK_BYTES) / sizeof(float));
        assert_true(bench.out[0][0] == (way == AS_IT_IS ? (float)last_chunk : 0.0f));
    }

    assert_int_equal(harness_stop(&bench.service), 0);
}

static void test_copies(void **state)
{
    bench_t bench;
    const uint64_t bytes = BLOCK_BYTES / 4;
    (void)state;
    bench_open(&bench, &sum_program, two_gpus);

    gpu_run_t *run = bench_run(&bench);
    run->launch_count = 0;
    for (unsigned i = 0; i < 4; i++)
        run->copies[run->copy_count++] =
            (gpu_copy_t){bench.address[2] + i * bytes, bench.address[1] + i * bytes, bytes, 1};
    run->copies[run->copy_count++] = (gpu_copy_t){bench.address[3], bench.address[0], 4 * bytes, 0};
    run->copies[run->copy_count++] = (gpu_copy_t){bench.address[3], bench.address[1], 0, 1};
    assert_int_equal(bench_do(&bench, run), BLINK_OK);

    assert_memory_equal(bench.out[0], bench.in[1], BLOCK_BYTES);
    assert_memory_equal(bench.out[1], bench.in[0], BLOCK_BYTES);

    run->copies[1].gpu = 2;
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "copies of GPU 2 of 2");
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* ---- not to the end ---- */

static void test_deadline(void **state)
{
    bench_t bench;
    const program_t program = waiting_program();
    (void)state;
    bench_open(&bench, &program, two_gpus);

    gpu_run_t *run = bench_pair_run(&bench);
    run->run.wait_limit_ns = 50000000;
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_TIMEOUT);
    harness_assert_text(blink_error_text(), "a lane on GPU 0 waited for another for 50 ms");

    run = bench_run(&bench);
    run->program = harness_object(&bench.service, &sum_program, sizeof(sum_program), 1);
    assert_int_equal(bench_do(&bench, run), BLINK_OK);
    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

static void abort_and_await(bench_t *bench, const gpu_run_t *run, uint64_t waiting)
{
    const ring_sqe_t abort = {.opcode = GPU_ABORT, .count = run->run.number};
    const uint64_t aborting = harness_submit(&bench->service, abort, NULL);
    for (unsigned i = 0; i < 2; i++) {
        const ring_cqe_t cqe = harness_completion(&bench->service);
        assert_true(cqe.user_data == waiting || cqe.user_data == aborting);
        assert_int_equal(cqe.result, cqe.user_data == waiting ? BLINK_ERR_ABORTED : BLINK_OK);
    }
}

static void test_abort(void **state)
{
    bench_t bench;
    const program_t program = waiting_program();
    (void)state;
    bench_open(&bench, &program, two_gpus);

    const gpu_run_t *run = bench_pair_run(&bench);
    const uint64_t waiting = harness_submit(&bench.service, run_sqe(run), run);
    sleep_ms(20);
    assert_false(ring_has_completion(&bench.service.ring));
    const ring_sqe_t abort_other = {.opcode = GPU_ABORT, .count = run->run.number + 1};
    assert_int_equal(harness_do(&bench.service, abort_other, NULL), BLINK_OK);
    sleep_ms(20);
    assert_false(ring_has_completion(&bench.service.ring));
    abort_and_await(&bench, run, waiting);

    assert_int_equal(harness_stop(&bench.service), 0);
}

/* ---- a driver that waits for GPUs, and holds up launches meanwhile ---- */

static const char *const locking[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_LOCK=1", NULL};

/* The lane on GPU 0 waits for the one on GPU 1, chunk by chunk. */
static program_t chained_program(void)
{
    program_t program = waiting_program();
    program.head.signal_count = 1;
    program.steps[1].signal_count = 1;
    program.signals[0] = (lane_abi_signal_t){.semaphore = 0, .rank = 0};
    return program;
}

/* What maps and unmaps memory waits for GPU 0, which waits for the run's launch on GPU 1: that must come
 * first. */
static void test_memory_comes_and_goes_between_runs_and_not_within_one(void **state)
{
    enum { RUNS = 30 };
    bench_t bench;
    const program_t program = chained_program();
    (void)state;
    bench_open(&bench, &program, locking);

    for (unsigned i = 0; i < RUNS; i++) {
        uint64_t address, token;
        gpu_run_t *run = bench_pair_run(&bench);
        const uint64_t user_data = harness_submit(&bench.service, run_sqe(run), run);
        (void)harness_map_host(&bench.service, 4096, &address, &token);
        gpu_request_t release = {.kind = GPU_RELEASE, .token = token};
        assert_int_equal(harness_ask(&bench.service, &release, NULL, 0).result, BLINK_OK);
        const ring_cqe_t cqe = harness_completion(&bench.service);
        assert_int_equal(cqe.user_data, user_data);
        assert_string_equal(cqe.text, "");
        assert_int_equal(cqe.result, BLINK_OK);
    }

    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

/* A stream that is made while a run waits would wait for that run, and so would the abort that ends it. */
static void test_runs_and_aborts_while_a_run_waits(void **state)
{
    enum { RUNS = 20 }; /* each has a stream of its own */
    bench_t bench;
    uint64_t outputs, token;
    const program_t program = waiting_program();
    (void)state;
    bench_open(&bench, &program, locking);
    (void)harness_map_host(&bench.service, (size_t)RUNS * 2 * BLOCK_BYTES, &outputs, &token);
    const uint32_t sums = harness_object(&bench.service, &sum_program, sizeof(sum_program), 3);

    const gpu_run_t *waits = bench_pair_run(&bench);
    const uint64_t waiting = harness_submit(&bench.service, run_sqe(waits), waits);
    for (unsigned i = 0; i < RUNS; i++) {
        gpu_run_t *run = bench_run(&bench);
        run->program = sums;
        run->ranks[0].output = outputs + (uint64_t)i * 2 * BLOCK_BYTES;
        run->ranks[1].output = run->ranks[0].output + BLOCK_BYTES;
        harness_submit(&bench.service, run_sqe(run), run);
    }
    for (unsigned i = 0; i < RUNS; i++)
        assert_int_equal(harness_completion(&bench.service).result, BLINK_OK);
    abort_and_await(&bench, waits, waiting);

    assert_int_equal(harness_stop(&bench.service), 0);
}

/* Nor is memory of the host locked or unlocked for GPUs that do not reach one another. */
static void test_host_memory_comes_and_goes_while_a_run_waits(void **state)
{
    bench_t bench;
    const program_t program = waiting_program();
    const char *const environment[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_LOCK=1",
                                       "STANDIN_CUDA_PEERS=", NULL};
    (void)state;
    bench_open(&bench, &program, environment);

    const gpu_run_t *waits = bench_pair_run(&bench);
    const uint64_t waiting = harness_submit(&bench.service, run_sqe(waits), waits);
    ring_sqe_t alloc = {.opcode = GPU_ALLOC, .flags = GPU_ALLOC_HOST, .root = 3, .count = 10 << 20};
    for (unsigned i = 0; i < 6; i++) {
        alloc.member = 50 + i % 3; /* no more than three at a time */
        const ring_sqe_t give_back = {.opcode = GPU_FREE, .member = alloc.member};
        if (i >= 3)
            assert_int_equal(harness_do(&bench.service, give_back, NULL), BLINK_OK);
        assert_int_equal(harness_do(&bench.service, alloc, NULL), BLINK_OK);
    }
    abort_and_await(&bench, waits, waiting);
    alloc.member = 60;
    assert_int_equal(harness_do(&bench.service, alloc, NULL), BLINK_OK); /* of another slab */

    assert_int_equal(harness_stop(&bench.service), 0);
}

/* The launch on GPU 1 fails while a lane on GPU 0 waits already: it is told to end, and the worker works on.
 */
static void test_launch_too_large_for_one_gpu(void **state)
{
    bench_t bench;
    const program_t program = waiting_program();
    (void)state;
    bench_open(&bench, &program, two_gpus);

    gpu_run_t *run = bench_pair_run(&bench);
    run->launches[1].blocks = bench.service.hello.gpus[1].resident_blocks + 1;
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_SYSTEM);
    harness_assert_text(blink_error_text(), "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");

    run = bench_run(&bench);
    run->program = harness_object(&bench.service, &sum_program, sizeof(sum_program), 1);
    assert_int_equal(bench_do(&bench, run), BLINK_OK);
    assert_sums(&bench);
    assert_int_equal(harness_stop(&bench.service), 0);
}

static void test_lost_context_ends_the_worker(void **state)
{
    bench_t bench;
    (void)state;
    bench_open(&bench, &sum_program,
               (const char *const[]){"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_LOST=3", NULL});

    assert_int_equal(bench_do(&bench, bench_pair_run(&bench)), BLINK_OK);
    assert_int_equal(bench_do(&bench, bench_pair_run(&bench)), BLINK_ERR_SYSTEM);
    harness_assert_text(blink_error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS");

    assert_int_equal(harness_await_end(&bench.service), 1);
}

/* ---- what is no run ---- */

static void test_refused_runs(void **state)
{
    bench_t bench;
    gpu_run_t *run;
    (void)state;
    bench_open(&bench, &sum_program, two_gpus);

    run = bench_run(&bench);
    strcpy(run->kernel, "blink_lanes_float32_avg");
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "kernel blink_lanes_float32_avg: there is none");
    run = bench_run(&bench);
    run->launches[0].gpu = 2;
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "a launch on GPU 2 of 2");
    run = bench_run(&bench);
    run->memory = 99;
    assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "memory, object 99");
    const uint32_t no_host_memory[] = {99, bench.memory};
    for (unsigned i = 0; i < 2; i++) {
        run = bench_run(&bench);
        run->host_memory = no_host_memory[i];
        assert_int_equal(bench_do(&bench, run), BLINK_ERR_INVALID_ARGUMENT);
        harness_assert_text(blink_error_text(), "the run's memory on the host, object");
    }
    run = bench_run(&bench);
    run->copy_count = 3;
    ring_sqe_t cut = {.opcode = GPU_RUN, .count = sizeof(*run) + 2 * sizeof(run->copies[0])};
    assert_int_equal(harness_do(&bench.service, cut, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "does not fit its range");
    cut.count = HARNESS_ARENA_BYTES;
    assert_int_equal(harness_do(&bench.service, cut, run), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "do not lie in the arena");
    assert_int_equal(harness_do(&bench.service, (ring_sqe_t){.opcode = 99}, NULL),
                     BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "opcode 99");

    assert_int_equal(harness_stop(&bench.service), 0);
}

static void test_refused_objects(void **state)
{
    bench_t bench;
    harness_t *service = &bench.service;
    (void)state;
    bench_open(&bench, &sum_program,
               (const char *const[]){"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_MEMORY=16777216", NULL});

    ring_sqe_t alloc = {.opcode = GPU_ALLOC, .member = bench.program, .root = 1, .count = 64};
    assert_int_equal(harness_do(service, alloc, NULL), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "the number is taken");
    alloc.member = 50;
    alloc.root = 4;
    assert_int_equal(harness_do(service, alloc, NULL), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "GPUs 0x4, there are 2");
    alloc.root = 3;
    alloc.count = UINT64_C(1) << 40;
    assert_int_equal(harness_do(service, alloc, NULL), BLINK_ERR_NO_MEMORY);
    harness_assert_text(blink_error_text(),
                        "object 50, 1099511627776 bytes on GPU 0: cuMemAllocFromPoolAsync");
    alloc.count = 64; /* nothing of the failure is left */
    assert_int_equal(harness_do(service, alloc, NULL), BLINK_OK);
    const ring_sqe_t free_none = {.opcode = GPU_FREE, .member = 51};
    assert_int_equal(harness_do(service, free_none, NULL), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "object 51: there is none");

    assert_int_equal(harness_stop(service), 0);
}

/* The switch has room for one object: the next is memory all the same, and says why. */
static void test_objects_that_a_switch_reaches(void **state)
{
    static const char *const environment[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_SWITCH=1", NULL};
    harness_t service;
    ring_sqe_t alloc = {.opcode = GPU_ALLOC, .root = 3, .count = 5000, .flags = GPU_ALLOC_SWITCH};
    (void)state;
    harness_start(&service, (gpu_start_t){0}, environment);
    assert_true(service.hello.gpus[0].has_switch && service.hello.gpus[1].has_switch);

    for (unsigned round = 0; round < 3; round++) {
        alloc.member = 1;
        assert_int_equal(harness_do(&service, alloc, NULL), BLINK_OK);
        alloc.member = 2;
        assert_int_equal(harness_do(&service, alloc, NULL), BLINK_ERR_UNSUPPORTED);
        harness_assert_text(blink_error_text(), "cuMulticastCreate: CUDA_ERROR_OUT_OF_MEMORY");
        for (uint32_t member = 1; member <= 2; member++)
            assert_int_equal(harness_do(&service, (ring_sqe_t){.opcode = GPU_FREE, .member = member}, NULL),
                             BLINK_OK);
    }

    assert_int_equal(harness_stop(&service), 0);
}

/* Asked for again they are zeros, and where they were until the switch has room. */
static void test_objects_that_a_switch_reaches_later(void **state)
{
    static const char *const environment[] = {"STANDIN_CUDA_GPUS=2", "STANDIN_CUDA_SWITCH=1",
                                              "STANDIN_CUDA_MEMORY=150000000", NULL};
    harness_t service;
    ring_sqe_t alloc = {.opcode = GPU_ALLOC, .root = 3, .count = 20 << 20, .flags = GPU_ALLOC_SWITCH};
    (void)state;
    harness_start(&service, (gpu_start_t){0}, environment);

    alloc.member = 1;
    assert_int_equal(harness_do(&service, alloc, NULL), BLINK_OK);
    assert_int_equal(harness_do(&service, alloc, NULL), BLINK_ERR_INVALID_ARGUMENT);
    harness_assert_text(blink_error_text(), "object 1: the number is taken");
    alloc.member = 2;
    for (int i = 0; i < 20; i++) /* of which there is no room for a second one at the end */
        assert_int_equal(harness_do(&service, alloc, NULL), BLINK_ERR_UNSUPPORTED);
    assert_int_equal(harness_do(&service, (ring_sqe_t){.opcode = GPU_FREE, .member = 1}, NULL), BLINK_OK);
    alloc.count++;
    assert_int_equal(harness_do(&service, alloc, NULL), BLINK_ERR_INVALID_ARGUMENT);
    alloc.count--;
    assert_int_equal(harness_do(&service, alloc, NULL), BLINK_OK);
    alloc.member = 3;
    assert_int_equal(harness_do(&service, alloc, NULL), BLINK_ERR_UNSUPPORTED); /* the second has it */
    for (uint32_t member = 2; member <= 3; member++)
        assert_int_equal(harness_do(&service, (ring_sqe_t){.opcode = GPU_FREE, .member = member}, NULL),
                         BLINK_OK);

    assert_int_equal(harness_stop(&service), 0);
}

int worker_run_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_on_one_gpu),
        cmocka_unit_test(test_sum_by_two_gpus_again_and_again),
        cmocka_unit_test(test_many_runs_at_once),
        cmocka_unit_test(test_run_right_behind_its_objects),
        cmocka_unit_test(test_scrub_leaves_zeros),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_memory_comes_and_goes_between_runs_and_not_within_one),
        cmocka_unit_test(test_runs_and_aborts_while_a_run_waits),
        cmocka_unit_test(test_host_memory_comes_and_goes_while_a_run_waits),
        cmocka_unit_test(test_launch_too_large_for_one_gpu),
        cmocka_unit_test(test_lost_context_ends_the_worker),
        cmocka_unit_test(test_refused_runs),
        cmocka_unit_test(test_refused_objects),
        cmocka_unit_test(test_objects_that_a_switch_reaches),
        cmocka_unit_test(test_objects_that_a_switch_reaches_later),
    };
    return cmocka_run_group_tests_name("worker: runs", tests, NULL, NULL);
}
