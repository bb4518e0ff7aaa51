/*
 * Detection, on machines that are not there: PCI trees as hwloc exports them, a sysfs in
 * tests/fixtures/detect, NVML libraries of our own, and facts put together by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/detect/detect.h"
#include "topo/detect/detect_build.h"
#include "topo_check.h"

#define MACHINES BLINK_FIXTURES_DIR "/detect/"

static topo_t *detect(const char *hwloc_xml, const char *sysfs, const char *nvml)
{
    detect_sources_t sources = {.sysfs = sysfs, .hwloc_xml = hwloc_xml, .nvml = nvml};
    topo_t *topo = NULL;
    if (topo_detect(&sources, &topo) != BLINK_OK)
        fail_msg("%s: %s", hwloc_xml, blink_error_text());
    return topo;
}

static topo_t *detect_dgx1v(void)
{
    return detect(MACHINES "dgx1v.xml", MACHINES "dgx1v_sys", FAKE_NVML_DGX1V);
}

static void assert_same_nvlinks(const topo_t *topo, const topo_t *expected, double scale)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topo->link_count; i++)
        count += topo->links[i].kind == TOPO_NVLINK;
    assert_int_equal(count, expected->link_count);
    for (uint32_t i = 0; i < expected->link_count; i++) {
        const topo_link_t *link = &expected->links[i];
        assert_link(topo, expected->nodes[link->from].id, expected->nodes[link->to].id, TOPO_NVLINK,
                    link->GBps * scale);
    }
}

static void test_dgx1v_nvlinks_are_those_of_the_builtin(void **state)
{
    (void)state;
    topo_t *topo = detect_dgx1v(), *dgx1v = load("dgx1v");
    assert_string_equal(topo->name, "Tesla V100-SXM2-16GB");
    assert_int_equal(topo->gpu_count, 8);
    assert_same_nvlinks(topo, dgx1v, 20.0 / 25.0); /* NCCL counts 20 GB/s a link */
    assert_string_equal(topo->nodes[topo->gpus[0]].host, "n0");
    topo_destroy(topo);
    topo_destroy(dgx1v);
}

static void test_bridges_that_branch_are_nodes_and_others_only_slow_links_down(void **state)
{
    (void)state;
    topo_t *topo = detect_dgx1v();
    /* Three of the four switches have a gpu, a gpu and a NIC; the fourth's NIC is down; mlx5_1 has two ports.
     */
    assert_int_equal(count_kind(topo, TOPO_SWITCH), 5);
    assert_duplex(topo, "gpu0", "pci-0000:03:00.0", TOPO_PCIE, 12);
    assert_duplex(topo, "gpu1", "pci-0000:03:00.0", TOPO_PCIE, 12);
    assert_duplex(topo, "gpu5", "pci-0000:82:00.0", TOPO_PCIE, 12);
    assert_duplex(topo, "gpu7", "pci-0000:87:00.0", TOPO_PCIE, 3); /* 5 GT/s on 8 lanes */
    assert_duplex(topo, "pci-0000:03:00.0", "cpu0", TOPO_PCIE, 12);
    assert_duplex(topo, "pci-0000:82:00.0", "cpu1", TOPO_PCIE, 6); /* half its lanes */
    assert_duplex(topo, "pci-0000:87:00.0", "cpu1", TOPO_PCIE, 12);
    topo_destroy(topo);
}

static void test_active_verbs_ports_become_nics(void **state)
{
    (void)state;
    topo_t *topo = detect_dgx1v();
    assert_int_equal(count_kind(topo, TOPO_NIC), 5);
    assert_duplex(topo, "mlx5_0", "pci-0000:03:00.0", TOPO_NIC_LINK, 12); /* 12.5 behind a PCIe link of 12 */
    assert_duplex(topo, "mlx5_1", "pci-0000:0c:00.0", TOPO_NIC_LINK, 12.5);
    assert_duplex(topo, "mlx5_1:2", "pci-0000:0c:00.0", TOPO_NIC_LINK, 3.125);
    assert_duplex(topo, "pci-0000:0c:00.0", "pci-0000:08:00.0", TOPO_PCIE, 12);
    assert_int_equal(topo_find_node(topo, "mlx5_3"), TOPO_NONE); /* down */
    assert_duplex(topo, "rxe0", "cpu0", TOPO_NIC_LINK, 0.3125);  /* software */
    topo_destroy(topo);
}

