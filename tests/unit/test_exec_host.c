/*
 * The host executor on small plans made by hand: right results for every size, type and pool, one `done` per
 * run whatever aborts it, and paced runs that never beat their links. Only lower bounds on times are
 * asserted.
 */
#include "exec_fixture.h"

/* The payload of one run: inputs filled by sample(), outputs cleared. */
typedef struct payload {
    size_t bytes;
    void *inputs[RANKS];
    void *outputs[RANKS];
    bool in_place;
    outcome_t outcome;
    exec_run_t run;
} payload_t;

/* Exact in every type, and so are its sums and products over four ranks. */
static int sample(uint32_t rank, size_t i)
{
    return (int)((i + rank) % 3) + 1;
}

static void store(blink_datatype_t datatype, void *array, size_t i, int value)
{
    switch (datatype) {
    case BLINK_INT8:
    case BLINK_UINT8:
        ((uint8_t *)array)[i] = (uint8_t)value;
        break;
    case BLINK_INT32:
    case BLINK_UINT32:
        ((uint32_t *)array)[i] = (uint32_t)value;
        break;
    case BLINK_INT64:
    case BLINK_UINT64:
        ((uint64_t *)array)[i] = (uint64_t)value;
        break;
    case BLINK_FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BLINK_FLOAT64:
        ((double *)array)[i] = value;
        break;
    }
}

static int combine(blink_redop_t redop, int x, int y)
{
    switch (redop) {
    case BLINK_SUM:
        return x + y;
    case BLINK_PROD:
        return x * y;
    case BLINK_MAX:
        return x > y ? x : y;
    case BLINK_MIN:
        return x < y ? x : y;
    }
    return 0;
}

static void payload_init(payload_t *payload, uint64_t count, blink_datatype_t datatype, blink_redop_t redop,
                         bool in_place)
{
    memset(payload, 0, sizeof(*payload));
    payload->bytes = count * blink_datatype_bytes(datatype);
    payload->in_place = in_place;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        payload->inputs[rank] = calloc(1, payload->bytes + 1);
        payload->outputs[rank] = in_place ? payload->inputs[rank] : calloc(1, payload->bytes + 1);
        for (size_t i = 0; i < count; i++)
            store(datatype, payload->inputs[rank], i, sample(rank, i));
    }
    outcome_init(&payload->outcome);
    payload->run = (exec_run_t){.inputs = (const void *const *)payload->inputs,
                                .outputs = payload->outputs,
                                .count = count,
                                .datatype = datatype,
                                .redop = redop,
                                .done = on_done,
                                .context = &payload->outcome};
}

static void payload_fini(payload_t *payload)
{
    outcome_fini(&payload->outcome);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(payload->inputs[rank]);
        if (!payload->in_place)
            free(payload->outputs[rank]);
    }
}

static void assert_reduced(const payload_t *payload)
{
    void *expected = calloc(1, payload->bytes + 1);
    for (size_t i = 0; i < payload->run.count; i++) {
        int value = sample(0, i);
        for (uint32_t rank = 1; rank < RANKS; rank++)
            value = combine(payload->run.redop, value, sample(rank, i));
        store(payload->run.datatype, expected, i, value);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload->outputs[rank], expected, payload->bytes + 1);
    free(expected);
}

/* ---- results ---- */

/* Start on a fresh instance, wait, check, clean up. */
static void check_allreduce(fixture_t *fixture, hand_shape_t shape, uint64_t count, blink_datatype_t datatype,
                            blink_redop_t redop, bool in_place)
{
    payload_t payload;
    payload_init(&payload, count, datatype, redop, in_place);
    lane_program_t *program = make_program(fixture, BLINK_ALLREDUCE, shape);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture->exec, program, NULL, &instance), BLINK_OK);

    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);

    assert_reduced(&payload);
    assert_int_equal(payload.outcome.done, 1);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
}

