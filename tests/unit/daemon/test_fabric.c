/*
 * Fabrics: what is where in the topology of several hosts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plans/fabric.h"
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
    assert_int_equal(fabric->host_of_node[topo_find_network(fabric->topo)], TOPO_NONE);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fabric_knows_hosts_devices_and_its_own_links),
        cmocka_unit_test(test_hosts_that_do_not_fit_make_no_fabric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
