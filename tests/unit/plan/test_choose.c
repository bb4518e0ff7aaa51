/*
 * Prediction and choice by size: the formula against hand-made sums, small payloads take few hops, large ones
 * the highest rate, and the sizes between.
 */
#include "error.h"
#include "names.h"
#include "plan/choose.h"
#include "plan/internal.h"
#include "plan/lane/lane.h"
#include "plan/model.h"
#include "unit/plan/hand_hosts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static const blink_protocol_t protocols[] = {BLINK_PROTOCOL_SIMPLE, BLINK_PROTOCOL_LL, BLINK_PROTOCOL_LL128};

static topo_t *load(const char *what)
{
    topo_t *topo = NULL;
    if (topo_load(what, &topo) != BLINK_OK)
        fail_msg("%s: %s", what, blink_error_text());
    return topo;
}

/* Over all gpus, root 0. */
static plan_request_t ask(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm,
                          uint64_t bytes)
{
    return (plan_request_t){.collective = collective,
                            .algorithm = algorithm,
                            .rank_node = topo->gpus,
                            .rank_count = topo->gpu_count,
                            .bytes = bytes};
}

static plan_t *make(const topo_t *topo, blink_collective_t collective, blink_algorithm_t algorithm)
{
    plan_request_t request = ask(topo, collective, algorithm, 0);
    plan_t *plan = NULL;
    if (plan_create_unproven(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    return plan;
}

static plan_choice_t choose(const topo_t *topo, blink_collective_t collective, uint64_t bytes)
{
    plan_request_t request = ask(topo, collective, BLINK_ALGORITHM_AUTO, bytes);
    plan_choice_t choice;
    if (plan_choose(topo, &request, &choice) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    return choice;
}

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-6 * expected))
        fail_msg("%.9f is not %.9f", value, expected);
}

static double predict(const topo_t *topo, const plan_t *plan, uint64_t bytes, blink_protocol_t protocol,
                      uint64_t chunk_bytes)
{
    double us = 0.0;
    assert_int_equal(plan_predict_us(topo, plan, bytes, protocol, chunk_bytes, &us), BLINK_OK);
    return us;
}

/* ---- prediction ---- */

static void test_a_star_takes_its_hops_and_its_bytes(void **state)
{
    topo_t *topo = load("dgx2"); /* two links of 1 us and 25 GB/s by way of each of 6 switches */
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_ONE_HOP);
    (void)state;
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        double hop_us = 2.0 + model_hop_us(topo, plan->paths[0].links, 2, protocols[i]);
        double bytes_us = 6000.0 * 15.0 / 150e3 / model_payload_share(protocols[i]);
        assert_close(predict(topo, plan, 6000, protocols[i], 0),
                     model_launch_us(protocols[i]) + hop_us + bytes_us);
    }
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_a_ring_takes_all_its_steps(void **state)
{
    topo_t *topo = load("dgx2");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING);
    (void)state;
    double hop_us = 2.0 + 3.4, few_us = predict(topo, plan, 4096, BLINK_PROTOCOL_SIMPLE, 0);
    double bytes_us = 4096.0 * (double)MIB / 80e3,
           many_us = predict(topo, plan, 4096 * MIB, BLINK_PROTOCOL_SIMPLE, 0);
    if (fabs(few_us - 8.4 - 30.0 * hop_us) > 1.0)
        fail_msg("few bytes: %f us", few_us);
    /* Every rank sends from the start, so that links wait for a hop or so, and not for all. */
    if (many_us < 8.4 + hop_us + bytes_us || many_us > 1.02 * bytes_us)
        fail_msg("many bytes: %f us for %f", many_us, bytes_us);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_a_chain_stores_and_forwards_chunks(void **state)
{
    static const uint32_t chain[] = {0, 4, 6, 7}; /* the deepest; no link is used twice, the slowest has 25 */
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_BROADCAST, BLINK_ALGORITHM_BINOMIAL);
    (void)state;
    double hops_us = 8.4 + 3.0 * (1.0 + 3.4), us_per_byte = -1.0 / 25e3;
    for (uint32_t i = 0; i < 3; i++)
        us_per_byte += 1e-3 / topo->links[topo_find_link(topo, chain[i], chain[i + 1])].GBps;
    assert_true(us_per_byte > 0.0);
    assert_close(predict(topo, plan, 0, BLINK_PROTOCOL_SIMPLE, 0), hops_us);
    assert_close(predict(topo, plan, 10 * MIB, BLINK_PROTOCOL_SIMPLE, 64 * KIB),
                 hops_us + 64.0 * (double)KIB * us_per_byte + 10.0 * (double)MIB / 25e3);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* One hop, whose lanes go through their parts in order. */