static void test_packages_are_linked_by_their_make(void **state)
{
    (void)state;
    topo_t *topo = detect_dgx1v();
    assert_int_equal(count_kind(topo, TOPO_CPU), 2);
    assert_duplex(topo, "cpu0", "cpu1", TOPO_QPI, 6); /* Broadwell */
    topo_destroy(topo);
    topo = detect(MACHINES "h100.xml", MACHINES "no_sys", FAKE_NVML_H100);
    assert_duplex(topo, "cpu0", "cpu1", TOPO_QPI, 22); /* Sapphire Rapids */
    topo_destroy(topo);
}

static void test_h100s_hang_on_one_nvswitch(void **state)
{
    (void)state;
    topo_t *topo = detect(MACHINES "h100.xml", MACHINES "no_sys", FAKE_NVML_H100);
    assert_string_equal(topo->name, "NVIDIA H100 80GB HBM3");
    assert_int_equal(topo->gpu_count, 8);
    assert_int_equal(count_kind(topo, TOPO_SWITCH), 1);
    assert_int_equal(count_kind(topo, TOPO_NIC), 0);
    for (uint32_t i = 0; i < 8; i++) {
        const char *id = topo->nodes[topo->gpus[i]].id;
        assert_duplex(topo, id, "nvswitch", TOPO_NVSWITCH, 18 * 20.6);
        assert_true(link_between(topo, id, "nvswitch")->unit_GBps == 20.6);
        assert_duplex(topo, id, i < 4 ? "cpu0" : "cpu1", TOPO_PCIE, 48); /* hwloc's 63 GB/s on the line */
    }
    assert_true(topo->nodes[topo_find_node(topo, "nvswitch")].reduces);
    assert_true(topo->nodes[topo_find_node(topo, "nvswitch")].multicast);
    assert_int_equal(topo->link_count, 8 * 2 * 2 + 2);
    topo_destroy(topo);
}

static void test_without_nvml_the_pcie_tree_remains(void **state)
{
    (void)state;
    topo_t *topo = detect(MACHINES "dgx1v.xml", MACHINES "dgx1v_sys", "libno-such-nvml.so.1");
    assert_string_equal(topo->name, "detected");
    assert_int_equal(topo->gpu_count, 8); /* not the board's own display controller */
    assert_false(linked(topo, "gpu0", "gpu3"));
    assert_duplex(topo, "gpu0", "pci-0000:03:00.0", TOPO_PCIE, 12);
    topo_destroy(topo);
}

static void test_gpus_that_only_nvml_shows_have_their_nvlinks(void **state)
{
    (void)state;
    topo_t *topo = detect(MACHINES "no_gpu.xml", MACHINES "no_sys", FAKE_NVML_DGX1V);
    topo_t *dgx1v = load("dgx1v");
    assert_int_equal(topo->gpu_count, 8);
    assert_int_equal(topo->node_count, 10);
    assert_same_nvlinks(topo, dgx1v, 20.0 / 25.0);
    topo_destroy(topo);
    topo_destroy(dgx1v);
}

static void test_without_a_gpu_the_error_tells_what_was_found(void **state)
{
    (void)state;
    detect_sources_t sources = {
        .sysfs = MACHINES "dgx1v_sys", .hwloc_xml = MACHINES "no_gpu.xml", .nvml = "libno-such-nvml.so.1"};
    topo_t *topo = NULL;
    assert_int_equal(topo_detect(&sources, &topo), BLINK_ERR_NOT_FOUND);
    assert_null(topo);
    assert_text_has(blink_error_text(), "no GPU found: no libno-such-nvml.so.1");
    assert_text_has(blink_error_text(), "CPU packages: 2, verbs devices: 5");
    sources.nvml = FAKE_NVML_NO_DRIVER;
    assert_int_equal(topo_detect(&sources, &topo), BLINK_ERR_NOT_FOUND);
    assert_text_has(blink_error_text(), "NVML does not start (error 9)");
    sources.nvml = "libm.so.6";
    assert_int_equal(topo_detect(&sources, &topo), BLINK_ERR_NOT_FOUND);
    assert_text_has(blink_error_text(), "NVML has no nvmlInit_v2");
}

static void test_a_file_that_is_not_hwlocs_is_refused(void **state)
{
    (void)state;
    detect_sources_t sources = {.hwloc_xml = MACHINES "no_such.xml", .nvml = "libno-such-nvml.so.1"};
    topo_t *topo = NULL;
    assert_int_equal(topo_detect(&sources, &topo), BLINK_ERR_SYSTEM);
    assert_text_has(blink_error_text(), "hwloc");
}

