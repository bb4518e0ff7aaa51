/*
 * Fabrics: what is where in the topology of several hosts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/comms/fabrics.h"
#include "error.h"

static topo_t *load(const char *name)
{
    topo_t *topo = NULL;
    if (topo_load(name, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

static void test_a_fabric_knows_hosts_devices_and_its_own_links(void **state)
{
    (void)state;
    topo_t *large = load("1xdgx1v@5"), *small = load("1xpcie4@5");
    const topo_host_t hosts[] = {{"n0", large}, {"n1", small}, {"n2", large}};
    fabric_t *fabric = NULL;
    assert_int_equal(fabric_create_joined(hosts, 3, 1, &fabric), BLINK_OK);
    assert_true(fabric_spans_hosts(fabric));
    assert_false(fabric->one_class);
    assert_string_equal(fabric->hosts[2], "n2");
    for (uint32_t host = 0; host < 3; host++)
        for (uint32_t i = 0; i < hosts[host].topo->gpu_count; i++) {
            uint32_t node = fabric->topo->gpus[fabric->first_device[host] + i];
            assert_int_equal(fabric->host_of_node[node], host);
            assert_string_equal(fabric->topo->nodes[node].host, hosts[host].name);
        }
    assert_int_equal(fabric->host_of_node[topo_find_node(fabric->topo, TOPO_NET_ID)], TOPO_NONE);
    uint32_t own = 0;
    for (uint32_t link = 0; link < fabric->topo->link_count; link++) {
        if (fabric->own_link[link] == TOPO_NONE)
            continue;
        const topo_link_t *joined = &fabric->topo->links[link], *here = &small->links[fabric->own_link[link]];
        assert_int_equal(fabric->own_link[link], own++);
        assert_true(joined->GBps == here->GBps && joined->kind == here->kind);
        const char *id = fabric->topo->nodes[joined->from].id;
        assert_string_equal(strncmp(id, "n1/", 3) == 0 ? id + 3 : id, small->nodes[here->from].id);
    }
    assert_int_equal(own, small->link_count);
    fabric_put(fabric_get(fabric));
    fabric_put(fabric);
    topo_destroy(large);
    topo_destroy(small);
}

static topo_t *load_of_leaves(const char *name, const char *host)
{
    static const char text[] = "[nics]\nn0/* = leaf1\n*/* = leaf2\n[links]\nleaf[1-2] spine = 20\n";
    FILE *open = fmemopen((void *)(uintptr_t)text, sizeof(text) - 1, "r");
    topo_t *local = load(name), *topo = NULL;
    fabric_file_t *file = NULL;
    if (fabric_file_read_open(open, "fabric", &file) != BLINK_OK ||
        topo_add_network(local, NULL, 0, &(topo_fabric_t){.file = file, .host = host}, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    fabric_file_destroy(file);
    topo_destroy(local);
    fclose(open);
    return topo;
}

static void test_links_between_switches_are_booked_by_who_sends(void **state)
{
    (void)state;
    topo_t *topos[2] = {load_of_leaves("1xpcie4@5", "n0"), load_of_leaves("1xdgx1v@5", "n1")};
    const topo_host_t hosts[] = {{"n0", topos[0]}, {"n1", topos[1]}};
    for (uint32_t own = 0; own < 2; own++) {
        fabric_t *fabric = NULL;
        uint32_t trunks = 0, sent = 0;
        assert_int_equal(fabric_create_joined(hosts, 2, own, &fabric), BLINK_OK);
        for (uint32_t i = 0; i < fabric->topo->link_count; i++) {
            const topo_link_t *link = &fabric->topo->links[i];
            uint32_t number = fabric->sent_link[i];
            bool is_trunk = topo_is_trunk(fabric->topo, i);
            trunks += is_trunk;
            sent += number != TOPO_NONE;
            assert_int_equal(fabric->own_link[i], is_trunk ? TOPO_NONE : number);
            if (is_trunk) {
                assert_string_equal(topos[own]->nodes[topos[own]->links[number].from].id,
                                    fabric->topo->nodes[link->from].id);
                assert_string_equal(topos[own]->nodes[topos[own]->links[number].to].id,
                                    fabric->topo->nodes[link->to].id);
            }
        }
        assert_int_equal(trunks, 4);
        assert_int_equal(sent, topos[own]->link_count);
        for (uint32_t node = 0; node < fabric->topo->node_count; node++)
            assert_true((fabric->host_of_node[node] == TOPO_NONE) == topo_is_of_network(fabric->topo, node));
        fabric_put(fabric);
    }
    topo_destroy(topos[0]);
    topo_destroy(topos[1]);
}

static void test_hosts_that_do_not_fit_make_no_fabric(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    const topo_host_t hosts[] = {{"n0", topo}, {"n1", topo}};
    fabric_t *fabric = NULL;
    assert_int_equal(fabric_create_joined(hosts, 2, 0, &fabric), BLINK_ERR_INVALID_ARGUMENT);
    assert_null(fabric);
    topo_destroy(topo);
}

static void test_communicators_over_the_same_hosts_share_a_fabric(void **state)
{
    (void)state;
    control_t control = {0};
    char *text = NULL;
    topo_t *own = load("1xpcie4@5");
    fabric_t *first = NULL, *again = NULL, *other = NULL;
    uint8_t digest[FABRIC_DIGEST_BYTES] = {1};
    control.topo = own;
    list_init(&control.fabrics);
    assert_int_equal(topo_write_json(own, &text), BLINK_OK);
    const fabric_host_t hosts[] = {{"n0", text, digest, 1}, {"n1", text, digest, 1}};
    const fabric_host_t others[] = {{"n0", text, digest, 1}, {"n2", text, digest, 1}};
    assert_int_equal(fabrics_find(&control, hosts, 2, 1, &first), BLINK_OK);
    assert_int_equal(fabrics_find(&control, hosts, 2, 1, &again), BLINK_OK);
    assert_int_equal(fabrics_find(&control, others, 2, 0, &other), BLINK_OK);
    assert_ptr_equal(first, again);
    assert_ptr_not_equal(first, other);
    assert_true(first->digest != 0 && first->digest != other->digest);
    fabric_put(other);
    const fabric_host_t restarted[] = {{"n0", text, digest, 2}, {"n1", text, digest, 1}};
    assert_int_equal(fabrics_find(&control, restarted, 2, 1, &other), BLINK_OK);
    assert_ptr_not_equal(first, other); /* its plans are not those of the daemon before it */
    assert_int_equal(first->own_host, 1);
    fabric_put(first);
    fabric_put(again);
    fabric_put(other);
    for (uint32_t i = 0; i < 50; i++) { /* of those that nobody uses a few stay */
        char name[8];
        snprintf(name, sizeof(name), "h%u", i);
        const fabric_host_t more[] = {{"n0", text, digest, 1}, {name, text, digest, 1}};
        assert_int_equal(fabrics_find(&control, more, 2, 0, &other), BLINK_OK);
        fabric_put(other);
    }
    uint32_t kept = 0;
    LIST_FOR_EACH (link, &control.fabrics)
        kept++;
    assert_in_range(kept, 1, 10);
    fabrics_end(&control);
    free(text);
    topo_destroy(own);
}

static void test_a_text_that_is_no_topology_is_refused_with_its_host(void **state)
{
    (void)state;
    control_t control = {0};
    uint8_t digest[FABRIC_DIGEST_BYTES] = {1};
    fabric_t *fabric = NULL;
    list_init(&control.fabrics);
    const fabric_host_t hosts[] = {{"n0", "{]", digest, 1}, {"n1", "{]", digest, 1}};
    assert_int_equal(fabrics_find(&control, hosts, 2, 1, &fabric), BLINK_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(blink_error_text(), "n0"));
    assert_true(list_is_empty(&control.fabrics));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fabric_knows_hosts_devices_and_its_own_links),
        cmocka_unit_test(test_links_between_switches_are_booked_by_who_sends),
        cmocka_unit_test(test_hosts_that_do_not_fit_make_no_fabric),
        cmocka_unit_test(test_communicators_over_the_same_hosts_share_a_fabric),
        cmocka_unit_test(test_a_text_that_is_no_topology_is_refused_with_its_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