static void test_allreduce_equals_reference_for_all_sizes(void **state)
{
    (void)state;
    const uint64_t counts[] = {0, 1, 3, 16, 17, 4099, 1000003};
    const uint32_t workers[] = {1, 2, 4};
    for (size_t w = 0; w < LENGTH(workers); w++) {
        fixture_t fixture;
        fixture_init(&fixture, workers[w], 0.0);
        for (size_t i = 0; i < LENGTH(counts); i++) {
            check_allreduce(&fixture, APART, counts[i], BLINK_FLOAT32, BLINK_SUM, false);
            check_allreduce(&fixture, TOGETHER, counts[i], BLINK_FLOAT32, BLINK_SUM, true);
        }
        fixture_fini(&fixture);
    }
}

static void test_allreduce_of_every_type_and_operator(void **state)
{
    (void)state;
    const blink_datatype_t datatypes[] = {BLINK_INT8,  BLINK_UINT8,  BLINK_INT32,   BLINK_UINT32,
                                          BLINK_INT64, BLINK_UINT64, BLINK_FLOAT32, BLINK_FLOAT64};
    const blink_redop_t redops[] = {BLINK_SUM, BLINK_PROD, BLINK_MAX, BLINK_MIN};
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    for (size_t t = 0; t < LENGTH(datatypes); t++) {
        for (size_t o = 0; o < LENGTH(redops); o++) {
            check_allreduce(&fixture, APART, 101, datatypes[t], redops[o], false);
            check_allreduce(&fixture, TOGETHER, 30011, datatypes[t], redops[o], true);
        }
    }
    fixture_fini(&fixture);
}

static void test_broadcast_copies_the_root_and_reads_nothing_else(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    payload_t payload;
    payload_init(&payload, 300007, BLINK_FLOAT32, BLINK_SUM, false);
    const void *inputs[RANKS] = {[RANKS - 1] = payload.inputs[RANKS - 1]};
    payload.run.inputs = inputs;
    lane_program_t *program = make_program(&fixture, BLINK_BROADCAST, APART);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);
    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload.outputs[rank], payload.inputs[RANKS - 1], payload.bytes);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void test_small_and_empty_runs_end_inside_start(void **state)
{
    (void)state;
    const uint64_t counts[] = {0, 1, EXEC_INLINE_MAX_BYTES / RANKS / sizeof(float)};
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);
    for (size_t i = 0; i < LENGTH(counts); i++) {
        payload_t payload;
        payload_init(&payload, counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
        assert_int_equal(payload.outcome.done, 1);
        assert_int_equal(payload.outcome.result, BLINK_OK);
        assert_reduced(&payload);
        payload_fini(&payload);
    }
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    fixture_fini(&fixture);
}

static void test_link_bytes_count_every_crossing(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    _Atomic uint64_t comm_bytes[LINKS] = {0};
    payload_t payload;
    payload_init(&payload, 100000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, comm_bytes, &instance), BLINK_OK);
    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    uint64_t total = 0;
    for (uint32_t i = 0; i < LINKS; i++) {
        assert_int_equal(fixture.link_bytes[i], comm_bytes[i]);
        total += comm_bytes[i];
    }
    /* Reduce and broadcast cross RANKS - 1 edges each; chain and star share 0 <-> 1 and carry everything
     * there. */
    assert_int_equal(total, 2 * (RANKS - 1) * payload.bytes);
    assert_int_equal(comm_bytes[0 * RANKS + 1], payload.bytes);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void check_concurrent_instances(uint32_t workers, double scale, uint32_t rounds)
{
    enum { INSTANCES = 6 };
    fixture_t fixture;
    fixture_init(&fixture, workers, scale);
    lane_program_t *programs[] = {make_program(&fixture, BLINK_ALLREDUCE, APART),
                                  make_program(&fixture, BLINK_ALLREDUCE, TOGETHER)};
    exec_instance_t *instances[INSTANCES];
    payload_t payloads[INSTANCES];
    for (uint32_t i = 0; i < INSTANCES; i++) {
        assert_int_equal(exec_instance_create(fixture.exec, programs[i % 2], NULL, &instances[i]), BLINK_OK);
        payload_init(&payloads[i], 20000 + 1000 * i, BLINK_FLOAT32, BLINK_SUM, false);
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < INSTANCES; i++)
            assert_int_equal(exec_start(instances[i], &payloads[i].run), BLINK_OK);
        for (uint32_t i = 0; i < INSTANCES; i++)
            assert_int_equal(wait_done(&payloads[i].outcome, round), BLINK_OK);
    }
    for (uint32_t i = 0; i < INSTANCES; i++) {
        assert_reduced(&payloads[i]);
        assert_int_equal(payloads[i].outcome.done, rounds);
        exec_instance_destroy(instances[i]);
        payload_fini(&payloads[i]);
    }
    lane_program_destroy(programs[0]);
    lane_program_destroy(programs[1]);
    fixture_fini(&fixture);
}