static void test_this_machine_is_detected_or_has_no_gpu(void **state)
{
    (void)state;
    topo_t *topo = NULL;
    blink_result_t result = topo_detect(&(detect_sources_t){0}, &topo);
    if (result == BLINK_OK)
        assert_true(topo->gpu_count > 0);
    else
        assert_int_equal(result, BLINK_ERR_NOT_FOUND);
    topo_destroy(topo);
}

static void test_addresses_are_read_and_printed(void **state)
{
    (void)state;
    static const char *const good[] = {"0000:06:00.0", "10000:e1:1f.7", "ffff:ff:00.1"};
    char text[DETECT_PCI_BYTES];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_string_equal(detect_address_text(detect_parse_address(good[i]), text), good[i]);
    assert_true(detect_parse_address("00000000:06:00.0") == detect_parse_address("0000:06:00.0"));
    static const char *const bad[] = {"", "virtual", "0000:06:00", "0000:06:00.0x", "06:00.0", "usb1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(detect_parse_address(bad[i]) == DETECT_NO_ADDRESS);
}

/* One cpu and two gpus, of NVML alone. */
static void add_pair(detect_facts_t *facts, const char *second_name, long sm)
{
    const detect_cpu_t cpu = {.GBps = 6};
    const detect_gpu_t first = {.address = 0x800, .name = "one", .sm = sm};
    detect_gpu_t second = {.address = 0x100, .sm = sm};
    snprintf(second.name, sizeof(second.name), "%s", second_name);
    assert_true(vec_push(&facts->cpus, cpu) && vec_push(&facts->gpus, first) &&
                vec_push(&facts->gpus, second));
}

static topo_t *build(detect_facts_t *facts)
{
    topo_t *topo = NULL;
    if (detect_build(facts, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    detect_facts_release(facts);
    return topo;
}

static void test_unlike_gpus_give_no_name(void **state)
{
    (void)state;
    detect_facts_t facts = {0};
    add_pair(&facts, "two", 90);
    topo_t *topo = build(&facts);
    assert_string_equal(topo->name, "detected");
    topo_destroy(topo);
}

static void test_nvlinks_that_lead_out_of_sight_are_left_out(void **state)
{
    (void)state;
    detect_facts_t facts = {0};
    add_pair(&facts, "one", 90);
    const detect_nvlink_t outward = {.from = 0x100, .to = 0x900}, inward = {.from = 0x100, .to = 0x800};
    assert_true(vec_push(&facts.nvlinks, outward) && vec_push(&facts.nvlinks, inward));
    topo_t *topo = build(&facts);
    assert_string_equal(topo->name, "one");
    assert_int_equal(topo->link_count, 1);
    assert_link(topo, "gpu0", "gpu1", TOPO_NVLINK, 20.6); /* by address: 0x100 is the first */
    topo_destroy(topo);
}

static void test_nvlinks_of_unknown_speed_are_left_out(void **state)
{
    (void)state;
    detect_facts_t facts = {0};
    add_pair(&facts, "one", 0);
    const detect_nvlink_t nvlink = {.from = 0x100, .to_switch = true};
    assert_true(vec_push(&facts.nvlinks, nvlink));
    topo_t *topo = build(&facts);
    assert_int_equal(topo->link_count, 0);
    assert_int_equal(count_kind(topo, TOPO_SWITCH), 0);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dgx1v_nvlinks_are_those_of_the_builtin),
        cmocka_unit_test(test_bridges_that_branch_are_nodes_and_others_only_slow_links_down),
        cmocka_unit_test(test_active_verbs_ports_become_nics),
        cmocka_unit_test(test_packages_are_linked_by_their_make),
        cmocka_unit_test(test_h100s_hang_on_one_nvswitch),
        cmocka_unit_test(test_without_nvml_the_pcie_tree_remains),
        cmocka_unit_test(test_gpus_that_only_nvml_shows_have_their_nvlinks),
        cmocka_unit_test(test_without_a_gpu_the_error_tells_what_was_found),
        cmocka_unit_test(test_a_file_that_is_not_hwlocs_is_refused),
        cmocka_unit_test(test_this_machine_is_detected_or_has_no_gpu),
        cmocka_unit_test(test_addresses_are_read_and_printed),
        cmocka_unit_test(test_unlike_gpus_give_no_name),
        cmocka_unit_test(test_nvlinks_that_lead_out_of_sight_are_left_out),
        cmocka_unit_test(test_nvlinks_of_unknown_speed_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
