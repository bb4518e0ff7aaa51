/*
 * The host executor on independent programs, whose runs are handed out item by item: the same results on any
 * number of threads, one end per run, and turns for all. And what a run may say of its buffers and its
 * operator, which lanes obey as items do.
 */
#include "base/list.h"
#include "exec/host/pool.h"
#include "exec_payload.h"

/* A direct allreduce, allgather or reducescatter: for every block one step that reads it wherever it is an
 * input and writes it wherever it is an output, by lane 0. */
typedef struct direct {
    lane_program_t program;
    lane_channel_t channel;
    lane_part_t parts[RANKS];
    lane_t lane;
    lane_step_t steps[RANKS];
    lane_operand_t operands[2 * RANKS * RANKS];
    lane_path_t paths[LINKS];
    uint32_t path_links[LINKS];
} direct_t;

/* From a source of lane 0, or to a destination. */
static void direct_add(direct_t *direct, lane_buffer_t buffer, uint32_t rank)
{
    uint32_t path = rank == 0 ? PLAN_NONE : buffer == LANE_INPUT ? rank * RANKS : rank;
    direct->operands[direct->program.operand_count++] =
        (lane_operand_t){(uint32_t)buffer, rank, PLAN_NONE, path};
}

static void direct_add_step(direct_t *direct, uint32_t block)
{
    blink_collective_t collective = direct->program.collective;
    lane_step_t *step = &direct->steps[block];
    *step = (lane_step_t){.part = block,
                          .src_first = direct->program.operand_count,
                          .src_count = collective == BLINK_ALLGATHER ? 1 : RANKS,
                          .dst_count = collective == BLINK_REDUCESCATTER ? 1 : RANKS,
                          .completes = 1};
    for (uint32_t i = 0; i < step->src_count; i++)
        direct_add(direct, LANE_INPUT, step->src_count == 1 ? block : i);
    step->dst_first = direct->program.operand_count;
    for (uint32_t i = 0; i < step->dst_count; i++)
        direct_add(direct, LANE_OUTPUT, step->dst_count == 1 ? block : i);
}

static void direct_init(direct_t *direct, blink_collective_t collective)
{
    memset(direct, 0, sizeof(*direct));
    uint32_t blocks = (uint32_t)collective_block_count(collective, RANKS);
    direct->channel = (lane_channel_t){.share = 1.0, .part_count = blocks};
    direct->lane = (lane_t){.to_rank = PLAN_NONE, .step_count = blocks};
    for (uint32_t i = 0; i < LINKS; i++) {
        direct->paths[i] = (lane_path_t){i, 1, i / RANKS, i % RANKS};
        direct->path_links[i] = i;
    }
    direct->program = (lane_program_t){.collective = collective,
                                       .rank_count = RANKS,
                                       .root = PLAN_NONE,
                                       .peer = PLAN_NONE,
                                       .block_count = blocks,
                                       .independent = true,
                                       .depth = 1,
                                       .channel_count = 1,
                                       .part_count = blocks,
                                       .lane_count = 1,
                                       .step_count = blocks,
                                       .path_count = LINKS,
                                       .path_link_count = LINKS,
                                       .channels = &direct->channel,
                                       .parts = direct->parts,
                                       .lanes = &direct->lane,
                                       .steps = direct->steps,
                                       .operands = direct->operands,
                                       .paths = direct->paths,
                                       .path_links = direct->path_links};
    for (uint32_t b = 0; b < blocks; b++) {
        direct->parts[b] = (lane_part_t){.block = b,
                                         .in_block = collective == BLINK_REDUCESCATTER ? b : 0,
                                         .out_block = collective == BLINK_ALLGATHER ? b : 0};
        direct_add_step(direct, b);
    }
    assert_int_equal(lane_divide_blocks(&direct->program), BLINK_OK);
}

/* ---- results ---- */

/* Elements of float32: a run that ends inside exec_start(), ones that the starter takes part in, and ones
 * that the pool makes in several turns. */
static const uint64_t all_counts[] = {0, 1, 3, 17, 4099, 8000, 20011, 30000, 100003, 1000003};

