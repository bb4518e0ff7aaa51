/*
 * Topologies by name: the machines among the built-ins that no other test looks into, and NxNAME, many of one
 * behind a network.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo_check.h"

static void assert_host(const topo_t *topo, const char *id, const char *host)
{
    uint32_t node = topo_find_node(topo, id);
    assert_int_not_equal(node, TOPO_NONE);
    assert_string_equal(topo->nodes[node].host, host);
}

static double out_GBps(const topo_t *topo, uint32_t node)
{
    double GBps = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++)
        GBps += topo->links[topo->out_links[j]].GBps;
    return GBps;
}

/* Nodes that a walk along links from node 0 meets. */
static uint32_t count_reached(const topo_t *topo)
{
    bool *met = calloc(topo->node_count, sizeof(*met));
    uint32_t *queue = calloc(topo->node_count, sizeof(*queue));
    assert_true(met && queue);
    uint32_t tail = 1;
    met[0] = true;
    for (uint32_t head = 0; head < tail; head++) {
        for (uint32_t j = topo->out_first[queue[head]]; j < topo->out_first[queue[head] + 1]; j++) {
            uint32_t to = topo->links[topo->out_links[j]].to;
            if (!met[to])
                queue[tail++] = to;
            met[to] = true;
        }
    }
    free(met);
    free(queue);
    return tail;
}

static void test_gh200x4_joins_every_pair_and_each_gpu_to_its_cpu(void **state)
{
    (void)state;
    topo_t *topo = load("gh200x4");
    assert_int_equal(topo->gpu_count, 4);
    assert_duplex(topo, "gpu0", "gpu3", TOPO_NVLINK, 150);
    assert_duplex(topo, "gpu2", "cpu2", TOPO_NVLINK, 450);
    assert_duplex(topo, "cpu3", "nic3", TOPO_NIC_LINK, 25);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(out_GBps(topo, topo->gpus[i]) == 3 * 150 + 450);
    topo_destroy(topo);
}

static void test_p3_16xlarge_is_a_dgx1v_with_one_slow_nic(void **state)
{
    (void)state;
    topo_t *topo = load("p3.16xlarge"), *dgx = load("dgx1v_hybrid");
    assert_int_equal(topo->node_count, dgx->node_count + 1);
    assert_int_equal(topo->link_count, dgx->link_count + 2);
    for (uint32_t i = 0; i < dgx->link_count; i++)
        assert_duplex(topo, dgx->nodes[dgx->links[i].from].id, dgx->nodes[dgx->links[i].to].id,
                      dgx->links[i].kind, dgx->links[i].GBps);
    assert_duplex(topo, "nic0", "cpu0", TOPO_NIC_LINK, 3.1);
    topo_destroy(topo);
    topo_destroy(dgx);
}

static void test_pcie4_is_one_switch(void **state)
{
    (void)state;
    topo_t *topo = load("pcie4");
    assert_int_equal(topo->gpu_count, 4);
    assert_int_equal(topo->link_count, 8);
    assert_duplex(topo, "gpu3", "plx0", TOPO_PCIE, 11);
    topo_destroy(topo);
}

static void test_hosts_with_pcie_switches_get_a_nic_on_each(void **state)
{
    (void)state;
    topo_t *topo = load("2xdgx1v_hybrid");
    assert_string_equal(topo->name, "2xdgx1v_hybrid");
    assert_int_equal(topo->gpu_count, 16);
    assert_int_equal(count_kind(topo, TOPO_NIC), 8);
    assert_string_equal(topo->nodes[topo->gpus[11]].id, "gpu11");
    assert_host(topo, "gpu7", "n0");
    assert_host(topo, "gpu8", "n1");
    assert_host(topo, "plx1_3", "n1");
    assert_host(topo, "nic4", "n1");
    assert_host(topo, "net", "");
    assert_duplex(topo, "gpu8", "gpu11", TOPO_NVLINK, 50);
    assert_duplex(topo, "cpu1_0", "cpu1_1", TOPO_QPI, 19.2);
    assert_duplex(topo, "nic7", "plx1_3", TOPO_PCIE, 11);
    assert_duplex(topo, "nic7", "net", TOPO_NET, 12.5);
    topo_destroy(topo);
}

