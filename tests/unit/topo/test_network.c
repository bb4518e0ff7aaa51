/*
 * Topologies with a network: what NICs hang on, and hosts that are joined.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/choose.h"
#include "topo/network.h"
#include "topo_check.h"

static const topo_nic_t slow_nic = {"eth0", 1.25};

static topo_t *read_json(const char *text)
{
    topo_t *topo = NULL;
    if (topo_parse_json(text, strlen(text), "test", &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

static char *write_json(const topo_t *topo)
{
    char *text = NULL;
    assert_int_equal(topo_write_json(topo, &text), BLINK_OK);
    return text;
}

/* Devices on one memory, as a daemon has them that was told nothing else. */
static topo_t *plain_memory(uint32_t devices)
{
    topo_builder_t *builder = NULL;
    topo_t *topo = NULL;
    topo_node_t memory = {.id = (char[]){"memory"}, .host = (char[]){"n0"}, .kind = TOPO_SWITCH};
    assert_int_equal(topo_build_create("memory", "test", &builder), BLINK_OK);
    assert_int_equal(topo_build_node(builder, &memory), BLINK_OK);
    for (uint32_t i = 0; i < devices; i++) {
        char id[32];
        snprintf(id, sizeof(id), "host%u", i);
        topo_node_t device = {.id = id, .host = (char[]){"n0"}, .kind = TOPO_DEVICE};
        assert_int_equal(topo_build_node(builder, &device), BLINK_OK);
        assert_int_equal(topo_build_link(builder, id, "memory", TOPO_SHM, 20, 1, 0.1, true), BLINK_OK);
    }
    assert_int_equal(topo_build_finish(builder, &topo), BLINK_OK);
    topo_build_destroy(builder);
    return topo;
}

