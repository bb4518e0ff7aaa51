/* Which run goes to the GPUs next, and when. The test is the GPU worker: it takes runs as they are granted
 * and ends them one by one, the oldest first. It counts, and measures no time. */
#include "exec/cuda/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define ENTRIES     1024u
#define ARENA_BYTES (1u << 20)
#define GPUS        4u
#define RESIDENT    8u
#define MANY        64u
#define WARM        200u
#define QUANTUM     (uint64_t) GRANT_QUANTUM_BYTES
#define LARGE       (1ull << 30)
#define LANES       (GPUS * RESIDENT)
#define ALL_GPUS    0xfu

/* A communicator that has a run under way, or waiting, all the time once it has begun. */
typedef struct job {
    lane_program_t program; /* lanes of one step each, which copies the rank's input to its output */
    lane_channel_t channel;
    lane_part_t part;
    lane_t lanes[LANES];
    lane_step_t steps[LANES];
    lane_operand_t operands[2 * LANES];
    exec_share_t *share;
    exec_instance_t *instance;
    uint64_t bytes; /* that its run costs on each of its GPUs */
    uint32_t granted, ended;
} job_t;

typedef struct world {
    gpu_facts_t gpus[GPUS];
    uint32_t gpu_of_node[GPUS];
    exec_cuda_t *exec;
    ring_t worker;
    uint64_t taken[ENTRIES]; /* user data of the runs that the worker has, the oldest first */
    uint32_t taken_count;
} world_t;

/* ---- the worker ---- */

static void start_worker(world_t *world)
{
    gpu_channel_t channel = {.doorbell_fd = eventfd(0, EFD_NONBLOCK), .event_fd = ring_create_event()};
    assert_int_equal(ring_create(ENTRIES, ENTRIES, &world->worker, &channel.ring_fd), BLINK_OK);
    channel.arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    channel.arena_bytes = ARENA_BYTES;
    assert_int_equal(exec_cuda_attach(world->exec, &channel), BLINK_OK);
}

static world_t *make_world(void)
{
    world_t *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
        world->gpus[gpu] = (gpu_facts_t){.resident_blocks = RESIDENT, .peers = ALL_GPUS};
        world->gpu_of_node[gpu] = gpu;
    }
    const exec_cuda_config_t config = {
        .gpu_count = GPUS, .gpus = world->gpus, .gpu_of_node = world->gpu_of_node};
    assert_int_equal(exec_cuda_create(&config, &world->exec), BLINK_OK);
    start_worker(world);
    return world;
}

static void free_world(world_t *world)
{
    exec_cuda_destroy(world->exec);
    ring_unmap(&world->worker);
    free(world);
}

static job_t *job_of(uint64_t user_data)
{
    const cuda_request_t *request = (const cuda_request_t *)(uintptr_t)user_data;
    return request->instance ? request->instance->base.run.context : NULL;
}

/* Take what has been sent; all but runs is done at once. */
static void take_all(world_t *world)
{
    ring_sqe_t sqe;
    while (ring_take(&world->worker, &sqe)) {
        if (sqe.opcode != GPU_RUN) {
            ring_complete(&world->worker, sqe.user_data, BLINK_OK, NULL);
            continue;
        }
        world->taken[world->taken_count++] = sqe.user_data;
        job_of(sqe.user_data)->granted++;
    }
}

static void start_run(world_t *world, job_t *job);

/* Let the daemon see what the worker has done. Returns whose run has ended, or NULL. */
static job_t *poll_end(world_t *world, blink_result_t *result)
{
    exec_end_t end, next;
    if (!exec_poll(exec_of_cuda(world->exec), &end))
        return NULL;
    *result = end.result;
    assert_false(exec_poll(exec_of_cuda(world->exec), &next)); /* and grants runs */
    job_t *job = end.context;
    job->ended++;
    return job;
}

/* End the oldest run at the worker. Returns whose it was. */
static job_t *end_oldest(world_t *world)
{
    blink_result_t result;
    take_all(world);
    assert_true(world->taken_count > 0);
    ring_complete(&world->worker, world->taken[0], BLINK_OK, NULL);
    memmove(world->taken, world->taken + 1, --world->taken_count * sizeof(world->taken[0]));
    job_t *job = poll_end(world, &result);
    assert_non_null(job);
    assert_int_equal(result, BLINK_OK);
    take_all(world);
    return job;
}

/* ---- communicators ---- */

