/* Topologies in NCCL's XML: what dumps of machines become, and everything that the reader must refuse. */
#include <libxml/parser.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo_bad_inputs.h"
#include "topo_check.h"

static void count_message(void *count, const char *format, ...)
{
    (void)format;
    (*(int *)count)++;
}

static void test_bad_xml_is_refused_by_name_and_prints_nothing(void **state)
{
    (void)state;
    int printed = 0;
    xmlSetGenericErrorFunc(&printed, count_message);
    for (size_t i = 0; i < sizeof(bad_xml) / sizeof(bad_xml[0]); i++)
        assert_refused(topo_parse_nccl_xml, &bad_xml[i]);
    xmlSetGenericErrorFunc(NULL, NULL);
    assert_int_equal(printed, 0);
}

/* Each is compared with all that came before it. */
static void test_more_switches_than_any_machine_has_are_refused(void **state)
{
    (void)state;
    char *xml = NULL;
    size_t bytes;
    FILE *text = open_memstream(&xml, &bytes);
    assert_non_null(text);
    fputs("<system><cpu numaid=\"0\">", text);
    for (int i = 0; i < 4097; i++)
        fprintf(text, "<pci busid=\"%d\"><pci/></pci>", i);
    fputs("</cpu></system>", text);
    assert_int_equal(fclose(text), 0);
    topo_t *topo = NULL;
    assert_int_equal(topo_parse_nccl_xml(xml, bytes, "some/file", &topo), BLINK_ERR_INVALID_ARGUMENT);
    assert_text_has(blink_error_text(), "<pci> is one more than the 4096 switches of a topology");
    free(xml);
}

static void test_nccl_dump_becomes_nodes_and_links(void **state)
{
    (void)state;
    topo_t *topo = load(BLINK_FIXTURES_DIR "/topo_nccl_dump.xml");
    assert_string_equal(topo->name, "topo_nccl_dump");
    assert_int_equal(topo->gpu_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        char id[8];
        snprintf(id, sizeof(id), "gpu%u", i);
        assert_string_equal(topo->nodes[topo->gpus[i]].id, id);
    }
    /* 4 gpus, 3 ports, 2 cpus, 2 pci switches, 1 nvswitch: neither the disk nor what stands in unknown
     * elements */
    assert_int_equal(topo->node_count, 12);
    assert_link(topo, "gpu0", "nvswitch", TOPO_NVSWITCH, 9 * 20.6);
    assert_link(topo, "nvswitch", "gpu1", TOPO_NVSWITCH, 12 * 20.0);
    assert_reduces(topo, "nvswitch", false); /* it serves an A100, too */
    assert_link(topo, "gpu2", "gpu3", TOPO_NVLINK, 40);
    assert_link(topo, "gpu3", "gpu2", TOPO_NVLINK, 40);
    assert_link(topo, "cpu1", "gpu3", TOPO_NVLINK, 10 * 45 + 12); /* chip-to-chip and PCIe side by side */
    assert_link(topo, "gpu0", "pci-0000:01:00.0", TOPO_PCIE, 48);
    assert_link(topo, "pci-0000:01:00.0", "cpu0", TOPO_PCIE, 24);
    assert_link(topo, "pci-0000:04:00.0", "pci-0000:01:00.0", TOPO_PCIE, 12);
    assert_link(topo, "nic0", "pci-0000:04:00.0", TOPO_NIC_LINK, 25);
    assert_link(topo, "nic1", "pci-0000:04:00.0", TOPO_NIC_LINK, 1.25);
    assert_link(topo, "nic2", "cpu1", TOPO_NIC_LINK, 1.25);
    assert_link(topo, "gpu2", "cpu1", TOPO_PCIE, 0.75);
    assert_link(topo, "cpu0", "cpu1", TOPO_QPI, 10);
    assert_indexed(topo);
    assert_reads_back_equal(topo);
    topo_destroy(topo);
}