static void test_instances_share_one_pool(void **state)
{
    (void)state;
    check_concurrent_instances(1, 0.0, 20);
    check_concurrent_instances(2, 0.0, 20);
    check_concurrent_instances(4, 0.0, 20);
}

static void test_paced_instances_share_one_pool(void **state)
{
    (void)state;
    check_concurrent_instances(1, 1.0, 5);
    check_concurrent_instances(4, 1.0, 5);
}

/* ---- aborts ---- */

/* A program in which one rank's part of a tree never happens: everything above and below it parks for ever.
 */
static lane_program_t *make_stuck_program(const fixture_t *fixture)
{
    lane_program_t *program = make_program(fixture, BLINK_ALLREDUCE, APART);
    for (uint32_t i = 0; i < program->lane_count; i++) {
        if (program->lanes[i].rank == RANKS - 1 && program->lanes[i].phase == LANE_UP)
            program->lanes[i].step_count = 0;
    }
    return program;
}

static void sleep_us(long us)
{
    struct timespec span = {.tv_nsec = us * 1000};
    nanosleep(&span, NULL);
}

typedef struct aborter {
    exec_instance_t *instance;
    long after_us;
} aborter_t;

static void *abort_from_thread(void *argument)
{
    const aborter_t *aborter = argument;
    sleep_us(aborter->after_us);
    exec_abort(aborter->instance, BLINK_ERR_PEER_LOST);
    exec_abort(aborter->instance, BLINK_ERR_TIMEOUT);
    return NULL;
}

/* Run, abort from another thread after a while, and return what `done` was told. */
static blink_result_t run_and_abort(exec_instance_t *instance, payload_t *payload, long after_us)
{
    aborter_t aborter = {instance, after_us};
    pthread_t thread;
    uint32_t before = payload->outcome.done;
    assert_int_equal(pthread_create(&thread, NULL, abort_from_thread, &aborter), 0);
    assert_int_equal(exec_start(instance, &payload->run), BLINK_OK);
    blink_result_t result = wait_done(&payload->outcome, before + 1);
    pthread_join(thread, NULL);
    assert_int_equal(payload->outcome.done, before + 1);
    return result;
}