/* The host that owns `local`, which is taken over. */
static topo_t *networked(topo_t *local, const topo_nic_t *nics, uint32_t nic_count)
{
    topo_t *topo = NULL;
    if (topo_add_network(local, nics, nic_count, NULL, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    topo_destroy(local);
    return topo;
}

static topo_t *joined(const topo_host_t *hosts, uint32_t host_count)
{
    topo_t *topo = NULL;
    if (topo_join(hosts, host_count, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

static void assert_fails(const topo_host_t *hosts, uint32_t host_count, const char *part)
{
    topo_t *topo = NULL;
    assert_int_equal(topo_join(hosts, host_count, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_null(topo);
    assert_text_has(blink_error_text(), part);
}

static void test_nodes_and_links_of_the_host_keep_their_places(void **state)
{
    (void)state;
    const char *names[] = {"dgx1v", "dgx_h100", "pcie8", "gh200x4", "dgx2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        topo_t *local = load(names[i]), *topo = NULL;
        assert_int_equal(topo_add_network(local, &slow_nic, 1, NULL, &topo), BLINK_OK);
        assert_int_equal(topo->gpu_count, local->gpu_count);
        for (uint32_t node = 0; node < local->node_count; node++)
            assert_string_equal(topo->nodes[node].id, local->nodes[node].id);
        for (uint32_t link = 0; link < local->link_count; link++)
            assert_memory_equal(&topo->links[link], &local->links[link], sizeof(topo_link_t));
        assert_int_not_equal(topo_find_node(topo, TOPO_NET_ID), TOPO_NONE);
        topo_destroy(topo);
        topo_destroy(local);
    }
}

static void test_nics_hang_on_memory_switches_cpus_or_gpus(void **state)
{
    (void)state;
    const topo_nic_t nics[] = {{"a", 5}, {"b", 50}};
    topo_t *memory = networked(plain_memory(2), nics, 2);
    topo_t *pcie = networked(load("dgx1v_hybrid"), nics, 2);
    topo_t *nvlink = networked(
        read_json("{\"schema\": \"blink-topology/1\", \"nodes\": [{\"id\": \"g0\", \"kind\": \"gpu\"}, "
                  "{\"id\": \"g1\", \"kind\": \"gpu\"}], \"links\": [{\"from\": \"g0\", \"to\": \"g1\", "
                  "\"GBps\": 25, \"kind\": \"nvlink\"}]}"),
        nics, 2);
    assert_true(link_between(memory, "memory", "a")->GBps == 20);
    assert_true(link_between(memory, "b", "memory")->GBps == 50);
    assert_true(link_between(memory, "a", "net")->GBps == 5);
    assert_true(linked(pcie, "plx0", "a") && linked(pcie, "plx2", "b") && !linked(pcie, "plx0", "b"));
    assert_true(linked(nvlink, "g0", "a") && linked(nvlink, "b", "g1") && !linked(nvlink, "g1", "a"));
    topo_destroy(memory);
    topo_destroy(pcie);
    topo_destroy(nvlink);
}

static void test_parts_that_nothing_joins_reach_the_network_each(void **state)
{
    (void)state;
    topo_t *topo = networked(
        read_json("{\"schema\": \"blink-topology/1\", \"nodes\": [{\"id\": \"m\", \"kind\": \"switch\"}, "
                  "{\"id\": \"h\", \"kind\": \"gpu\"}, {\"id\": \"c\", \"kind\": \"cpu\"}, "
                  "{\"id\": \"g\", \"kind\": \"gpu\"}], \"links\": ["
                  "{\"from\": \"h\", \"to\": \"m\", \"GBps\": 20, \"kind\": \"shm\"}, "
                  "{\"from\": \"g\", \"to\": \"c\", \"GBps\": 24, \"kind\": \"pcie\"}]}"),
        &slow_nic, 1);
    assert_true(linked(topo, "m", "eth0") && linked(topo, "eth0", "c"));
    topo_destroy(topo);
}

static void test_nics_that_the_topology_has_are_all_there_are(void **state)
{
    (void)state;
    topo_t *own = networked(load("gh200x4"), &slow_nic, 1),
           *named = networked(load("1xdgx1v@5"), &slow_nic, 1);
    assert_int_equal(topo_find_node(own, "eth0"), TOPO_NONE);
    assert_true(link_between(own, "nic3", "net")->GBps == 25);
    assert_int_equal(topo_find_node(named, "eth0"), TOPO_NONE);
    assert_true(link_between(named, "nic0", "net")->GBps == 5);
    topo_destroy(own);
    topo_destroy(named);
}

static void test_a_host_without_a_nic_has_no_network(void **state)
{
    (void)state;
    topo_t *local = plain_memory(2), *topo = NULL;
    assert_int_equal(topo_add_network(local, NULL, 0, NULL, &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "no NIC");
    topo_destroy(local);
}

static void test_two_hosts_of_plain_memory_are_stars_with_one_edge_between_them(void **state)
{
    (void)state;
    topo_t *host = networked(plain_memory(4), &slow_nic, 1);
    const topo_host_t hosts[] = {{"n0", host}, {"n1", host}};
    topo_t *topo = joined(hosts, 2);
    uint32_t nodes[8], crossing = 0;
    plan_t *plan = NULL;
    assert_int_equal(topo->gpu_count, 8);
    memcpy(nodes, topo->gpus, sizeof(nodes));
    plan_request_t request = {.collective = BLINK_ALLREDUCE,
                              .algorithm = BLINK_ALGORITHM_TREES,
                              .rank_node = nodes,
                              .rank_count = 8};
    assert_int_equal(plan_create(topo, &request, &plan), BLINK_OK);
    for (uint32_t channel = 0; channel < plan->channel_count; channel++) {
        crossing = 0;
        for (uint32_t rank = 0; rank < 8; rank++) {
            uint32_t parent = plan->channels[channel].parts[0].reduce.parent[rank];
            crossing += parent != PLAN_NONE && (parent < 4) != (rank < 4);
        }
        assert_int_equal(crossing, 1);
    }
    assert_true(plan->rate_GBps > 0.99 * plan->bound_GBps);
    plan_destroy(plan);
    topo_destroy(topo);
    topo_destroy(host);
}

static void test_joining_what_others_have_written_gives_the_same_bytes(void **state)
{
    (void)state;
    topo_t *first = networked(load("dgx1v"), &slow_nic, 1),
           *second = networked(plain_memory(3), &slow_nic, 1);
    char *texts[] = {write_json(first), write_json(second)};
    topo_t *read[] = {read_json(texts[0]), read_json(texts[1])};
    topo_t *here = joined((const topo_host_t[]){{"a", first}, {"b", second}, {"c", first}}, 3);
    topo_t *there = joined((const topo_host_t[]){{"a", read[0]}, {"b", read[1]}, {"c", read[0]}}, 3);
    char *one = write_json(here), *other = write_json(there);
    assert_string_equal(one, other);
    assert_int_equal(here->gpu_count, 19);
    assert_string_equal(here->nodes[here->gpus[8]].id, "b/host0");
    assert_string_equal(here->nodes[here->gpus[8]].host, "b");
    assert_string_equal(here->nodes[here->node_count - 1].id, "net");
    for (uint32_t link = 0; link < first->link_count; link++)
        assert_true(here->links[link].GBps == first->links[link].GBps);
    free(one);
    free(other);
    topo_destroy(here);
    topo_destroy(there);
    for (uint32_t i = 0; i < 2; i++) {
        topo_destroy(read[i]);
        free(texts[i]);
    }
    topo_destroy(first);
    topo_destroy(second);
}

static void test_a_generated_host_joins_like_the_topology_of_both(void **state)
{
    (void)state;
    topo_t *host = load("1xdgx1v@5"), *both = load("2xdgx1v@5");
    topo_t *topo = joined((const topo_host_t[]){{"n0", host}, {"n1", host}}, 2);
    assert_int_equal(topo->node_count, both->node_count);
    assert_int_equal(topo->link_count, both->link_count);
    assert_int_equal(topo->gpu_count, both->gpu_count);
    topo_destroy(topo);
    topo_destroy(both);
    topo_destroy(host);
}

static void test_hosts_that_contradict_each_other_are_named(void **state)
{
    (void)state;
    topo_t *host = networked(plain_memory(2), &slow_nic, 1), *alone = plain_memory(2), *same = NULL;
    topo_t *limited = read_json(
        "{\"schema\": \"blink-topology/1\", \"nodes\": [{\"id\": \"g\", \"kind\": \"gpu\"}, "
        "{\"id\": \"net\", \"kind\": \"switch\", \"GBps_total\": 10}], \"links\": [{\"from\": \"g\", "
        "\"to\": \"net\", \"GBps\": 1, \"kind\": \"net\"}]}");
    assert_fails((const topo_host_t[]){{"n0", host}, {"n1", host}, {"n0", host}}, 3,
                 "two hosts are named 'n0'");
    assert_fails((const topo_host_t[]){{"n0", host}, {"n1", alone}}, 2, "host 'n1' has no NIC");
    assert_fails((const topo_host_t[]){{"n0", host}, {"n2", limited}}, 2, "hosts 'n0' and 'n2' do not say");
    topo_node_t *net = &limited->nodes[topo_find_node(limited, TOPO_NET_ID)];
    assert_int_equal(topo_crop_to_host(limited, limited->gpus[0], (uint32_t[2]){0}, &same), BLINK_OK);
    net->multicast = net->reduces = true;
    assert_fails((const topo_host_t[]){{"n0", limited}, {"n2", same}}, 2, "of the switch net");
    same->nodes[topo_find_node(same, TOPO_NET_ID)].multicast = true;
    assert_fails((const topo_host_t[]){{"n0", limited}, {"n2", same}}, 2, "of the switch net");
    topo_destroy(same);
    topo_destroy(limited);
    topo_destroy(alone);
    topo_destroy(host);
}

/* ---- several switches ---- */

static const char two_leaves[] = "[nics]\n"
                                 "n[1-2]/* = leaf1\n"
                                 "n[3-4]/* = leaf2\n"
                                 "[links]\n"
                                 "leaf[1-2] spine[1-2] = 2x10\n"
                                 "[switches]\n"
                                 "spine2 = 30\n";

static fabric_file_t *read_fabric(const char *text)
{
    FILE *open = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    fabric_file_t *file = NULL;
    assert_non_null(open);
    if (fabric_file_read_open(open, "fabric", &file) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    fclose(open);
    return file;
}

static blink_result_t try_fabric(const topo_t *local, const char *text, const char *host, topo_t **topo)
{
    fabric_file_t *file = read_fabric(text);
    blink_result_t result =
        topo_add_network(local, &slow_nic, 1, &(topo_fabric_t){.file = file, .host = host}, topo);
    fabric_file_destroy(file);
    return result;
}

/* The host that owns `local`, which is taken over. */
static topo_t *in_fabric(topo_t *local, const char *text, const char *host)
{
    topo_t *topo = NULL;
    if (try_fabric(local, text, host, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    topo_destroy(local);
    return topo;
}

static void test_nics_hang_on_the_switches_that_the_fabric_says(void **state)
{
    (void)state;
    topo_t *topo = in_fabric(plain_memory(2), two_leaves, "n3");
    assert_true(link_between(topo, "eth0", "net/leaf2")->GBps == 1.25);
    assert_false(linked(topo, "eth0", "net/leaf1"));
    assert_true(link_between(topo, "net/leaf1", "net/spine2")->GBps == 20);
    assert_true(link_between(topo, "net/spine1", "net/leaf2")->unit_GBps == 10);
    assert_true(topo->nodes[topo_find_node(topo, "net/spine2")].total_GBps == 30);
    assert_int_equal(topo_find_node(topo, "net"), TOPO_NONE);
    topo_destroy(topo);
}

static void test_a_fabric_takes_the_place_of_the_one_switch(void **state)
{
    (void)state;
    topo_t *local = load("1xdgx1v@5"), *topo = NULL;
    uint32_t net = topo_find_node(local, "net");
    assert_int_equal(try_fabric(local, "[nics]\n*/nic[0-1] = a\n*/* = b\n", "n1", &topo), BLINK_OK);
    for (uint32_t node = 0; node < local->node_count; node++)
        assert_string_equal(topo->nodes[node].id, node == net ? "net/a" : local->nodes[node].id);
    assert_int_equal(topo->node_count, local->node_count + 1);
    assert_int_equal(topo->link_count, local->link_count);
    for (uint32_t link = 0; link < local->link_count; link++)
        assert_true(topo->links[link].GBps == local->links[link].GBps);
    assert_true(linked(topo, "nic1", "net/a") && linked(topo, "net/b", "nic2"));
    topo_destroy(topo);
    topo_destroy(local);
}

static void test_what_a_fabric_does_not_say_is_an_error(void **state)
{
    (void)state;
    topo_t *local = plain_memory(2), *topo = NULL;
    topo_t *named = in_fabric(plain_memory(2), two_leaves, "n1");
    assert_int_equal(try_fabric(local, two_leaves, "n5", &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "on which switch n5/eth0 hangs");
    assert_int_equal(try_fabric(named, two_leaves, "n1", &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "it says itself what the network is made of");
    assert_null(topo);
    topo_destroy(named);
    topo_destroy(local);
}

static void test_hosts_of_one_fabric_are_joined_by_its_switches(void **state)
{
    (void)state;
    topo_t *near = in_fabric(plain_memory(2), two_leaves, "n1"),
           *far = in_fabric(load("1xpcie4@5"), two_leaves, "n4");
    topo_t *topo = joined((const topo_host_t[]){{"n4", far}, {"n1", near}}, 2);
    assert_int_equal(topo->node_count, near->node_count + far->node_count - 4);
    assert_int_equal(topo->link_count, near->link_count + far->link_count - 8);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(topo_is_of_network(topo, topo->node_count - 1 - i));
    for (uint32_t i = 0; i < 8; i++)
        assert_true(topo_is_trunk(topo, topo->link_count - 1 - i));
    assert_true(linked(topo, "n1/eth0", "net/leaf1") && linked(topo, "net/leaf2", "n4/nic0"));
    topo_destroy(topo);
    topo_destroy(near);
    topo_destroy(far);
}

static void test_hosts_of_different_fabrics_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *other, *part;
    } cases[] = {
        {"[nics]\n*/* = leaf1\n[links]\nleaf[1-2] spine[1-2] = 2x10\n", ", of the switch net/spine2"},
        {"[nics]\n*/* = leaf1\n[links]\nleaf[1-2] spine[1-2] = 2x10\n[switches]\nspine[2-3] = 30\n",
         ": only one has a switch net/spine3"},
        {"[nics]\n*/* = leaf1\n[links]\nleaf[1-2] spine[1-2] = 20\n[switches]\nspine2 = 30\n",
         ", of the link from net/leaf1 to net/spine1"},
        {"[nics]\n*/* = leaf1\n[links]\nleaf[1-2] spine1 = 2x10\n[switches]\nspine2 = 30\n",
         ", of the link from net/leaf1 to net/spine2"},
        {"[nics]\n*/* = a\n", ": one has a switch net/leaf1, the other net/a"},
    };
    topo_t *one = in_fabric(plain_memory(2), two_leaves, "n1"),
           *plain = networked(plain_memory(2), &slow_nic, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topo_t *other = in_fabric(plain_memory(2), cases[i].other, "n2");
        assert_fails((const topo_host_t[]){{"n1", one}, {"n2", other}}, 2, cases[i].part);
        assert_text_has(blink_error_text(), "hosts 'n1' and 'n2' do not say the same of the network");
        topo_destroy(other);
    }
    assert_fails((const topo_host_t[]){{"n2", plain}, {"n1", one}}, 2,
                 "hosts 'n2' and 'n1' do not say the same of the network: one has a switch net, the other "
                 "net/leaf1; all hosts need the same fabric file");
    topo_destroy(plain);
    topo_destroy(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_and_links_of_the_host_keep_their_places),
        cmocka_unit_test(test_nics_hang_on_memory_switches_cpus_or_gpus),
        cmocka_unit_test(test_parts_that_nothing_joins_reach_the_network_each),
        cmocka_unit_test(test_nics_that_the_topology_has_are_all_there_are),
        cmocka_unit_test(test_a_host_without_a_nic_has_no_network),
        cmocka_unit_test(test_two_hosts_of_plain_memory_are_stars_with_one_edge_between_them),
        cmocka_unit_test(test_joining_what_others_have_written_gives_the_same_bytes),
        cmocka_unit_test(test_a_generated_host_joins_like_the_topology_of_both),
        cmocka_unit_test(test_hosts_that_contradict_each_other_are_named),
        cmocka_unit_test(test_nics_hang_on_the_switches_that_the_fabric_says),
        cmocka_unit_test(test_a_fabric_takes_the_place_of_the_one_switch),
        cmocka_unit_test(test_what_a_fabric_does_not_say_is_an_error),
        cmocka_unit_test(test_hosts_of_one_fabric_are_joined_by_its_switches),
        cmocka_unit_test(test_hosts_of_different_fabrics_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