static void test_a_short_last_chunk_waits_as_long_as_a_whole_one(void **state)
{
    topo_t *topo = load("dgx2");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_ONE_HOP);
    const uint64_t chunk_bytes = 64 * KIB;
    const uint64_t quarter =
        (uint64_t)(16.0 * (double)KIB * plan->channels[0].part_count / plan->channels[0].share);
    double us[3]; /* of one chunk per part, of one and a quarter, of one and a half */
    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        us[i] = predict(topo, plan, (4 + i) * quarter, BLINK_PROTOCOL_SIMPLE, chunk_bytes);
    double hop_us = 2.0 + model_hop_us(topo, plan->paths[0].links, 2, BLINK_PROTOCOL_SIMPLE);
    if (fabs(us[1] - us[0] - (us[2] - us[1]) - hop_us) > 1e-2)
        fail_msg("%f, %f and %f us", us[0], us[1], us[2]);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void check_growth(const topo_t *topo, const plan_t *plan, blink_protocol_t protocol)
{
    double before_us = 0.0;
    for (double bytes = 16.0; bytes < 1e12; bytes *= 1.3) {
        double us = predict(topo, plan, (uint64_t)bytes, protocol, 0);
        assert_true(us >= before_us);
        before_us = us;
    }
    double rate_us = 1e12 / (plan->rate_GBps * 1e3 * model_payload_share(protocol));
    double us = predict(topo, plan, (uint64_t)1e12, protocol, 0);
    /* Lanes of several parts may all wait at the same time, in every turn. */
    assert_true(us > rate_us && us < (plan->channels[0].part_count > 1 ? 1.1 : 1.001) * rate_us);
}

static void test_time_grows_with_bytes_towards_the_rate(void **state)
{
    static const char *const names[] = {"dgx1v_hybrid", "dgx2", "2x_dgx1v_100g"};
    (void)state;
    for (size_t t = 0; t < sizeof(names) / sizeof(names[0]); t++) {
        topo_t *topo = load(names[t]);
        for (blink_algorithm_t a = BLINK_ALGORITHM_TREES; a <= BLINK_ALGORITHM_RECURSIVE_DOUBLING; a++) {
            plan_request_t request = ask(topo, BLINK_ALLREDUCE, a, 0);
            plan_t *plan = NULL;
            if (plan_create_unproven(topo, &request, &plan) != BLINK_OK)
                continue;
            for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
                check_growth(topo, plan, protocols[i]);
            plan_destroy(plan);
        }
        topo_destroy(topo);
    }
}

static void check_chunks(const topo_t *topo, const plan_t *plan)
{
    lane_program_t *program = NULL;
    plan_predictor_t *predictor = NULL;
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_OK);
    assert_int_equal(plan_predictor_create(topo, plan, &predictor), BLINK_OK);
    assert_int_equal(plan_predictor_depth(predictor), plan_depth(plan));
    for (uint64_t bytes = KIB; bytes <= GIB; bytes *= 2)
        assert_int_equal(plan_predictor_chunk(predictor, bytes, plan->protocol),
                         lane_choose_chunk(program, bytes));
    plan_predictor_destroy(predictor);
    lane_program_destroy(program);
}

static void test_predicted_chunk_is_the_executors(void **state)
{
    static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES, BLINK_ALGORITHM_RING,
                                                   BLINK_ALGORITHM_BINOMIAL,
                                                   BLINK_ALGORITHM_RECURSIVE_DOUBLING};
    topo_t *topo = load("dgx1v");
    (void)state;
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        plan_t *plan = make(topo, BLINK_ALLREDUCE, algorithms[i]);
        check_chunks(topo, plan);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* Six rings of 25 GB/s, 14 hops of 4.4 us, chunks of 2 us: each of the two phases moves one piece in 6.4 us.
 */