static void make_program(job_t *job, uint32_t ranks, uint32_t lanes)
{
    job->channel = (lane_channel_t){.share = 1.0, .part_count = 1};
    job->part = (lane_part_t){.siblings = 1, .end = 1.0};
    for (uint32_t i = 0; i < ranks * lanes; i++) {
        job->lanes[i] = (lane_t){.rank = i / lanes, .to_rank = PLAN_NONE, .step_first = i, .step_count = 1};
        job->steps[i] =
            (lane_step_t){.src_first = 2 * i, .src_count = 1, .dst_first = 2 * i + 1, .dst_count = 1};
        job->operands[2 * i] = (lane_operand_t){LANE_INPUT, i / lanes, 0, PLAN_NONE};
        job->operands[2 * i + 1] = (lane_operand_t){LANE_OUTPUT, i / lanes, 0, PLAN_NONE};
    }
    job->program = (lane_program_t){.collective = BLINK_ALLREDUCE,
                                    .rank_count = ranks,
                                    .block_count = 1,
                                    .channel_count = 1,
                                    .part_count = 1,
                                    .lane_count = ranks * lanes,
                                    .step_count = ranks * lanes,
                                    .operand_count = 2 * ranks * lanes,
                                    .channels = &job->channel,
                                    .parts = &job->part,
                                    .lanes = job->lanes,
                                    .steps = job->steps,
                                    .operands = job->operands};
}

/* A communicator of this tenant, on these GPUs: its runs have so many lanes on each, which wait for one
 * another (0: one, that waits for nothing), and read and write so many bytes there. */
static job_t *make_job(world_t *world, const void *tenant, uint32_t weight, uint32_t gpu_mask, uint32_t lanes,
                       uint64_t bytes)
{
    uint32_t nodes[GPUS], ranks = 0, each = lanes > 0 ? lanes : 1;
    job_t *job = calloc(1, sizeof(*job));
    assert_non_null(job);
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
        if (gpu_mask & 1u << gpu)
            nodes[ranks++] = gpu;
    }
    make_program(job, ranks, each);
    job->program.independent = lanes == 0;
    job->bytes = bytes / each / 2 + 1; /* it is read, and written */
    exec_t *exec = exec_of_cuda(world->exec);
    assert_int_equal(exec_share_create(exec, tenant, weight, &job->share), BLINK_OK);
    assert_int_equal(exec_instance_create(exec, &job->program, nodes, &job->instance), BLINK_OK);
    return job;
}

static void start_run(world_t *world, job_t *job)
{
    const void *inputs[GPUS] = {world, world, world, world};
    void *outputs[GPUS] = {world, world, world, world};
    exec_end_t end;
    const exec_run_t run = {.inputs = inputs,
                            .outputs = outputs,
                            .count = job->bytes,
                            .datatype = BLINK_UINT8,
                            .share = job->share,
                            .context = job};
    assert_false(exec_start(job->instance, &run, &end));
    take_all(world);
}

static void free_jobs(job_t **jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        exec_instance_destroy(jobs[i]->instance);
        exec_share_destroy(jobs[i]->share);
        free(jobs[i]);
    }
}

static uint32_t granted(job_t **jobs, uint32_t count)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        total += jobs[i]->granted;
    return total;
}

/* End so many runs; each communicator starts its next one at once. */
static void go_on(world_t *world, uint32_t ends)
{
    while (ends-- > 0)
        start_run(world, end_oldest(world));
}

/* End all that is under way or waits. */
static void finish(world_t *world)
{
    while (world->taken_count > 0)
        end_oldest(world);
}

/* ---- shares ---- */

/* Two tenants with 8 communicators each, so that something of both waits all the time. */
static void check_shares(uint32_t weight, uint32_t lanes, uint64_t bytes)
{
    world_t *world = make_world();
    job_t *heavy[8], *light[8];
    for (uint32_t i = 0; i < 8; i++) {
        heavy[i] = make_job(world, heavy, weight, ALL_GPUS, lanes, bytes);
        light[i] = make_job(world, light, 1, ALL_GPUS, lanes, bytes);
    }
    for (uint32_t i = 0; i < 8; i++) {
        start_run(world, light[i]);
        start_run(world, heavy[i]);
    }
    go_on(world, WARM);
    uint32_t heavy_before = granted(heavy, 8), light_before = granted(light, 8);
    go_on(world, 16 * (weight + 1));
    assert_int_equal(granted(heavy, 8) - heavy_before, 16 * weight);
    assert_int_equal(granted(light, 8) - light_before, 16);
    uint64_t turn = bytes < QUANTUM / GPUS ? QUANTUM / GPUS / bytes : 1;
    for (uint32_t i = 1; i < 8; i++)
        assert_in_range(heavy[i]->granted + turn + 1, heavy[0]->granted, heavy[0]->granted + 2 * turn + 2);
    finish(world);
    free_jobs(heavy, 8);
    free_jobs(light, 8);
    free_world(world);
}

