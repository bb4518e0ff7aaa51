/*
 * Plans by switches that reduce and copy: what links carry, what the plan comes to, who may have one, and
 * what becomes of it on its way to another host.
 */
#include "plan/bytes/bytes.h"
#include "plan/choose.h"
#include "plan/model.h"
#include "plan_checks.h"

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
    assert_int_equal(plan_predict_us(topo, plan, GIB, BLINK_PROTOCOL_SIMPLE, 0, &us), BLINK_OK);
    assert_close(us, hops_us + (double)GIB / (0.85 * 400e3));
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
    assert_refused(h100, &request, "multicast: these devices cannot make a switch reduce and copy");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_carry_each_part_once_and_the_roots_twice),
        cmocka_unit_test(test_switches_share_by_what_they_carry),
        cmocka_unit_test(test_the_prediction_is_nccls_part_of_the_rate),
        cmocka_unit_test(test_it_is_chosen_where_it_is_allowed_and_faster),
        cmocka_unit_test(test_who_cannot_have_one_is_told_why),
        cmocka_unit_test(test_it_is_the_same_when_read),
        cmocka_unit_test(test_what_is_no_star_by_a_switch_is_refused),
        cmocka_unit_test(test_texts_say_that_links_are_shared),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}