static void check_abort(uint32_t workers, double scale, bool stuck)
{
    fixture_t fixture;
    fixture_init(&fixture, workers, scale);
    payload_t payload;
    payload_init(&payload, 200000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program =
        stuck ? make_stuck_program(&fixture) : make_program(&fixture, BLINK_ALLREDUCE, APART);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);
    assert_int_equal(run_and_abort(instance, &payload, 20000), BLINK_ERR_PEER_LOST);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void test_abort_ends_parked_lanes(void **state)
{
    (void)state;
    check_abort(1, 0.0, true);
    check_abort(4, 0.0, true);
    check_abort(2, 1.0, true);
}

/* At this scale the run would take a day. */
static void test_abort_ends_lanes_that_wait_for_virtual_time(void **state)
{
    (void)state;
    check_abort(1, 1e-8, false);
    check_abort(2, 1e-8, false);
}

static void test_abort_of_an_idle_instance_does_nothing(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    payload_t payload;
    payload_init(&payload, 50000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);
    exec_abort(instance, BLINK_ERR_ABORTED);
    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    exec_abort(instance, BLINK_ERR_ABORTED);
    assert_int_equal(payload.outcome.done, 1);
    assert_reduced(&payload);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

/* Aborts at every moment of a run, on one instance, which must be whole again each time. */
static void check_aborts_at_any_time(uint32_t workers, double scale)
{
    fixture_t fixture;
    fixture_init(&fixture, workers, scale);
    payload_t payload;
    payload_init(&payload, 60000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, TOGETHER);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);
    for (long i = 0; i < 100; i++) {
        blink_result_t result = run_and_abort(instance, &payload, i * 10);
        assert_true(result == BLINK_OK || result == BLINK_ERR_PEER_LOST);
    }
    uint32_t runs = payload.outcome.done;
    assert_int_equal(runs, 100);
    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    assert_int_equal(wait_done(&payload.outcome, runs + 1), BLINK_OK);
    assert_reduced(&payload);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void test_aborted_instance_runs_again(void **state)
{
    (void)state;
    check_aborts_at_any_time(1, 0.0);
    check_aborts_at_any_time(3, 0.0);
    check_aborts_at_any_time(2, 1.0);
}

/* ---- jobs ---- */

static void count_job(void *argument)
{
    on_done(argument, BLINK_OK);
}

/* Jobs are not held up by lanes whose time is a day away, nor lost when the pool ends. */
static void check_jobs(double scale)
{
    fixture_t fixture;
    fixture_init(&fixture, 2, scale);
    outcome_t jobs;
    outcome_init(&jobs);
    payload_t payload;
    payload_init(&payload, 200000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_stuck_program(&fixture);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);
    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(exec_host_post(fixture.exec, count_job, &jobs), BLINK_OK);
    wait_done(&jobs, 100);
    exec_abort(instance, BLINK_ERR_ABORTED);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_ERR_ABORTED);
    exec_instance_destroy(instance);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(exec_host_post(fixture.exec, count_job, &jobs), BLINK_OK);
    fixture_fini(&fixture);
    assert_int_equal(jobs.done, 200);
    lane_program_destroy(program);
    payload_fini(&payload);
    outcome_fini(&jobs);
}

static void test_every_posted_job_runs(void **state)
{
    (void)state;
    check_jobs(0.0);
    check_jobs(1e-8);
}

/* ---- pace ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Link 3 -> 0 carries the whole payload at 1 GB/s × 0.02; the last byte arrives 1 µs / 0.02 after it left. */
static void test_paced_run_is_never_faster_than_its_links(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.02);
    payload_t payload;
    payload_init(&payload, 250000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_BROADCAST, APART);
    exec_instance_t *instance = NULL;
    assert_int_equal(exec_instance_create(fixture.exec, program, NULL, &instance), BLINK_OK);

    uint64_t start = now_ns();
    assert_int_equal(exec_start(instance, &payload.run), BLINK_OK);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    uint64_t elapsed = now_ns() - start;

    assert_true(elapsed >= payload.bytes * 50 + 50000);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload.outputs[rank], payload.inputs[RANKS - 1], payload.bytes);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void test_paced_allreduce_equals_reference(void **state)
{
    (void)state;
    const uint64_t counts[] = {0, 1, 17, 100003};
    fixture_t fixture;
    fixture_init(&fixture, 2, 1.0);
    for (size_t i = 0; i < LENGTH(counts); i++) {
        check_allreduce(&fixture, APART, counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        check_allreduce(&fixture, TOGETHER, counts[i], BLINK_INT8, BLINK_PROD, true);
    }
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce_equals_reference_for_all_sizes),
        cmocka_unit_test(test_allreduce_of_every_type_and_operator),
        cmocka_unit_test(test_broadcast_copies_the_root_and_reads_nothing_else),
        cmocka_unit_test(test_small_and_empty_runs_end_inside_start),
        cmocka_unit_test(test_link_bytes_count_every_crossing),
        cmocka_unit_test(test_instances_share_one_pool),
        cmocka_unit_test(test_paced_instances_share_one_pool),
        cmocka_unit_test(test_abort_ends_parked_lanes),
        cmocka_unit_test(test_abort_ends_lanes_that_wait_for_virtual_time),
        cmocka_unit_test(test_abort_of_an_idle_instance_does_nothing),
        cmocka_unit_test(test_aborted_instance_runs_again),
        cmocka_unit_test(test_every_posted_job_runs),
        cmocka_unit_test(test_paced_run_is_never_faster_than_its_links),
        cmocka_unit_test(test_paced_allreduce_equals_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