static void test_hosts_without_switches_share_nics_among_neighbours(void **state)
{
    (void)state;
    static const struct {
        const char *name, *last_gpu, *last_nic;
        uint32_t nics;
        double GBps;
    } cases[] = {{"2xdgx1v", "gpu15", "nic7", 8, 12.5},
                 {"2xdgx1p", "gpu14", "nic7", 8, 12.5},
                 {"2xdgx2", "gpu30", "nic15", 16, 12.5},
                 {"2xdgx_a100", "gpu15", "nic15", 16, 25},
                 {"2xdgx_h100", "gpu15", "nic15", 16, 50}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topo_t *topo = load(cases[i].name);
        assert_int_equal(count_kind(topo, TOPO_NIC), cases[i].nics);
        assert_duplex(topo, cases[i].last_gpu, cases[i].last_nic, TOPO_NIC_LINK, cases[i].GBps);
        assert_duplex(topo, cases[i].last_nic, "net", TOPO_NET, cases[i].GBps);
        topo_destroy(topo);
    }
}

static void test_hosts_keep_the_nics_they_have(void **state)
{
    (void)state;
    topo_t *topo = load("3xp3.16xlarge");
    assert_int_equal(count_kind(topo, TOPO_NIC), 3);
    assert_duplex(topo, "nic2", "cpu2_0", TOPO_NIC_LINK, 3.1);
    assert_duplex(topo, "nic2", "net", TOPO_NET, 3.1);
    topo_destroy(topo);
}

static void test_at_sign_sets_what_each_nic_moves(void **state)
{
    (void)state;
    topo_t *topo = load("2xdgx1v@5");
    assert_string_equal(topo->name, "2xdgx1v@5");
    assert_duplex(topo, "nic0", "net", TOPO_NET, 5);
    assert_duplex(topo, "gpu1", "nic0", TOPO_NIC_LINK, 5);
    assert_duplex(topo, "gpu0", "gpu3", TOPO_NVLINK, 50);
    topo_destroy(topo);
    topo = load("2xp3.16xlarge@12.5");
    assert_duplex(topo, "nic1", "cpu1_0", TOPO_NIC_LINK, 12.5);
    assert_duplex(topo, "nic1", "net", TOPO_NET, 12.5);
    topo_destroy(topo);
}

static void test_at_sign_takes_a_point_in_any_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        skip();
    topo_t *topo = load("2xdgx1v@12.5");
    setlocale(LC_NUMERIC, "C");
    assert_duplex(topo, "nic0", "net", TOPO_NET, 12.5);
    topo_destroy(topo);
}

/* Every host has the links of the machine and nothing is left apart. */
static void assert_repeats(const char *machine_name)
{
    char what[64];
    snprintf(what, sizeof(what), "3x%s", machine_name);
    topo_t *machine = load(machine_name), *topo = load(what);
    assert_int_equal(topo->gpu_count, 3 * machine->gpu_count);
    assert_int_equal(count_reached(topo), topo->node_count);
    uint32_t per_host = (topo->node_count - 1) / 3;
    assert_int_equal(topo->node_count, 3 * per_host + 1);
    for (uint32_t host = 0; host < 3; host++) {
        for (uint32_t i = 0; i < machine->link_count; i++) {
            const topo_link_t *link = &machine->links[i];
            uint32_t found = topo_find_link(topo, host * per_host + link->from, host * per_host + link->to);
            assert_int_not_equal(found, TOPO_NONE);
            assert_true(topo->links[found].GBps == link->GBps);
            assert_true(topo->links[found].unit_GBps == link->unit_GBps);
            assert_true(topo->links[found].latency_us == link->latency_us);
        }
    }
    topo_destroy(topo);
    topo_destroy(machine);
}

static void test_every_single_host_builtin_can_be_repeated(void **state)
{
    (void)state;
    for (const char *const *name = topo_builtin_names(); *name; name++) {
        if (strcmp(*name, "2x_dgx1v_100g") != 0)
            assert_repeats(*name);
    }
}

static void test_the_largest_have_every_gpu_and_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"128xdgx1v_hybrid", "128xdgx_h100", "64xdgx2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *topo = load(names[i]), *again = NULL;
        assert_int_equal(topo->gpu_count, 1024);
        assert_int_equal(count_reached(topo), topo->node_count);
        char *text = NULL;
        assert_int_equal(topo_write_json(topo, &text), BLINK_OK);
        assert_int_equal(topo_parse_json(text, strlen(text), names[i], &again), BLINK_OK);
        assert_int_equal(again->link_count, topo->link_count);
        for (uint32_t j = 0; j < topo->node_count; j++)
            assert_int_equal(topo_find_node(again, topo->nodes[j].id), j);
        free(text);
        topo_destroy(again);
        topo_destroy(topo);
    }
}

