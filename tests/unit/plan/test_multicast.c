/*
 * Plans by switches that reduce and copy: what links carry, what the plan comes to, who may have one, and
 * what becomes of it on its way to another host.
 */
#include "plan/bytes/bytes.h"
#include "plan/choose.h"
#include "plan/lane/lane.h"
#include "plan/model.h"
#include "plan_checks.h"
#include "prove/verify.h"
#include "sim/goal.h"
#include "sim/sim.h"

#define GIB ((uint64_t)1 << 30)

#define REDUCING(id) "{\"id\":\"" id "\",\"kind\":\"switch\",\"multicast\":true,\"reduces\":true}"

/* Over the first gpus. */
static plan_request_t ask(const topo_t *topo, uint32_t ranks)
{
    return (plan_request_t){.algorithm = BLINK_ALGORITHM_MULTICAST,
                            .collective = BLINK_ALLREDUCE,
                            .rank_node = topo->gpus,
                            .rank_count = ranks,
                            .multicast = true};
}

static plan_t *make_for(const topo_t *topo, const plan_request_t *request)
{
    plan_t *plan = NULL;
    if (plan_create(topo, request, &plan) != BLINK_OK)
        fail_msg("%s: %s", topo->name, blink_error_text());
    return plan;
}

/* ---- loads ---- */

/* What a switch makes of a part takes each rank's share by its link, the root's too, and the result by the
 * root's; and the same backwards. */
static void add_loads(const topo_t *topo, const plan_t *plan, const plan_part_t *part, double share,
                      double *loads)
{
    uint32_t some = part->root == 0 ? 1 : 0;
    uint32_t node = topo->links[plan->paths[part->reduce.path[some]].links[0]].to;
    for (uint32_t rank = 0; rank < plan->rank_count; rank++) {
        uint32_t times = rank == part->root ? 2 : 1;
        loads[topo_find_link(topo, plan->rank_node[rank], node)] += times * share;
        loads[topo_find_link(topo, node, plan->rank_node[rank])] += times * share;
    }
}

static void check_loads(const topo_t *topo, const plan_t *plan)
{
    double *expected = calloc(topo->link_count, sizeof(*expected));
    double *loads = calloc(topo->link_count, sizeof(*loads));
    assert_non_null(expected);
    assert_non_null(loads);
    for (uint32_t c = 0; c < plan->channel_count; c++)
        for (uint32_t i = 0; i < plan->channels[c].part_count; i++)
            add_loads(topo, plan, &plan->channels[c].parts[i],
                      plan->channels[c].share / plan->channels[c].part_count, expected);
    assert_int_equal(plan_link_loads(topo, plan, loads), BLINK_OK);
    for (uint32_t i = 0; i < topo->link_count; i++)
        assert_true(fabs(loads[i] - expected[i]) < 1e-12);
    free(expected);
    free(loads);
}

static void test_links_carry_each_part_once_and_the_roots_twice(void **state)
{
    topo_t *topo = load("dgx_h100");
    (void)state;
    for (uint32_t ranks = 2; ranks <= topo->gpu_count; ranks++) {
        plan_request_t request = ask(topo, ranks);
        plan_t *plan = make_for(topo, &request), *expanded = NULL;
        check_plan(topo, plan);
        check_loads(topo, plan);
        assert_close(plan->rate_GBps, 450.0 * ranks / (ranks + 1));
        assert_close(plan->bound_GBps, 450.0);
        assert_int_equal(plan_depth(plan), 2);
        assert_int_equal(plan_expand(topo, plan, &expanded), BLINK_OK);
        check_loads(topo, expanded);
        plan_destroy(expanded);
        plan_destroy(plan);
    }
    topo_destroy(topo);
}