static void check_run(exec_instance_t *instance, uint64_t count, blink_datatype_t datatype,
                      blink_redop_t redop, bool in_place)
{
    payload_t payload;
    payload_init(&payload, count, datatype, redop, in_place);
    start_run(instance, &payload.run);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    assert_reduced(&payload);
    assert_int_equal(payload.outcome.done, 1);
    payload_fini(&payload);
}

static void check_all_counts(const fixture_t *fixture)
{
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instance = make_instance(fixture, &direct.program);
    for (size_t i = 0; i < LENGTH(all_counts); i++) {
        check_run(instance, all_counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        check_run(instance, all_counts[LENGTH(all_counts) - 1 - i], BLINK_INT32, BLINK_MAX, true);
    }
    exec_instance_destroy(instance);
}

static void test_one_instance_runs_every_size_on_every_pool(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        fixture_t fixture;
        fixture_init(&fixture, workers, 0.0);
        check_all_counts(&fixture);
        fixture_fini(&fixture);
    }
}

/* A starter that makes room for other tenants leaves items to workers that may all be asleep. */
static void test_what_a_starter_leaves_wakes_a_worker(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    exec_queue_t *queue = &fixture.exec->queue;
    atomic_fetch_add(&queue->tenants_hint, 1); /* another tenant, who is gone without a worker's noticing */
    for (size_t i = 0; i < LENGTH(all_counts); i++)
        for (int again = 0; again < 20; again++)
            check_run(instance, all_counts[i], BLINK_FLOAT32, BLINK_SUM, false);
    atomic_fetch_sub(&queue->tenants_hint, 1);
    exec_instance_destroy(instance);
    fixture_fini(&fixture);
}

/* A starter with other things to do leaves all of a run to workers, however small it is. */
static void test_a_busy_starter_wakes_a_worker(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    for (size_t i = 0; i < LENGTH(all_counts); i++) {
        payload_t payload;
        payload_init(&payload, all_counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        payload.run.starter_is_busy = true;
        start_run(instance, &payload.run);
        assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
        assert_reduced(&payload);
        payload_fini(&payload);
    }
    exec_instance_destroy(instance);
    fixture_fini(&fixture);
}

static void test_independent_program_runs_paced(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 1.0);
    check_all_counts(&fixture);
    fixture_fini(&fixture);
}

/* What lanes know of a root's step, the compiler says. */
static void mark_completing_steps(lane_program_t *program)
{
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        for (uint32_t s = 0; s < lane->step_count; s++) {
            lane_step_t *step = &program->steps[lane->step_first + s];
            for (uint32_t i = 0; i < step->dst_count && lane->phase == LANE_UP; i++)
                step->completes |= program->operands[step->dst_first + i].buffer == LANE_OUTPUT;
        }
    }
}

static void check_operator(blink_redop_t redop, double scale)
{
    const uint64_t counts[] = {1, 4099, 30011};
    fixture_t fixture;
    fixture_init(&fixture, 2, scale);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    lane_program_t *lanes = make_program(&fixture, BLINK_ALLREDUCE, TOGETHER, BLINK_PROTOCOL_SIMPLE);
    mark_completing_steps(lanes);
    const lane_program_t *programs[] = {&direct.program, lanes};
    for (size_t p = 0; p < LENGTH(programs); p++) {
        exec_instance_t *instance = make_instance(&fixture, programs[p]);
        for (size_t i = 0; i < LENGTH(counts); i++) {
            check_run(instance, counts[i], BLINK_FLOAT32, redop, false);
            check_run(instance, counts[i], BLINK_FLOAT32, redop, true);
        }
        exec_instance_destroy(instance);
    }
    lane_program_destroy(lanes);
    fixture_fini(&fixture);
}

static void test_average_is_divided_once(void **state)
{
    (void)state;
    check_operator(BLINK_AVG, 0.0);
    check_operator(BLINK_AVG, 1.0);
}

static void test_every_input_is_multiplied_by_its_scalar_once(void **state)
{
    (void)state;
    check_operator(BLINK_PRE_MUL_SUM, 0.0);
    check_operator(BLINK_PRE_MUL_SUM, 1.0);
}

/* ---- strides ---- */

enum { STRIDE_ELEMENTS = 3 };

static int32_t value_at(uint32_t rank, uint32_t block, uint64_t i)
{
    return (int32_t)(1000 * rank + 100 * block + i % 89);
}

