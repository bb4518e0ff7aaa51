/*
 * The simulator: by arithmetic where one chunk or one link is all there is, and by what must hold of every
 * simulation (rates, bytes, order, repetition) on real topologies.
 */
#include "error.h"
#include "plan/choose.h"
#include "plan/lane/lane.h"
#include "plan/model.h"
#include "plan/predict.h"
#include "sim/events.h"
#include "sim/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB         ((uint64_t)1 << 20)
#define CHUNK_BYTES ((uint64_t)256 << 10)
#define SLOTS       8

/* Two gpus, 10 GB/s each way. */
static const char pair_text[] =
    "{\"schema\":\"blink-topology/1\",\"name\":\"pair\",\"nodes\":["
    "{\"id\":\"a\",\"kind\":\"gpu\",\"host\":\"h\"},{\"id\":\"b\",\"kind\":\"gpu\",\"host\":\"h\"}],"
    "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"GBps\":10,\"kind\":\"nvlink\",\"latency_us\":1.5}]}";

/* a sends through a switch: 10 GB/s into it, 5 GB/s out of it to b. */
static const char switched_text[] =
    "{\"schema\":\"blink-topology/1\",\"name\":\"switched\",\"nodes\":["
    "{\"id\":\"a\",\"kind\":\"gpu\",\"host\":\"h\"},{\"id\":\"b\",\"kind\":\"gpu\",\"host\":\"h\"},"
    "{\"id\":\"s\",\"kind\":\"switch\",\"host\":\"h\"}],"
    "\"links\":[{\"from\":\"a\",\"to\":\"s\",\"GBps\":10,\"kind\":\"pcie\",\"latency_us\":1},"
    "{\"from\":\"s\",\"to\":\"b\",\"GBps\":5,\"kind\":\"pcie\",\"latency_us\":2}]}";

/* ---- fixture ---- */

typedef struct fixture {
    topo_t *topo;
    plan_t *plan;
    lane_program_t *program;
    lane_geometry_t geometry;
    double reduce_GBps;
    sim_result_t result;
} fixture_t;