static void test_tenants_are_granted_runs_by_their_weights(void **state)
{
    (void)state;
    check_shares(1, 0, QUANTUM);
    check_shares(3, 0, QUANTUM);
    check_shares(3, RESIDENT / 2, QUANTUM);
    check_shares(3, 0, 4 * QUANTUM);
    check_shares(3, RESIDENT, 64 * LARGE); /* what a run costs is charged in full */
    check_shares(5, 1, GRANT_LEAST_BYTES);
}

/* A tenant with runs of one size beside a tenant with runs of another. */
static void test_costs_are_what_is_shared(void **state)
{
    (void)state;
    world_t *world = make_world();
    job_t *large[8], *small[8];
    for (uint32_t i = 0; i < 8; i++) {
        large[i] = make_job(world, large, 1, ALL_GPUS, 0, 1000 * QUANTUM);
        small[i] = make_job(world, small, 1, ALL_GPUS, 0, 10 * QUANTUM);
        start_run(world, large[i]);
        start_run(world, small[i]);
    }
    go_on(world, 2020);
    assert_in_range(granted(large, 8), 19, 22);
    finish(world);
    free_jobs(large, 8);
    free_jobs(small, 8);
    free_world(world);
}

static void test_what_a_tenant_does_not_use_the_others_have(void **state)
{
    (void)state;
    world_t *world = make_world();
    job_t *jobs[4];
    for (uint32_t i = 0; i < 4; i++) {
        jobs[i] = make_job(world, &jobs[i], i + 1, ALL_GPUS, 0, QUANTUM);
        start_run(world, jobs[i]);
    }
    go_on(world, WARM);
    finish(world);
    for (uint32_t i = 0; i < 2; i++)
        start_run(world, jobs[i]);
    uint32_t before = granted(jobs, 4);
    go_on(world, WARM);
    assert_int_equal(granted(jobs, 2) - before + jobs[2]->granted + jobs[3]->granted, WARM);
    finish(world);
    free_jobs(jobs, 4);
    free_world(world);
}

/* ---- who waits for whom ---- */

/* The runs of others that are granted between the moment at which a small run asks and its own grant. */
static uint32_t waits_for(world_t *world, job_t *small)
{
    uint32_t waited = 0, before = small->granted;
    start_run(world, small);
    while (small->granted == before) {
        go_on(world, 1);
        waited++;
    }
    return waited;
}

static void check_small_run(bool of_one_tenant, uint32_t lanes, uint32_t most)
{
    world_t *world = make_world();
    job_t *hogs[MANY], *small = make_job(world, &small, 1, ALL_GPUS, lanes, 8);
    for (uint32_t i = 0; i < MANY; i++) {
        hogs[i] = make_job(world, of_one_tenant ? (void *)hogs : &hogs[i], 1, ALL_GPUS, lanes, LARGE);
        start_run(world, hogs[i]);
    }
    for (uint32_t i = 0; i < WARM; i++) {
        assert_true(waits_for(world, small) <= most);
        while (small->ended < small->granted) {
            job_t *job = end_oldest(world);
            if (job != small)
                start_run(world, job);
        }
        go_on(world, i % 7);
    }
    finish(world);
    free_jobs(hogs, MANY);
    free_jobs(&small, 1);
    free_world(world);
}

static void test_a_small_run_waits_for_no_more_than_a_run_of_each_other_tenant(void **state)
{
    (void)state;
    check_small_run(true, 0, 1);
    check_small_run(true, 2, 1);
    check_small_run(false, 0, MANY);
    check_small_run(false, 2, MANY);
}

static void test_what_is_at_the_gpus_at_a_time_is_bounded(void **state)
{
    (void)state;
    world_t *world = make_world();
    job_t *large[MANY], *small[2 * MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        large[i] = make_job(world, large, 1, 1u, 0, LARGE);
        start_run(world, large[i]);
    }
    assert_int_equal(world->taken_count, GRANT_RUNS);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        small[i] = make_job(world, large, 1, 2u, 0, 8);
        start_run(world, small[i]);
    }
    assert_int_equal(world->taken_count, GRANT_RUNS + GRANT_BYTES / GRANT_LEAST_BYTES);
    finish(world);
    assert_int_equal(granted(large, MANY) + granted(small, 2 * MANY), 3 * MANY);
    free_jobs(large, MANY);
    free_jobs(small, 2 * MANY);
    free_world(world);
}