static void test_rccl_dump_has_its_xgmi_links_and_names_what_it_leaves_out(void **state)
{
    (void)state;
    topo_t *topo = load(BLINK_FIXTURES_DIR "/topo_rccl_dump.xml");
    assert_int_equal(topo->gpu_count, 3);
    assert_link(topo, "gpu0", "gpu1", TOPO_NVLINK, 2 * 36);
    assert_link(topo, "gpu1", "gpu0", TOPO_NVLINK, 2 * 36);
    assert_link(topo, "gpu2", "gpu0", TOPO_NVLINK, 48);
    assert_link(topo, "gpu0", "pci-0000:c0:00.0", TOPO_PCIE, 24);
    assert_link(topo, "gpu1", "pci-0000:c0:00.0_2", TOPO_PCIE, 24);
    assert_link(topo, "nic0", "pci-0000:c0:00.0", TOPO_NIC_LINK, 25);
    assert_link(topo, "nic1", "pci-0000:c0:00.0_2", TOPO_NIC_LINK, 12.5);
    assert_text_has(topo->notes, "line 8: <xgmi> of gpu0 leads to itself");
    assert_text_has(topo->notes,
                    "line 10: <xgmi> of gpu0 leads to 0000:ff:00.0, which the file does not have");
    assert_text_has(topo->notes, "line 24: <spare> is nothing that is known of a GPU");
    assert_text_has(topo->notes, "line 27: <net> has a dev that another one has");
    assert_indexed(topo);
    topo_destroy(topo);
}

static void test_nccl_dump_of_several_hosts(void **state)
{
    (void)state;
    topo_t *topo = load(BLINK_FIXTURES_DIR "/topo_nccl_hosts.xml");
    assert_int_equal(topo->gpu_count, 3);
    assert_string_equal(topo->nodes[topo->gpus[1]].host, "n0");
    assert_string_equal(topo->nodes[topo->gpus[2]].host, "n1");
    assert_link(topo, "gpu0", "gpu1", TOPO_NVLINK, 2618);
    assert_link(topo, "gpu1", "gpu0", TOPO_NVLINK, 2618);
    assert_link(topo, "gpu0", "nvswitch", TOPO_NVSWITCH, 9 * 40.1);
    assert_link(topo, "gpu1", "nvswitch", TOPO_NVSWITCH, 9 * 40.1);
    assert_link(topo, "gpu2", "nvswitch", TOPO_NVSWITCH, 18 * 40.1);
    assert_link(topo, "gpu0", "pci0_0008:01:00.0", TOPO_PCIE, 48);
    assert_link(topo, "pci0_0008:01:00.0", "pci0_0008:00:00.0", TOPO_PCIE, 48);
    assert_link(topo, "pci0_0008:00:00.0", "pci0_0009:00:00.0", TOPO_PCIE, 5000);
    assert_false(linked(topo, "pci0_0009:00:00.0", "pci0_0008:00:00.0"));
    assert_link(topo, "nic0", "net", TOPO_NET, 50);
    assert_link(topo, "nic1", "net", TOPO_NET, 50);
    assert_false(linked(topo, "cpu0_0", "cpu1_0"));
    assert_string_equal(topo->notes,
                        "line 21: <gpu> is another rank on the GPU of line 20: one device stands for both");
    assert_indexed(topo);
    assert_reads_back_equal(topo);
    topo_destroy(topo);
}

/* ---- many devices and switches ---- */

enum { STRIDE = 201, GPUS_FROM = 0x8000 };

/* So many switches, a power of two, with a GPU below each. Each switch and each GPU has a link to the one
 * after it, whose bus id is anywhere in the file. */
static topo_t *parse_many(uint32_t count)
{
    char *xml = NULL;
    size_t bytes;
    topo_t *topo = NULL;
    FILE *text = open_memstream(&xml, &bytes);
    fputs("<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">", text);
    for (uint32_t i = 0; i < count; i++)
        fprintf(
            text,
            "<pci busid=\"%04x:ab:00.0\" class=\"0x060400\" link_speed=\"8.0 GT/s PCIe\" link_width=\"16\">"
            "<pcilink target=\"%04X:AB:00.0\"/>"
            "<pci busid=\"%04x:ab:00.0\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" link_width=\"16\">"
            "<gpu dev=\"%u\" sm=\"90\" rank=\"%u\"><nvlink target=\"%04X:AB:00.0\" count=\"1\"/></gpu>"
            "</pci></pci>",
            i * STRIDE % count, (i * STRIDE + 1) % count, GPUS_FROM + i * STRIDE % count, i, i,
            GPUS_FROM + (i * STRIDE + 1) % count);
    fputs("</cpu></system>", text);
    fclose(text);
    assert_int_equal(topo_parse_nccl_xml(xml, bytes, "many", &topo), BLINK_OK);
    assert_null(topo->notes);
    free(xml);
    return topo;
}

static void test_links_find_their_ends_among_many(void **state)
{
    enum { COUNT = 512 };
    char from[32], to[32];
    topo_t *topo = parse_many(COUNT);
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(from, sizeof(from), "pci-%04x:ab:00.0", i);
        snprintf(to, sizeof(to), "pci-%04x:ab:00.0", (i + 1) % COUNT);
        assert_link(topo, from, to, TOPO_PCIE, 5000);
    }
    /* GPU j is the one of the bus id j * STRIDE. */
    for (uint32_t one = 0; one < COUNT; one++)
        for (uint32_t other = 0; other < COUNT; other++) {
            if (other * STRIDE % COUNT != (one * STRIDE + 1) % COUNT)
                continue;
            snprintf(from, sizeof(from), "gpu%u", one);
            snprintf(to, sizeof(to), "gpu%u", other);
            assert_true(linked(topo, from, to));
        }
    topo_destroy(topo);
}