static void test_dot_gathers_each_host_once(void **state)
{
    (void)state;
    topo_t *topo = load("3xdgx1v");
    char *dot = NULL;
    assert_int_equal(topo_write_dot(topo, &dot), BLINK_OK);
    uint32_t clusters = 0;
    for (const char *at = dot; (at = strstr(at, "subgraph cluster_")) != NULL; at++)
        clusters++;
    assert_int_equal(clusters, 3);
    const char *second = strstr(dot, "label=\"n1\""), *third = strstr(dot, "label=\"n2\"");
    assert_true(second && third && second < third);
    const char *gpu15 = strstr(dot, "\"gpu15\" [shape=box]"), *net = strstr(dot, "\"net\" [shape=ellipse]");
    assert_true(second < gpu15 && gpu15 < third && third < net);
    free(dot);
    topo_destroy(topo);
}

static void test_names_that_make_no_sense_are_refused_by_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        blink_result_t result;
        const char *texts[3];
    } cases[] = {
        {"0xdgx1v", BLINK_ERR_INVALID_ARGUMENT, {"0xdgx1v", "1 to 1024 hosts, not 0"}},
        {"5000xdgx1v", BLINK_ERR_INVALID_ARGUMENT, {"1 to 1024 hosts, not 5000"}},
        {"99999999999999999999999xdgx1v", BLINK_ERR_INVALID_ARGUMENT, {"hosts, not 99999999999999999999999"}},
        {"128xdgx2", BLINK_ERR_INVALID_ARGUMENT, {"128 hosts of 16 gpus", "2048", "1024"}},
        {"2x2x_dgx1v_100g", BLINK_ERR_INVALID_ARGUMENT, {"2x_dgx1v_100g is more than one host"}},
        {"2xdgx1v@", BLINK_ERR_INVALID_ARGUMENT, {"GB/s of each NIC", "not \"\""}},
        {"2xdgx1v@0", BLINK_ERR_INVALID_ARGUMENT, {"not \"0\""}},
        {"2xdgx1v@-3", BLINK_ERR_INVALID_ARGUMENT, {"not \"-3\""}},
        {"2xdgx1v@nan", BLINK_ERR_INVALID_ARGUMENT, {"not \"nan\""}},
        {"2xdgx1v@1.5.2", BLINK_ERR_INVALID_ARGUMENT, {"not \"1.5.2\""}},
        {"2xfoo", BLINK_ERR_NOT_FOUND, {"2xfoo", "[Nx]NAME", "dgx1v_hybrid"}},
        {"xdgx1v", BLINK_ERR_NOT_FOUND, {"xdgx1v", "[Nx]NAME"}},
        {"2x", BLINK_ERR_NOT_FOUND, {"2x: No such file"}},
        {"2 xdgx1v", BLINK_ERR_NOT_FOUND, {"2 xdgx1v: No such file"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topo_t *topo = NULL;
        assert_int_equal(topo_load(cases[i].name, &topo), cases[i].result);
        assert_null(topo);
        for (size_t j = 0; j < 3 && cases[i].texts[j]; j++)
            assert_text_has(blink_error_text(), cases[i].texts[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gh200x4_joins_every_pair_and_each_gpu_to_its_cpu),
        cmocka_unit_test(test_p3_16xlarge_is_a_dgx1v_with_one_slow_nic),
        cmocka_unit_test(test_pcie4_is_one_switch),
        cmocka_unit_test(test_hosts_with_pcie_switches_get_a_nic_on_each),
        cmocka_unit_test(test_hosts_without_switches_share_nics_among_neighbours),
        cmocka_unit_test(test_hosts_keep_the_nics_they_have),
        cmocka_unit_test(test_at_sign_sets_what_each_nic_moves),
        cmocka_unit_test(test_at_sign_takes_a_point_in_any_locale),
        cmocka_unit_test(test_every_single_host_builtin_can_be_repeated),
        cmocka_unit_test(test_the_largest_have_every_gpu_and_read_back),
        cmocka_unit_test(test_dot_gathers_each_host_once),
        cmocka_unit_test(test_names_that_make_no_sense_are_refused_by_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