/* Lanes that wait for one another: all blocks must fit beside those that are there. */
static void test_a_run_of_many_blocks_is_not_starved_by_runs_of_few(void **state)
{
    (void)state;
    world_t *world = make_world();
    job_t *few[16], *many = make_job(world, &many, 1, ALL_GPUS, RESIDENT, QUANTUM);
    for (uint32_t i = 0; i < 16; i++) {
        few[i] = make_job(world, &few[i], 1, 1u << i % GPUS, 2, QUANTUM);
        start_run(world, few[i]);
    }
    go_on(world, WARM);
    start_run(world, many);
    for (uint32_t rounds = 0; rounds < 20; rounds++) {
        uint32_t before = granted(few, 16);
        while (many->granted == rounds)
            go_on(world, 1);
        assert_in_range(granted(few, 16) - before, 0, 2 * 16);
        assert_int_equal(world->taken_count, 1); /* nothing beside it */
        assert_ptr_equal(end_oldest(world), many);
        start_run(world, many);
    }
    finish(world);
    free_jobs(few, 16);
    free_jobs(&many, 1);
    free_world(world);
}

static void test_only_runs_on_other_gpus_pass_one_that_waits(void **state)
{
    (void)state;
    world_t *world = make_world();
    job_t *full = make_job(world, &full, 1, 1u, RESIDENT, 8);
    job_t *waits = make_job(world, &waits, 1, 3u, 1, 8);
    job_t *shared = make_job(world, &shared, 1, 2u, 1, 4 * QUANTUM);
    job_t *other = make_job(world, &other, 1, 4u, 1, 8);
    start_run(world, shared); /* with which it has had what is its in this round */
    assert_ptr_equal(end_oldest(world), shared);
    start_run(world, full);
    start_run(world, waits);
    start_run(world, shared);
    start_run(world, other);
    assert_int_equal(waits->granted, 0);  /* GPU 0 has no space */
    assert_int_equal(shared->granted, 1); /* and GPU 1 is kept for that one */
    assert_int_equal(other->granted, 1);
    assert_ptr_equal(end_oldest(world), full);
    assert_int_equal(waits->granted, 1);
    assert_int_equal(shared->granted, 2);
    finish(world);
    free_jobs((job_t *[]){full, waits, shared, other}, 4);
    free_world(world);
}

/* ---- runs that do not come to their end ---- */

static void test_a_run_that_waits_and_is_aborted_lets_others_go(void **state)
{
    (void)state;
    world_t *world = make_world();
    blink_result_t result;
    job_t *jobs[] = {make_job(world, &jobs[0], 1, 1u, RESIDENT, 8), make_job(world, &jobs[1], 1, 3u, 1, 8),
                     make_job(world, &jobs[2], 1, 2u, 1, 8)};
    for (uint32_t i = 0; i < 3; i++)
        start_run(world, jobs[i]);
    assert_true(exec_turn_us(jobs[0]->instance) < EXEC_TURN_AWAITED);
    assert_true(exec_turn_us(jobs[1]->instance) == EXEC_TURN_AWAITED);
    exec_abort(jobs[1]->instance, BLINK_ERR_PEER_LOST);
    assert_true(exec_cuda_aborting_since_us(world->exec) == UINT64_MAX);
    assert_ptr_equal(poll_end(world, &result), jobs[1]);
    assert_int_equal(result, BLINK_ERR_PEER_LOST);
    take_all(world);
    assert_int_equal(jobs[2]->granted, 1);
    finish(world);
    free_jobs(jobs, 3);
    free_world(world);
}