static void test_short_chunks_leave_a_ring_idle(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_t *plan = make(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING);
    double bytes = 12.0 * 8.0 * 25e3 * 100.0;
    (void)state;
    assert_close(predict(topo, plan, (uint64_t)bytes, BLINK_PROTOCOL_SIMPLE, 25000),
                 8.4 + 14.0 * 4.4 + 14.0 * 1.0 + 99.0 * 7.0 * 5.4);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- choice ---- */

static void test_small_payloads_take_few_hops_and_large_ones_the_highest_rate(void **state)
{
    topo_t *topo = load("dgx1v_hybrid");
    plan_choice_t small = choose(topo, BLINK_ALLREDUCE, KIB), large = choose(topo, BLINK_ALLREDUCE, GIB);
    (void)state;
    assert_int_equal(small.best->protocol, BLINK_PROTOCOL_LL);
    for (uint32_t i = 0; i < small.count; i++)
        assert_true(small.candidates[i].result != BLINK_OK ||
                    small.candidates[0].latency_us <= small.candidates[i].latency_us);
    assert_int_equal(large.best->algorithm, BLINK_ALGORITHM_TREES);
    assert_int_equal(large.best->protocol, BLINK_PROTOCOL_SIMPLE);
    assert_true(large.best->bound_GBps > 91.9 && large.best->bound_GBps < 92.1);
    assert_true(small.best->bound_GBps > 91.9 && small.best->bound_GBps < 92.1);
    plan_choice_fini(&small);
    plan_choice_fini(&large);
    topo_destroy(topo);
}

static void test_candidates_are_in_order_and_failures_say_why(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_choice_t choice = choose(topo, BLINK_ALLREDUCE, 64 * MIB);
    bool one_hop_refused = false;
    (void)state;
    for (uint32_t i = 1; i < choice.count; i++) {
        const plan_candidate_t *a = &choice.candidates[i - 1], *b = &choice.candidates[i];
        assert_true(a->result == BLINK_OK || b->result != BLINK_OK);
        if (b->result == BLINK_OK && i > 1)
            assert_true(a->predicted_us <= b->predicted_us);
        if (b->result == BLINK_OK)
            assert_true(choice.candidates[0].predicted_us <= 1.01 * b->predicted_us);
        else
            assert_true(b->text[0] != '\0');
        one_hop_refused |= b->algorithm == BLINK_ALGORITHM_ONE_HOP && b->result == BLINK_ERR_UNREACHABLE &&
                           strstr(b->text, "gpu5") != NULL;
    }
    assert_true(one_hop_refused);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

static void test_ll128_is_for_nvlink_alone(void **state)
{
    topo_t *topo = load("pcie8");
    plan_choice_t choice = choose(topo, BLINK_ALLREDUCE, 4 * MIB);
    uint32_t refused = 0;
    (void)state;
    for (uint32_t i = 0; i < choice.count; i++) {
        const plan_candidate_t *candidate = &choice.candidates[i];
        if (candidate->protocol != BLINK_PROTOCOL_LL128)
            continue;
        assert_int_equal(candidate->result, BLINK_ERR_UNSUPPORTED);
        refused++;
    }
    assert_true(refused >= 4);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

static void check_crossovers(const topo_t *topo, const plan_crossover_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        plan_choice_t choice = choose(topo, BLINK_ALLREDUCE, list[i].bytes);
        assert_int_equal(choice.candidates[0].algorithm, list[i].algorithm);
        assert_int_equal(choice.candidates[0].protocol, list[i].protocol);
        assert_close(choice.candidates[0].predicted_us, list[i].predicted_us);
        plan_choice_fini(&choice);
        if (i == 0)
            continue;
        assert_true(list[i].bytes > list[i - 1].bytes);
        choice = choose(topo, BLINK_ALLREDUCE, list[i].bytes - list[i].bytes / 50);
        assert_int_equal(choice.candidates[0].algorithm, list[i - 1].algorithm);
        assert_int_equal(choice.candidates[0].protocol, list[i - 1].protocol);
        plan_choice_fini(&choice);
    }
}

static void test_crossovers_are_where_the_choice_changes(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_choice_t choice = choose(topo, BLINK_ALLREDUCE, MIB);
    plan_crossover_t *list = NULL;
    uint32_t count = 0;
    (void)state;
    assert_int_equal(plan_choice_crossovers(&choice, KIB, GIB, &list, &count), BLINK_OK);
    assert_true(count >= 3);
    assert_int_equal(list[0].bytes, KIB);
    assert_int_equal(list[0].protocol, BLINK_PROTOCOL_LL);
    assert_int_equal(list[count - 1].algorithm, BLINK_ALGORITHM_TREES);
    assert_int_equal(list[count - 1].protocol, BLINK_PROTOCOL_SIMPLE);
    check_crossovers(topo, list, count);
    free(list);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

/* Blink (MLSys'20), figure 26: up to 3.32 times less than NCCL's rings and double binary trees. */
static void test_one_hop_behind_nvswitch_beats_rings_and_trees_of_nccl(void **state)
{
    topo_t *topo = load("dgx2");
    plan_choice_t choice = choose(topo, BLINK_ALLREDUCE, KIB);
    uint32_t beaten = 0;
    (void)state;
    assert_int_equal(choice.best->algorithm, BLINK_ALGORITHM_ONE_HOP);
    for (uint32_t i = 0; i < choice.count; i++) {
        const plan_candidate_t *c = &choice.candidates[i];
        bool ring = c->algorithm == BLINK_ALGORITHM_RING;
        if (c->result != BLINK_OK || c->protocol != choice.best->protocol ||
            (!ring && c->algorithm != BLINK_ALGORITHM_DOUBLE_BINARY_TREE))
            continue;
        double gain = c->predicted_us / choice.candidates[0].predicted_us;
        print_message("%s: %.2f times one hop\n", blink_name_algorithm(c->algorithm), gain);
        assert_true(gain > (ring ? 5.0 : 1.5));
        beaten++;
    }
    assert_true(beaten >= 1);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

static plan_t *make_auto(const topo_t *topo, uint64_t bytes)
{
    plan_request_t request = ask(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_AUTO, bytes);
    plan_t *plan = NULL;
    if (plan_create(topo, &request, &plan) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    assert_true(plan->rate_GBps <= plan->bound_GBps * (1.0 + 1e-6));
    return plan;
}

static void test_auto_takes_the_choice_for_the_size(void **state)
{
    static const uint64_t bytes[] = {KIB, MIB, 64 * MIB};
    topo_t *topo = load("dgx1v_hybrid");
    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        plan_choice_t choice = choose(topo, BLINK_ALLREDUCE, bytes[i]);
        plan_t *plan = make_auto(topo, bytes[i]);
        assert_int_equal(plan->algorithm, choice.best->algorithm);
        assert_int_equal(plan->protocol, choice.best->protocol);
        assert_close(plan->bound_GBps, choice.best->bound_GBps);
        plan_choice_fini(&choice);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

static void test_auto_without_a_size_is_the_highest_rate(void **state)
{
    topo_t *topo = load("dgx2");
    plan_t *plan = make_auto(topo, 0);
    (void)state;
    assert_int_equal(plan->algorithm, BLINK_ALGORITHM_TREES);
    assert_int_equal(plan->protocol, BLINK_PROTOCOL_SIMPLE);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_one_rank_chooses_a_plan_that_moves_nothing(void **state)
{
    topo_t *topo = load("dgx1v");
    plan_request_t request = ask(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_AUTO, MIB);
    plan_choice_t choice;
    (void)state;
    request.rank_count = 1;
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_OK);
    assert_int_equal(choice.best->channel_count, 0);
    assert_close(choice.candidates[0].predicted_us, model_launch_us(choice.best->protocol));
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

static void test_bad_requests_and_separated_ranks_are_errors(void **state)
{
    topo_t *topo = NULL;
    topo_builder_t *builder = NULL;
    plan_choice_t choice;
    (void)state;
    assert_int_equal(topo_build_create("apart", "test", &builder), BLINK_OK);
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = "a", .host = "h", .kind = TOPO_DEVICE}),
                     BLINK_OK);
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = "b", .host = "h", .kind = TOPO_DEVICE}),
                     BLINK_OK);
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    plan_request_t request = ask(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_AUTO, MIB);
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_ERR_UNREACHABLE);
    request.rank_count = 0;
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(blink_error_text(), "0 ranks"));
    topo_destroy(topo);
}