/* Blocks of every rank, some elements apart from each other and more the higher the rank. */
typedef struct strided {
    uint64_t strides[RANKS];
    int32_t *memory[RANKS];
} strided_t;

static void strided_init(strided_t *strided, uint64_t count, uint64_t gap)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t elements = count + (rank + 1) * gap;
        strided->strides[rank] = elements * sizeof(int32_t);
        strided->memory[rank] = malloc(RANKS * strided->strides[rank]);
        memset(strided->memory[rank], 0xee, RANKS * strided->strides[rank]);
        for (uint32_t block = 0; block < RANKS; block++)
            for (uint64_t i = 0; i < count; i++)
                strided->memory[rank][block * elements + i] = value_at(rank, block, i);
    }
}

static void strided_fini(strided_t *strided)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        free(strided->memory[rank]);
}

static int32_t expected_at(blink_collective_t collective, uint32_t rank, uint32_t block, uint64_t i)
{
    if (collective == BLINK_ALLGATHER)
        return value_at(block, 0, i);
    int32_t sum = 0;
    for (uint32_t from = 0; from < RANKS; from++)
        sum += value_at(from, rank, i);
    return block == 0 ? sum : value_at(rank, block, i); /* a reducescatter writes one block */
}

/* All of the memory, gaps included. */
static void assert_strided(const strided_t *out, blink_collective_t collective, uint64_t count)
{
    int32_t untouched;
    memset(&untouched, 0xee, sizeof(untouched));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t elements = out->strides[rank] / sizeof(int32_t);
        for (uint64_t i = 0; i < RANKS * elements; i++) {
            uint32_t block = (uint32_t)(i / elements);
            int32_t expected =
                i % elements < count ? expected_at(collective, rank, block, i % elements) : untouched;
            if (out->memory[rank][i] != expected)
                fail_msg("rank %u holds %d at %llu of block %u, not %d", rank, out->memory[rank][i],
                         (unsigned long long)(i % elements), block, expected);
        }
    }
}

static void check_strides(const fixture_t *fixture, const lane_program_t *program, uint64_t count)
{
    strided_t in, out;
    strided_init(&in, count, STRIDE_ELEMENTS);
    strided_init(&out, count, 2 * STRIDE_ELEMENTS);
    outcome_t outcome;
    outcome_init(&outcome);
    exec_run_t run = {.inputs = (const void *const *)in.memory,
                      .outputs = (void *const *)out.memory,
                      .input_strides = in.strides,
                      .output_strides = out.strides,
                      .count = count,
                      .datatype = BLINK_INT32,
                      .redop = BLINK_SUM,
                      .done = on_end,
                      .context = &outcome};
    exec_instance_t *instance = make_instance(fixture, program);
    start_run(instance, &run);
    assert_int_equal(wait_done(&outcome, 1), BLINK_OK);
    assert_strided(&out, program->collective, count);
    exec_instance_destroy(instance);
    outcome_fini(&outcome);
    strided_fini(&out);
    strided_fini(&in);
}

static void test_blocks_stand_where_the_strides_say(void **state)
{
    (void)state;
    const blink_collective_t collectives[] = {BLINK_ALLGATHER, BLINK_REDUCESCATTER};
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    for (size_t c = 0; c < LENGTH(collectives); c++) {
        direct_t direct;
        direct_init(&direct, collectives[c]);
        lane_program_t *lanes = make_program(&fixture, collectives[c], TOGETHER, BLINK_PROTOCOL_SIMPLE);
        check_strides(&fixture, &direct.program, 5);
        check_strides(&fixture, &direct.program, 20001);
        check_strides(&fixture, lanes, 5);
        check_strides(&fixture, lanes, 20001);
        lane_program_destroy(lanes);
    }
    fixture_fini(&fixture);
}

