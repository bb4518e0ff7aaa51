/*
 * What plans ask of multiprocessors (plan/blocks.h): counts that agree with the lanes that are compiled,
 * channels that are divided until blocks fill the links of GPUs, and choices that fit a device.
 */
#include "plan/blocks.h"
#include "plan/choose.h"
#include "plan/lane/lane.h"
#include "plan/model.h"
#include "plan/predict.h"
#include "plan/show/limit.h"
#include "plan_checks.h"
#include "prove/verify.h"
#include "sim/sim.h"
#include "topo/reached.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* Machines as their GPUs use them, and what a block moves there. */
static const struct machine {
    const char *name;
    uint32_t capability;
} machines[] = {{"dgx_a100", 80}, {"dgx_h100", 90}, {"dgx1v", 70}, {"dgx2", 70}};

#define MACHINES (sizeof(machines) / sizeof(machines[0]))

static topo_t *reach(const char *name)
{
    topo_t *named = load(name), *reached = NULL;
    assert_int_equal(topo_as_reached(named, &reached), BLINK_OK);
    topo_destroy(named);
    return reached;
}

static plan_request_t ask(const topo_t *topo, const struct machine *machine, blink_algorithm_t algorithm,
                          uint64_t bytes)
{
    return (plan_request_t){.collective = BLINK_ALLREDUCE,
                            .algorithm = algorithm,
                            .rank_node = topo->gpus,
                            .rank_count = topo->gpu_count,
                            .bytes = bytes,
                            .block_GBps = model_block_GBps(machine->capability)};
}

static plan_t *plan_of(const topo_t *topo, const plan_request_t *request)
{
    plan_t *plan = NULL;
    if (plan_create(topo, request, &plan) != BLINK_OK)
        fail_msg("%s, %s: %s", topo->name, blink_name_algorithm(request->algorithm), blink_error_text());
    return plan;
}

static plan_blocks_t count(const plan_t *plan)
{
    plan_blocks_t blocks;
    assert_int_equal(plan_count_blocks(plan, &blocks), BLINK_OK);
    return blocks;
}

static lane_program_t *compile(const topo_t *topo, const plan_t *plan)
{
    lane_program_t *program = NULL;
    if (lane_compile(topo, plan, NULL, &program) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    return program;
}

static double links_GBps(const topo_t *topo, const plan_t *plan)
{
    plan_t of_links = *plan;
    double GBps = 0.0;
    of_links.block_GBps = 0.0;
    assert_int_equal(plan_rate_GBps(topo, &of_links, &GBps), BLINK_OK);
    return GBps;
}

/* ---- counting ---- */

/* The same by the steps of the lanes: what the busiest lane moves, and the lanes of a rank. */
static plan_blocks_t count_lanes(const lane_program_t *program)
{
    plan_blocks_t blocks = {0};
    uint64_t lanes[PLAN_RANKS_MAX] = {0};
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        const lane_channel_t *channel = &program->channels[lane->channel];
        double moved = 0.0;
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++)
            moved += channel->share / channel->part_count *
                     fmax(program->steps[s].src_count, program->steps[s].dst_count);
        blocks.busiest = fmax(blocks.busiest, moved);
        lanes[lane->rank]++;
    }
    for (uint32_t rank = 0; rank < program->rank_count; rank++)
        blocks.count = lanes[rank] > blocks.count ? lanes[rank] : blocks.count;
    return blocks;
}

static void check_counts(const topo_t *topo, plan_t *plan)
{
    const plan_blocks_t counted = count(plan);
    for (uint32_t protocol = 0; protocol < 2; protocol++) {
        plan->protocol = (blink_protocol_t)protocol; /* Simple, LL */
        lane_program_t *program = compile(topo, plan);
        const plan_blocks_t lanes = count_lanes(program);
        assert_true(lanes.count <= (protocol == BLINK_PROTOCOL_SIMPLE ? counted.count : counted.flagged));
        if (protocol == BLINK_PROTOCOL_SIMPLE)
            assert_close(lanes.busiest, counted.busiest);
        lane_program_destroy(program);
    }
}