/* A switch with many gpus. */
static topo_t *star(uint32_t gpus)
{
    topo_t *topo = NULL;
    topo_builder_t *builder = NULL;
    char id[16];
    assert_int_equal(topo_build_create("star", "test", &builder), BLINK_OK);
    assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = "sw", .host = "h", .kind = TOPO_SWITCH}),
                     BLINK_OK);
    for (uint32_t i = 0; i < gpus; i++) {
        snprintf(id, sizeof(id), "gpu%u", i);
        assert_int_equal(topo_build_node(builder, &(topo_node_t){.id = id, .host = "h", .kind = TOPO_DEVICE}),
                         BLINK_OK);
        assert_int_equal(topo_build_link(builder, id, "sw", TOPO_NVSWITCH, 25.0, 1, 1.0, true), BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

static void test_beyond_64_ranks_what_plans_every_pair_is_left_out(void **state)
{
    topo_t *topo = star(PLAN_CHOOSE_PAIRS_MOST + 1);
    plan_choice_t choice = choose(topo, BLINK_BROADCAST, KIB);
    uint32_t left_out = 0;
    (void)state;
    for (uint32_t i = 0; i < choice.count; i++)
        left_out += strstr(choice.candidates[i].text, "left out: planning it for 65 ranks") != NULL;
    assert_int_equal(left_out, 3);
    assert_int_equal(choice.best->algorithm, BLINK_ALGORITHM_TREES);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

/* Moves between hosts that one chunk takes with what AUTO chooses, in the direction that has the most. */
static uint32_t wire_moves(const uint32_t *devices, uint32_t hosts, uint64_t bytes, double move_us)
{
    topo_t *topo = hand_hosts(devices, hosts);
    plan_request_t request = ask(topo, BLINK_ALLREDUCE, BLINK_ALGORITHM_AUTO, bytes);
    plan_choice_t choice;
    uint32_t of_rank[PLAN_RANKS_MAX], most = 0;
    const lane_hosts_t lane_hosts = {.of_rank = of_rank,
                                     .lands_in_slots = bytes <= LANE_LANDS_IN_SLOTS_BYTES};
    lane_program_t *program = NULL;
    request.move_us = move_us;
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_OK);
    hand_number_hosts(topo, choice.best, of_rank);
    assert_int_equal(lane_compile(topo, choice.best, &lane_hosts, &program), BLINK_OK);
    for (uint32_t i = 0; i < program->landing_count; i++) {
        uint32_t moves = 0;
        for (uint32_t lane = 0; lane < program->landings[i].lane_count; lane++)
            moves += program->lanes[program->landings[i].lane_first + lane].step_count;
        most = moves > most ? moves : most;
    }
    lane_program_destroy(program);
    plan_choice_fini(&choice);
    topo_destroy(topo);
    return most;
}

static void test_small_payloads_take_few_moves_between_hosts(void **state)
{
    static const uint32_t hosts[][4] = {{1, 1}, {4, 4}, {2, 2, 2, 2}, {3, 1, 2}};
    static const uint32_t host_counts[] = {2, 2, 4, 3};
    static const uint64_t sizes[] = {8, 1 * KIB, 16 * KIB};
    (void)state;
    assert_true(wire_moves(hosts[1], 2, 8, 0) > 2); /* what moves cost is what makes the difference */
    for (size_t i = 0; i < 4; i++)
        for (size_t size = 0; size < 3; size++)
            assert_in_range(wire_moves(hosts[i], host_counts[i], sizes[size], MODEL_WIRE_MOVE_US), 1, 2);
    assert_int_equal(wire_moves(hosts[1], 2, 8, MODEL_WIRE_MOVE_US), 1);
}

/* ---- few peers ---- */

static uint32_t peers_most(const topo_t *topo, const plan_t *plan)
{
    uint32_t most = 0;
    assert_int_equal(plan_peers_most(topo, plan, &most), BLINK_OK);
    return most;
}

static void test_peers_are_the_hosts_that_edges_lead_to(void **state)
{
    static const struct {
        const char *topology;
        blink_collective_t collective;
        blink_algorithm_t algorithm;
        uint32_t peers;
    } cases[] = {{"dgx1v", BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
                 {"2xdgx1v", BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 1},
                 {"8xdgx1v", BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 7},
                 {"8xdgx1v", BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 2},
                 {"8xdgx1v", BLINK_ALLTOALL, BLINK_ALGORITHM_TREES, 7},
                 {"16xdgx1v", BLINK_ALLREDUCE, BLINK_ALGORITHM_BINOMIAL, 4}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        topo_t *topo = NULL;
        plan_t *plan = NULL, *expanded = NULL;
        assert_int_equal(topo_load(cases[i].topology, &topo), BLINK_OK);
        plan_request_t request = ask(topo, cases[i].collective, cases[i].algorithm, 0);
        assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
        assert_int_equal(plan_expand(topo, plan, &expanded), BLINK_OK);
        assert_int_equal(peers_most(topo, plan), cases[i].peers);
        assert_int_equal(peers_most(topo, expanded), cases[i].peers);
        plan_destroy(expanded);
        plan_destroy(plan);
        topo_destroy(topo);
    }
}

static plan_choice_t choose_with_peers(const topo_t *topo, blink_collective_t collective, uint32_t most)
{
    plan_choice_t choice;
    plan_request_t request = ask(topo, collective, BLINK_ALGORITHM_AUTO, 64 * MIB);
    request.peers_most = most;
    assert_int_equal(plan_choose(topo, &request, &choice), BLINK_OK);
    return choice;
}

static void test_hosts_have_no_more_peers_than_they_may(void **state)
{
    (void)state;
    topo_t *topo = NULL;
    plan_crossover_t *crossovers = NULL;
    uint32_t count = 0, left_out = 0;
    assert_int_equal(topo_load("16xdgx1v", &topo), BLINK_OK);
    plan_choice_t choice = choose_with_peers(topo, BLINK_ALLREDUCE, 4);
    assert_true(peers_most(topo, choice.best) <= 4);
    assert_int_equal(choice.unlimited.algorithm, BLINK_ALGORITHM_TREES);
    assert_int_equal(choice.contenders[choice.unlimited.contender].peers, 15);
    assert_true(choice.unlimited.predicted_us < choice.candidates[0].predicted_us);
    for (uint32_t i = 0; i < choice.count; i++)
        left_out += strstr(choice.candidates[i].text, "a host would have 15 peers (most: 4)") != NULL;
    assert_int_equal(left_out, 2); /* packed trees under Simple and LL */
    assert_int_equal(plan_choice_crossovers(&choice, KIB, 1024 * MIB, &crossovers, &count), BLINK_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_not_equal(crossovers[i].algorithm, BLINK_ALGORITHM_TREES);
    free(crossovers);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

static void test_a_limit_that_nothing_meets_or_all_meet_changes_nothing(void **state)
{
    (void)state;
    topo_t *topo = NULL;
    assert_int_equal(topo_load("16xdgx1v", &topo), BLINK_OK);
    plan_choice_t choice = choose_with_peers(topo, BLINK_ALLTOALL, 4);
    assert_int_equal(peers_most(topo, choice.best), 15);
    plan_choice_fini(&choice);
    choice = choose_with_peers(topo, BLINK_ALLREDUCE, 15);
    assert_int_equal(choice.best->algorithm, BLINK_ALGORITHM_TREES);
    assert_int_equal(choice.unlimited.contender, choice.candidates[0].contender);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_star_takes_its_hops_and_its_bytes),
        cmocka_unit_test(test_a_ring_takes_all_its_steps),
        cmocka_unit_test(test_a_chain_stores_and_forwards_chunks),
        cmocka_unit_test(test_a_short_last_chunk_waits_as_long_as_a_whole_one),
        cmocka_unit_test(test_time_grows_with_bytes_towards_the_rate),
        cmocka_unit_test(test_predicted_chunk_is_the_executors),
        cmocka_unit_test(test_short_chunks_leave_a_ring_idle),
        cmocka_unit_test(test_small_payloads_take_few_hops_and_large_ones_the_highest_rate),
        cmocka_unit_test(test_candidates_are_in_order_and_failures_say_why),
        cmocka_unit_test(test_ll128_is_for_nvlink_alone),
        cmocka_unit_test(test_crossovers_are_where_the_choice_changes),
        cmocka_unit_test(test_one_hop_behind_nvswitch_beats_rings_and_trees_of_nccl),
        cmocka_unit_test(test_auto_takes_the_choice_for_the_size),
        cmocka_unit_test(test_auto_without_a_size_is_the_highest_rate),
        cmocka_unit_test(test_one_rank_chooses_a_plan_that_moves_nothing),
        cmocka_unit_test(test_bad_requests_and_separated_ranks_are_errors),
        cmocka_unit_test(test_beyond_64_ranks_what_plans_every_pair_is_left_out),
        cmocka_unit_test(test_small_payloads_take_few_moves_between_hosts),
        cmocka_unit_test(test_peers_are_the_hosts_that_edges_lead_to),
        cmocka_unit_test(test_hosts_have_no_more_peers_than_they_may),
        cmocka_unit_test(test_a_limit_that_nothing_meets_or_all_meet_changes_nothing),
    };
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