/* The linker has the reader's comparisons of bus ids come here (--wrap). */
int __real_strcasecmp(const char *one, const char *other);
int __wrap_strcasecmp(const char *one, const char *other);

static uint64_t comparisons;

int __wrap_strcasecmp(const char *one, const char *other)
{
    comparisons++;
    return __real_strcasecmp(one, other);
}

static uint64_t comparisons_of_many(uint32_t count)
{
    comparisons = 0;
    topo_destroy(parse_many(count));
    return comparisons;
}

/* Who compares each with all others compares four times as much among twice as many. */
static void test_links_are_not_compared_with_all_ends(void **state)
{
    const uint64_t few = comparisons_of_many(256), many = comparisons_of_many(512);
    (void)state;
    assert_true(few > 0);
    assert_in_range(many, 2 * few, 2 * few + few / 2);
}

static void test_unknown_pcie_speed_counts_as_gen3_x16(void **state)
{
    (void)state;
    const char *xml =
        SYSTEM("<pci busid=\"0:1\" class=\"0x030200\" link_speed=\"Unknown\" link_width=\"255\"/>");
    topo_t *topo = NULL;
    assert_int_equal(topo_parse_nccl_xml(xml, strlen(xml), "x", &topo), BLINK_OK);
    assert_link(topo, "gpu0", "cpu0", TOPO_PCIE, 12);
    topo_destroy(topo);
}

static void test_nccl_skeleton_gives_the_pcie_tree(void **state)
{
    (void)state;
    topo_t *topo = load(BLINK_FIXTURES_DIR "/topo_nccl_skeleton.xml");
    assert_int_equal(topo->gpu_count, 2);
    assert_int_equal(topo->node_count, 6);
    assert_link(topo, "gpu0", "cpu1", TOPO_PCIE, 12);
    assert_link(topo, "gpu1", "pci-ffff:ff:01.0", TOPO_PCIE, 48);
    assert_link(topo, "nic0", "pci-ffff:ff:01.0", TOPO_PCIE, 96);
    assert_link(topo, "cpu1", "cpu0", TOPO_QPI, 22);
    assert_reads_back_equal(topo);
    topo_destroy(topo);
}

static void test_shared_dumps_load(void **state)
{
    (void)state;
    const char *shared = getenv("BLINK_SHARED");
    if (!shared)
        skip();
    static const struct {
        const char *file;
        uint32_t gpus, links;
    } dumps[] = {{"oci_h100", 8, 130}, {"azure_ndv2", 8, 20}, {"azure_ndv4", 8, 52}, {"azure_ndv5", 8, 50}};
    for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]); i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/topologies/nccl/%s.xml", shared, dumps[i].file);
        topo_t *topo = load(path);
        assert_int_equal(topo->gpu_count, dumps[i].gpus);
        assert_int_equal(topo->link_count, dumps[i].links);
        assert_reads_back_equal(topo);
        topo_destroy(topo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_xml_is_refused_by_name_and_prints_nothing),
        cmocka_unit_test(test_more_switches_than_any_machine_has_are_refused),
        cmocka_unit_test(test_nccl_dump_becomes_nodes_and_links),
        cmocka_unit_test(test_rccl_dump_has_its_xgmi_links_and_names_what_it_leaves_out),
        cmocka_unit_test(test_nccl_dump_of_several_hosts),
        cmocka_unit_test(test_links_find_their_ends_among_many),
        cmocka_unit_test(test_links_are_not_compared_with_all_ends),
        cmocka_unit_test(test_unknown_pcie_speed_counts_as_gen3_x16),
        cmocka_unit_test(test_nccl_skeleton_gives_the_pcie_tree),
        cmocka_unit_test(test_shared_dumps_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