static void compile(fixture_t *fixture, blink_collective_t collective, blink_algorithm_t algorithm)
{
    plan_request_t request = {.collective = collective,
                              .algorithm = algorithm,
                              .rank_node = fixture->topo->gpus,
                              .rank_count = fixture->topo->gpu_count};
    if (plan_create(fixture->topo, &request, &fixture->plan) != BLINK_OK ||
        lane_compile(fixture->topo, fixture->plan, NULL, &fixture->program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    fixture->reduce_GBps = SIM_REDUCE_GBPS;
}

/* Compile the plan again. */
static void compile_under(fixture_t *fixture, blink_protocol_t protocol)
{
    lane_program_destroy(fixture->program);
    fixture->plan->protocol = protocol;
    assert_int_equal(lane_compile(fixture->topo, fixture->plan, NULL, &fixture->program), BLINK_OK);
}

static fixture_t on_text(const char *text, blink_collective_t collective)
{
    fixture_t fixture = {0};
    if (topo_parse_json(text, strlen(text), "test", &fixture.topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    compile(&fixture, collective, BLINK_ALGORITHM_TREES);
    return fixture;
}

static fixture_t on_builtin(const char *name, blink_collective_t collective, blink_algorithm_t algorithm)
{
    fixture_t fixture = {0};
    assert_int_equal(topo_load(name, &fixture.topo), BLINK_OK);
    compile(&fixture, collective, algorithm);
    return fixture;
}

static blink_result_t try_run(fixture_t *fixture, uint64_t bytes, uint64_t chunk_bytes, uint32_t slots)
{
    sim_result_fini(&fixture->result);
    lane_geometry_fini(&fixture->geometry);
    assert_int_equal(lane_geometry_init(fixture->program, bytes, chunk_bytes, slots, &fixture->geometry),
                     BLINK_OK);
    return sim_run(fixture->topo, &fixture->geometry, fixture->reduce_GBps, &fixture->result);
}

/* The time without the launch. */
static double run(fixture_t *fixture, uint64_t bytes, uint64_t chunk_bytes, uint32_t slots)
{
    if (try_run(fixture, bytes, chunk_bytes, slots) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return fixture->result.time_us - model_launch_us(fixture->program->protocol);
}

static void finish(fixture_t *fixture)
{
    sim_result_fini(&fixture->result);
    lane_geometry_fini(&fixture->geometry);
    lane_program_destroy(fixture->program);
    plan_destroy(fixture->plan);
    topo_destroy(fixture->topo);
}

static void assert_us(double is, double should_be)
{
    if (fabs(is - should_be) > 1e-9 * should_be)
        fail_msg("%.12g us, not %.12g", is, should_be);
}

static double nvlink_hop_us(blink_protocol_t protocol)
{
    static const topo_link_t link = {.kind = TOPO_NVLINK};
    static const topo_t topo = {.link_count = 1, .links = (topo_link_t *)(uintptr_t)&link};
    static const uint32_t links[] = {0};
    return model_hop_us(&topo, links, 1, protocol);
}

/* ---- one chunk, one link ---- */

static void test_one_transfer_takes_hop_latency_and_bytes_over_capacity(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    double hop_us = nvlink_hop_us(BLINK_PROTOCOL_SIMPLE);
    assert_us(run(&fixture, 100000, 100000, 1), hop_us + 1.5 + 10.0);
    assert_us(fixture.result.links[topo_find_link(fixture.topo, 0, 1)].busy_us, 10.0);
    finish(&fixture);
}

static void test_protocols_put_flags_between_the_bytes(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    fixture.reduce_GBps = INFINITY;
    compile_under(&fixture, BLINK_PROTOCOL_LL);
    assert_us(run(&fixture, 100000, 100000, 1), nvlink_hop_us(BLINK_PROTOCOL_LL) + 1.5 + 20.0);
    compile_under(&fixture, BLINK_PROTOCOL_LL128);
    assert_us(run(&fixture, 120000, 120000, 1), nvlink_hop_us(BLINK_PROTOCOL_LL128) + 1.5 + 12.8);
    assert_int_equal(fixture.result.links[topo_find_link(fixture.topo, 0, 1)].bytes, 120000);
    finish(&fixture);
}

static void test_chunks_follow_each_other_without_a_gap(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    double hop_us = nvlink_hop_us(BLINK_PROTOCOL_SIMPLE);
    for (uint32_t slots = 1; slots <= 4; slots++)
        assert_us(run(&fixture, 160000, 16000, slots), hop_us + 1.5 + 16.0);
    assert_int_equal(fixture.result.step_count, 10);
    finish(&fixture);
}

static void test_a_path_is_as_slow_as_its_slowest_link(void **state)
{
    (void)state;
    fixture_t fixture = on_text(switched_text, BLINK_BROADCAST);
    double time_us = run(&fixture, 100000, 100000, 1);
    uint32_t path[] = {topo_find_link(fixture.topo, 0, 2), topo_find_link(fixture.topo, 2, 1)};
    double hop_us = model_hop_us(fixture.topo, path, 2, BLINK_PROTOCOL_SIMPLE);
    assert_us(time_us, hop_us + 3.0 + 20.0);
    assert_us(fixture.result.links[path[0]].busy_us, 10.0);
    assert_us(fixture.result.links[path[1]].busy_us, 20.0);
    finish(&fixture);
}

static void test_a_backplane_slows_what_crosses_it(void **state)
{
    (void)state;
    fixture_t fixture = on_text(switched_text, BLINK_BROADCAST);
    double free_us = run(&fixture, 100000, 100000, 1);
    fixture.topo->nodes[2].total_GBps = 2.5;
    assert_us(run(&fixture, 100000, 100000, 1), free_us + 20.0);
    finish(&fixture);
}

static void test_a_device_that_reads_slowly_is_waited_for(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    fixture.reduce_GBps = 2.0;
    assert_us(run(&fixture, 100000, 100000, 1), nvlink_hop_us(BLINK_PROTOCOL_SIMPLE) + 1.5 + 50.0);
    finish(&fixture);
}

static void test_one_rank_only_copies(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    lane_program_destroy(fixture.program);
    plan_destroy(fixture.plan);
    fixture.topo->gpu_count = 1;
    compile(&fixture, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    fixture.reduce_GBps = 100.0;
    assert_us(run(&fixture, 1000000, 1000, 2), 10.0);
    finish(&fixture);
}

/* ---- what holds of every simulation ---- */

static const char *const names[] = {"dgx1v", "dgx1v_hybrid", "dgx2", "pcie8", "2x_dgx1v_100g"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void test_large_payloads_reach_nearly_the_rate_of_the_plan(void **state)
{
    (void)state;
    static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST};
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_RING};
    for (uint32_t i = 0; i < 4; i++) {
        fixture_t fixture = on_builtin("dgx1v", collectives[i / 2], algorithms[i % 2]);
        double rate_GBps = (double)(1024 * MIB) / run(&fixture, 1024 * MIB, CHUNK_BYTES, SLOTS) / 1e3;
        if (rate_GBps < 0.95 * fixture.plan->rate_GBps || rate_GBps > fixture.plan->rate_GBps)
            fail_msg("%g GB/s, planned %g", rate_GBps, fixture.plan->rate_GBps);
        finish(&fixture);
    }
}

static void test_more_bytes_take_longer(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NAMES; i++) {
        fixture_t fixture = on_builtin(names[i], BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
        double before_us = 0;
        for (uint64_t bytes = 1024; bytes <= 64 * MIB; bytes *= 4) {
            double time_us = run(&fixture, bytes, CHUNK_BYTES, SLOTS);
            if (time_us <= before_us)
                fail_msg("%s: %llu bytes in %g us, a quarter in %g", names[i], (unsigned long long)bytes,
                         time_us, before_us);
            before_us = time_us;
        }
        finish(&fixture);
    }
}

static void test_links_carry_their_loads_and_are_never_busy_for_longer_than_the_run(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NAMES; i++) {
        fixture_t fixture = on_builtin(names[i], BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
        double time_us = run(&fixture, 64 * MIB, CHUNK_BYTES, SLOTS);
        double *loads = calloc(fixture.topo->link_count, sizeof(*loads));
        assert_int_equal(plan_link_loads(fixture.topo, fixture.plan, loads), BLINK_OK);
        for (uint32_t link = 0; link < fixture.topo->link_count; link++) {
            const sim_link_t *at = &fixture.result.links[link];
            /* A unit per channel is lost or won when shares are cut. */
            double slack_bytes = 16.0 * 2 * fixture.program->channel_count * fixture.program->rank_count;
            if (fabs((double)at->bytes - loads[link] * 64 * (double)MIB) > slack_bytes)
                fail_msg("%s, link %u: %llu bytes, load %g", names[i], link, (unsigned long long)at->bytes,
                         loads[link]);
            assert_true(at->busy_us <= time_us);
        }
        free(loads);
        finish(&fixture);
    }
}

static void test_a_run_can_be_repeated_to_the_bit(void **state)
{
    (void)state;
    fixture_t fixture = on_builtin("dgx1v_hybrid", BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    double first_us = run(&fixture, 16 * MIB, 0, 0);
    assert_true(run(&fixture, 16 * MIB, 0, 0) == first_us);
    finish(&fixture);
}

static void test_an_empty_payload_takes_the_launch(void **state)
{
    (void)state;
    fixture_t fixture = on_builtin("dgx1v", BLINK_ALLREDUCE, BLINK_ALGORITHM_RING);
    assert_true(run(&fixture, 0, 0, 0) == 0);
    finish(&fixture);
}

/* ---- refusals ---- */

static void test_too_many_steps_are_refused_with_both_numbers(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    assert_int_equal(try_run(&fixture, (uint64_t)1024 * MIB, 16, 1), BLINK_ERR_UNSUPPORTED);
    assert_non_null(strstr(blink_error_text(), "67108864"));
    assert_non_null(strstr(blink_error_text(), "50000000"));
    finish(&fixture);
}

static void test_a_device_must_read_at_some_speed(void **state)
{
    (void)state;
    static const double bad[] = {0.0, -1.0, NAN};
    fixture_t fixture = on_text(pair_text, BLINK_BROADCAST);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fixture.reduce_GBps = bad[i];
        assert_int_equal(try_run(&fixture, 1000, 0, 0), BLINK_ERR_INVALID_ARGUMENT);
    }
    finish(&fixture);
}

static void test_a_lane_that_waits_for_ever_is_named(void **state)
{
    (void)state;
    fixture_t fixture = on_text(pair_text, BLINK_ALLREDUCE);
    for (uint32_t i = 0; i < fixture.program->step_count; i++)
        fixture.program->steps[i].signal_count = 0;
    assert_int_equal(try_run(&fixture, 100000, 10000, 1), BLINK_ERR_INTERNAL);
    assert_non_null(strstr(blink_error_text(), "rank"));
    finish(&fixture);
}

/* ---- agenda and model ---- */

/* Some events are for now, some are for the same time as others, and most are at a time of their own. */
static void enter_event(events_t *events, double *times, uint32_t index)
{
    uint32_t random = index * 2654435761u;
    double later_us = random % 3 == 0 ? 0 : random % 3 == 1 ? random % 7 : exp(random % 1000 / 50.0 - 10);
    times[index] = events->now_us + later_us;
    assert_int_equal(events_push(events, times[index], EVENT_LANE, index), BLINK_OK);
}

static void test_events_come_by_time_and_then_in_the_order_entered(void **state)
{
    (void)state;
    enum { COUNT = 20000, AT_FIRST = 1000 };
    static double times[COUNT];
    events_t events = {0};
    event_t event, before = {.at_us = -1};
    uint32_t entered = 0, taken = 0;
    bool found;
    while (entered < AT_FIRST)
        enter_event(&events, times, entered++);
    for (; events_pop(&events, &event, &found) == BLINK_OK && found; taken++) {
        assert_true(event.at_us == times[event.index]);
        assert_true(event.at_us > before.at_us ||
                    (event.at_us == before.at_us && event.index > before.index));
        before = event;
        for (uint32_t i = 0; i < 1 + taken % 2 && entered < COUNT; i++)
            enter_event(&events, times, entered++);
    }
    assert_int_equal(taken, COUNT);
    events_fini(&events);
}

static void test_a_hop_costs_what_its_slowest_kind_of_link_costs(void **state)
{
    (void)state;
    topo_link_t links[] = {{.kind = TOPO_NVLINK}, {.kind = TOPO_PCIE}, {.kind = TOPO_NET}};
    const topo_t topo = {.link_count = 3, .links = links};
    static const uint32_t order[] = {2, 1, 0};
    for (blink_protocol_t protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        double net_us = model_hop_us(&topo, order, 1, protocol),
               pcie_us = model_hop_us(&topo, order + 1, 1, protocol);
        double nvlink_us = model_hop_us(&topo, order + 2, 1, protocol);
        assert_true(net_us > pcie_us && pcie_us > nvlink_us && nvlink_us > 0);
        assert_true(model_hop_us(&topo, order, 3, protocol) == net_us);
        assert_true(model_hop_us(&topo, order + 1, 2, protocol) == pcie_us);
    }
}

/* ---- predictions ---- */

/* Of shallow trees many edges share a NIC on the way to the root, and others on the way back. */
static void test_sums_have_come_up_before_they_go_down(void **state)
{
    const uint64_t bytes = 16384;
    fixture_t fixture = {0};
    plan_choice_t choice;
    uint32_t found = 0;
    (void)state;
    assert_int_equal(topo_load("2xdgx1v", &fixture.topo), BLINK_OK);
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .rank_node = fixture.topo->gpus,
                              .rank_count = fixture.topo->gpu_count,
                              .bytes = bytes};
    assert_int_equal(plan_choose(fixture.topo, &request, &choice), BLINK_OK);
    for (uint32_t i = 0; i < choice.contender_count; i++) {
        const plan_contender_t *contender = &choice.contenders[i];
        if (contender->algorithm != BLINK_ALGORITHM_SHALLOW_TREES)
            continue;
        contender->plan->protocol = BLINK_PROTOCOL_LL;
        assert_int_equal(lane_compile(fixture.topo, contender->plan, NULL, &fixture.program), BLINK_OK);
        fixture.reduce_GBps = SIM_REDUCE_GBPS;
        double simulated_us = run(&fixture, bytes / fixture.program->block_count, 0, 0);
        double predicted_us = plan_predictor_us(contender->predictor, bytes, BLINK_PROTOCOL_LL, 0) -
                              model_launch_us(BLINK_PROTOCOL_LL);
        if (fabs(predicted_us / simulated_us - 1.0) > 0.1)
            fail_msg("%f us predicted, %f simulated", predicted_us, simulated_us);
        lane_program_destroy(fixture.program);
        found++;
    }
    assert_true(found > 0);
    sim_result_fini(&fixture.result);
    lane_geometry_fini(&fixture.geometry);
    plan_choice_fini(&choice);
    topo_destroy(fixture.topo);
}

/* ---- chunks of small payloads ---- */

/* How the time that is predicted, and the one that is simulated, compare to those with the chunk that the
 * same program would have under a protocol without flags. */
static void compare_chunks(fixture_t *fixture, uint64_t bytes, double *predicted, double *simulated)
{
    lane_program_t without_flags = *fixture->program;
    double us[2] = {0.0, 0.0};
    without_flags.protocol = BLINK_PROTOCOL_SIMPLE;
    uint64_t chunk_bytes = lane_choose_chunk(&without_flags, bytes);
    assert_true(chunk_bytes >= lane_choose_chunk(fixture->program, bytes));
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            plan_predict_us(fixture->topo, fixture->plan, bytes, BLINK_PROTOCOL_LL, i * chunk_bytes, &us[i]),
            BLINK_OK);
    *predicted = us[0] / us[1];
    uint64_t block_bytes = bytes / fixture->program->block_count;
    *simulated = run(fixture, block_bytes, 0, 0) / run(fixture, block_bytes, chunk_bytes, 0);
}

/* The fixture, with slots that have flags. */
static void compile_ll(fixture_t *fixture, blink_collective_t collective, blink_algorithm_t algorithm)
{
    compile(fixture, collective, algorithm);
    compile_under(fixture, BLINK_PROTOCOL_LL);
}

/* Compile again, with each half of the ranks on a host of its own. */
static void compile_for_two_hosts(fixture_t *fixture)
{
    uint32_t of_rank[16], ranks = fixture->plan->rank_count;
    for (uint32_t rank = 0; rank < ranks; rank++)
        of_rank[rank] = 2 * rank / ranks;
    lane_program_destroy(fixture->program);
    const lane_hosts_t hosts = {.of_rank = of_rank};
    assert_int_equal(lane_compile(fixture->topo, fixture->plan, &hosts, &fixture->program), BLINK_OK);
}

/* Wire lanes move the same bytes over the same links, and whole payloads about as fast. */
static void test_wires_carry_what_processors_would_have_written(void **state)
{
    static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST,     BLINK_REDUCE,
                                                     BLINK_ALLGATHER, BLINK_REDUCESCATTER, BLINK_ALLTOALL};
    (void)state;
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        fixture_t fixture = on_builtin("2xdgx1v", collectives[i], BLINK_ALGORITHM_TREES);
        uint64_t bytes = 16 * MIB / fixture.program->block_count;
        double of_one = run(&fixture, bytes, 0, 0);
        uint64_t *carried = malloc(fixture.topo->link_count * sizeof(*carried));
        assert_non_null(carried);
        for (uint32_t l = 0; l < fixture.topo->link_count; l++)
            carried[l] = fixture.result.links[l].bytes;
        compile_for_two_hosts(&fixture);
        assert_true(fixture.program->wire_count > 0);
        assert_true(run(&fixture, bytes, 0, 0) < 1.1 * of_one);
        for (uint32_t l = 0; l < fixture.topo->link_count; l++)
            assert_int_equal(fixture.result.links[l].bytes, carried[l]);
        free(carried);
        finish(&fixture);
    }
}

static void test_small_chunks_fill_a_deep_tree_sooner(void **state)
{
    fixture_t fixture = {0};
    double predicted = 0.0, simulated = 0.0;
    (void)state;
    assert_int_equal(topo_load("2x_dgx1v_100g", &fixture.topo), BLINK_OK);
    compile_ll(&fixture, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES);
    compare_chunks(&fixture, MIB / 4, &predicted, &simulated);
    assert_true(predicted < 0.8);
    assert_true(simulated < 0.8);
    finish(&fixture);
}

static void test_small_chunks_are_never_slower(void **state)
{
    static const char *const machines[] = {"dgx1v",       "dgx1p",    "dgx1v_hybrid", "dgx2",
                                           "dgx_a100",    "dgx_h100", "pcie4",        "pcie8",
                                           "p3.16xlarge", "gh200x4",  "2x_dgx1v_100g"};
    static const blink_collective_t collectives[] = {BLINK_ALLREDUCE, BLINK_BROADCAST, BLINK_REDUCE,
                                                     BLINK_ALLGATHER, BLINK_REDUCESCATTER};
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_SHALLOW_TREES};
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]) * 10; i++) {
        fixture_t fixture = {0};
        double predicted = 0.0, simulated = 0.0;
        assert_int_equal(topo_load(machines[i / 10], &fixture.topo), BLINK_OK);
        compile_ll(&fixture, collectives[i % 5], algorithms[i / 5 % 2]);
        for (uint64_t bytes = MIB / 16; bytes <= MIB; bytes *= 4) {
            compare_chunks(&fixture, bytes, &predicted, &simulated);
            assert_true(predicted <= 1.0 + 1e-9);
            assert_true(simulated <= 1.0 + 1e-9);
        }
        finish(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_transfer_takes_hop_latency_and_bytes_over_capacity),
        cmocka_unit_test(test_protocols_put_flags_between_the_bytes),
        cmocka_unit_test(test_chunks_follow_each_other_without_a_gap),
        cmocka_unit_test(test_a_path_is_as_slow_as_its_slowest_link),
        cmocka_unit_test(test_a_backplane_slows_what_crosses_it),
        cmocka_unit_test(test_a_device_that_reads_slowly_is_waited_for),
        cmocka_unit_test(test_one_rank_only_copies),
        cmocka_unit_test(test_large_payloads_reach_nearly_the_rate_of_the_plan),
        cmocka_unit_test(test_more_bytes_take_longer),
        cmocka_unit_test(test_links_carry_their_loads_and_are_never_busy_for_longer_than_the_run),
        cmocka_unit_test(test_a_run_can_be_repeated_to_the_bit),
        cmocka_unit_test(test_an_empty_payload_takes_the_launch),
        cmocka_unit_test(test_too_many_steps_are_refused_with_both_numbers),
        cmocka_unit_test(test_a_device_must_read_at_some_speed),
        cmocka_unit_test(test_a_lane_that_waits_for_ever_is_named),
        cmocka_unit_test(test_events_come_by_time_and_then_in_the_order_entered),
        cmocka_unit_test(test_wires_carry_what_processors_would_have_written),
        cmocka_unit_test(test_small_chunks_fill_a_deep_tree_sooner),
        cmocka_unit_test(test_small_chunks_are_never_slower),
        cmocka_unit_test(test_a_hop_costs_what_its_slowest_kind_of_link_costs),
        cmocka_unit_test(test_sums_have_come_up_before_they_go_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