static void test_blocks_are_counted_as_lanes_are_compiled(void **state)
{
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_ONE_HOP,
                                                   BLINK_ALGORITHM_RING, BLINK_ALGORITHM_SHALLOW_TREES,
                                                   BLINK_ALGORITHM_RECURSIVE_DOUBLING};
    (void)state;
    for (size_t m = 0; m < MACHINES; m++) {
        topo_t *topo = reach(machines[m].name);
        uint32_t checked = 0;
        for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
            for (uint32_t c = 0; c <= BLINK_SENDRECV; c++) {
                plan_request_t request = ask(topo, &machines[m], algorithms[a], 64 * MIB);
                plan_t *plan = NULL;
                request.collective = (blink_collective_t)c;
                request.peer = 1;
                if (plan_create(topo, &request, &plan) != BLINK_OK)
                    continue; /* not every algorithm does every collective, or joins all GPUs */
                check_counts(topo, plan);
                plan_destroy(plan);
                checked++;
            }
        assert_true(checked >= 20);
        topo_destroy(topo);
    }
}

static void test_what_a_block_moves_depends_on_the_gpu(void **state)
{
    (void)state;
    assert_close(model_block_GBps(0), 24.0);
    assert_close(model_block_GBps(60), 26.5);
    assert_close(model_block_GBps(70), 26.5);
    assert_close(model_block_GBps(75), 26.5);
    assert_close(model_block_GBps(80), 24.0);
    assert_close(model_block_GBps(89), 24.0);
    assert_close(model_block_GBps(90), 38.7);
    assert_close(model_block_GBps(100), 70.0);
    assert_close(model_block_GBps(120), 70.0);
}

/* ---- dividing ---- */

static void test_large_payloads_have_blocks_enough_to_fill_the_links(void **state)
{
    (void)state;
    for (size_t m = 0; m < MACHINES; m++) {
        topo_t *topo = reach(machines[m].name);
        plan_request_t request = ask(topo, &machines[m], BLINK_ALGORITHM_AUTO, 256 * MIB);
        plan_t *plan = plan_of(topo, &request);
        check_plan(topo, plan);
        if (plan->rate_GBps < 0.99 * plan->bound_GBps)
            fail_msg("%s: %f GB/s of %f", topo->name, plan->rate_GBps, plan->bound_GBps);
        const plan_blocks_t blocks = count(plan);
        assert_true(blocks.busiest * plan->rate_GBps <= PLAN_BLOCK_BUSY * plan->block_GBps * (1.0 + 1e-9));
        assert_true(blocks.flagged <= PLAN_BLOCKS_MOST);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

/* What one block for each GPU comes to, which is what one hop by one NVSwitch had. */
static void test_one_block_a_gpu_leaves_links_idle(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        topo_t *topo = reach(machines[m].name);
        plan_request_t request = ask(topo, &machines[m], BLINK_ALGORITHM_ONE_HOP, 256 * MIB);
        plan_t *divided = plan_of(topo, &request);
        request.blocks_most = 1;
        plan_t *one = plan_of(topo, &request);
        double one_us = 0.0, divided_us = 0.0;
        assert_int_equal(one->channel_count, 1);
        assert_close(one->rate_GBps, one->block_GBps * 8 / 15); /* one sum of 8, and 7 blocks sent */
        assert_true(one->rate_GBps < 0.11 * links_GBps(topo, one));
        assert_close(divided->rate_GBps, links_GBps(topo, divided));
        assert_int_equal(plan_predict_us(topo, one, request.bytes, BLINK_PROTOCOL_SIMPLE, 0, &one_us),
                         BLINK_OK);
        assert_int_equal(plan_predict_us(topo, divided, request.bytes, BLINK_PROTOCOL_SIMPLE, 0, &divided_us),
                         BLINK_OK);
        assert_true(one_us > 8.0 * divided_us);
        plan_destroy(one);
        plan_destroy(divided);
        topo_destroy(topo);
    }
}

static void test_a_divided_plan_is_right_and_loads_links_as_before(void **state)
{
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_ONE_HOP};
    const lane_verify_options_t options = {.chunks = 3, .slots = 1};
    (void)state;
    for (size_t m = 0; m < 3; m++) {
        topo_t *topo = reach(machines[m].name);
        for (size_t a = 0; a < 2; a++) {
            plan_request_t request = ask(topo, &machines[m], algorithms[a], 0);
            if (topo->non_peer_count > 0 || (a == 1 && m == 2))
                continue; /* one hop joins only neighbours */
            plan_t *divided = plan_of(topo, &request);
            request.block_GBps = 0;
            plan_t *whole = plan_of(topo, &request);
            check_plan(topo, divided);
            assert_true(divided->channel_count > whole->channel_count);
            assert_close(links_GBps(topo, divided), whole->rate_GBps);
            assert_close(divided->bound_GBps, whole->bound_GBps);
            lane_program_t *program = compile(topo, divided);
            if (lane_verify(program, &options) != BLINK_OK)
                fail_msg("%s, %s: %s", topo->name, blink_name_algorithm(algorithms[a]), blink_error_text());
            lane_program_destroy(program);
            plan_destroy(whole);
            plan_destroy(divided);
        }
        topo_destroy(topo);
    }
}