static void test_an_abort_is_remembered_until_the_run_ends(void **state)
{
    (void)state;
    world_t *world = make_world();
    blink_result_t result;
    job_t *jobs[] = {make_job(world, &jobs[0], 1, 1u, 0, 8), make_job(world, &jobs[1], 1, 1u, 0, 8)};
    start_run(world, jobs[0]);
    start_run(world, jobs[1]);
    exec_abort(jobs[0]->instance, BLINK_ERR_TIMEOUT);
    uint64_t since_us = exec_cuda_aborting_since_us(world->exec);
    assert_true(since_us < UINT64_MAX);
    exec_abort(jobs[1]->instance, BLINK_ERR_TIMEOUT);
    assert_true(exec_cuda_aborting_since_us(world->exec) == since_us);
    take_all(world);
    for (uint32_t i = 0; i < 2; i++) {
        ring_complete(&world->worker, world->taken[i], BLINK_ERR_ABORTED, NULL);
        assert_ptr_equal(poll_end(world, &result), jobs[i]);
        assert_int_equal(result, BLINK_ERR_TIMEOUT);
        assert_true(exec_cuda_aborting_since_us(world->exec) >= since_us);
    }
    assert_true(exec_cuda_aborting_since_us(world->exec) == UINT64_MAX);
    free_jobs(jobs, 2);
    free_world(world);
}

static void test_all_runs_end_with_the_worker(void **state)
{
    (void)state;
    world_t *world = make_world();
    job_t *jobs[MANY];
    exec_end_t end;
    uint32_t ended = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        jobs[i] = make_job(world, &jobs[i % 3], 1, ALL_GPUS, 1 + i % RESIDENT, LARGE);
        start_run(world, jobs[i]);
    }
    exec_abort(jobs[0]->instance, BLINK_ERR_TIMEOUT);
    exec_cuda_detach(world->exec, "it is gone");
    for (; exec_poll(exec_of_cuda(world->exec), &end); ended++)
        assert_int_equal(end.result, end.context == jobs[0] ? BLINK_ERR_TIMEOUT : BLINK_ERR_SYSTEM);
    assert_int_equal(ended, MANY);
    assert_true(exec_cuda_aborting_since_us(world->exec) == UINT64_MAX);
    ring_unmap(&world->worker);
    world->taken_count = 0;
    start_worker(world);
    for (uint32_t i = 0; i < MANY; i++)
        start_run(world, jobs[i]);
    go_on(world, WARM);
    finish(world);
    free_jobs(jobs, MANY);
    free_world(world);
}

/* Programs that only move, where kernels take turns with the applications'. */
static void test_each_gpu_copies_what_is_its_own(void **state)
{
    const void *inputs[GPUS];
    void *outputs[GPUS];
    exec_end_t end;
    (void)state;
    world_t *world = make_world();
    world->exec->config.moves_by_copy_engines = true;
    job_t *job = make_job(world, world, 1, ALL_GPUS, 0, LARGE);
    for (uintptr_t rank = 0; rank < GPUS; rank++) { /* nobody here looks there */
        inputs[rank] = (void *)((2 * rank + 1) << 32);
        outputs[rank] = (void *)((2 * rank + 2) << 32);
    }
    const exec_run_t run = {.inputs = inputs,
                            .outputs = outputs,
                            .count = job->bytes,
                            .datatype = BLINK_UINT8,
                            .share = job->share,
                            .context = job};
    assert_false(exec_start(job->instance, &run, &end));
    take_all(world);
    const cuda_request_t *request = (const cuda_request_t *)(uintptr_t)world->taken[0];
    const gpu_run_t *sent = (const gpu_run_t *)(const void *)request->data;
    assert_int_equal(sent->copy_count, GPUS);
    for (uint32_t i = 0; i < GPUS; i++) {
        assert_int_equal(sent->copies[i].gpu, i);
        assert_true(sent->copies[i].src == (uintptr_t)inputs[i]);
    }
    assert_ptr_equal(end_oldest(world), job);
    free_jobs(&job, 1);
    free_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenants_are_granted_runs_by_their_weights),
        cmocka_unit_test(test_costs_are_what_is_shared),
        cmocka_unit_test(test_what_a_tenant_does_not_use_the_others_have),
        cmocka_unit_test(test_a_small_run_waits_for_no_more_than_a_run_of_each_other_tenant),
        cmocka_unit_test(test_what_is_at_the_gpus_at_a_time_is_bounded),
        cmocka_unit_test(test_a_run_of_many_blocks_is_not_starved_by_runs_of_few),
        cmocka_unit_test(test_only_runs_on_other_gpus_pass_one_that_waits),
        cmocka_unit_test(test_a_run_that_waits_and_is_aborted_lets_others_go),
        cmocka_unit_test(test_an_abort_is_remembered_until_the_run_ends),
        cmocka_unit_test(test_all_runs_end_with_the_worker),
        cmocka_unit_test(test_each_gpu_copies_what_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