/* Two switches of 10 and 30 GB/s by the narrowest link each; a third that forwards. */
static void test_switches_share_by_what_they_carry(void **state)
{
    (void)state;
    topo_t *topo = parse(
        GPU("g0") "," GPU("g1") "," GPU("g2") "," REDUCING("s0") "," REDUCING("s1") "," SWITCH("s2"),
        LINK("g0", "s0", "10") "," LINK("g1", "s0", "20") "," LINK("g2", "s0", "20") "," LINK(
            "g0", "s1", "30") "," LINK("g1", "s1",
                                       "30") "," LINK("g2", "s1",
                                                      "30") "," LINK("g0", "s2",
                                                                     "90") "," LINK("g1", "s2",
                                                                                    "90") "," LINK("g2", "s2",
                                                                                                   "90"));
    plan_request_t request = ask(topo, 3);
    plan_t *plan = make_for(topo, &request);
    assert_int_equal(plan->channel_count, 2);
    check_loads(topo, plan);
    assert_close(plan->channels[0].share, 0.25);
    assert_close(plan->rate_GBps, 40.0 * 3 / 4);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- prediction and choice ---- */

static void test_the_prediction_is_nccls_part_of_the_rate(void **state)
{
    topo_t *topo = load("dgx_h100"); /* links of 1 us */
    plan_request_t request = ask(topo, 8);
    plan_t *plan = make_for(topo, &request);
    double us = 0.0, hops_us = 8.4 + 2 * (2.0 + 8.3);
    (void)state;
    assert_int_equal(plan_predict_us(topo, plan, 0, BLINK_PROTOCOL_SIMPLE, 0, &us), BLINK_OK);
    assert_close(us, hops_us);
    /* A chunk of 8 parts is copied on either side in the time that its link takes for 9. */
    const uint64_t chunk_bytes = 256 << 10;
    assert_int_equal(plan_predict_us(topo, plan, GIB, BLINK_PROTOCOL_SIMPLE, chunk_bytes, &us), BLINK_OK);
    assert_close(us, hops_us + 2 * 9 * (double)chunk_bytes / (0.85 * 125e3) + (double)GIB / (0.85 * 400e3));
    plan_destroy(plan);
    topo_destroy(topo);
}

static plan_choice_t choose_for(const topo_t *topo, uint32_t ranks, uint64_t bytes, bool multicast)
{
    plan_request_t request = ask(topo, ranks);
    plan_choice_t choice;
    request.algorithm = BLINK_ALGORITHM_AUTO;
    request.bytes = bytes;
    request.block_GBps = model_block_GBps(90);
    request.multicast = multicast;
    if (plan_choose(topo, &request, &choice) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return choice;
}

static void assert_chosen(const topo_t *topo, uint32_t ranks, uint64_t bytes, bool is_multicast)
{
    plan_choice_t choice = choose_for(topo, ranks, bytes, true);
    assert_int_equal(choice.best->algorithm == BLINK_ALGORITHM_MULTICAST, is_multicast);
    plan_choice_fini(&choice);
}

/* It pays from four ranks on, for large payloads. */
static void test_it_is_chosen_where_it_is_allowed_and_faster(void **state)
{
    topo_t *topo = load("dgx_h100");
    (void)state;
    assert_chosen(topo, 8, GIB, true);
    assert_chosen(topo, 4, GIB, true);
    assert_chosen(topo, 3, GIB, false);
    assert_chosen(topo, 8, 1024, false);
    plan_choice_t choice = choose_for(topo, 8, GIB, false);
    for (uint32_t i = 0; i < choice.count; i++)
        assert_int_not_equal(choice.candidates[i].algorithm, BLINK_ALGORITHM_MULTICAST);
    plan_choice_fini(&choice);
    topo_destroy(topo);
}

/* Integers of 4 bytes take more blocks to be as fast, and are slower where there are no more. */
static void test_blocks_move_less_of_what_comes_in_no_vectors(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_request_t request = ask(topo, 8);
    (void)state;
    request.block_GBps = model_block_GBps(90);
    plan_t *wide = make_for(topo, &request);
    request.blocks_most = 2 * wide->channel_count; /* two of a channel */
    plan_t *wide_limited = make_for(topo, &request);
    request.narrow = true;
    plan_t *narrow_limited = make_for(topo, &request);
    request.blocks_most = 0;
    plan_t *narrow = make_for(topo, &request);
    assert_true(narrow->channel_count > wide->channel_count);
    assert_close(narrow->block_GBps, request.block_GBps / 2);
    assert_close(narrow->rate_GBps, wide->rate_GBps);
    assert_close(wide_limited->rate_GBps, wide->rate_GBps);
    assert_true(narrow_limited->rate_GBps < 0.9 * wide->rate_GBps);
    request.algorithm = BLINK_ALGORITHM_ONE_HOP; /* others copy and reduce them as all else */
    plan_t *other = make_for(topo, &request);
    assert_close(other->block_GBps, request.block_GBps);
    plan_destroy(other);
    plan_destroy(wide);
    plan_destroy(narrow);
    plan_destroy(wide_limited);
    plan_destroy(narrow_limited);
    topo_destroy(topo);
}

/* ---- who may have one ---- */

static void assert_refused(const topo_t *topo, const plan_request_t *request, const char *text)
{
    plan_t *plan = NULL;
    assert_int_equal(plan_create(topo, request, &plan), BLINK_ERR_UNSUPPORTED);
    assert_string_equal(blink_error_text(), text);
}

static void test_who_cannot_have_one_is_told_why(void **state)
{
    topo_t *h100 = load("dgx_h100"), *a100 = load("dgx_a100"), *hosts = load("2xdgx_h100");
    plan_request_t request = ask(h100, 8);
    (void)state;
    request.collective = BLINK_BROADCAST;
    assert_refused(h100, &request, "multicast does no broadcast");
    request.collective = BLINK_ALLREDUCE;
    request.multicast = false;
    assert_refused(h100, &request,
                   "multicast: these devices cannot make a switch reduce and copy, or not with this type and "
                   "operator");
    request = ask(hosts, hosts->gpu_count);
    assert_refused(hosts, &request, "multicast joins ranks of one host, and these are of several");
    request = ask(a100, 4);
    assert_refused(a100, &request,
                   "multicast needs a switch that reduces and has links with all 4 ranks; dgx_a100 has none");
    topo_destroy(h100);
    topo_destroy(a100);
    topo_destroy(hosts);
}

/* ---- as bytes and as text ---- */

static blink_result_t read_again(const topo_t *topo, const plan_request_t *request, const plan_t *plan,
                                 plan_t **read)
{
    uint8_t *bytes = NULL;
    size_t byte_count = 0;
    assert_int_equal(plan_to_bytes(topo, plan, &bytes, &byte_count), BLINK_OK);
    blink_result_t result = plan_from_bytes(topo, request, bytes, byte_count, read);
    free(bytes);
    return result;
}

static void test_it_is_the_same_when_read(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_request_t request = ask(topo, 5);
    plan_t *plan = make_for(topo, &request), *read = NULL;
    double rate_GBps = 0.0;
    (void)state;
    assert_int_equal(read_again(topo, &request, plan, &read), BLINK_OK);
    check_loads(topo, read);
    assert_int_equal(plan_rate_GBps(topo, read, &rate_GBps), BLINK_OK);
    assert_close(rate_GBps, plan->rate_GBps);
    plan_destroy(read);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void assert_unsound(const topo_t *topo, const plan_request_t *request, const plan_t *plan,
                           const char *words)
{
    plan_t *read = NULL;
    blink_result_t result = read_again(topo, request, plan, &read);
    if (result != BLINK_ERR_PROTOCOL || !strstr(blink_error_text(), words))
        fail_msg("%d: \"%s\", not \"%s\"", result, blink_error_text(), words);
}

static void test_what_is_no_star_by_a_switch_is_refused(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_request_t request = ask(topo, 4);
    plan_t *plan = make_for(topo, &request);
    plan_part_t *part = &plan->channels[0].parts[0], *of_another = &plan->channels[1].parts[0];
    uint32_t path = part->reduce.path[1], way = part->broadcast.path[0];
    (void)state;
    request.multicast = false;
    assert_unsound(topo, &request, plan, "no switch reduces here");
    request.multicast = true;
    plan->protocol = BLINK_PROTOCOL_LL;
    assert_unsound(topo, &request, plan, "which switches do not do");
    plan->protocol = BLINK_PROTOCOL_SIMPLE;
    part->reduce.path[1] = of_another->reduce.path[1];
    assert_unsound(topo, &request, plan, "no star by a switch");
    part->reduce.path[1] = path;
    part->broadcast.path[0] = of_another->broadcast.path[0];
    assert_unsound(topo, &request, plan, "no star by a switch");
    part->broadcast.path[0] = part->broadcast.path[1];
    assert_unsound(topo, &request, plan, "which joins others");
    part->broadcast.path[0] = PLAN_NONE;
    assert_unsound(topo, &request, plan, "an edge by path");
    part->broadcast.path[0] = way;
    part->reduce.parent[2] = 1;
    part->reduce.path[2] = plan->channels[0].parts[1].reduce.path[2];
    assert_unsound(topo, &request, plan, "no star by a switch");
    plan_destroy(plan);
    topo_destroy(topo);
}

/* What is read can be compiled, and then lanes are right: all that may differ is how the payload is shared.
 */
static void try_bytes(const topo_t *topo, const plan_request_t *request, const uint8_t *bytes, size_t count)
{
    const lane_verify_options_t options = {3, 1, false};
    plan_t *plan = NULL;
    lane_program_t *program = NULL;
    if (plan_from_bytes(topo, request, bytes, count, &plan) != BLINK_OK)
        return;
    if (lane_compile(topo, plan, NULL, &program) == BLINK_OK && lane_verify(program, &options) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    lane_program_destroy(program);
    plan_destroy(plan);
}

static void test_no_byte_does_harm(void **state)
{
    topo_t *topo = parse(GPU("g0") "," GPU("g1") "," REDUCING("s0") "," REDUCING("s1"),
                         LINK("g0", "s0", "10") "," LINK("g1", "s0", "10") "," LINK(
                             "g0", "s1", "10") "," LINK("g1", "s1", "10"));
    plan_request_t request = ask(topo, 2);
    plan_t *plan = make_for(topo, &request);
    uint8_t *bytes = NULL;
    size_t count = 0;
    (void)state;
    assert_int_equal(plan_to_bytes(topo, plan, &bytes, &count), BLINK_OK);
    for (size_t at = 0; at < count; at++) {
        const uint8_t was = bytes[at];
        const uint8_t others[] = {(uint8_t)(was + 1), (uint8_t)(was - 1), (uint8_t)(was ^ 0x80), 0xff, 0};
        for (size_t i = 0; i < sizeof(others); i++) {
            bytes[at] = others[i];
            try_bytes(topo, &request, bytes, count);
        }
        bytes[at] = was;
    }
    free(bytes);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_texts_say_that_links_are_shared(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_request_t request = ask(topo, 2);
    plan_t *plan = make_for(topo, &request);
    char *text = NULL;
    (void)state;
    assert_int_equal(plan_write_json(topo, plan, &text), BLINK_OK);
    assert_non_null(strstr(text, "{\"phase\": \"broadcast\", \"root\": \"gpu1\", \"share\": 0.138"));
    assert_non_null(strstr(text, ", \"switch\": \"nvsw0\", \"edges\": [\n"
                                 "   {\"path\": [\"gpu1\", \"nvsw0\", \"gpu0\"]}]}"));
    free(text);
    assert_int_equal(plan_write_table(topo, plan, 0, &text), BLINK_OK);
    assert_non_null(strstr(text, "\nswitches reduce and copy: "));
    free(text);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- lanes ---- */

static lane_program_t *compile_for(const topo_t *topo, uint32_t ranks, double block_GBps)
{
    plan_request_t request = ask(topo, ranks);
    lane_program_t *program = NULL;
    request.block_GBps = block_GBps;
    plan_t *plan = make_for(topo, &request);
    if (lane_compile(topo, plan, NULL, &program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    plan_destroy(plan);
    return program;
}

static void prove(const lane_program_t *program)
{
    static const uint32_t slots[] = {1, 2, 3};
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const lane_verify_options_t options = {2 * slots[i] + 1, slots[i], in_place};
            if (lane_verify(program, &options) != BLINK_OK)
                fail_msg("%u ranks, %u slots: %s", program->rank_count, slots[i], blink_error_text());
        }
}

static void test_lanes_are_right_for_any_number_of_ranks_and_slots(void **state)
{
    topo_t *topo = load("dgx_h100");
    (void)state;
    for (uint32_t ranks = 1; ranks <= topo->gpu_count; ranks++) {
        lane_program_t *program = compile_for(topo, ranks, 0.0);
        assert_int_equal(program->depth, ranks > 1 ? 2 : 0);
        assert_int_equal(program->edge_count, ranks > 1 ? 4 * ranks * 2 * ranks : 0);
        prove(program);
        lane_program_destroy(program);
    }
    topo_destroy(topo);
}

/* The switch's step of rank 0 in the first channel: behind its copies of all parts. */
static lane_step_t *switch_step(lane_program_t *program)
{
    lane_step_t *step = &program->steps[program->lanes[0].step_first + program->rank_count];
    assert_int_equal(step->src_count, program->rank_count);
    assert_int_equal(step->dst_count, program->rank_count);
    return step;
}

static void assert_caught(const lane_program_t *program, const char *words)
{
    const lane_verify_options_t options = {5, 2, false};
    assert_int_equal(lane_verify(program, &options), BLINK_ERR_INTERNAL);
    if (!strstr(blink_error_text(), words))
        fail_msg("\"%s\", not \"%s\"", blink_error_text(), words);
}

/* What a switch cannot do, and what no wait orders, does not pass. */
static void test_the_prover_knows_what_a_switch_does(void **state)
{
    topo_t *topo = load("dgx_h100");
    lane_program_t *program = compile_for(topo, 3, 0.0);
    lane_step_t *step = switch_step(program), was = *step;
    lane_operand_t *src = &program->operands[step->src_first], first = src[0];
    (void)state;
    step->src_count--;
    assert_caught(program, "reaches 2 slots by a switch, and has 2 operands");
    *step = was;
    src[0] = src[1];
    src[1] = first;
    assert_caught(program, "reaches slots of several places");
    src[1] = src[0];
    src[0] = first;
    src[0].path = PLAN_NONE;
    assert_caught(program, "reaches 2 slots by a switch, and has 3 operands");
    src[0] = first;
    step->completes = 0;
    assert_caught(program, "completes it and does not say so");
    *step = was;
    program->multicast = false;
    assert_caught(program, "by a switch");
    program->multicast = true;
    prove(program);
    lane_program_destroy(program);
    topo_destroy(topo);
}

/* The first wait is for rank 0's own slot, which its lane has filled before. */
static void test_every_wait_for_another_rank_is_needed(void **state)
{
    topo_t *topo = load("dgx_h100");
    lane_program_t *program = compile_for(topo, 2, 0.0);
    const lane_step_t *step = switch_step(program);
    const lane_verify_options_t options = {5, 2, false};
    (void)state;
    assert_int_equal(step->wait_count, 4);
    for (uint32_t i = 1; i < step->wait_count; i++) {
        lane_wait_t *wait = &program->waits[step->wait_first + i], was = *wait;
        wait->kind = wait->kind == LANE_FULL ? LANE_FREE : LANE_FULL;
        assert_int_equal(lane_verify(program, &options), BLINK_ERR_INTERNAL);
        *wait = was;
    }
    prove(program);
    lane_program_destroy(program);
    topo_destroy(topo);
}

static void test_plans_that_lanes_cannot_be_made_of_are_refused(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_request_t request = ask(topo, 2);
    plan_t *plan = make_for(topo, &request);
    const lane_hosts_t hosts = {.of_rank = (const uint32_t[]){0, 1}};
    lane_program_t *program = NULL;
    (void)state;
    assert_int_equal(lane_compile(topo, plan, &hosts, &program), BLINK_ERR_INTERNAL);
    plan->protocol = BLINK_PROTOCOL_LL;
    assert_int_equal(lane_compile(topo, plan, NULL, &program), BLINK_ERR_INTERNAL);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* Count the links of a step's operands; destinations stand behind sources. */
static void carry(const lane_program_t *program, const lane_step_t *step, double share, double *carried)
{
    for (uint32_t i = 0; i < step->src_count + step->dst_count; i++) {
        const lane_operand_t *operand = &program->operands[step->src_first + i];
        if (operand->path == PLAN_NONE)
            continue;
        lane_path_t path = lane_loaded_path(program, operand);
        for (uint32_t link = 0; link < path.link_count; link++)
            carried[program->path_links[path.link_first + link]] += share;
    }
}

static void test_operands_load_links_as_the_plan_does(void **state)
{
    topo_t *topo = load("dgx_h100");
    plan_request_t request = ask(topo, 5);
    plan_t *plan = make_for(topo, &request);
    lane_program_t *program = compile_for(topo, 5, 0.0);
    double *loads = calloc(2 * (size_t)topo->link_count, sizeof(*loads)), *carried = loads + topo->link_count;
    (void)state;
    assert_non_null(loads);
    assert_int_equal(plan_link_loads(topo, plan, loads), BLINK_OK);
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const lane_t *lane = &program->lanes[l];
        const lane_channel_t *channel = &program->channels[lane->channel];
        for (uint32_t s = lane->step_first; s < lane->step_first + lane->step_count; s++)
            carry(program, &program->steps[s], channel->share / channel->part_count, carried);
    }
    for (uint32_t i = 0; i < topo->link_count; i++)
        assert_true(fabs(loads[i] - carried[i]) < 1e-12);
    free(loads);
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

/* ---- simulation ---- */

static sim_result_t simulate(const topo_t *topo, const lane_program_t *program, uint64_t bytes,
                             uint64_t chunk_bytes)
{
    lane_geometry_t geometry;
    sim_result_t result;
    assert_int_equal(lane_geometry_init(program, bytes, chunk_bytes, 0, &geometry), BLINK_OK);
    if (sim_run(topo, &geometry, INFINITY, &result) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    assert_int_equal(goal_write(topo, &geometry, 1.0, stdout), BLINK_ERR_UNSUPPORTED);
    lane_geometry_fini(&geometry);
    return result;
}

/* What is too little to be dealt to two parts is the last one's. It passes at 8.5 of 10 GB/s. */
static void test_a_chunk_takes_two_hops_by_the_switch(void **state)
{
    (void)state;
    topo_t *topo =
        parse(GPU("g0") "," GPU("g1") "," REDUCING("s0"), LINK("g0", "s0", "10") "," LINK("g1", "s0", "10"));
    lane_program_t *program = compile_for(topo, 2, 0.0);
    uint32_t node = topo_find_node(topo, "s0");
    uint32_t up = topo_find_link(topo, topo->gpus[0], node),
             of_root = topo_find_link(topo, topo->gpus[1], node);
    sim_result_t result = simulate(topo, program, 16, 0);
    assert_close(result.time_us, 8.4 + 2 * (8.3 + 2 * topo->links[up].latency_us) + 2 * 16 / 8.5e3);
    assert_int_equal(result.links[up].bytes, 16);
    assert_int_equal(result.links[of_root].bytes, 2 * 16);
    sim_result_fini(&result);
    lane_program_destroy(program);
    topo_destroy(topo);
}

static void test_links_are_busy_as_planned_and_faster_than_without(void **state)
{
    topo_t *topo = load("dgx_h100");
    lane_program_t *program = compile_for(topo, 8, model_block_GBps(90));
    sim_result_t result = simulate(topo, program, GIB / 4, 0);
    (void)state;
    double GBps = (double)(GIB / 4) / result.time_us / 1e3;
    if (!(GBps > 0.9 * 0.85 * 400.0 && GBps < 0.85 * 400.0))
        fail_msg("%f GB/s", GBps);
    for (uint32_t i = 0; i < topo->link_count; i++)
        assert_true(result.links[i].bytes > 0);
    assert_true(result.links[0].bytes > GIB / 4 / 18 * 5 * 9 / 8 - GIB / 4096);
    sim_result_fini(&result);
    lane_program_destroy(program);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_carry_each_part_once_and_the_roots_twice),
        cmocka_unit_test(test_switches_share_by_what_they_carry),
        cmocka_unit_test(test_the_prediction_is_nccls_part_of_the_rate),
        cmocka_unit_test(test_it_is_chosen_where_it_is_allowed_and_faster),
        cmocka_unit_test(test_blocks_move_less_of_what_comes_in_no_vectors),
        cmocka_unit_test(test_who_cannot_have_one_is_told_why),
        cmocka_unit_test(test_it_is_the_same_when_read),
        cmocka_unit_test(test_what_is_no_star_by_a_switch_is_refused),
        cmocka_unit_test(test_no_byte_does_harm),
        cmocka_unit_test(test_texts_say_that_links_are_shared),
        cmocka_unit_test(test_lanes_are_right_for_any_number_of_ranks_and_slots),
        cmocka_unit_test(test_the_prover_knows_what_a_switch_does),
        cmocka_unit_test(test_every_wait_for_another_rank_is_needed),
        cmocka_unit_test(test_plans_that_lanes_cannot_be_made_of_are_refused),
        cmocka_unit_test(test_operands_load_links_as_the_plan_does),
        cmocka_unit_test(test_a_chunk_takes_two_hops_by_the_switch),
        cmocka_unit_test(test_links_are_busy_as_planned_and_faster_than_without),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