static void test_a_plan_takes_no_more_blocks_than_it_may(void **state)
{
    (void)state;
    topo_t *topo = reach("dgx_h100");
    for (uint32_t most = 2; most <= 32; most *= 2) {
        plan_request_t request = ask(topo, &machines[1], BLINK_ALGORITHM_ONE_HOP, 256 * MIB);
        request.blocks_most = most;
        plan_t *plan = plan_of(topo, &request);
        assert_true(count(plan).flagged <= most);
        assert_int_equal(plan->channel_count, most / 2 < 14 ? most / 2 : 14);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_small_payloads_are_not_divided(void **state)
{
    (void)state;
    topo_t *topo = reach("dgx_h100");
    const uint64_t sizes[] = {8, 64 * KIB, 256 * KIB};
    for (uint32_t i = 0; i < 3; i++) {
        plan_request_t request = ask(topo, &machines[1], BLINK_ALGORITHM_ONE_HOP, sizes[i]);
        plan_t *plan = plan_of(topo, &request);
        assert_int_equal(plan->channel_count, sizes[i] <= 64 * KIB ? 1 : 256 / 8 / 8);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* As copy engines do, which take a copy for each piece. */
static void test_what_any_block_may_run_is_not_divided(void **state)
{
    (void)state;
    topo_t *topo = reach("dgx_a100");
    const blink_collective_t collectives[] = {BLINK_BROADCAST, BLINK_ALLGATHER, BLINK_ALLTOALL};
    for (uint32_t i = 0; i < 3; i++) {
        plan_request_t request = ask(topo, &machines[0], BLINK_ALGORITHM_ONE_HOP, 64 * MIB);
        request.collective = collectives[i];
        plan_t *plan = plan_of(topo, &request);
        lane_program_t *program = compile(topo, plan);
        assert_int_equal(program->semaphore_count, 0);
        assert_true(plan->block_GBps == 0.0);
        request.block_GBps = 0.0;
        plan_t *undivided = plan_of(topo, &request);
        assert_int_equal(plan->channel_count, undivided->channel_count);
        plan_destroy(undivided);
        lane_program_destroy(program);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_host_devices_and_plain_memory_know_no_blocks(void **state)
{
    (void)state;
    topo_t *topo = load("dgx_a100");
    plan_request_t request = ask(topo, &machines[0], BLINK_ALGORITHM_AUTO, 64 * MIB);
    request.block_GBps = 0;
    plan_t *plan = plan_of(topo, &request);
    assert_close(plan->rate_GBps, links_GBps(topo, plan));
    assert_true(plan->block_GBps <= 0.0);
    plan_destroy(plan);
    topo_destroy(topo);

    static const char memory[] =
        "{\"schema\":\"blink-topology/1\",\"name\":\"memory\",\"nodes\":[{\"id\":\"a\",\"kind\":\"gpu\"},"
        "{\"id\":\"b\",\"kind\":\"gpu\"},{\"id\":\"m\",\"kind\":\"switch\"}],\"links\":["
        "{\"from\":\"a\",\"to\":\"m\",\"GBps\":1000,\"kind\":\"shm\"},"
        "{\"from\":\"b\",\"to\":\"m\",\"GBps\":1000,\"kind\":\"shm\"}]}";
    assert_int_equal(topo_parse_json(memory, strlen(memory), "test", &topo), BLINK_OK);
    request = ask(topo, &machines[0], BLINK_ALGORITHM_AUTO, 64 * MIB);
    plan = plan_of(topo, &request);
    assert_int_equal(plan->channel_count, 1);
    assert_true(plan->block_GBps <= 0.0);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- several hosts ---- */

static const struct machine clusters[] = {{"2xdgx_h100", 90}, {"2xdgx_a100", 80}, {"2xdgx1v", 70}};

#define CLUSTERS (sizeof(clusters) / sizeof(clusters[0]))

static topo_t *join(const char *name)
{
    topo_t *topo = NULL;
    if (topo_load_as_reached(name, &topo) != BLINK_OK)
        fail_msg("%s: %s", name, blink_error_text());
    return topo;
}

static plan_request_t ask_between_hosts(const topo_t *topo, const struct machine *machine,
                                        blink_algorithm_t algorithm, uint64_t bytes)
{
    plan_request_t request = ask(topo, machine, algorithm, bytes);
    request.move_us = MODEL_WIRE_MOVE_US;
    return request;
}

static double predict_us(const topo_t *topo, const plan_request_t *request, const plan_t *plan)
{
    plan_predictor_t *predictor = NULL;
    assert_int_equal(plan_predictor_create(topo, plan, &predictor), BLINK_OK);
    plan_predictor_charge_moves(predictor, request->move_us);
    double us = plan_predictor_us(predictor, request->bytes, plan->protocol, 0);
    plan_predictor_destroy(predictor);
    return us;
}

/* The lanes that a host's GPUs run, which end all data in slots whatever the protocol, are no more than were
 * counted, and none moves more. */
static void check_parts(const topo_t *topo, const plan_t *plan)
{
    const plan_blocks_t counted = count(plan);
    uint32_t of_rank[PLAN_RANKS_MAX];
    const lane_hosts_t hosts = {.of_rank = of_rank, .keeps_to_slots = true};
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        of_rank[rank] = rank < plan->rank_count / 2 ? 0 : 1;
    for (uint32_t host = 0; host < 2; host++) {
        lane_program_t *program = NULL;
        if (lane_compile_part(topo, plan, &hosts, host, &program) != BLINK_OK)
            fail_msg("%s: %s", topo->name, blink_error_text());
        program->lane_count -= program->wire_count; /* which no GPU runs */
        const plan_blocks_t lanes = count_lanes(program);
        program->lane_count += program->wire_count;
        assert_true(lanes.count > 0 && lanes.count <= counted.flagged);
        assert_true(lanes.busiest <= counted.busiest * (1.0 + 1e-9));
        lane_program_destroy(program);
    }
}

static void test_blocks_of_several_hosts_fill_the_links(void **state)
{
    (void)state;
    for (size_t m = 0; m < CLUSTERS; m++) {
        topo_t *topo = join(clusters[m].name);
        plan_request_t request = ask_between_hosts(topo, &clusters[m], BLINK_ALGORITHM_AUTO, 256 * MIB);
        plan_t *plan = plan_of(topo, &request);
        check_plan(topo, plan);
        check_parts(topo, plan);
        assert_close(plan->block_GBps, request.block_GBps);
        if (plan->rate_GBps < 0.99 * links_GBps(topo, plan))
            fail_msg("%s: %f GB/s of %f", topo->name, plan->rate_GBps, links_GBps(topo, plan));
        assert_true(count(plan).flagged <= PLAN_BLOCKS_MOST);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

/* One hop, which is one channel before it is divided. */
static void test_channels_between_hosts_are_divided_as_far_as_it_is_faster(void **state)
{
    static const uint64_t sizes[] = {64 * KIB, 4 * MIB, 256 * MIB};
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        topo_t *topo = join(clusters[m].name);
        uint32_t channels[3];
        for (size_t i = 0; i < 3; i++) {
            plan_request_t request = ask_between_hosts(topo, &clusters[m], BLINK_ALGORITHM_ONE_HOP, sizes[i]);
            plan_t *plan = plan_of(topo, &request);
            request.move_us = 0;
            plan_t *free_moves = plan_of(topo, &request);
            request.blocks_most = 1;
            plan_t *one = plan_of(topo, &request);
            request.move_us = MODEL_WIRE_MOVE_US;
            channels[i] = plan->channel_count;
            check_plan(topo, plan);
            assert_int_equal(one->channel_count, 1);
            assert_true(plan->channel_count <= free_moves->channel_count);
            assert_true(predict_us(topo, &request, plan) <= predict_us(topo, &request, one));
            assert_true(predict_us(topo, &request, plan) <= predict_us(topo, &request, free_moves));
            plan_destroy(plan);
            plan_destroy(free_moves);
            plan_destroy(one);
        }
        assert_int_equal(channels[0], 1);
        assert_true(channels[1] > 1 && channels[2] >= channels[1]);
        topo_destroy(topo);
    }
}

/* ---- the simulator ---- */

static double simulate(const topo_t *topo, const plan_t *plan, uint64_t bytes)
{
    lane_program_t *program = compile(topo, plan);
    lane_geometry_t geometry;
    sim_result_t result;
    assert_int_equal(lane_geometry_init(program, bytes / program->block_count, 0, 0, &geometry), BLINK_OK);
    if (sim_run(topo, &geometry, SIM_REDUCE_GBPS, &result) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    double us = result.time_us;
    sim_result_fini(&result);
    lane_geometry_fini(&geometry);
    lane_program_destroy(program);
    return us;
}

static void test_the_simulator_has_the_same_blocks(void **state)
{
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_ONE_HOP, BLINK_ALGORITHM_TREES};
    static const uint32_t mosts[] = {2, 8, 0};
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        topo_t *topo = reach(machines[m].name);
        for (size_t a = 0; a < 2; a++)
            for (size_t i = 0; i < 3; i++) {
                plan_request_t request = ask(topo, &machines[m], algorithms[a], 256 * MIB);
                request.blocks_most = mosts[i];
                plan_t *plan = plan_of(topo, &request);
                double predicted_us = 0.0, simulated_us = simulate(topo, plan, request.bytes);
                assert_int_equal(plan_predict_us(topo, plan, request.bytes, plan->protocol, 0, &predicted_us),
                                 BLINK_OK);
                /* Where blocks do not limit, stars of one hop meet at links all at once (predict.h). */
                bool limited = plan->rate_GBps < 0.99 * links_GBps(topo, plan);
                if (fabs(predicted_us / simulated_us - 1.0) > (limited ? 0.1 : 0.15))
                    fail_msg("%s, %s, at most %u blocks: predicted %f us, simulated %f", topo->name,
                             blink_name_algorithm(algorithms[a]), mosts[i], predicted_us, simulated_us);
                plan_destroy(plan);
            }
        topo_destroy(topo);
    }
}

/* ---- choices, and what is said ---- */

static void test_a_plan_of_too_many_blocks_is_left_out(void **state)
{
    (void)state;
    topo_t *topo = reach("dgx2");
    plan_request_t request = ask(topo, &machines[3], BLINK_ALGORITHM_AUTO, 256 * MIB);
    plan_choice_t choice;
    uint32_t left_out = 0;
    request.blocks_most = 8; /* 16 trees take more, even undivided */
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_OK);
    assert_int_equal(choice.candidates[0].algorithm, BLINK_ALGORITHM_ONE_HOP);
    assert_true(choice.contenders[choice.candidates[0].contender].blocks.count <= 8);
    for (uint32_t i = 0; i < choice.count; i++)
        left_out += choice.candidates[i].algorithm == BLINK_ALGORITHM_TREES &&
                    strstr(choice.candidates[i].text, "blocks of a GPU, which runs 8") != NULL;
    assert_int_equal(left_out, 3); /* under each protocol */
    plan_crossover_t *crossovers = NULL;
    uint32_t count = 0;
    assert_int_equal(plan_choice_crossovers(&choice, KIB, 1024 * MIB, &crossovers, &count), BLINK_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_not_equal(crossovers[i].algorithm, BLINK_ALGORITHM_TREES);
    free(crossovers);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

/* Lanes of such a plan may all be on other ranks: the executor knows. */
static void test_where_no_plan_fits_there_is_one_all_the_same(void **state)
{
    (void)state;
    topo_t *topo = reach("dgx1v");
    plan_request_t request = ask(topo, &machines[2], BLINK_ALGORITHM_AUTO, 64 * MIB);
    request.collective = BLINK_ALLREDUCE;
    request.blocks_most = 1;
    plan_t *plan = plan_of(topo, &request);
    check_plan(topo, plan);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_it_is_said_when_blocks_limit(void **state)
{
    (void)state;
    topo_t *topo = reach("dgx_a100");
    plan_request_t request = ask(topo, &machines[0], BLINK_ALGORITHM_ONE_HOP, 256 * MIB);
    static const struct {
        uint32_t most;
        const char *text;
    } cases[] = {
        {1, "Blocks limit this plan: of the 1 on a GPU the busiest moves 24 GB/s, which is all that a "
            "block can; links alone would allow 137.143 GB/s\n"},
        {0, "It takes 15 blocks of a GPU at most, of which the busiest moves 17.1 of the 24 GB/s that "
            "a block can\n"}};
    for (size_t i = 0; i < 2; i++) {
        char *text = NULL;
        request.blocks_most = cases[i].most;
        plan_t *plan = plan_of(topo, &request);
        assert_int_equal(plan_limit_describe(topo, plan, &text), BLINK_OK);
        if (!strstr(text, cases[i].text))
            fail_msg("%s", text);
        free(text);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_counted_as_lanes_are_compiled),
        cmocka_unit_test(test_what_a_block_moves_depends_on_the_gpu),
        cmocka_unit_test(test_large_payloads_have_blocks_enough_to_fill_the_links),
        cmocka_unit_test(test_one_block_a_gpu_leaves_links_idle),
        cmocka_unit_test(test_a_divided_plan_is_right_and_loads_links_as_before),
        cmocka_unit_test(test_a_plan_takes_no_more_blocks_than_it_may),
        cmocka_unit_test(test_small_payloads_are_not_divided),
        cmocka_unit_test(test_what_any_block_may_run_is_not_divided),
        cmocka_unit_test(test_host_devices_and_plain_memory_know_no_blocks),
        cmocka_unit_test(test_blocks_of_several_hosts_fill_the_links),
        cmocka_unit_test(test_channels_between_hosts_are_divided_as_far_as_it_is_faster),
        cmocka_unit_test(test_the_simulator_has_the_same_blocks),
        cmocka_unit_test(test_a_plan_of_too_many_blocks_is_left_out),
        cmocka_unit_test(test_where_no_plan_fits_there_is_one_all_the_same),
        cmocka_unit_test(test_it_is_said_when_blocks_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