static void test_link_bytes_count_what_is_pulled(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    _Atomic uint64_t comm_bytes[LINKS] = {0};
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    payload_t payload;
    payload_init(&payload, 100001, BLINK_FLOAT32, BLINK_SUM, false);
    payload.run.comm_link_bytes = comm_bytes;
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    start_run(instance, &payload.run);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    for (uint32_t i = 0; i < LINKS; i++) {
        bool crossed = (i / RANKS == 0) != (i % RANKS == 0); /* from or to rank 0 */
        assert_int_equal(comm_bytes[i], crossed ? payload.bytes : 0);
        assert_int_equal(fixture.link_bytes[i], comm_bytes[i]);
    }
    exec_instance_destroy(instance);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

/* Links 1, 2 and 3 -> 0 carry the payload at 1 GB/s × 0.05 at a time, then those from 0. */
static void test_paced_pull_is_never_faster_than_its_links(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.05);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    payload_t payload;
    payload_init(&payload, 250000, BLINK_FLOAT32, BLINK_SUM, false);
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    start_run(instance, &payload.run);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t elapsed_ns = (end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
    assert_true(elapsed_ns >= (int64_t)payload.bytes * 20 + 40000);
    assert_reduced(&payload);
    exec_instance_destroy(instance);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

/* ---- ends ---- */

static void test_done_is_called_unless_the_run_ended_inside_start(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 2, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    for (size_t i = 0; i < LENGTH(all_counts); i++) {
        payload_t payload;
        payload_init(&payload, all_counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        exec_end_t end;
        bool ended = exec_start(instance, &payload.run, &end);
        assert_int_equal(end.result, BLINK_OK);
        if (all_counts[i] <= 3)
            assert_true(ended);
        if (all_counts[i] >= 1000000)
            assert_false(ended);
        if (!ended)
            assert_int_equal(wait_done(&payload.outcome, 1), BLINK_OK);
        assert_int_equal(payload.outcome.done, ended ? 0 : 1);
        assert_reduced(&payload);
        payload_fini(&payload);
    }
    exec_instance_destroy(instance);
    fixture_fini(&fixture);
}

/* Keeps a worker until the test lets it go. */
typedef struct gate {
    exec_task_t task;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool entered, open;
} gate_t;

static uint64_t wait_at_gate(exec_task_t *task)
{
    gate_t *gate = CONTAINER_OF(task, gate_t, task);
    pthread_mutex_lock(&gate->mutex);
    gate->entered = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    return 0;
}

/* Occupy the only worker. */
static void close_gate(const fixture_t *fixture, gate_t *gate)
{
    *gate = (gate_t){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    task_init(&gate->task, wait_at_gate, NULL);
    gate->task.share = fixture->exec->base.own_share;
    pthread_mutex_lock(&fixture->exec->mutex);
    assert_int_equal(queue_reserve(&fixture->exec->queue, 1), BLINK_OK);
    queue_push(&fixture->exec->queue, &gate->task, 0);
    pool_unlock_and_wake(fixture->exec);
    pthread_mutex_lock(&gate->mutex);
    while (!gate->entered)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static void open_gate(gate_t *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static void test_abort_of_a_run_nobody_has_begun_leaves_outputs_alone(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    payload_t payload;
    payload_init(&payload, 1000003, BLINK_FLOAT32, BLINK_SUM, false);
    void *untouched = calloc(1, payload.bytes);
    gate_t gate;
    close_gate(&fixture, &gate);
    start_run(instance, &payload.run);
    exec_abort(instance, BLINK_ERR_PEER_LOST);
    exec_abort(instance, BLINK_ERR_TIMEOUT);
    open_gate(&gate);
    assert_int_equal(wait_done(&payload.outcome, 1), BLINK_ERR_PEER_LOST);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(payload.outputs[rank], untouched, payload.bytes);
    exec_instance_destroy(instance);
    assert_int_equal(payload.outcome.done, 1);
    free(untouched);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void check_aborts_at_any_time(uint32_t workers, uint64_t count)
{
    fixture_t fixture;
    fixture_init(&fixture, workers, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instance = make_instance(&fixture, &direct.program);
    payload_t payload;
    payload_init(&payload, count, BLINK_FLOAT32, BLINK_SUM, false);
    for (long i = 0; i < 100; i++) {
        blink_result_t result = run_and_abort(instance, &payload, i * 5);
        assert_true(is_end_of_aborted_run(result));
    }
    start_run(instance, &payload.run);
    assert_int_equal(wait_done(&payload.outcome, 101), BLINK_OK);
    assert_int_equal(payload.outcome.done, 101);
    assert_reduced(&payload);
    exec_instance_destroy(instance);
    payload_fini(&payload);
    fixture_fini(&fixture);
}

static void test_aborted_instance_runs_again(void **state)
{
    (void)state;
    check_aborts_at_any_time(1, 500000);
    check_aborts_at_any_time(3, 500000);
    check_aborts_at_any_time(3, 25000);
}

/* ---- many runs ---- */

static void check_many_runs(uint32_t workers)
{
    enum { INSTANCES = 100, ROUNDS = 3 };
    static payload_t payloads[INSTANCES];
    exec_instance_t *instances[INSTANCES];
    fixture_t fixture;
    fixture_init(&fixture, workers, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    for (uint32_t i = 0; i < INSTANCES; i++) {
        instances[i] = make_instance(&fixture, &direct.program);
        payload_init(&payloads[i], i % 10 == 0 ? 150000 : 500 * i, BLINK_FLOAT32, BLINK_SUM, false);
    }
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = 0; i < INSTANCES; i++)
            start_run(instances[i], &payloads[i].run);
        for (uint32_t i = 0; i < INSTANCES; i++)
            assert_int_equal(wait_done(&payloads[i].outcome, round), BLINK_OK);
    }
    for (uint32_t i = 0; i < INSTANCES; i++) {
        assert_reduced(&payloads[i]);
        assert_int_equal(payloads[i].outcome.done, ROUNDS);
        exec_instance_destroy(instances[i]);
        payload_fini(&payloads[i]);
    }
    fixture_fini(&fixture);
}

static void test_hundred_runs_share_one_pool(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= 4; workers++)
        check_many_runs(workers);
}

/* When a run ended, among those that read the same clock. */
typedef struct finish {
    uint32_t *clock; /* runs that have ended; one worker writes it */
    uint32_t place;
    outcome_t *outcome;
} finish_t;

static void on_finish(const exec_end_t *end)
{
    finish_t *finish = end->context;
    finish->place = ++*finish->clock;
    on_done(finish->outcome, end->result);
}

/* One worker; the long run, of 16 symmetries, stands in the queue before the short one, of two. */
static void test_short_run_does_not_wait_for_the_end_of_a_long_one(void **state)
{
    (void)state;
    const uint64_t counts[] = {2000000, 200000};
    uint32_t clock = 0;
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    direct_t direct;
    direct_init(&direct, BLINK_ALLREDUCE);
    exec_instance_t *instances[2];
    payload_t payloads[2];
    finish_t finishes[2];
    gate_t gate;
    close_gate(&fixture, &gate);
    for (uint32_t i = 0; i < 2; i++) {
        instances[i] = make_instance(&fixture, &direct.program);
        payload_init(&payloads[i], counts[i], BLINK_FLOAT32, BLINK_SUM, false);
        finishes[i] = (finish_t){.clock = &clock, .outcome = &payloads[i].outcome};
        payloads[i].run.done = on_finish;
        payloads[i].run.context = &finishes[i];
        assert_false(start_run(instances[i], &payloads[i].run));
    }
    open_gate(&gate);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(wait_done(&payloads[i].outcome, 1), BLINK_OK);
        assert_reduced(&payloads[i]);
        exec_instance_destroy(instances[i]);
        payload_fini(&payloads[i]);
    }
    assert_int_equal(finishes[1].place, 1);
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_instance_runs_every_size_on_every_pool),
        cmocka_unit_test(test_what_a_starter_leaves_wakes_a_worker),
        cmocka_unit_test(test_a_busy_starter_wakes_a_worker),
        cmocka_unit_test(test_independent_program_runs_paced),
        cmocka_unit_test(test_average_is_divided_once),
        cmocka_unit_test(test_every_input_is_multiplied_by_its_scalar_once),
        cmocka_unit_test(test_blocks_stand_where_the_strides_say),
        cmocka_unit_test(test_link_bytes_count_what_is_pulled),
        cmocka_unit_test(test_paced_pull_is_never_faster_than_its_links),
        cmocka_unit_test(test_done_is_called_unless_the_run_ended_inside_start),
        cmocka_unit_test(test_abort_of_a_run_nobody_has_begun_leaves_outputs_alone),
        cmocka_unit_test(test_aborted_instance_runs_again),
        cmocka_unit_test(test_hundred_runs_share_one_pool),
        cmocka_unit_test(test_short_run_does_not_wait_for_the_end_of_a_long_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
