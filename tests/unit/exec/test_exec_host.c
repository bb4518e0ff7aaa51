/*
 * The host executor on small plans made by hand: right results for every size, type and pool, one `done` per
 * run whatever aborts it, and paced runs that never beat their links. Only lower bounds on times are
 * asserted.
 */
#include "base/clock.h"
#include "exec/host/instance.h"
#include "exec_payload.h"

#include <sched.h>

/* ---- results ---- */

/* Start on a fresh instance, wait, check, clean up. */
static void check_allreduce(fixture_t *fixture, hand_shape_t shape, uint64_t count, blink_datatype_t datatype,
                            blink_redop_t redop, bool in_place)
{
    payload_t payload;
    payload_init(&payload, count, datatype, redop, in_place);
    lane_program_t *program = make_program(fixture, BLINK_ALLREDUCE, shape, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(fixture, program);

    start_run(instance, &payload.run);
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
    lane_program_t *program = make_program(&fixture, BLINK_BROADCAST, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);
    start_run(instance, &payload.run);
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
    const uint64_t counts[] = {0, 1, 1000};
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);
    for (size_t i = 0; i < LENGTH(counts); i++) {
        payload_t payload;
        payload_init(&payload, counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        exec_end_t end;
        assert_true(exec_start(instance, &payload.run, &end));
        assert_int_equal(end.result, BLINK_OK);
        assert_int_equal(payload.outcome.done, 0);
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
    payload.run.comm_link_bytes = comm_bytes;
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);
    start_run(instance, &payload.run);
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
    lane_program_t *programs[] = {make_program(&fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE),
                                  make_program(&fixture, BLINK_ALLREDUCE, TOGETHER, BLINK_PROTOCOL_SIMPLE)};
    exec_instance_t *instances[INSTANCES];
    payload_t payloads[INSTANCES];
    for (uint32_t i = 0; i < INSTANCES; i++) {
        instances[i] = make_instance(&fixture, programs[i % 2]);
        payload_init(&payloads[i], 20000 + 1000 * i, BLINK_FLOAT32, BLINK_SUM, false);
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < INSTANCES; i++)
            start_run(instances[i], &payloads[i].run);
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
    lane_program_t *program = make_program(fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE);
    for (uint32_t i = 0; i < program->lane_count; i++) {
        if (program->lanes[i].rank == RANKS - 1 && program->lanes[i].phase == LANE_UP)
            program->lanes[i].step_count = 0;
    }
    return program;
}

static void check_abort(uint32_t workers, double scale, uint64_t count, bool stuck)
{
    fixture_t fixture;
    fixture_init(&fixture, workers, scale);
    payload_t payload;
    payload_init(&payload, count, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = stuck ? make_stuck_program(&fixture)
                                    : make_program(&fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);
    /* This run ends by an abort alone: one that came before the run, on a busy machine, would end nothing. */
    start_run(instance, &payload.run);
    sleep_us(20000);
    exec_abort(instance, BLINK_ERR_PEER_LOST);
    exec_abort(instance, BLINK_ERR_TIMEOUT);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_ERR_PEER_LOST);
    assert_int_equal(payload.outcome.done, 1);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void test_abort_ends_parked_lanes(void **state)
{
    (void)state;
    check_abort(1, 0.0, 200000, true);
    check_abort(4, 0.0, 200000, true);
    check_abort(2, 1.0, 200000, true);
}

/* The thread that starts it leaves the run to others. */
static void test_abort_ends_parked_lanes_of_a_short_run(void **state)
{
    (void)state;
    check_abort(1, 0.0, 100, true);
    check_abort(2, 0.0, 100, true);
}

/* At this scale the run would take a day. */
static void test_abort_ends_lanes_that_wait_for_virtual_time(void **state)
{
    (void)state;
    check_abort(1, 1e-8, 200000, false);
    check_abort(2, 1e-8, 200000, false);
}

static void test_abort_of_an_idle_instance_does_nothing(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    payload_t payload;
    payload_init(&payload, 50000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);
    exec_abort(instance, BLINK_ERR_ABORTED);
    start_run(instance, &payload.run);
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
static void check_aborts_at_any_time(uint32_t workers, double scale, blink_protocol_t protocol)
{
    fixture_t fixture;
    fixture_init(&fixture, workers, scale);
    payload_t payload;
    payload_init(&payload, 60000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, TOGETHER, protocol);
    exec_instance_t *instance = make_instance(&fixture, program);
    for (long i = 0; i < 100; i++) {
        blink_result_t result = run_and_abort(instance, &payload, i * 10);
        assert_true(is_end_of_aborted_run(result));
    }
    uint32_t runs = payload.outcome.done;
    assert_int_equal(runs, 100);
    start_run(instance, &payload.run);
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
    for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        check_aborts_at_any_time(1, 0.0, (blink_protocol_t)protocol);
        check_aborts_at_any_time(3, 0.0, (blink_protocol_t)protocol);
        check_aborts_at_any_time(2, 1.0, (blink_protocol_t)protocol);
    }
}

typedef struct nagger {
    exec_instance_t *instance;
    _Atomic bool started, stop;
} nagger_t;

static void *abort_all_the_time(void *argument)
{
    nagger_t *nagger = argument;
    while (!atomic_load(&nagger->stop)) {
        exec_abort(nagger->instance, BLINK_ERR_PEER_LOST);
        atomic_store(&nagger->started, true);
    }
    return NULL;
}

/* An abort finds a run that has been set up wholly, or none: not the lanes that seem parked in fresh memory.
 */
static void test_aborts_while_the_first_run_starts(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    payload_t payload;
    payload_init(&payload, 60000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, TOGETHER, BLINK_PROTOCOL_LL);
    for (uint32_t round = 1; round <= 100; round++) {
        nagger_t nagger = {.instance = make_instance(&fixture, program)};
        pthread_t thread;
        for (uint32_t i = 0; i < program->semaphore_count; i++)
            atomic_store(&((host_instance_t *)nagger.instance)->semaphores[i].parked, 1);
        assert_int_equal(pthread_create(&thread, NULL, abort_all_the_time, &nagger), 0);
        while (!atomic_load(&nagger.started))
            sched_yield();
        start_run(nagger.instance, &payload.run);
        blink_result_t result = wait_done(&payload.outcome, round);
        assert_true(is_end_of_aborted_run(result));
        atomic_store(&nagger.stop, true);
        pthread_join(thread, NULL);
        assert_int_equal(payload.outcome.done, round);
        exec_instance_destroy(nagger.instance);
    }
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

/* Epochs that have run out begin anew, on slots that were emptied. */
static void test_epochs_wrap_around(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    payload_t payload;
    payload_init(&payload, 60000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART, BLINK_PROTOCOL_LL);
    exec_instance_t *instance = make_instance(&fixture, program);
    start_run(instance, &payload.run);
    wait_done(&payload.outcome, 1);
    uint64_t epochs_of_a_run = instance->most_chunks;
    assert_true(epochs_of_a_run > 1);
    instance->epoch_base = UINT32_MAX - 5 * epochs_of_a_run / 2;
    bool wrapped = false;
    for (uint32_t run = 2; run <= 6; run++) {
        uint64_t before = instance->epoch_base;
        start_run(instance, &payload.run);
        assert_int_equal(wait_done(&payload.outcome, run), BLINK_OK);
        assert_reduced(&payload);
        wrapped |= instance->epoch_base < before;
    }
    assert_true(wrapped);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

/* ---- jobs ---- */

/* ---- pace ---- */

/* Link 3 -> 0 carries the whole payload at 1 GB/s × 0.02; the last byte arrives 1 µs / 0.02 after it left. */
static void test_paced_run_is_never_faster_than_its_links(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.02);
    payload_t payload;
    payload_init(&payload, 250000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_BROADCAST, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);

    uint64_t start = clock_ns();
    start_run(instance, &payload.run);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    uint64_t elapsed = clock_ns() - start;

    assert_true(elapsed >= payload.bytes * 50 + 50000);
    assert_in_range(payload.outcome.ns, payload.bytes * 50 + 50000, elapsed);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload.outputs[rank], payload.inputs[RANKS - 1], payload.bytes);
    exec_instance_destroy(instance);
    lane_program_destroy(program);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

/* What the root, which waits for nobody, has sent over link 3 -> 0 so far: no more than the link has carried,
 * and a chunk for each slot. */
static void test_paced_root_has_no_more_chunks_under_way_than_slots(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.02);
    payload_t payload;
    payload_init(&payload, 1000000, BLINK_FLOAT32, BLINK_SUM, false);
    lane_program_t *program = make_program(&fixture, BLINK_BROADCAST, APART, BLINK_PROTOCOL_SIMPLE);
    exec_instance_t *instance = make_instance(&fixture, program);
    const _Atomic uint64_t *sent = &fixture.link_bytes[(RANKS - 1) * RANKS];

    uint64_t start = clock_ns(), bytes = 0;
    start_run(instance, &payload.run);
    uint64_t chunk_bytes = payload.bytes / instance->geometry.channels[0].chunks + 16;
    assert_true(instance->geometry.channels[0].chunks > 4 * instance->geometry.slots);
    while (bytes < payload.bytes) {
        bytes = atomic_load(sent);
        assert_true(bytes <= (clock_ns() - start) / 50 + (instance->geometry.slots + 1) * chunk_bytes);
        sched_yield();
    }
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
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
        cmocka_unit_test(test_abort_ends_parked_lanes_of_a_short_run),
        cmocka_unit_test(test_abort_ends_lanes_that_wait_for_virtual_time),
        cmocka_unit_test(test_abort_of_an_idle_instance_does_nothing),
        cmocka_unit_test(test_aborted_instance_runs_again),
        cmocka_unit_test(test_aborts_while_the_first_run_starts),
        cmocka_unit_test(test_epochs_wrap_around),
        cmocka_unit_test(test_paced_run_is_never_faster_than_its_links),
        cmocka_unit_test(test_paced_root_has_no_more_chunks_under_way_than_slots),
        cmocka_unit_test(test_paced_allreduce_equals_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
